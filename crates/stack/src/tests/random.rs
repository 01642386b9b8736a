//! Random events in random order: no panic, no lost packet, and every bound holds. [`Lab::check`] runs after every step.

use super::frames::{Frame, V4, V6, advertises, arp_request, is_at, solicits};
use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Receive(InterfaceId, Frame, Exception),
    Pass(Nanos),
    /// The interfaces that exist from now on, and whether the first has a shorter prefix.
    Adopt(bool, bool, bool),
    Static(u8, bool),
}

/// Well-formed frames.
fn sensible() -> impl Strategy<Value = Frame> {
    (0u8..14, 1u8..9, any::<bool>(), 0usize..1460).prop_map(|(kind, host, flag, length)| {
        let (v4, v6) =
            (format!("10.0.{}.{host}", 1 + u8::from(flag)), format!("2001:db8:{}::{host}", 1 + u8::from(flag)));
        let mac = Mac([2, 0, 0, 0, u8::from(flag), host]);
        let from4 =
            V4 { source: &v4, destination: if host % 2 == 0 { "10.0.1.1" } else { "10.0.2.7" }, ..V4::default() };
        let to6 = if host % 2 == 0 { "2001:db8:1::1" } else { "2001:db8:2::7" };
        let from6 = V6 { source: &v6, destination: to6, ..V6::default() };
        match kind {
            0 => arp_request("10.0.1.1", mac, &v4),
            1 => is_at(&v4, mac, (LAN_MAC, "10.0.1.1")),
            2 => solicits("2001:db8:1::1", flag.then_some(mac), (&v6, "ff02::1:ff00:1")),
            3 => advertises(&v6, flag.then_some(mac), (length % 8) as u8 * 32, (&v6, "fe80::ff:fe00:1")),
            4 => from4.echo(length.min(1400)),
            5 => from6.echo(length.min(1400)),
            6 => V4 { options: &[7, 7, 4, 0, 0, 0, 0, 0], ..from4 }.udp(length.min(1400)),
            7 => V4 { fragment: (length as u16) << 4, ..from4 }.udp(length),
            8 | 9 => V4 { destination: &v4, source: "10.0.1.2", ..from4 }.udp(length),
            10 => V6 { destination: &v6, source: "2001:db8:2::2", ..from6 }.udp(length.min(1400)),
            11 => from4.udp(length),
            12 => V4 { protocol: 6, ..from4 }.with(&[9; 40]),
            _ => from6.udp(length.min(1400)),
        }
    })
}

fn frame() -> impl Strategy<Value = Frame> {
    let garbage = (prop::sample::select(vec![0x0800u16, 0x86dd, 0x0806]), prop::collection::vec(any::<u8>(), 0..200))
        .prop_map(|(kind, l3)| Frame::new(kind, l3));
    let mutated = (sensible(), prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4), 0usize..3);
    let mutated = mutated.prop_map(|(mut frame, changes, cut)| {
        for (at, value) in changes {
            if !frame.l3.is_empty() {
                let at = at.index(frame.l3.len());
                frame.l3[at] = value;
            }
        }
        let length = frame.l3.len().saturating_sub(cut * 7);
        frame.l3.truncate(length);
        frame
    });
    prop_oneof![5 => sensible(), 3 => mutated, 1 => garbage]
}

fn step() -> impl Strategy<Value = Step> {
    let interface = prop_oneof![Just(LAN), Just(WAN)];
    prop_oneof![
        12 => (interface, frame(), prop::sample::select(Exception::ALL.to_vec()), any::<bool>())
            .prop_map(|(interface, mut frame, exception, group)| {
                frame.group |= group && exception != Exception::Resolve;
                Step::Receive(interface, frame, exception)
            }),
        4 => (0u64..40_000).prop_map(|ms| Step::Pass(Nanos::millis(ms))),
        1 => (prop::bool::weighted(0.8), prop::bool::weighted(0.8), any::<bool>())
            .prop_map(|(first, second, shorter)| Step::Adopt(first, second, shorter)),
        1 => (1u8..9, any::<bool>()).prop_map(|(host, set)| Step::Static(host, set)),
    ]
}

fn run(steps: Vec<Step>, limits: LocalProtocolLimits) {
    let mut lab = Lab::with(limits).quiet();
    let all = lab.net.interfaces.clone();
    for step in steps {
        match step {
            Step::Receive(id, frame, exception) => {
                if lab.net.interface(id).is_some() {
                    lab.receive(id, &frame, exception);
                }
            }
            Step::Pass(time) => lab.pass(time),
            Step::Adopt(first, second, shorter) => {
                lab.net.interfaces = all.clone();
                lab.net.interfaces[0].ipv4[0].length = if shorter { 30 } else { 24 };
                lab.net.interfaces.retain(|i| (i.id != LAN || first) && (i.id != WAN || second));
                lab.host.adopt(&mut lab.net);
            }
            Step::Static(host, set) => {
                let address = IpAddr::from([10, 0, 2, host]);
                if set {
                    lab.host.set_static_neighbour(WAN, address, B, &mut lab.net);
                } else {
                    lab.host.clear_static_neighbour(WAN, address, &mut lab.net);
                }
            }
        }
        lab.check();
        lab.forwarded();
        lab.net.sent.clear();
    }
    lab.host.drain(&mut lab.net);
    assert_eq!((lab.host.held_packets(), lab.net.pool.frames_in_use()), (0, 0));
    lab.check();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn random_events_lose_no_packet_and_respect_all_bounds(steps in prop::collection::vec(step(), 1..120), small: bool) {
        let few = LocalProtocolLimits {
            icmp_rate: 5,
            icmp_burst: 2,
            pending_per_neighbour: 2,
            pending: 4,
            neighbours_per_interface: 3,
            neighbour_messages: 5,
            neighbour_requests: 5,
            fragments: 6,
            reassembly: Nanos::secs(30),
            secret: 7,
        };
        run(steps, if small { few } else { LocalProtocolLimits::default() });
    }
}
