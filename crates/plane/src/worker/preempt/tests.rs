use crate::function::{Context, Function};
use crate::preempt::{FunctionJob, FunctionThread, FunctionThreads, SliceResult};
use crate::rig::{LAN_AND_WAN, Rig, UdpFrame};
use crate::snapshot::Layout;
use cpu::meter::ConstantMeter;
use packet::event::{Event, FunctionFailure, Observer};
use packet::{DropReason, Packet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use units::Nanos;

const DEAR: u16 = 7;
const QUICK: u16 = 9;

/// A router whose path `dear` has these keys.
fn config(path: &str) -> String {
    format!("{LAN_AND_WAN}[[path]]\nname = \"dear\"\nmatch = \"udp dport 7\"\n{path}\n")
}

fn udp(port: u16, number: u32) -> Vec<u8> {
    UdpFrame::between_ports(9, port).frame(&number.to_be_bytes())
}

/// The port and number of each received packet.
fn received(rig: &mut Rig) -> Vec<(u16, u32)> {
    let read = |frame: Vec<u8>| {
        let port = u16::from_be_bytes([frame[36], frame[37]]);
        (port, u32::from_be_bytes(frame[42..46].try_into().unwrap()))
    };
    rig.received("wan").into_iter().map(read).collect()
}

/// The number of packets queued on the path.
fn on_path(rig: &Rig) -> usize {
    let id = rig.router.snapshot().paths.last().expect("there is a path").id;
    rig.report().paths.iter().find(|path| path.path == id).map_or(0, |path| path.queued)
}

fn steps(rig: &mut Rig, steps: usize) {
    for _ in 0..steps {
        rig.step(&mut ConstantMeter(Nanos::new(10)));
        rig.worker.audit();
    }
}

fn dropped(rig: &Rig, reason: DropReason) -> u64 {
    let report = rig.report();
    let at_ports = report.ports.iter().flat_map(|port| &port.drops);
    let at_ports: u64 = at_ports.filter(|(why, _)| *why == reason).map(|(_, packets)| packets).sum();
    assert_eq!(at_ports, report.ledger.dropped_for(reason), "ports and ledger agree");
    at_ports
}

/// The reports about functions.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl Observer for Heard {
    fn event(&mut self, _: units::Instant, event: &Event<'_>) {
        if let Event::FunctionFailed { failure: misdeed, .. } = event {
            let what = match misdeed {
                FunctionFailure::Panicked(words) => format!("panicked: {words}"),
                FunctionFailure::OverLimit(_) => "over its limit".into(),
                FunctionFailure::DidNotReturn(time) => format!("left behind after {} s", time.get() / 1_000_000_000),
                FunctionFailure::TooManyStuck => "not begun".into(),
                FunctionFailure::Disabled { function, .. } => format!("{function} is off"),
            };
            self.0.lock().unwrap().push(what);
        }
    }
}

/// A router with this path, and the reports about its functions.
fn running(layout: Layout, path: &str) -> (Rig, Heard) {
    let heard = Heard::default();
    let mut rig = Rig::new(4096, layout, Box::new(heard.clone()));
    rig.apply(&config(path)).unwrap();
    rig.settle();
    rig.received("wan");
    (rig, heard)
}

/// Function threads that never finish and use `each` of processor time in each slice. At most `room` of them accept an errand.
#[derive(Clone)]
struct EndlessThreads {
    each: Nanos,
    room: usize,
    forsaken: Arc<AtomicUsize>,
}

struct EndlessThread {
    used: Nanos,
    of: EndlessThreads,
    errand: Option<Box<FunctionJob>>,
}

impl FunctionThread for EndlessThread {
    fn submit(&mut self, errand: Box<FunctionJob>) -> Result<(), Box<FunctionJob>> {
        if self.of.forsaken.load(Ordering::Relaxed) >= self.of.room {
            return Err(errand);
        }
        (self.errand, self.used) = (Some(errand), Nanos::ZERO);
        Ok(())
    }

    fn lend(&mut self, slice: Nanos) -> SliceResult {
        self.used += self.of.each.min(slice);
        SliceResult::Unfinished(self.used)
    }

    fn abandon(&mut self) {
        if self.errand.take().is_some() {
            self.of.forsaken.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl FunctionThreads for EndlessThreads {
    fn open(&mut self) -> Box<dyn FunctionThread> {
        Box::new(EndlessThread { used: Nanos::ZERO, of: self.clone(), errand: None })
    }
}

/// A router whose path is never done with anything.
fn with_endless_threads(path: &str, each: Nanos, room: usize) -> (Rig, Heard, EndlessThreads) {
    let (mut rig, heard) = running(Layout::Three, "");
    let stuck = EndlessThreads { each, room, forsaken: Arc::default() };
    rig.worker.set_function_threads(Box::new(stuck.clone()));
    rig.apply(&config(path)).unwrap();
    (rig, heard, stuck)
}

#[test]
fn other_paths_run_between_the_slices_of_a_costly_packet() {
    for layout in [Layout::One, Layout::Two, Layout::Three] {
        let (mut rig, _) = running(layout, "functions = [\"spin(cost=10ms)\", \"ip\"]\npreemptible = true");
        let useful = rig.report().times.useful;
        rig.send("lan", &udp(DEAR, 0));
        let (mut meanwhile, mut number) = (0, 0);
        while on_path(&rig) > 0 || number < 8 {
            rig.send("lan", &udp(QUICK, number));
            number += 1;
            steps(&mut rig, 4);
            meanwhile += received(&mut rig).iter().filter(|(port, _)| *port == QUICK).count();
            assert!(number < 1000, "{layout:?}: it ends");
        }
        steps(&mut rig, 40);
        // A slice is 100 us.
        assert!(meanwhile >= 25, "{layout:?}: {meanwhile} others have left before it");
        let spent = rig.report().times.useful.saturating_sub(useful);
        assert!((10_000_000..10_200_000).contains(&spent.get()), "{layout:?}: {spent}");
        assert_eq!(rig.report().ledger.dropped(), 0);
    }
}

#[test]
fn preempted_path_keeps_packet_order_and_loses_none() {
    for (layout, keys) in [
        (Layout::One, ""),
        (Layout::Two, ""),
        (Layout::Three, ""),
        (Layout::Three, "cpu_limit = \"1ms\""),
        (Layout::Three, "input_queue = 300\noutput_queue = 3"),
    ] {
        let path = format!("functions = [\"spin(cost=30us,spread=90%)\", \"ip\"]\npreemptible = true\n{keys}");
        let (mut rig, _) = running(layout, &path);
        let mut left = Vec::new();
        for number in 0..500 {
            rig.send("lan", &udp(DEAR, number));
            steps(&mut rig, if number % 7 == 0 { 9 } else { 1 });
            left.extend(received(&mut rig));
            if number % 100 == 99 {
                rig.settle();
            }
        }
        rig.settle();
        left.extend(received(&mut rig));
        let expected: Vec<(u16, u32)> = (0..500).map(|number| (DEAR, number)).collect();
        assert_eq!(left, expected, "{layout:?} {keys}");
    }
}

#[test]
fn throttle_does_not_delay_a_started_packet() {
    let path = "functions = [\"spin(cost=1ms)\", \"ip\"]\npreemptible = true";
    let (mut rig, _) = running(Layout::Three, path);
    let throttled = format!(
        "{}[cpu]\nforwarding = \"throttle(overhead=10%, slice=100us)\"\nwork_conserving = false\nmax_wait = \"1ms\"\nswitch_cost = \"10us\"",
        config(path)
    );
    rig.apply(&throttled).unwrap();
    rig.send("lan", &udp(DEAR, 1));
    rig.advance(Nanos::millis(2));
    assert_eq!(received(&mut rig), [(DEAR, 1)]);
}

#[test]
fn packet_over_its_path_limit_is_dropped_and_the_next_starts() {
    // First in virtual time, where the cost is known, then with a thread that never finishes.
    let limited = "functions = [\"spin(cost=1ms)\", \"ip\"]\npreemptible = true\ncpu_limit = \"250us\"";
    let (mut rig, heard) = running(Layout::Three, limited);
    let useful = rig.report().times.useful;
    (0..3).for_each(|number| rig.send("lan", &udp(DEAR, number)));
    rig.settle();
    assert_eq!((dropped(&rig, DropReason::CpuLimit), on_path(&rig)), (3, 0));
    let spent = rig.report().times.useful.saturating_sub(useful);
    assert!((750_000..751_000).contains(&spent.get()), "3 times 250 us: {spent}");
    assert_eq!(*heard.0.lock().unwrap(), ["over its limit"], "it is told once a minute");

    let (mut rig, heard, stuck) = with_endless_threads(limited, Nanos::micros(40), usize::MAX);
    (0..3).for_each(|number| rig.send("lan", &udp(DEAR, number)));
    rig.send("lan", &udp(QUICK, 3));
    steps(&mut rig, 200);
    assert_eq!(received(&mut rig), [(QUICK, 3)]);
    assert_eq!((dropped(&rig, DropReason::CpuLimit), on_path(&rig)), (3, 0));
    assert_eq!(stuck.forsaken.load(Ordering::Relaxed), 3);
    assert_eq!(*heard.0.lock().unwrap(), ["over its limit"]);
}

#[test]
fn adoption_waits_one_second_for_endless_functions() {
    let path = "functions = [\"ip\"]\npreemptible = true";
    let (mut rig, heard, stuck) = with_endless_threads(path, Nanos::micros(40), usize::MAX);
    rig.send("lan", &udp(DEAR, 0));
    steps(&mut rig, 50);
    assert_eq!(on_path(&rig), 1);
    let plan = plan::check(&config(""), "rig.toml", &crate::catalogue()).unwrap();
    let prepared = rig.router.prepare(&plan, &mut rig.wires).unwrap();
    let mut published = rig.router.publish(prepared);
    steps(&mut rig, 50);
    rig.now += Nanos::millis(999);
    steps(&mut rig, 50);
    assert_eq!((published.is_adopted(), on_path(&rig)), (false, 1));
    rig.now += Nanos::millis(1);
    steps(&mut rig, 50);
    assert!(published.is_adopted());
    rig.router.complete(published);
    assert_eq!((dropped(&rig, DropReason::FunctionFailed), on_path(&rig)), (1, 0));
    assert_eq!(stuck.forsaken.load(Ordering::Relaxed), 1);
    assert_eq!(*heard.0.lock().unwrap(), ["left behind after 1 s"]);
    // The path is no longer preemptible, and forwards.
    rig.send("lan", &udp(DEAR, 1));
    rig.settle();
    assert_eq!(received(&mut rig), [(DEAR, 1)]);
}

#[test]
fn without_a_function_thread_packets_are_dropped_and_other_paths_continue() {
    let path = "functions = [\"ip\"]\npreemptible = true\ncpu_limit = \"50us\"";
    let (mut rig, heard, _) = with_endless_threads(path, Nanos::micros(50), 2);
    (0..5).for_each(|number| rig.send("lan", &udp(DEAR, number)));
    rig.send("lan", &udp(QUICK, 5));
    steps(&mut rig, 100);
    assert_eq!(received(&mut rig), [(QUICK, 5)]);
    assert_eq!(dropped(&rig, DropReason::CpuLimit), 2);
    assert_eq!((dropped(&rig, DropReason::FunctionFailed), on_path(&rig)), (3, 0));
    assert_eq!(heard.0.lock().unwrap().len(), 1);
}

/// Corrupts a packet of this number, then panics.
struct Trap(u32);

impl Function for Trap {
    fn process(&mut self, _: Context<'_>, packets: &mut [Packet]) -> bool {
        for packet in packets {
            if packet.bytes()[42..46] == self.0.to_be_bytes() {
                packet.bytes_mut().fill(0);
                // Panics without output on the terminal.
                std::panic::resume_unwind(Box::new("it was a trap"));
            }
        }
        true
    }
}

#[test]
fn panicking_functions_lose_their_vector_and_restart() {
    let path = "functions = [\"ip\"]\npreemptible = true\ncpu_limit = \"1ms\"";
    let (mut rig, heard) = running(Layout::Three, path);
    let instances = rig.worker.paths.instances.iter_mut().filter(|instance| instance.function_thread.is_some());
    instances.for_each(|instance| instance.functions.insert(0, Box::new(Trap(1))));
    (0..4).for_each(|number| rig.send("lan", &udp(DEAR, number)));
    rig.settle();
    // With a limit a vector is one packet. The rebuilt functions are those of the configuration, without the trap.
    assert_eq!(received(&mut rig), [(DEAR, 0), (DEAR, 2), (DEAR, 3)]);
    assert_eq!(dropped(&rig, DropReason::FunctionFailed), 1);
    assert_eq!(*heard.0.lock().unwrap(), ["panicked: it was a trap"]);
}

#[test]
fn restarted_or_ended_worker_counts_vectors_in_flight() {
    let path = "functions = [\"ip\"]\npreemptible = true";
    let (mut rig, _, stuck) = with_endless_threads(path, Nanos::micros(40), usize::MAX);
    for number in 0..3 {
        rig.send("lan", &udp(DEAR, number));
    }
    steps(&mut rig, 50);
    assert_eq!(on_path(&rig), 3);
    assert_eq!(rig.worker.restart(rig.now), Ok(3));
    assert_eq!((rig.report().ledger.dropped_for(DropReason::WorkerFailed), on_path(&rig)), (3, 0));
    assert_eq!(stuck.forsaken.load(Ordering::Relaxed), 1);
    rig.send("lan", &udp(DEAR, 4));
    steps(&mut rig, 50);
    assert_eq!(on_path(&rig), 1);
    rig.worker.shut_down(rig.now);
    assert_eq!(dropped(&rig, DropReason::Shutdown), 1);
    assert_eq!(stuck.forsaken.load(Ordering::Relaxed), 2);
    // All frames have returned, except those that pools keep.
    assert_eq!(rig.report().held_packets, 0);
}
