//! Guests with random faults of every kind. Each packet still has one fate, and waiting packets are served.

use extension::{Guest, GuestProgram, Runtime};
use schemes::conformance::{Round, Rounds};
use schemes::model::Model;
use schemes::{Next, Scheme};
use units::Nanos;

const FIFO: &str = include_str!("../../../../examples/guests/fifo.wat");

/// Code that replaces or follows a guest's work.
const FAULTY_CODE: &[(&str, &str)] = &[
    ("an endless loop", "(loop (br 0))"),
    (
        "a memory bomb",
        "(loop (drop (memory.grow (i32.const 1)))
            (i32.store (i32.sub (i32.mul (memory.size) (i32.const 65536)) (i32.const 4)) (i32.const 1)) (br 0))",
    ),
    ("memory that is not there", "(i32.store (i32.mul (memory.size) (i32.const 65536)) (i32.const 1))"),
    ("an endless descent", "(call $deep)"),
    ("a division by zero", "(drop (i32.div_u (i32.const 1) (i32.load (i32.const 0))))"),
    // Some of the verdicts name queues that do not exist.
    (
        "wild verdicts",
        "(i64.store (i32.const 3264) (call $random)) (i64.store (i32.const 3272) (call $random))
            (i64.store (i32.const 3280) (call $random)) (i64.store (i32.const 3288) (call $random))",
    ),
    ("a wrong count of what waits", "(global.set $waiting (i32.wrap_i64 (i64.shr_u (call $random) (i64.const 50))))"),
    (
        "forged commands",
        "(i32.store (i32.const 1056) (i32.and (i32.wrap_i64 (call $random)) (i32.const 63)))
            (i64.store (i32.const 1216) (call $random)) (i64.store (i32.const 1224) (call $random))",
    ),
    (
        "commands that could be",
        "(i32.store (i32.const 1056) (i32.and (i32.wrap_i64 (call $random)) (i32.const 3)))
            (i32.store (i32.const 1216) (i32.const 0x03000000)) (i32.store (i32.const 1220) (i32.const 0x04000000))",
    ),
    (
        "no wish to be asked again",
        "(i64.store (i32.const 1048) (i64.sub (i64.and (call $random) (i64.const 1)) (i64.const 1)))",
    ),
];

/// FIFO on four queues; one call in eight also runs the faulty code.
fn faulty_guest(misdeed: &str, runtime: &Runtime) -> GuestProgram {
    let chance = "(call $random) (i64.load (i32.const 1088))";
    let text = FIFO
        .replacen("(module", r#"(module (import "switchpath" "random" (func $random (result i64)))"#, 1)
        .replace("(i32.store (i32.const 1060) (i32.const 1))", "(i32.store (i32.const 1060) (i32.const 4))")
        .replace("(call $after)", "(call $after) (call $errs)");
    let end = text.rfind(')').expect("the module ends");
    let errs = format!(
        "(func $deep (call $deep))
        (func $errs (if (i64.eqz (i64.rem_u (i64.add {chance}) (i64.const 8))) (then {misdeed}))))"
    );
    let module = wat::parse_str(format!("{}{errs}", &text[..end])).expect("it is WebAssembly");
    GuestProgram::load(&module, runtime).expect("it is a guest")
}

/// A guest at work, its link, and how often it was suspended.
struct GuestRun {
    guest: Guest,
    model: Model,
    faults: u64,
}

impl GuestRun {
    fn conserved(&mut self) {
        self.faults += u64::from(Scheme::<Model>::next_fault(&mut self.guest).is_some());
        let Model { fates, .. } = &self.model;
        assert_eq!(self.model.offered(), fates.len() + self.model.waiting(), "each packet waits or has a fate");
        let idle = self.guest.next(&self.model) == Next::Idle;
        assert_eq!(idle, self.model.waiting() == 0, "it is to be asked as long as packets wait");
    }

    fn round(&mut self, round: &Round) {
        self.model.arrive_all(&mut self.guest, round.packets.iter().copied());
        self.conserved();
        self.model.now += round.pause;
        self.model.ready(&mut self.guest, round.room);
        self.conserved();
    }

    /// Drains all queues. Returns how often the guest was suspended.
    fn end(mut self) -> u64 {
        for _ in 0..1000 {
            match self.guest.next(&self.model) {
                Next::Idle => break,
                // A guest that waits until the end of time is not at fault: a queue may be held.
                Next::At(time) => self.model.now = time,
                Next::Ready => {}
            }
            self.model.ready(&mut self.guest, usize::MAX);
            self.conserved();
        }
        assert_eq!(self.model.waiting(), 0, "all of them leave");
        let mut numbers: Vec<usize> = self.model.fates.iter().map(|fate| fate.number()).collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..self.model.offered()), "each packet has one fate");
        self.faults
    }
}

/// The least number of faults: `SWITCHPATH_FAULTS`, or a hundredth of the soak's.
fn wanted() -> u64 {
    std::env::var("SWITCHPATH_FAULTS").map_or(10_000, |text| text.parse().expect("SWITCHPATH_FAULTS is a number"))
}

fn clock() -> Nanos {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Nanos::new(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[test]
fn faulty_guests_lose_no_packet_uncounted() {
    let runtimes = [Runtime::counted().expect("it runs here"), Runtime::timed(clock).expect("it runs here")];
    for (misdeed, text) in FAULTY_CODE {
        let programs = runtimes.each_ref().map(|runtime| faulty_guest(text, runtime));
        let (mut faults, mut seed) = (0, 0);
        while faults < wanted() / FAULTY_CODE.len() as u64 {
            // With counted instructions an endless loop takes milliseconds: only one guest in sixteen is run so.
            let program = &programs[usize::from(seed % 16 != 0)];
            let guest = program.guest(&[1 + seed % 10_000, 0]).expect("it starts");
            let mut watched = GuestRun { guest, model: Model::with_queues(4), faults: 0 };
            Rounds::seeded(seed, 12).for_each(|round| watched.round(&round));
            faults += watched.end();
            seed += 1;
            assert!(seed < 1000 + 20 * wanted(), "{misdeed} is hardly ever a fault: {faults} of {seed} guests");
        }
    }
}
