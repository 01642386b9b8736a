// @NAME@: first in, first out, but packets that have waited too long are dropped instead of sent.
//
// Good for voice and games: a late packet is useless, and only delays the packets behind it.
//
//     switchpath guest build          builds @NAME@.wasm and checks it
//     switchpath guest bench @NAME@.wasm
//
// To change it, see the functions in switchpath.ts.
import { PASSES, Packet, Scheme, count, dropFront, enqueue, head, install, now, option, packets, send } from "./switchpath";
export * from "./exports";

/** The only queue. */
const QUEUE: u32 = 0;
/** A counter: packets that waited too long. */
const STALE: u32 = 0;

class Patience extends Scheme {
  // The options, in the order of the description.
  limit: u32 = <u32>option(0);
  patience: u64 = option(1);

  constructor() {
    super();
    this.holds = this.limit;
    // Packets at an idle link may bypass this scheme, because it would send them at once.
    this.wants = PASSES;
  }

  // A packet arrives. If it is not enqueued, it is dropped.
  arrival(_packet: Packet): void {
    if (packets(QUEUE) < this.limit) enqueue(QUEUE);
  }

  // The link is ready: send or drop one packet. This is called again as long as it did something.
  ready(): void {
    const first = head(QUEUE);
    if (first === null) return;
    if (now() - first.timestamp > this.patience) {
      if (dropFront(QUEUE)) count(STALE, 1);
    } else {
      send(QUEUE);
    }
  }
}

// Last in the file, because the classes that it names must be defined above.
install(
  "summary First in, first out; what has waited too long is dropped.\n" +
    "option limit count 1000 1 10000 Packets that wait at most.\n" +
    "option patience time 20ms 1000 - How long one may wait.",
  () => new Patience()
);
