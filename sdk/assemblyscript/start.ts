// @NAME@: first in, first out, but what has waited too long is dropped instead of sent.
//
// Good for voice and for games: what comes too late is of no use, and only delays what is behind it.
//
//     switchpath guest build          builds @NAME@.wasm and checks it
//     switchpath guest bench @NAME@.wasm
//
// Make it yours: every function that you can call is in switchpath.ts.
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
    // One that comes while nothing waits would leave at once: the router need not ask.
    this.wants = PASSES;
  }

  // A packet comes. One that is put on no queue is dropped.
  arrival(_packet: Packet): void {
    if (packets(QUEUE) < this.limit) enqueue(QUEUE);
  }

  // The link is ready: one packet leaves, or one is dropped. This is called again as long as it did something.
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

// Last, for what it names has to stand above it.
install(
  "summary First in, first out; what has waited too long is dropped.\n" +
    "option limit count 1000 1 10000 Packets that wait at most.\n" +
    "option patience time 20ms 1000 - How long one may wait.",
  () => new Patience()
);
