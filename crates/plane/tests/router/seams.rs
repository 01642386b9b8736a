//! The extension traits of the plane, each used from outside the crate without a change in it: queueing schemes, packet functions,
//! CPU schedulers, ports and packet hooks.

use cpu::CpuScheduler;
use link::{GuestFactory, LinkWires, StandaloneLink};
use packet::event::Silent;
use packet::port::{MemoryPort, Port, PortStatistics, WakeSource};
use packet::{Batch, DropReason, Packet, Pool};
use plan::{Catalogue, GuestCode, Guests, StatePlan};
use plane::PortReport;
use plane::function::{Context, Function, FunctionRegistration};
use plane::hook::{
    self, DecodedInstruction, HookBatch, HookError, HookPoint, Owner, PacketHook, PortVariables, StateConfig,
    StoreReader, Visited,
};
use plane::rig::{MemoryWires, Rig, UdpFrame};
use plane::snapshot::Layout;
use schemes::Scheme;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use units::declare::{Declaration, DeclaredCost};
use units::{Instant, Nanos, PortId, Rate, Share, TaskId};

/// Two networks with a path between them.
const CONFIG: &str = r#"
version = 1
[port.lan]
device = "KIND:lan"
mac = "02:00:00:00:00:01"
address = ["192.0.2.1/24"]
[port.wan]
device = "KIND:wan"
mac = "02:00:00:00:00:02"
address = ["198.51.100.1/24"]
SCHEME
[[neighbour]]
address = "198.51.100.9"
mac = "02:00:00:00:00:22"
port = "wan"
[[path]]
name = "all"
match = "any"
functions = [FUNCTIONS]
STATE
"#;

fn config(kind: &str, scheme: &str, functions: &str, state: &str) -> String {
    let text = CONFIG.replace("KIND", kind).replace("SCHEME", scheme).replace("FUNCTIONS", functions);
    text.replace("STATE", state)
}

const fn declared(name: &'static str) -> Declaration {
    Declaration { name, summary: "of a test", cost: DeclaredCost::None, source: "", options: &[] }
}

fn apply(rig: &mut Rig, text: &str, catalogue: &Catalogue) {
    let plan = plan::check(text, "test.toml", catalogue).unwrap_or_else(|problems| panic!("{problems}"));
    rig.run(&plan).unwrap_or_else(|errors| panic!("{errors:?}"));
    let wires: Vec<String> = rig.wires.far.keys().cloned().collect();
    wires.iter().for_each(|wire| drop(rig.received(wire)));
}

/// Sends `packets` packets from `lan`. Returns the frames sent, without the router's own.
fn forward(rig: &mut Rig, packets: usize) -> Vec<Vec<u8>> {
    let frame = UdpFrame::between_ports(4000, 53).frame(b"payload");
    (0..packets).for_each(|_| rig.send("lan", &frame));
    rig.settle();
    let mut left = rig.received("wan");
    left.retain(|frame| frame[12..14] == [8, 0]);
    left
}

/// Writes a byte into each payload.
struct Stamp;

impl Function for Stamp {
    fn process(&mut self, _: Context<'_>, packets: &mut [Packet]) -> bool {
        for packet in packets {
            packet.bytes_mut()[42] = b'P';
        }
        true
    }
}

#[test]
fn packet_function_needs_only_a_declaration_and_registration() {
    let stamp = FunctionRegistration { declaration: declared("stamp"), make: |_, _| Box::new(Stamp) };
    let mut rig = Rig::new(1024, Layout::Three, Box::new(Silent));
    rig.router.register_function(stamp);
    let catalogue = Catalogue { functions: rig.router.functions().declarations(), ..plane::catalogue() };
    apply(&mut rig, &config("memory", "", "'stamp', 'ip'", ""), &catalogue);
    let left = forward(&mut rig, 3);
    assert_eq!(left.iter().map(|frame| &frame[42..49]).collect::<Vec<_>>(), [b"Payload"; 3]);
}

/// A FIFO that counts arrivals.
struct Counting {
    arrivals: Arc<AtomicU32>,
    inner: Box<dyn Scheme<LinkWires>>,
}

impl Scheme<LinkWires> for Counting {
    fn arrival(&mut self, wires: &mut LinkWires) {
        self.arrivals.fetch_add(1, Ordering::Relaxed);
        self.inner.arrival(wires);
    }

    fn link_ready(&mut self, wires: &mut LinkWires) -> schemes::Progress {
        self.inner.link_ready(wires)
    }

    fn next(&self, wires: &LinkWires) -> schemes::Next {
        self.inner.next(wires)
    }

    fn queues(&self) -> u32 {
        self.inner.queues()
    }
}

/// Returns the scheme above for any name.
#[derive(Clone, Debug, Default)]
struct Schemes(Arc<AtomicU32>);

impl GuestFactory for Schemes {
    fn make(&self, _: &[u64]) -> Result<Box<dyn Scheme<LinkWires>>, String> {
        Ok(Box::new(Counting { arrivals: self.0.clone(), inner: StandaloneLink::prepare("fifo").scheme }))
    }
}

impl Guests for Schemes {
    fn find(&self, _: &str) -> Result<(Declaration, GuestCode), (String, String)> {
        Ok((declared("guest:counting"), link::guest_code(1, Arc::new(self.clone()))))
    }
}

#[test]
fn registered_scheme_is_found_by_name_and_controls_a_link() {
    let schemes = Schemes::default();
    let catalogue = Catalogue { guests: Some(Arc::new(schemes.clone())), ..plane::catalogue() };
    let mut rig = Rig::new(1024, Layout::Three, Box::new(Silent));
    apply(&mut rig, &config("memory", "scheme = 'guest:counting'", "'ip'", ""), &catalogue);
    assert_eq!((forward(&mut rig, 5).len(), schemes.0.load(Ordering::Relaxed) > 0), (5, true));
}

/// Runs the task woken last, regardless of its share.
#[derive(Default)]
struct LastFirst {
    runnable: Vec<TaskId>,
}

/// The number of dispatches of this scheduler.
static PICKED: AtomicU32 = AtomicU32::new(0);

impl CpuScheduler for LastFirst {
    fn add(&mut self, _: TaskId, _: Share) {}

    fn remove(&mut self, task: TaskId) {
        self.runnable.retain(|&other| other != task);
    }

    fn share(&mut self, _: TaskId, _: Share) {}

    fn wake(&mut self, task: TaskId, _: Nanos, _: Instant) {
        if !self.runnable.contains(&task) {
            self.runnable.push(task);
        }
    }

    fn pick(&mut self, _: Instant) -> Option<TaskId> {
        PICKED.fetch_add(1, Ordering::Relaxed);
        self.runnable.pop()
    }

    fn charge(&mut self, task: TaskId, _: Nanos, next: Option<Nanos>, now: Instant) {
        if let Some(next) = next {
            self.wake(task, next, now);
        }
    }
}

#[test]
fn a_cpu_scheduler_is_registered_with_the_router_and_named_by_the_configuration() {
    let last_first = cpu::SchedulerRegistration {
        name: "lifo",
        summary: "of a test",
        source: "",
        lag: plan::Lag::Unbounded,
        make: || Box::new(LastFirst::default()),
    };
    let mut rig = Rig::new(1024, Layout::Three, Box::new(Silent));
    rig.router.register_cpu_scheduler(last_first);
    let cpu_schedulers = rig.router.cpu_schedulers().declarations();
    let catalogue = Catalogue { cpu_schedulers, ..plane::catalogue() };
    let text = config("memory", "", "'ip'", "[cpu]\nscheduler = 'lifo'\n");
    apply(&mut rig, &text, &catalogue);
    let before = PICKED.load(Ordering::Relaxed);
    assert_eq!(forward(&mut rig, 3).len(), 3);
    assert!(PICKED.load(Ordering::Relaxed) > before, "it says which task runs");
    let unknown = plan::check(&text, "test.toml", &plane::catalogue()).unwrap_err().to_string();
    assert!(unknown.contains("'lifo' is not a value of 'scheduler'"), "{unknown}");
}

/// A port whose medium loses every other packet.
struct Lossy(MemoryPort, u64);

impl Port for Lossy {
    fn receive(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        self.0.receive(now, batch, pool);
    }

    fn room(&self) -> usize {
        self.0.room()
    }

    fn transmit(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        for number in 0..batch.len() {
            let Some(packet) = batch.pop_front() else { break };
            if number % 2 == 0 {
                batch.push(packet);
            } else {
                self.1 += 1;
                pool.give(packet);
            }
        }
        self.0.transmit(now, batch, pool);
    }

    fn link_rate(&self) -> Rate {
        Rate::MAX
    }

    fn wake_source(&self) -> WakeSource {
        WakeSource::Poll
    }

    fn undecorated(self: Box<Self>) -> Box<dyn Port> {
        self
    }

    fn statistics(&self) -> PortStatistics {
        PortStatistics { lost_after_transmit: self.1, ..PortStatistics::default() }
    }
}

#[test]
fn port_kind_is_declared_in_the_catalogue_and_opened_by_an_opener() {
    let mut catalogue = plane::catalogue();
    catalogue.devices.push(declared("lossy"));
    let mut rig = Rig::new(1024, Layout::Three, Box::new(Silent));
    rig.wires = MemoryWires::replacing_devices();
    rig.wires.wrap = Some(Box::new(|near| Box::new(Lossy(near, 0))));
    apply(&mut rig, &config("lossy", "", "'ip'", ""), &catalogue);
    let left = forward(&mut rig, 6).len();
    let reports = [rig.report()];
    let lost: u64 = PortReport::sum_workers(&reports).iter().map(|port| port.counters.lost_after_transmit).sum();
    assert!(lost >= 3 && left as u64 + lost >= 6, "{left} left, {lost} were lost");
}

/// An ingress hook that consumes every packet except the first.
#[derive(Default)]
struct Gate {
    shown: u32,
    counted: Arc<AtomicU32>,
}

impl PacketHook for Gate {
    fn owner(&mut self, _: &[u8], _: Instant) -> Option<Owner> {
        None
    }

    fn follows_flows(&mut self, _: Instant) -> bool {
        false
    }

    fn reads_variables(&self, _: HookPoint) -> bool {
        false
    }

    fn visit(&mut self, place: HookPoint, _: PortVariables, _: Instant, (packets, _): HookBatch<'_>) -> Visited {
        let mut visited = Visited { all: true, central: false, output: false, executed: 0 };
        for packet in packets.iter_mut().filter(|_| matches!(place, HookPoint::Input(_))) {
            self.counted.fetch_add(1, Ordering::Relaxed);
            if self.shown > 0 {
                packet.meta_mut().refused = DropReason::Filtered.index() as u8 + 1;
                visited.all = false;
            }
            self.shown += 1;
        }
        visited
    }

    fn maintain(&mut self, _: Instant) -> Instant {
        Instant::NEVER
    }

    fn replace(&mut self, _: Box<dyn PacketHook>) {}

    fn report(&self, _: Instant) -> Arc<dyn Any + Send + Sync> {
        Arc::new(self.shown)
    }

    fn store_readers(&self) -> Vec<(Option<PortId>, Arc<dyn StoreReader>)> {
        Vec::new()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

struct Gates(Arc<AtomicU32>);

impl hook::HookMaker for Gates {
    fn make(&self, _: Option<&StateConfig>, wanted: &StateConfig) -> Result<Vec<Box<dyn PacketHook>>, HookError> {
        let gate = |_| Box::new(Gate { counted: self.0.clone(), shown: 0 }) as Box<dyn PacketHook>;
        Ok((0..wanted.workers).map(gate).collect())
    }

    fn read(&self, _: &StatePlan, _: &[u8]) -> Option<DecodedInstruction> {
        None
    }
}

#[test]
fn packet_hook_runs_before_path_selection_and_may_drop_packets() {
    let counted = Arc::<AtomicU32>::default();
    let mut rig = Rig::new(1024, Layout::Three, Box::new(Silent));
    rig.router.set_hook_maker(Arc::new(Gates(counted.clone())));
    apply(&mut rig, &config("memory", "", "'ip'", "[state]\nudp_port = 53\n"), &plane::catalogue());
    let left = forward(&mut rig, 4);
    let dropped = rig.report().ledger.dropped_for(DropReason::Filtered);
    assert_eq!((left.len(), counted.load(Ordering::Relaxed), dropped), (1, 4, 3));
    let told = rig.report().hook.expect("there is a hook");
    assert_eq!(told.inner.downcast_ref::<u32>(), Some(&4));
}
