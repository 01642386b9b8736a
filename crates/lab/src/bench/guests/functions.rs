//! The cost of guests as packet functions: a null function on every packet, and the protected call alone (Pradhan and Chiueh 2002, section 5.4: 142
//! cycles for a null call of an extension).

use super::super::{BenchFigure, Rounds, median};
use extension::{GuestFunction, Runtime};
use io::clock::CycleCounter;
use packet::Packet;
use plan::Call;
use plane::function::{Context, Function, FunctionMaker};
use plane::rig::{LAN_AND_WAN, Rig, UdpFrame};
use plane::snapshot::{BEST_EFFORT, Layout};
use std::cell::Cell;

/// Budgets: nanoseconds per packet of a null function at 32 packets at once, and cycles of a protected call.
const NULL_BUDGET: f64 = 15.0;
const CALL_BUDGET: f64 = 25.0;
/// examples/guests/null.wat as a binary module, and the same with 64 bytes of each packet and the offsets of headers.
pub const NULL: &[u8] = include_bytes!("null.wasm");
pub const HEADERS: &[u8] = include_bytes!("headers.wasm");
/// service.wat as a binary module.
pub const SERVICE: &[u8] = include_bytes!("service.wasm");
/// Packets of a measurement.
const PACKETS: usize = 16_384;
const BATCH: usize = 32;

/// A function and packets for it.
pub struct FunctionLoad {
    rig: Rig,
    function: Box<dyn Function>,
    packets: Vec<Packet>,
}

impl FunctionLoad {
    /// The function of a module.
    pub fn new(module: &[u8], runtime: &Runtime) -> FunctionLoad {
        let function = GuestFunction::load(module, runtime).expect("it is a packet function");
        let declaration = function.declared().declaration("guest:null");
        let call = Call::parse("guest:null", &[declaration], "guest").expect("it has no required options");
        let mut rig = Rig::running(1024, Layout::Three, LAN_AND_WAN);
        let path =
            rig.router.snapshot().paths.iter().find(|path| path.id == BEST_EFFORT).expect("it is built in").clone();
        let function = function.make(&call, &path).expect("it starts");
        let frame = UdpFrame::between_ports(4000, 53).frame(&[7; 18]);
        let mut packets: Vec<Packet> = (0..BATCH).map(|_| rig.packet(&frame)).collect();
        packets.iter_mut().for_each(|packet| packet.meta_mut().l3 = 14);
        FunctionLoad { rig, function, packets }
    }

    /// Ticks of the cycle counter for a call with so many packets.
    fn cycles(&mut self, counter: &CycleCounter, batch: usize) -> f64 {
        let (snapshot, asked) = (self.rig.router.snapshot().clone(), Cell::default());
        let context = Context {
            now: self.rig.now,
            snapshot: &snapshot,
            tables: self.rig.router.tables(),
            nat: &snapshot.translations,
            limit: None,
            dry_run: false,
            extra_time: &asked,
        };
        let calls = PACKETS / batch;
        let start = counter.read();
        for _ in 0..calls {
            assert!(self.function.process(context, &mut self.packets[..batch]), "each packet continues");
        }
        counter.read().wrapping_sub(start) as f64 / calls as f64
    }

    /// Nanoseconds of a call with so many packets, for each of them.
    pub fn each(&mut self, counter: &CycleCounter, batch: usize) -> f64 {
        nanos(counter, self.cycles(counter, batch)) / batch as f64
    }

    /// Nanoseconds of a call without its packets, and of a packet: what remains of a call with one, and what each further one adds.
    pub fn call(&mut self, counter: &CycleCounter) -> (f64, f64) {
        let (one, many) = (self.cycles(counter, 1), self.cycles(counter, BATCH));
        let packet = (many - one) / (BATCH - 1) as f64;
        (nanos(counter, one - packet), nanos(counter, packet))
    }
}

/// Nanoseconds of so many ticks.
pub fn nanos(counter: &CycleCounter, cycles: f64) -> f64 {
    counter.between(0, (cycles.max(0.0) * 1000.0) as u64).get() as f64 / 1000.0
}

/// All figures.
pub fn measure(Rounds(rounds): Rounds, runtime: &Runtime) -> Vec<BenchFigure> {
    let counter = CycleCounter::calibrated();
    let (mut null, mut headers) = (FunctionLoad::new(NULL, runtime), FunctionLoad::new(HEADERS, runtime));
    let (mut fixed, mut each, mut shown) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (one, many) = (null.cycles(&counter, 1), null.cycles(&counter, BATCH));
        let packet = (many - one) / (BATCH - 1) as f64;
        // The call without its packets: what remains of a call with one.
        fixed.push(one - packet);
        each.push(many / BATCH as f64);
        shown.push(headers.cycles(&counter, BATCH) / BATCH as f64);
    }
    let (fixed, each, shown) = (median(fixed), nanos(&counter, median(each)), nanos(&counter, median(shown)));
    let figure = |name: &str, value, unit, budget| BenchFigure::alone("guests", name, value, unit, budget);
    vec![
        figure("a null function, 32 at once", each, "ns/packet", Some(NULL_BUDGET)),
        figure("a function that sees 64 bytes and headers, 32 at once", shown, "ns/packet", None),
        figure("a protected call of a function", fixed, "cycles", Some(CALL_BUDGET)),
    ]
}
