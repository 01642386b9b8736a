//! Laws of every world.

use crate::common::{config, try_run, world_of};
use proptest::prelude::*;
use sim::{CapturedPacket, Captures, Measurements, WorldPlan};
use units::Nanos;

/// A capture with four packets.
struct Capture;

impl Captures for Capture {
    fn read(&mut self, file: &str) -> Result<Vec<CapturedPacket>, String> {
        if file != "four.pcap" {
            return Err(format!("there is no '{file}'"));
        }
        let udp = |length: usize, to: u8| plane::rig::UdpFrame {
            link: (units::Mac([2, 0, 0, 0, 0, 7]), units::Mac([2, 0, 0, 0, 0, 8])),
            network: ([192, 0, 2, 7].into(), [10, 0, 0, to].into()),
            ports: (1, 2),
            ttl: 9,
            length,
        };
        let frame = |length: usize, to: u8| udp(length, to).frame(&[]);
        let all = [(0, frame(60, 1)), (10, frame(1000, 2)), (30, frame(42, 3)), (70, vec![0xff; 64])];
        Ok(all.map(|(millis, frame)| CapturedPacket { after: Nanos::millis(millis), frame }).to_vec())
    }
}

const REPLAY: &str = r#"
duration = "100ms"
[[source]]
name = "a"
card = "in"
kind = "replay"
file = "four.pcap"
[[sink]]
name = "s"
card = "out"
"#;

#[test]
fn replay_sends_captured_packets_to_card() {
    let world = world_of(&config(""), REPLAY);
    let measured = sim::run(&world, &mut Capture, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    let get = |name: &str| measured.get(name).unwrap_or_else(|| panic!("{name}: {:#?}", measured.values));
    assert_eq!(get("source.a.sent"), 4.0);
    assert_eq!(get("path.best-effort.forwarded"), 3.0);
    // Packets with room for a tag are recognized. The third has no room, and the last has no valid destination.
    assert_eq!((get("source.a.received"), get("sink.s.others") >= 1.0), (2.0, true));
    let points = &measured.series["card.in.received_pps"];
    let came: Vec<usize> = points.iter().enumerate().filter(|(_, point)| point.1 > 0.0).map(|(i, _)| i).collect();
    assert_eq!(came, [0, 10, 30, 70]);
}

#[test]
fn an_unreadable_capture_is_an_error() {
    let world = world_of(&config(""), &REPLAY.replace("four", "five"));
    let error = sim::run(&world, &mut Capture, &mut |_| {}).unwrap_err().to_string();
    assert_eq!(error, "source a: there is no 'five.pcap'");
}

/// The description of a random world.
fn world(seed: u64, ring: u64, sources: &[(u8, u64, u64, u64)], link: (u64, u64, u64), costs: [u64; 5]) -> WorldPlan {
    let mut text =
        format!("duration = \"20ms\"\nwarmup = \"3ms\"\nsample = \"1ms\"\nseed = {seed}\n[card.in]\nring = {ring}\n");
    let (rate, delay, loss) = link;
    text += &format!(
        "[[link]]\nbetween = [\"out\", \"s\"]\nrate = \"{rate}mbit\"\ndelay = \"{delay}us\"\nloss = \"{loss}%\"\n"
    );
    text += "[[sink]]\nname = \"s\"\n";
    for (index, (kind, kpps, size, dscp)) in sources.iter().enumerate() {
        let law = match kind % 4 {
            0 => format!("kind = \"constant\"\nrate = \"{kpps}kpps\"\nphase = \"staggered\""),
            1 => format!("kind = \"poisson\"\nrate = \"{kpps}kpps\""),
            2 => format!("kind = \"onoff\"\nrate = \"{kpps}kpps\"\non = \"1ms\"\noff = \"2ms\"\nrandom = true"),
            _ => format!("kind = \"ramp\"\nfrom = \"1kpps\"\nto = \"{kpps}kpps\"\nstep = \"10kpps\"\nevery = \"2ms\""),
        };
        text += &format!(
            "[[source]]\nname = \"s{index}\"\ncard = \"in\"\nsize = \"{size}b\"\ndestination = \"10.0.0.{index}\"\n\
             dscp = \"{dscp}\"\nflows = {}\n{law}\n",
            1 + size % 3
        );
    }
    let [switch, poll, input, forwarding, output] = costs;
    text += &format!(
        "[router.r.cost]\nswitch = \"{switch}ns\"\npoll = \"{poll}ns\"\ninput = \"{input}ns\"\n\
         forwarding = \"uniform({forwarding}ns, {}ns)\"\noutput = \"{output}ns + 1ns/b\"\npath.voice = \"bimodal(1us, 20us, 5%)\"\n",
        2 * forwarding + 1
    );
    world_of(&config("[[path]]\nname = \"voice\"\nmatch = \"ip dscp ef\"\nqueue = 16\n"), &text)
}

fn bytes(measured: &Measurements) -> String {
    measured.to_string()
}

#[test]
fn results_depend_only_on_seed() {
    let sources = [(1, 200, 64, 46), (0, 50, 1500, 0), (2, 400, 128, 0)];
    let run = |seed| try_run(&world(seed, 64, &sources, (100, 50, 1), [800, 300, 700, 900, 200])).unwrap();
    let first = bytes(&run(7));
    assert_eq!(first, bytes(&run(7)));
    assert_ne!(first, bytes(&run(8)));
    assert!(first.starts_with("# seed = 7\n"), "what it follows from is said first");
    assert!(first.contains("path voice bimodal(1us, 20us, 5%)") && first.contains("match = \"ip dscp ef\""));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// The run itself checks conservation, order, rate bounds and work conservation.
    #[test]
    fn every_law_holds_in_random_worlds(
        seed in 0u64..1000,
        ring in 1u64..100,
        sources in prop::collection::vec((0u8..4, 1u64..400, 64u64..1500, prop::sample::select(vec![0u64, 46])), 1..6),
        link in (1u64..200, 0u64..2000, 0u64..10),
        costs in prop::array::uniform5(0u64..3000),
    ) {
        let world = world(seed, ring, &sources, link, costs);
        match try_run(&world) {
            Ok(measured) => {
                for source in &world.sources {
                    let get = |key: &str| measured.get(&format!("source.{}.{key}", source.name)).unwrap();
                    prop_assert_eq!(get("sent"), get("received") + get("lost") + get("consumed") + get("under_way"));
                }
            }
            Err(error) => prop_assert!(false, "{}", error),
        }
    }
}
