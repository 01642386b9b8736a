//! The bound on the lag behind a fluid server: two cycles and the time of a packet (spec P-38).

use super::*;

/// A pseudo-random generator (Marsaglia, "Xorshift RNGs", 2003).
struct Numbers(u64);

impl Numbers {
    fn between(&mut self, least: u64, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        least + (self.0 >> 16) % (most - least + 1)
    }
}

/// The traffic of flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Traffic {
    /// At most a burst in any time of a service cycle. No flow gets excess.
    Strict,
    /// The same. Flows get excess as well.
    WithExcess,
    /// Every second flow always has packets.
    HalfGreedy,
}

const TRAFFIC: [Traffic; 3] = [Traffic::Strict, Traffic::WithExcess, Traffic::HalfGreedy];

/// The largest lag behind the fluid servers, in nanoseconds, of `flows` flows that reserve 95 % of a link of 1 Gbit/s, beside best effort.
fn largest_lag(flows: u64, cycle: Nanos, traffic: Traffic, seed: u64) -> f64 {
    let mut numbers = Numbers(seed);
    let link = LinkParameters { cycle, is_strict: traffic != Traffic::WithExcess, excess: ExcessOrder::Shares, ..LINK };
    let room = bytes_in(Rate::gbit(1), cycle) * 95 / 100;
    let quantum = (room / flows).min(20_000);
    let peak = Rate::bits(quantum * 8_000_000_000 / cycle.get());
    let edits: Vec<ShareEdit> = (1..=flows as u32)
        .map(|number| {
            let rate = Rate::bits(peak.get() / numbers.between(1, 10));
            // Not less than a cycle of its rate, and some packets.
            let burst = numbers.between(LONGEST.into(), 9000).max(bytes_in(rate, cycle));
            let delay = Nanos::new((u128::from(burst) * 8_000_000_000).div_ceil(u128::from(peak.get())) as u64);
            put(number, ShareParameters { rate, ..share(rate, burst, delay) })
        })
        .collect();
    let end = at(60_000).max(Instant::START + Nanos::new(cycle.get() * 30));
    let mut arrivals = stream(0, LONGEST, at(0), Nanos::micros(12), end.get() / 12_000);
    for number in 1..=flows as u32 {
        let mut now = at(numbers.between(0, 3000));
        let ShareEdit::Put(_, parameters) = edits[number as usize - 1] else { continue };
        let period = Nanos::new((parameters.burst.get() as f64 * 8e9 / parameters.rate.get() as f64) as u64 + 1);
        if traffic == Traffic::HalfGreedy && number % 2 == 0 {
            let count = bytes_in(peak, end.since(now)) / 1000 + 5;
            arrivals.extend(stream(number, 1000, now, Nanos::new(1), count));
            continue;
        }
        let mut recent: Vec<(Instant, u64)> = Vec::new();
        while now < end {
            for _ in 0..numbers.between(1, 4) {
                let length = numbers.between(64, LONGEST.into());
                recent.retain(|(then, _)| now.since(*then) <= period);
                let sum = recent.iter().map(|(_, length)| length).sum::<u64>() + length;
                if sum <= parameters.burst.get() {
                    recent.push((now, length));
                    arrivals.push((now, number, length as u32));
                }
            }
            now += Nanos::micros(numbers.between(1, 4_000 + 12 * flows));
        }
    }
    let mut one = Link::new(link, Rate::gbit(1), &edits);
    one.run(&in_order(arrivals), end);
    let mut servers: Vec<FluidServer> = edits
        .iter()
        .filter_map(|edit| match edit {
            ShareEdit::Put(_, parameters) => Some(FluidServer::new(parameters)),
            ShareEdit::Remove(_) => None,
        })
        .collect();
    let of_shares: Vec<&Departure> = one.departures.iter().filter(|departure| departure.share > 0).collect();
    assert!(of_shares.len() as u64 > flows, "{} packets left", of_shares.len());
    let lags = of_shares.into_iter().map(|departure| {
        let fluid = servers[departure.share as usize - 1].departure(departure.arrived, departure.length);
        departure.left.get() as f64 - fluid
    });
    lags.fold(f64::MIN, f64::max)
}

#[test]
fn lag_behind_a_fluid_server_is_two_cycles_for_any_number_of_flows() {
    for traffic in TRAFFIC {
        for micros in [200, 500, 1000, 2000] {
            let cycle = Nanos::micros(micros);
            // Shares that always have packets, and quanta below a packet, complete their packets together: each may wait for those of all others.
            let flows = [1, 2, 10, 30, 100, 300, 1000];
            let flows = flows.into_iter().filter(|flows| traffic != Traffic::HalfGreedy || 110 * micros / flows > 1514);
            let lags: Vec<f64> = flows.map(|flows| largest_lag(flows, cycle, traffic, 7 + flows)).collect();
            // Before a packet, one of excess may be on the link.
            let bound = 2.0 * cycle.get() as f64 + 8.0 * f64::from(LONGEST);
            assert!(lags.iter().all(|lag| *lag <= bound), "{traffic:?}: {lags:?} ns with cycles of {cycle}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn lag_bound_holds_for_any_flows_and_cycles(
        (flows, micros) in (1u64..200, 100u64..3000),
        seed in 1u64..,
        traffic in prop::sample::select(TRAFFIC.to_vec()),
    ) {
        prop_assume!(traffic != Traffic::HalfGreedy || 110 * micros / flows > 1514);
        let lag = largest_lag(flows, Nanos::micros(micros), traffic, seed);
        prop_assert!(lag <= 2000.0 * micros as f64 + 8.0 * f64::from(LONGEST), "{} ns", lag);
    }
}

/// The bound for granted bytes, as on a link that sends the quanta themselves. All flows always have packets, and quanta are far below a packet.
#[test]
fn granted_bytes_lag_by_two_cycles_for_any_number_of_greedy_flows() {
    let rate = Rate::gbit(1);
    for micros in [100, 200, 1000] {
        let cycle = Nanos::micros(micros);
        let room = bytes_in(rate, cycle);
        for flows in [1, 10, 100, 1000] {
            let mut numbers = Numbers(flows + micros);
            let quantum = room / flows;
            let peak = Rate::bits(quantum * 8_000_000_000 / cycle.get());
            let mut allocation = QuantumAllocation::new(cycle);
            let mut servers = Vec::new();
            let from: Vec<Instant> = (1..=flows as u32)
                .map(|flow| {
                    let (rate, arrived) =
                        (Rate::bits(peak.get() / numbers.between(1, 9)), Instant::new(numbers.between(1, 400_000)));
                    let burst = Bytes::new(numbers.between(500, 9000).max(bytes_in(rate, cycle)));
                    allocation.reserve(flow, &grants::Reservation { rate, peak, burst }, Instant::START);
                    let delay =
                        Nanos::new((u128::from(burst.get()) * 8_000_000_000).div_ceil(u128::from(peak.get())) as u64);
                    servers.push(FluidServer::new(&share(rate, burst.get(), delay)));
                    arrived
                })
                .collect();
            let (mut largest, mut now) = (f64::MIN, Instant::START);
            while now < at(40_000) {
                for (flow, arrived) in
                    (1..).zip(&from).filter(|(_, arrived)| **arrived <= now && now.since(**arrived) < cycle)
                {
                    allocation.set_backlog(flow, 1 << 30, *arrived);
                }
                allocation.begin_cycle(room, 0, now);
                let mut sent = 0;
                while let Some(Grant { flow, bytes }) = allocation.next_grant() {
                    sent += u64::from(bytes);
                    let fluid = servers[flow as usize - 1].departure(from[flow as usize - 1], bytes);
                    largest = largest.max((now + rate.time_for(Bytes::new(sent))).get() as f64 - fluid);
                }
                assert!(sent <= room, "{sent} of {room} bytes");
                now += cycle;
            }
            assert!(largest <= 2.0 * cycle.get() as f64, "{largest} ns for {flows} flows with cycles of {cycle}");
        }
    }
}
