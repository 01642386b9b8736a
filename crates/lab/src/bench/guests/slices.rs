//! The cost of guests as code options of slices, beside the built-in `null`: both stages of a batch, without the look-up between them.

use super::super::{BenchFigure, Rounds, median};
use super::functions::nanos;
use extension::{GuestSlice, Runtime};
use io::clock::CycleCounter;
use packet::{Packet, Pool, Region};
use slice::SliceMemory;
use slice::code::{
    BatchPacket, CodeEnv, CodeOption, CodeStage, Formatted, GuestCodeOption, InnerEdit, LookupResult, code_option,
};
use std::hint::black_box;
use units::Instant;

/// examples/guests/null-slice.wat as a binary module, and the same with 64 bytes of each packet, which it may change.
pub const NULL: &[u8] = include_bytes!("null_slice.wasm");
pub const EDITS: &[u8] = include_bytes!("edit_slice.wasm");
/// Packets of a measurement.
const PACKETS: usize = 16_384;
const BATCH: usize = 32;

/// A code option, and packets for it.
struct SliceLoad {
    code: Box<dyn CodeOption>,
    memory: SliceMemory,
    packets: Vec<Packet>,
}

impl SliceLoad {
    fn new(code: Box<dyn CodeOption>, memory: SliceMemory) -> SliceLoad {
        let mut pool = Pool::new(Region::new(BATCH));
        let packets = (0..BATCH).map(|_| {
            let mut packet = pool.take().expect("there are as many frames");
            packet.fill(&[7; 100]);
            packet
        });
        SliceLoad { code, memory, packets: packets.collect() }
    }

    fn guest(module: &[u8], runtime: &Runtime) -> SliceLoad {
        let guest = GuestSlice::load(module, runtime).expect("it is a code option");
        let memory = SliceMemory::new(64);
        SliceLoad::new(guest.make(&[], &memory).expect("it starts"), memory)
    }

    /// A stage of a batch, as the function `slice` has it.
    fn stage(&mut self, stage: CodeStage) {
        let SliceLoad { code, memory, packets } = self;
        let result = LookupResult::default();
        if code.is_batched() {
            let mut all = packets.iter().enumerate().map(|(position, packet)| BatchPacket {
                position,
                interface: 0,
                bytes: packet.bytes(),
                result,
            });
            code.begin(stage, &mut all);
        }
        for (position, packet) in packets.iter_mut().enumerate() {
            let mut env = CodeEnv::new(memory, 0, 0).at(position, Instant::default());
            match stage {
                CodeStage::Parse => drop(black_box(code.parse(packet.bytes(), &mut env).expect("it has a key"))),
                CodeStage::Format => {
                    let formatted = code.format(&mut InnerEdit::new(packet), &result, &mut env);
                    assert_eq!(formatted, Ok(Formatted::Send));
                }
            }
        }
    }

    /// Ticks of the cycle counter for a packet.
    fn cycles(&mut self, counter: &CycleCounter) -> f64 {
        let start = counter.read();
        for _ in 0..PACKETS / BATCH {
            self.stage(CodeStage::Parse);
            self.stage(CodeStage::Format);
        }
        counter.read().wrapping_sub(start) as f64 / PACKETS as f64
    }
}

/// All figures.
pub fn measure(Rounds(rounds): Rounds, runtime: &Runtime) -> Vec<BenchFigure> {
    let counter = CycleCounter::calibrated();
    let native = code_option("null").map(|code| (code.make)(&Default::default()).expect("it has no settings"));
    let native = SliceLoad::new(native.expect("it is built in"), SliceMemory::new(64));
    let loads = [
        ("a built-in null code option of a slice, 32 at once", native),
        ("a null guest as a code option, 32 at once", SliceLoad::guest(NULL, runtime)),
        ("a guest code option that may change 64 bytes, 32 at once", SliceLoad::guest(EDITS, runtime)),
    ];
    let mut measured = loads.map(|(name, load)| (name, load, Vec::new()));
    for _ in 0..rounds {
        measured.iter_mut().for_each(|(_, load, cycles)| cycles.push(load.cycles(&counter)));
    }
    let figure = |(name, _, cycles): (&str, SliceLoad, Vec<f64>)| {
        BenchFigure::alone("guests", name, nanos(&counter, median(cycles)), "ns/packet", None)
    };
    measured.map(figure).into()
}
