// @NAME@: forwards packets by labels, in the format of MPLS (RFC 3032).
//
// The key is the number of the meta-interface in byte 0, and the label in the first 20 bits behind it. The first byte of a filter's data is 0 for a
// new label, which the next 20 bits have, and 1 to remove the label. The first word of the slice's memory counts packets that are sent.
//
//     switchpath guest build          builds @NAME@.wasm and checks it
//
// To change it, see the functions in switchpath.ts.
import { EDITS, InnerPacket, MALFORMED, NEXT, SliceCode, TTL, exception, install, option } from "./switchpath";
export * from "./exports";

/** The bytes of a label, with its time to live. */
const LABEL: u32 = 4;
/** The words of the slice's memory. */
const SENT: u32 = 0;

class Labels extends SliceCode {
  // The options, in the order of the description.
  least: u64 = option(0);

  constructor() {
    super();
    this.bytes = LABEL;
    this.needs = EDITS;
  }

  parse(packet: InnerPacket): u32 {
    if (packet.shown < LABEL) return MALFORMED;
    if (packet.byte(3) < this.least) return exception(TTL);
    packet.setKey(0, <u8>packet.arrival);
    packet.setKey(1, packet.byte(0));
    packet.setKey(2, packet.byte(1));
    packet.setKey(3, packet.byte(2) & 0xf0);
    return NEXT;
  }

  format(packet: InnerPacket): u32 {
    packet.add(SENT, 1);
    if (packet.data(0) == 1) {
      packet.moveFront(LABEL);
      return NEXT;
    }
    packet.setByte(0, packet.data(1));
    packet.setByte(1, packet.data(2));
    // The traffic class and the mark of the last label stay.
    packet.setByte(2, (packet.data(3) & 0xf0) | (packet.byte(2) & 0x0f));
    packet.setByte(3, packet.byte(3) - 1);
    return NEXT;
  }
}

// Last in the file, because the class that it names must be defined above.
install(
  "summary Forwards packets by labels.\n" +
    "memory 8\n" +
    "option ttl count 2 2 255 The smallest time to live of a packet that is forwarded.",
  () => new Labels()
);
