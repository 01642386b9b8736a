// @NAME@: a token bucket: packets beyond a rate and a burst are dropped, or take another path.
//
// With a rule in the path (`guest_rules = ["over slow"]`) packets beyond the rate are treated as the rule says, else they are dropped. With `flows`
// each flow has a bucket of its own. A bucket is the time at which it would be full again, which is equivalent to counting tokens: the generic cell
// rate algorithm (ITU-T I.371 annex A). The buckets survive a new build.
import { DROP, FLOWS, PASS, Packet, PacketFunction, count, install, keep, now, option, rule, textOfRule } from "./switchpath";
export * from "./exports";

/** The number of buckets, a power of two: flows whose hashes have the same low bits share one. */
const BUCKETS: u32 = 4096;
/** When each bucket will be full, in nanoseconds. */
const FULL = memory.data(32768, 8);
const SECOND: u64 = 1_000_000_000;

class Police extends PacketFunction {
  // The options, in the order of the description.
  rate: u64 = option(0);
  burst: u64 = option(1);
  eachFlow: bool = option(2) != 0;
  /** How long an empty bucket takes to fill, in nanoseconds. */
  depth: u64 = 0;
  beyond: u32 = DROP;

  constructor() {
    super();
    this.depth = (this.burst * 8 * SECOND) / this.rate;
    if (this.eachFlow) this.needs = FLOWS;
    if (textOfRule(0) !== null) this.beyond = rule(0);
    keep(FULL, BUCKETS * 8, 1);
  }

  packet(packet: Packet): u32 {
    const which: u32 = this.eachFlow ? packet.flow % BUCKETS : 0;
    const bucket = FULL + ((<usize>which) << 3);
    const time = now();
    const cost = (<u64>packet.length * 8 * SECOND) / this.rate;
    const full = max(load<u64>(bucket), time) + cost;
    if (full - time > this.depth) {
      count(0, 1);
      return this.beyond;
    }
    store<u64>(bucket, full);
    return PASS;
  }
}

install(
  "summary Drops packets beyond a rate and a burst, or sends them to another path.\n" +
    "option rate rate 10mbit 1000 100000000000 The rate of IP packets.\n" +
    "option burst size 15000b 1500 100000000 The bytes that may arrive at once.\n" +
    "option flows switch off - - Each flow has the rate for itself.\n" +
    "counter beyond the rate",
  () => new Police()
);
