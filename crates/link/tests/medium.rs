//! Links against departures computed by hand, against the loops of the published tools, and against invariants.

use link::medium::{Medium, Opportunities, Trace, TransitResult, lte};
use plan::{BrownianPlan, LinkService, Loss, MediumPlan, TraceEnd, TraceMode, TracePlan, TraceSource};
use proptest::prelude::*;
use std::sync::Arc;
use units::{Bytes, Instant, Nanos, Pace, PacketRate, Parts, Rate};

fn at(millis: u64) -> Instant {
    Instant::new(millis * 1_000_000)
}

fn link(service: LinkService) -> MediumPlan {
    MediumPlan { service, overhead: 0, ..MediumPlan::default() }
}

fn medium(plan: &MediumPlan) -> Medium {
    Medium::new(plan, None, Instant::START, 1, "link")
}

fn recorded(millis: &[u32], mode: TraceMode, end: TraceEnd) -> Medium {
    let source = TraceSource::File("t".into());
    let plan = link(LinkService::Trace(TracePlan { source, mode, end }));
    let trace = Trace::from_millis(millis.to_vec()).expect("a trace");
    Medium::new(&plan, Some(Arc::new(trace)), Instant::START, 1, "link")
}

/// For packets of these arrival times and sizes: when each is taken out of its queue, and when it has left, until one never does.
fn drive(medium: &mut Medium, packets: &[(Instant, u32)]) -> Vec<(Instant, Instant)> {
    let mut times = Vec::new();
    let mut now = Instant::START;
    for &(came, bytes) in packets {
        now = now.max(came);
        while let Some(ready) = medium.ready(now).filter(|ready| *ready > now) {
            now = ready;
        }
        if medium.ready(now).is_none() {
            break;
        }
        times.push((now, medium.send(now, bytes)));
    }
    times
}

/// One trace for three modes: eight packets, of which four arrive in the first millisecond and four in the eleventh.
const TRACE: [u32; 9] = [0, 2, 5, 5, 7, 10, 10, 14, 20];
const PACKETS: [(u64, u32); 8] =
    [(1, 1000), (1, 1500), (1, 100), (1, 1500), (11, 100), (11, 2900), (11, 1500), (11, 20)];

fn departures(mode: TraceMode, end: TraceEnd) -> (Vec<(u64, u64)>, Opportunities, bool) {
    let mut link = recorded(&TRACE, mode, end);
    let packets = PACKETS.map(|(came, bytes)| (at(came), bytes));
    let times = drive(&mut link, &packets);
    let millis = |time: Instant| time.get() / 1_000_000;
    let times = times.into_iter().map(|(taken, left)| (millis(taken), millis(left))).collect();
    (times, link.opportunities(), link.has_failed())
}

/// A packet is taken when the one before has left, and waits for the next opportunity of any size. The first opportunity is too early, and those at
/// 10 ms find no packet. For the last two packets there is no opportunity.
#[test]
fn trace_packet_mode() {
    let (times, passed, failed) = departures(TraceMode::Packet, TraceEnd::Stop);
    assert_eq!(times, [(1, 2), (2, 5), (5, 5), (5, 7), (11, 14), (14, 20)]);
    assert_eq!(passed, Opportunities { used: 6, wasted: 3 });
    assert!(!failed);
}

/// At 2 ms the first packet leaves, and 500 bytes of the second. At 5 ms its other 1000 leave, the third, and 400 of the fourth. The second
/// opportunity at 5 ms sends its other 1100; the remaining 400 bytes are lost. The opportunities at 7 ms and twice at 10 ms are lost too. At 14 ms
/// the fifth leaves, and 1400 of the sixth. At 20 ms its other 1500 leave, and the trace ends.
#[test]
fn trace_1500_carry() {
    let (times, passed, failed) = departures(TraceMode::Bytes(1500), TraceEnd::Error);
    assert_eq!(times, [(2, 2), (2, 5), (5, 5), (5, 5), (14, 14), (14, 20)]);
    assert_eq!(passed, Opportunities { used: 5, wasted: 4 });
    assert!(failed, "the trace has to go on");
}

/// The same with 1504 bytes: 8 are left at 20 ms for the seventh packet. The trace is repeated, so its first opportunity is at 20 ms too. It sends
/// the other 1492 bytes and 12 of the eighth, which leaves with the next opportunity at 22 ms.
#[test]
fn trace_1504_repeat() {
    let (times, passed, failed) = departures(TraceMode::Bytes(1504), TraceEnd::Repeat);
    assert_eq!(times, [(2, 2), (2, 5), (5, 5), (5, 5), (14, 14), (14, 20), (20, 20), (20, 22)]);
    assert_eq!(passed, Opportunities { used: 7, wasted: 4 });
    assert!(!failed);
}

/// The rest of an opportunity is for packets that wait. One that arrives a moment later waits for the next opportunity.
#[test]
fn credit_is_lost_with_its_opportunity() {
    let mut link = recorded(&[1, 3], TraceMode::Bytes(1500), TraceEnd::Stop);
    assert_eq!(link.send(at(1), 100), at(1));
    assert_eq!(link.ready(at(1)), Some(at(1)));
    assert_eq!(link.ready(at(1) + Nanos::new(1)), Some(at(3)));
    assert_eq!(link.send(at(3), 1501), Instant::NEVER, "there is not enough for it");
    assert_eq!(link.ready(at(3)), None);
}

/// After years of idle time it answers at once, without a loop over opportunities.
#[test]
fn repeated_trace_does_not_overflow_in_years() {
    let mut link = recorded(&[1, 2, 2, 4], TraceMode::Packet, TraceEnd::Repeat);
    let years = 10_000_000_000_000;
    assert_eq!(link.send(at(years), 9000), at(years));
    assert_eq!(link.send(at(years), 9000), at(years + 1));
    assert_eq!(link.opportunities(), Opportunities { used: 2, wasted: years - 1 });
}

/// The opportunities of 100 ms, times the size of each.
#[test]
fn rate_of_a_trace_covers_the_last_100_ms() {
    let each: Vec<u32> = (1..=1000).map(|n| n * 10).collect();
    let rate = |mode, time| recorded(&each, mode, TraceEnd::Repeat).rate(at(time));
    assert_eq!(rate(TraceMode::Packet, 5_000), Rate::bits(10 * 1500 * 8 * 10));
    assert_eq!(rate(TraceMode::Bytes(1504), 10_005), Rate::bits(10 * 1504 * 8 * 10));
    assert_eq!(rate(TraceMode::Packet, 25), Rate::bits(2 * 1500 * 8 * 10));
    let over = recorded(&each, TraceMode::Packet, TraceEnd::Stop);
    assert_eq!((over.rate(at(10_050)), over.rate(at(10_100))), (Rate::bits(5 * 120_000), Rate::ZERO));
}

/// 60 bytes and 24 of Ethernet are 672 bits: 74.67 ms at 9000 bit/s. Nine of them take exactly 672 ms.
#[test]
fn constant_rate_has_no_rounding_error() {
    let mut link = medium(&MediumPlan { service: LinkService::Constant(Rate::bits(9_000)), ..MediumPlan::default() });
    let times = drive(&mut link, &[(Instant::START, 60); 9]);
    assert_eq!(times[0], (Instant::START, Instant::new(74_666_666)));
    assert_eq!(times[8], (Instant::new(597_333_333), at(672)));
    assert_eq!(link.send(at(1000), 60), Instant::new(1_074_666_666), "an idle link begins at once");
    let mut free = medium(&link_free());
    assert_eq!((free.send(at(3), 9000), free.ready(at(3))), (at(3), Some(at(3))));
}

fn link_free() -> MediumPlan {
    link(LinkService::Constant(Rate::MAX))
}

/// Two packets of 1000 bytes at once, then one every 8 ms; after an idle time two again.
#[test]
fn bucket_allows_its_burst_after_an_idle_time() {
    let mut link = medium(&link(LinkService::Bucket(Rate::mbit(1), Bytes::new(2000))));
    let mut packets = vec![(at(100), 1000); 4];
    packets.extend([(at(1000), 1000); 3]);
    let left: Vec<Instant> = drive(&mut link, &packets).into_iter().map(|(_, left)| left).collect();
    assert_eq!(left, [100, 100, 108, 116, 1000, 1000, 1008].map(at));
    let mut link = medium(&self::link(LinkService::Bucket(Rate::mbit(1), Bytes::new(500))));
    assert_eq!(link.send(at(100), 1000), at(104), "half of it is there");
}

fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / values.len() as f64).sqrt())
}

#[test]
fn poisson_gaps_have_equal_mean_and_deviation() {
    for (pace, mean) in [(Pace::Packets(PacketRate::pps(500)), 2e6), (Pace::Bits(Rate::mbit(1)), 8e6)] {
        let mut link = medium(&link(LinkService::Poisson(pace)));
        let times = drive(&mut link, &[(Instant::START, 1000); 100_000]);
        let gaps: Vec<f64> = times.iter().map(|(taken, left)| left.since(*taken).get() as f64).collect();
        let (got, deviation) = mean_and_deviation(&gaps);
        assert!((got / mean - 1.0).abs() < 0.01 && (deviation / mean - 1.0).abs() < 0.02, "{got} {deviation}");
    }
}

/// The number of packets in each second follows its rate, and the rate changes by sigma from one second to the next.
#[test]
fn brownian_rate_stays_within_bounds() {
    let plan = BrownianPlan { start: PacketRate::pps(600), sigma: PacketRate::pps(50), most: PacketRate::pps(1250) };
    let mut link = medium(&link(LinkService::Brownian(plan)));
    let (mut came, mut rates) = (vec![0.0; 1000], vec![0.0; 1000]);
    let mut now = Instant::START;
    while now < at(1_000_000) {
        let second = (now.get() / 1_000_000_000) as usize;
        came[second] += 1.0;
        now = link.send(now, 1500);
        rates[second] = link.rate(now).get() as f64 / 12_000.0;
    }
    assert!(rates.iter().all(|rate| (0.0..=1250.0).contains(rate)));
    let steps: Vec<f64> = rates.windows(2).map(|two| two[1] - two[0]).collect();
    let (_, deviation) = mean_and_deviation(&steps);
    assert!((35.0..55.0).contains(&deviation), "bounds take some of it: {deviation}");
    let busy = came.iter().zip(&rates).filter(|(_, rate)| **rate > 100.0);
    // The last packet of a second already has the rate of the next.
    let off: Vec<f64> = busy.map(|(came, rate)| (came - rate) / rate.sqrt()).collect();
    let (mean, deviation) = mean_and_deviation(&off);
    assert!(mean.abs() < 0.5 && deviation < 4.0, "{mean} {deviation}");
    assert!(came.iter().sum::<f64>() > 100_000.0);
}

fn crossings(plan: &MediumPlan, packets: usize) -> Vec<TransitResult> {
    let mut link = medium(plan);
    (0..packets).map(|n| link.cross(at(n as u64))).collect()
}

fn lost(crossings: &[TransitResult]) -> f64 {
    crossings.iter().filter(|crossing| **crossing == TransitResult::Lost).count() as f64 / crossings.len() as f64
}

#[test]
fn loss_rate_is_as_configured_and_repeatable() {
    let plan = MediumPlan { loss: Loss::Independent(Parts::percent(1)), ..link_free() };
    let all = crossings(&plan, 200_000);
    // Four standard deviations of a binomial distribution.
    assert!((lost(&all) - 0.01).abs() < 4.0 * (0.01f64 * 0.99 / 200_000.0).sqrt(), "{}", lost(&all));
    assert_eq!(all, crossings(&plan, 200_000));
    let mut other = Medium::new(&plan, None, Instant::START, 1, "another");
    let elsewhere: Vec<TransitResult> = (0..200_000).map(|n| other.cross(at(n))).collect();
    assert_ne!(all, elsewhere, "links of other names lose others");
}

/// 2 % and 40 %: losses are frequent for 1 of 21 packets, and for 2.5 at a time.
#[test]
fn gilbert_losses_occur_in_bursts() {
    let [begin, end, good, bad] = [2, 40, 0, 100].map(Parts::percent);
    let all = crossings(&MediumPlan { loss: Loss::Gilbert { begin, end, good, bad }, ..link_free() }, 400_000);
    assert!((lost(&all) - 1.0 / 21.0).abs() < 0.003, "{}", lost(&all));
    let is_lost = |crossing: &TransitResult| *crossing == TransitResult::Lost;
    let runs = all.chunk_by(|a, b| is_lost(a) == is_lost(b)).filter(|run| is_lost(&run[0])).count();
    let long = lost(&all) * all.len() as f64 / runs as f64;
    assert!((long - 2.5).abs() < 0.1, "{long}");
    let half = MediumPlan { loss: Loss::Gilbert { begin, end, good, bad: Parts::percent(50) }, ..link_free() };
    assert!((lost(&crossings(&half, 400_000)) - 0.5 / 21.0).abs() < 0.002);
}

#[test]
fn duplicates_and_reordering_have_their_configured_rates() {
    let plan = MediumPlan {
        delay: Nanos::millis(10),
        duplicate: Parts::percent(5),
        reorder: Parts::percent(10),
        reorder_by: Nanos::micros(2500),
        ..link_free()
    };
    let all = crossings(&plan, 100_000);
    let twice = all.iter().filter(|crossing| matches!(crossing, TransitResult::Twice(..))).count();
    assert!((4_700..5_300).contains(&twice), "{twice}");
    let late = all.iter().enumerate().filter(|(n, crossing)| match crossing {
        TransitResult::Once(came) | TransitResult::Twice(came, _) => *came == at(*n as u64 + 12) + Nanos::micros(500),
        TransitResult::Lost => false,
    });
    let late = late.count();
    assert!((9_600..10_400).contains(&late), "{late}");
}

/// Packets under way arrive as before, the packet in transmission is sent to its end, and no packet is overtaken.
#[test]
fn changed_link_preserves_packet_order() {
    let mut link = medium(&MediumPlan { delay: Nanos::millis(50), ..self::link(LinkService::Constant(Rate::mbit(1))) });
    let left = link.send(at(0), 1000);
    assert_eq!((left, link.cross(left)), (at(8), TransitResult::Once(at(58))));
    link.change(
        medium(&MediumPlan { delay: Nanos::millis(1), ..self::link(LinkService::Constant(Rate::mbit(8))) }),
        at(2),
    );
    assert_eq!(link.ready(at(2)), Some(at(8)));
    let left = link.send(at(8), 1000);
    assert_eq!((left, link.cross(left)), (at(9), TransitResult::Once(at(58))));
    assert_eq!(link.cross(at(60)), TransitResult::Once(at(61)));
}

/// The loop of cellsim and mahimahi, after their papers and manuals: an opportunity has so many bytes, first for the packet in transmission and then
/// for the waiting ones.
fn naive(millis: &[u32], each: u32, repeats: bool, packets: &[(Instant, u32)]) -> Vec<Instant> {
    let (mut left, mut waiting, mut head) = (Vec::new(), packets.iter().peekable(), 0u32);
    let (mut base, mut turns) = (0u64, 0);
    while left.len() < packets.len() && turns < 2000 {
        for milli in millis {
            let now = at(base + u64::from(*milli));
            let mut credit = each;
            loop {
                if head == 0 {
                    match waiting.next_if(|(came, _)| *came <= now) {
                        Some((_, bytes)) => head = *bytes,
                        None => break,
                    }
                }
                let part = credit.min(head);
                (credit, head) = (credit - part, head - part);
                if head == 0 {
                    left.push(now);
                }
                if credit == 0 {
                    break;
                }
            }
        }
        base += u64::from(millis.last().copied().unwrap_or(0));
        turns += 1;
        if !repeats {
            break;
        }
    }
    left
}

fn traces() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(0u32..6, 1..40).prop_map(|steps| {
        let mut sum = 0;
        let mut millis: Vec<u32> = steps
            .into_iter()
            .map(|step| {
                sum += step;
                sum
            })
            .collect();
        if sum == 0 {
            millis.push(3);
        }
        millis
    })
}

fn arrivals() -> impl Strategy<Value = Vec<(Instant, u32)>> {
    prop::collection::vec((0u64..4_000_000, 1u32..4000), 1..60).prop_map(|steps| {
        let mut now = 0;
        steps
            .into_iter()
            .map(|(wait, bytes)| {
                now += wait;
                (Instant::new(now), bytes)
            })
            .collect()
    })
}

fn services() -> impl Strategy<Value = LinkService> {
    prop_oneof![
        (1_000u64..10_000_000_000).prop_map(|rate| LinkService::Constant(Rate::bits(rate))),
        (1_000u64..1_000_000_000, 0u64..20_000).prop_map(|(r, b)| LinkService::Bucket(Rate::bits(r), Bytes::new(b))),
        (1u64..10_000).prop_map(|rate| LinkService::Poisson(Pace::Packets(PacketRate::pps(rate)))),
    ]
}

proptest! {
    #[test]
    fn byte_mode_equals_cellsim_and_mahimahi(
        millis in traces(), each in 1u32..3000, packets in arrivals(), repeats: bool,
    ) {
        let end = if repeats { TraceEnd::Repeat } else { TraceEnd::Stop };
        let mut link = recorded(&millis, TraceMode::Bytes(each), end);
        let times = drive(&mut link, &packets);
        let left: Vec<Instant> = times.iter().map(|(_, left)| *left).filter(|left| *left < Instant::NEVER).collect();
        let naive = naive(&millis, each, repeats, &packets);
        prop_assert_eq!(&left[..left.len().min(naive.len())], &naive[..]);
        prop_assert!(repeats || left.len() == naive.len());
    }

    #[test]
    fn packet_mode_sends_one_packet_per_opportunity(millis in traces(), packets in arrivals()) {
        let mut link = recorded(&millis, TraceMode::Packet, TraceEnd::Stop);
        let times = drive(&mut link, &packets);
        let (mut rest, mut expected, mut free) = (&millis[..], Vec::new(), Instant::START);
        for (came, _) in &packets {
            let taken = free.max(*came);
            while rest.first().is_some_and(|next| at((*next).into()) < taken) {
                rest = &rest[1..];
            }
            let Some((next, others)) = rest.split_first() else { break };
            (rest, free) = (others, at((*next).into()));
            expected.push((taken, free));
        }
        prop_assert_eq!(times, expected);
    }

    /// In any interval the bytes sent stay within the rate, and a backlogged link is not idle.
    #[test]
    fn link_respects_rate_and_order(service in services(), packets in arrivals()) {
        let mut link = medium(&link(service.clone()));
        let times = drive(&mut link, &packets);
        prop_assert_eq!(times.len(), packets.len());
        prop_assert!(times.windows(2).all(|two| two[0].1 <= two[1].1 && two[0].1 <= two[1].0));
        prop_assert!(times.iter().zip(&packets).all(|((taken, left), (came, _))| came <= taken && taken <= left));
        let (rate, burst) = match service {
            LinkService::Constant(rate) => (rate, 0),
            LinkService::Bucket(rate, burst) => (rate, burst.get()),
            _ => return Ok(()),
        };
        for first in 0..times.len() {
            let mut bytes = 0u64;
            let from = times[first].0;
            for (index, (_, left)) in times.iter().enumerate().skip(first) {
                bytes += u64::from(packets[index].1);
                let allowed = u128::from(rate.get()) * u128::from(left.since(from).get() + 1);
                let spare = burst.max(if burst > 0 { 4000 } else { 0 });
                prop_assert!(u128::from(bytes.saturating_sub(spare)) * 8_000_000_000 <= allowed);
            }
        }
        if matches!(service, LinkService::Constant(_)) {
            let mut free = Instant::START;
            for ((taken, left), (came, _)) in times.iter().zip(&packets) {
                prop_assert_eq!(*taken, free.max(*came));
                free = *left;
            }
        }
    }

    /// Each packet is lost, arrives once, or arrives twice. None arrives before its delay. They arrive in order, except those that are reordered on
    /// purpose.
    #[test]
    fn every_packet_has_one_fate_and_order_is_preserved(
        gaps in prop::collection::vec(0u64..3_000_000, 1..200),
        (delay, jitter, by) in (0u64..50_000_000, 0u64..20_000_000, 0u64..9_000_000),
        (loss, duplicate, reorder) in (0u32..400_000, 0u32..400_000, prop_oneof![Just(0u32), 1u32..300_000]),
        seed: u64,
    ) {
        let [delay, jitter, reorder_by] = [delay, jitter, by].map(Nanos::new);
        let [loss, duplicate, reorder] = [loss, duplicate, reorder].map(Parts::millionths);
        let loss = Loss::Independent(loss);
        let plan = MediumPlan { delay, jitter, loss, duplicate, reorder, reorder_by, ..link_free() };
        let mut link = Medium::new(&plan, None, Instant::START, seed >> 1, "x");
        let (mut now, mut last) = (Instant::START, Instant::START);
        let mut alone = Medium::new(&MediumPlan { loss, ..link_free() }, None, Instant::START, seed >> 1, "x");
        for gap in gaps {
            now += Nanos::new(gap);
            let crossing = link.cross(now);
            let came: &[Instant] = match &crossing {
                TransitResult::Lost => &[],
                TransitResult::Once(one) => &[*one],
                TransitResult::Twice(one, two) => &[*one, *two],
            };
            // Losses do not depend on the other settings of the link.
            prop_assert_eq!(came.is_empty(), alone.cross(now) == TransitResult::Lost);
            for time in came {
                prop_assert!(*time >= now + delay);
                prop_assert!(*time >= last || reorder > Parts::default());
                last = last.max(*time);
            }
        }
    }

    #[test]
    fn trace_rate_equals_counted_opportunities(millis in traces(), time in 0u64..900_000_000) {
        let link = recorded(&millis, TraceMode::Packet, TraceEnd::Repeat);
        let (length, now) = (u64::from(*millis.last().unwrap_or(&1)), Instant::new(time));
        let all = (0..1000).flat_map(|round| millis.iter().map(move |milli| at(round * length + u64::from(*milli))));
        let lately = all.filter(|came| *came <= now && (time < 100_000_000 || came.get() > time - 100_000_000));
        prop_assert_eq!(link.rate(now), Rate::bits(lately.count() as u64 * 120_000));
    }
}

/// Mean, deviation over mean of the rates of single seconds, and the longest gap in milliseconds.
fn numbers(trace: &Trace) -> (f64, f64, u32) {
    let millis = trace.millis();
    let seconds = millis.last().unwrap_or(&0) / 1000;
    let mut bins = vec![0.0; seconds as usize];
    millis.iter().for_each(|at| {
        if let Some(bin) = bins.get_mut((at / 1000) as usize) {
            *bin += 1.0
        }
    });
    let (mean, deviation) = mean_and_deviation(&bins);
    let gap = millis.windows(2).map(|two| two[1] - two[0]).max().unwrap_or(0);
    (mean * 12_000.0, deviation / mean, gap)
}

/// The published traces have 0.52 to 0.78, and gaps of 1058 to 1718 ms.
#[test]
fn synthetic_trace_resembles_recorded_ones() {
    let mut all = Vec::new();
    for (mean, seconds) in [(5_000_000, 140), (5_950_000, 140), (12_770_000, 475), (5_170_000, 786)] {
        for seed in 1..=4 {
            let trace = lte(Rate::bits(mean), Nanos::secs(seconds), seed);
            let (got, spread, gap) = numbers(&trace);
            assert!((got / mean as f64 - 1.0).abs() < 0.04, "{got} instead of {mean}");
            assert!((0.35..0.95).contains(&spread) && (300..2200).contains(&gap), "{spread} {gap}");
            assert_eq!(u64::from(*trace.millis().last().expect("a line")), seconds * 1000);
            all.push((spread, f64::from(gap)));
        }
    }
    let (spread, _) = mean_and_deviation(&all.iter().map(|(spread, _)| *spread).collect::<Vec<_>>());
    let (gap, _) = mean_and_deviation(&all.iter().map(|(_, gap)| *gap).collect::<Vec<_>>());
    assert!((0.5..0.75).contains(&spread) && (700.0..1700.0).contains(&gap), "{spread} {gap}");
}

/// The same bytes on every machine: random draws are integers, and logarithms come from `libm`.
#[test]
fn synthetic_trace_is_the_same_on_every_machine() {
    let digest = |text: &str| {
        text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    };
    let text = lte(Rate::mbit(5), Nanos::secs(140), 1).to_text();
    assert_eq!(Trace::parse(text.as_bytes()).map(|trace| trace.to_text()), Ok(text.clone()));
    assert_eq!(format!("{:016x}", digest(&text)), "ced621baa778d735");
}

#[test]
fn trace_error_names_its_line() {
    let said = |text: &[u8]| match Trace::parse(text) {
        Ok(trace) => format!("{:?}", trace.millis()),
        Err(error) => error.to_string(),
    };
    for (text, expected) in [
        (&b"0\n2\n2\n17"[..], "[0, 2, 2, 17]"),
        (b"1\r\n4294967295\r\n", "[1, 4294967295]"),
        (b"", "1: the trace is empty; write one number of milliseconds per line, a line for each packet"),
        (b"1\n\n2\n", "2: the line is empty; remove it"),
        (b"1\n2.5\n", "2: '2.5' is no whole number; write whole milliseconds since the trace began, and nothing else"),
        (b"7\n9\n8\n", "3: 8 ms comes after 9 ms; sort the lines: sort -n FILE"),
        (b"4294967296", "1: '4294967296' ms exceeds the limit of a trace; write at most 4294967295"),
        (b"0\n0\n", "2: the length of the trace is 0; the last line is the length of the trace: write at least 1"),
        (b"-1\n", "1: '-1' is no whole number; write whole milliseconds since the trace began, and nothing else"),
        (
            b"\xff\x1b[2J\n",
            "1: '\u{fffd}\u{fffd}[2J' is no whole number; write whole milliseconds since the trace began, and nothing else",
        ),
    ] {
        assert_eq!(said(text), expected);
    }
}

/// The corpus of the fuzz target `link`: a trace that parses is printed to text that parses to the same trace, and carries packets.
#[test]
fn corpus_traces_parse_or_fail_as_their_names_say() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/traces");
    let files: Vec<_> =
        std::fs::read_dir(directory).expect("a corpus").map(|file| file.expect("a file").path()).collect();
    assert!(files.len() >= 8, "the corpus is there");
    for file in files {
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        match Trace::parse(&std::fs::read(&file).expect("a file")) {
            Ok(trace) => {
                assert!(name.starts_with("good"), "{name} was taken");
                assert_eq!(Trace::parse(trace.to_text().as_bytes()), Ok(trace));
            }
            Err(error) => assert!(name.starts_with("bad"), "{name}: {error}"),
        }
    }
}

/// The recorded traces, if they are present, have the numbers in their description.
#[test]
#[expect(clippy::print_stderr, reason = "a test that had nothing to test says so")]
fn recorded_traces_are_read() {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let data = std::env::var_os("SWITCHPATH_DATA").map_or_else(|| beside.into(), std::path::PathBuf::from);
    for (name, lines, spread, gap) in
        [("Verizon-LTE-short.down", 58_655, 0.64, 1447), ("TMobile-LTE-driving.down", 505_078, 0.78, 1058)]
    {
        let file = data.join("links").join(name);
        let Ok(text) = std::fs::read(&file) else {
            eprintln!("skipped: no traces; set SWITCHPATH_DATA to a directory with links/{name}");
            continue;
        };
        let trace = Trace::parse(&text).expect("a trace");
        let (_, got, longest) = numbers(&trace);
        assert_eq!((trace.millis().len(), longest), (lines, gap));
        assert!((got - spread).abs() < 0.01, "{got}");
    }
}
