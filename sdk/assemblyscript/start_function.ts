// @NAME@: drops packets longer than a limit, and counts the length of the longest one.
//
//     switchpath guest build          builds @NAME@.wasm and checks it
//
// To change it, see the functions in switchpath.ts.
import { DROP, PASS, Packet, PacketFunction, count, install, keep, option } from "./switchpath";
export * from "./exports";

/** A counter: the longest packet dropped. */
const LONGEST: u32 = 0;
/** The length of the longest packet so far. It survives a new build of this function. */
const STATE = memory.data(8, 8);

class Limit extends PacketFunction {
  // The options, in the order of the description.
  limit: u64 = option(0);

  constructor() {
    super();
    keep(STATE, 8, 1);
  }

  // Decides on a packet. Its bytes are not shown: set `bytes` in the constructor to see some.
  packet(packet: Packet): u32 {
    if (packet.length <= this.limit) return PASS;
    const longest = load<u64>(STATE);
    if (packet.length > longest) {
      count(LONGEST, packet.length - longest);
      store<u64>(STATE, packet.length);
    }
    return DROP;
  }
}

// Last in the file, because the class that it names must be defined above.
install(
  "summary Drops packets longer than a limit.\n" +
    "option limit size 1400b 20 65535 The longest packet, from its IP header on.\n" +
    "counter longest packet dropped",
  () => new Limit()
);
