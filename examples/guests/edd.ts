// @NAME@: earliest due date. Each class has a delay bound; the packet with the earliest due date leaves first.
//
// Source: Ferrari and Verma, "A Scheme for Real-Time Channel Establishment in Wide-Area Networks", IEEE Journal on Selected Areas in
// Communications 8(3), 1990. If any order meets the bounds, this one does: Liu and Layland, Journal of the ACM 20(1), 1973.
//
// Unlike strict priority it starves no class, because packets become urgent as they wait. Classes above 3 count as class 3.
import { Packet, Scheme, backlog, enqueue, head, install, option, send } from "./switchpath";
export * from "./exports";

/** A queue for each class: all its packets have the same bound, so the first of a queue is the most urgent one. */
const CLASSES: u32 = 4;

install(
  "summary The packet whose time is over first leaves first.\n" +
    "option limit count 1000 1 16384 Packets that wait at most.\n" +
    "option bound0 time 200ms 0 3600000000000 How long one of class 0 may wait.\n" +
    "option bound1 time 50ms 0 3600000000000 How long one of class 1 may wait.\n" +
    "option bound2 time 20ms 0 3600000000000 How long one of class 2 may wait.\n" +
    "option bound3 time 5ms 0 3600000000000 How long one of class 3 may wait.",
  () => new EarliestDueDate()
);

class EarliestDueDate extends Scheme {
  limit: u32 = <u32>option(0);
  bounds: StaticArray<u64> = new StaticArray<u64>(CLASSES);

  constructor() {
    super();
    for (let each: u32 = 0; each < CLASSES; each++) this.bounds[each] = option(1 + each);
    this.queues = CLASSES;
    this.holds = this.limit;
  }

  arrival(packet: Packet): void {
    if (backlog() < this.limit) enqueue(min<u32>(packet.class, CLASSES - 1));
  }

  ready(): void {
    let urgent: u32 = CLASSES;
    let earliest: u64 = u64.MAX_VALUE;
    // Of two packets with the same due date the higher class goes first.
    for (let each: u32 = CLASSES; each-- > 0; ) {
      const first = head(each);
      if (first === null) continue;
      const due = first.timestamp + this.bounds[each];
      if (due < earliest) {
        earliest = due;
        urgent = each;
      }
    }
    if (urgent < CLASSES) send(urgent);
  }
}
