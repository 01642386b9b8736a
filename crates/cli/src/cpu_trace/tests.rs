use super::*;
use sim::{NoCaptures, WorldPlan};

/// A voice flow beside a flood, with the throttle: a load that one core can just carry.
const WORLD: &str = r#"
duration = "60ms"
[router.edge]
config = '''
version = 1
[cpu]
forwarding = "throttle(overhead=10%, slice=30us)"
switch_cost = "1us"
max_wait = "500us"
[port.in]
device = "sim:in"
address = ["192.0.2.1/24"]
line_rate = "410kpps"
[port.out]
device = "sim:out"
address = ["198.51.100.1/24"]
[[path]]
name = "voice"
match = "ip dscp ef"
reserve = "10kpps"
packet_size = "64b"
cost = "3us"
[[neighbour]]
address = "198.51.100.9"
mac = "02:00:00:00:00:09"
port = "out"
'''
[router.edge.cost]
switch = "1us"
input = "1us"
forwarding = "4us"
output = "500ns"
[[source]]
name = "voice"
card = "in"
kind = "constant"
rate = "10kpps"
destination = "198.51.100.9"
dscp = "ef"
[[source]]
name = "flood"
card = "in"
kind = "constant"
rate = "400kpps"
destination = "198.51.100.9"
[[sink]]
name = "s"
card = "out"
"#;

fn watched(events: usize) -> Vec<u8> {
    let world = WorldPlan::parse(WORLD, "world.toml").unwrap_or_else(|wrong| panic!("{wrong}"));
    let mut file = Vec::new();
    sim::run_traced(&world, &mut NoCaptures, &mut |_| {}, (events, &mut file)).unwrap();
    file
}

#[test]
fn cpu_trace_of_a_world_is_valid_and_repeatable() {
    let text = watched(100_000);
    assert_eq!(text, watched(100_000), "looking changes nothing");
    let trace = TraceFile::read(&text).unwrap();
    assert_eq!(trace.faults(), Vec::<String>::new());
    let had = CpuUsage::of(&trace);
    assert_eq!((had.took_ns, had.lost_events), (60_000_000, 0));
    let of = |name: &str| had.tasks.iter().find(|task| task.task == name).unwrap_or_else(|| panic!("{name}: {had:#?}"));
    let (voice, flood) = (of("forwarding voice"), of("forwarding best-effort"));
    assert!(voice.packets > 300 && flood.packets > 2000 && flood.cpu > voice.cpu, "{had:#?}");
    assert_eq!(voice.used_ns, voice.packets * 3000, "a packet costs what the world says");
    assert!(flood.dropped_packets > 0 && flood.longest_queue_packets > 100, "{had:#?}");
    assert!(of("output out").bytes >= 59 * of("output out").packets && of("switch").runs > 100);
    let sum: f64 = had.tasks.iter().map(|task| task.cpu).sum();
    assert!((0.9..1.01).contains(&sum), "{sum} of the core, of which there is one: {had:#?}");
}

#[test]
fn a_small_cpu_trace_counts_lost_events_and_covers_the_rest() {
    let text = watched(500);
    let trace = TraceFile::read(&text).unwrap();
    assert_eq!(trace.faults(), Vec::<String>::new());
    let had = CpuUsage::of(&trace);
    assert!(had.lost_events > 1000 && had.covers_ns < 10_000_000, "{had:#?}");
    assert!(had.tasks.iter().map(|task| task.cpu).sum::<f64>() < 1.05, "{had:#?}");
}

#[test]
fn malformed_trace_files_are_refused() {
    let text = String::from_utf8(watched(50)).unwrap();
    for (from, to) in [("\"ph\":\"X\"", "\"ph\":\"XX\""), ("\"pid\"", "\"pd\""), ("]}", "]")] {
        assert!(TraceFile::read(text.replace(from, to).as_bytes()).is_err(), "{from}");
    }
    let wrong = text.replace("\"ph\":\"i\"", "\"ph\":\"Q\"");
    assert!(!TraceFile::read(wrong.as_bytes()).unwrap().faults().is_empty());
}
