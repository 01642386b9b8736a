//! Ephemeral-state instructions as guests: their rights, and the faults of those that exceed them.

use extension::{Directory, GuestInstruction, GuestProgram, INSTRUCTION_LAWS, Runtime, examine_instruction};
use plan::Guests;
use plane::instructions::{CustomInstruction, InstructionCall, InstructionOutcome, instruction_maker};

const SUM: &str = include_str!("../../../../examples/guests/sum.wat");
const FIFO: &str = include_str!("../../../../examples/guests/fifo.wat");

fn clock() -> units::Nanos {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    units::Nanos::new(used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64)
}

/// The guest `sum` with this body in place of its own.
fn sum_with_body(body: &str) -> String {
    let at = SUM.find("(func (export \"switchpath_execute\")").unwrap();
    format!("{} (func (export \"switchpath_execute\") (result i32) {body}))", &SUM[..at])
}

fn load(text: &str) -> Result<GuestInstruction, String> {
    let module = wat::parse_str(text).expect("it is WebAssembly");
    GuestInstruction::load(&module, &Runtime::counted().unwrap()).map_err(|error| error.to_string())
}

fn start(text: &str) -> Box<dyn CustomInstruction> {
    load(text).unwrap().start().unwrap()
}

fn call(value: u64, there: Option<u64>) -> InstructionCall {
    let there = [there, None, None, None];
    InstructionCall { now: units::Instant::new(5), node: 7, operator: 2, value, entries: there, written: [None; 4] }
}

#[test]
fn instruction_reads_its_call_and_returns_values() {
    let mut sum = start(SUM);
    for (value, there, total) in [(5, None, 5), (6, Some(10), 16), (u64::MAX, Some(2), 1)] {
        let mut call = call(value, there);
        assert_eq!(sum.execute(&mut call), Ok(InstructionOutcome::Forward));
        assert_eq!((call.value, call.written), (total, [Some(total), None, None, None]));
    }
    // Reads the time, the node, the operator and the bits of present tags at the documented offsets.
    let told = "(i64.store (i32.const 1040) (i64.add (i64.add (i64.mul (i64.load (i32.const 1024)) (i64.const 1000000))
        (i64.mul (i64.load (i32.const 1032)) (i64.const 10000))) (i64.extend_i32_u (i32.add
        (i32.mul (i32.load (i32.const 1048)) (i32.const 100)) (i32.load (i32.const 1052)))))) (i32.const 1)";
    let mut seen = call(0, Some(9));
    assert_eq!((start(&sum_with_body(told)).execute(&mut seen), seen.value), (Ok(InstructionOutcome::Drop), 5_070_201));
    for (answer, outcome) in [(2, InstructionOutcome::Absent), (3, InstructionOutcome::Underflow)] {
        assert_eq!(start(&sum_with_body(&format!("(i32.const {answer})"))).execute(&mut call(1, None)), Ok(outcome));
    }
}

#[test]
fn invalid_instruction_behaviour_is_a_fault() {
    for (body, what) in [
        ("unreachable", "it trapped: wasm trap: wasm `unreachable` instruction executed"),
        ("(loop (br 0)) unreachable", "it did not return in time"),
        ("(i32.store (i32.const -8) (i32.const 1)) (i32.const 0)", "out of bounds"),
        ("(i32.const 9)", "it returns 9, which is no valid result"),
        ("(i32.store (i32.const 1056) (i32.const 32)) (i32.const 0)", "it writes tags that it does not have: 0x20"),
    ] {
        let fault = start(&sum_with_body(body)).execute(&mut call(1, None)).unwrap_err();
        assert!(fault.contains(what), "{fault}");
    }
}

/// On a machine the limit is processor time.
#[test]
fn an_instruction_that_does_not_return_is_ended() {
    let runtime = Runtime::timed(clock).unwrap();
    let module = wat::parse_str(sum_with_body("(loop (br 0)) unreachable")).unwrap();
    let mut endless = GuestInstruction::load(&module, &runtime).unwrap().start().unwrap();
    let start = clock();
    assert_eq!(endless.execute(&mut call(1, None)).unwrap_err(), "it did not return in time");
    let used = clock().saturating_sub(start);
    assert!(used < units::Nanos::millis(20), "{used}");
}

#[test]
fn modules_that_are_no_instructions_are_refused_with_a_reason() {
    assert!(load(FIFO).unwrap_err().contains("it is no instruction"));
    let scheme = GuestProgram::load(&wat::parse_str(SUM).unwrap(), &Runtime::counted().unwrap()).unwrap_err();
    assert!(scheme.reason.contains("it is an instruction of ephemeral state, no scheme"), "{scheme}");
    for (from, to, wrong) in [
        ("\"switchpath_block\"", "\"other\"", "it exports no 'switchpath_block'"),
        ("(export \"memory\") 1", "(export \"memory\") 17", "KiB of memory"),
        ("(result i32) (i32.const 1))", "(result i32) (i32.const 2))", "built for version 2"),
        ("(i32.const 1024))", "(i32.const 65500))", "its block is not in its memory"),
        ("(i32.const 1024))", "(i32.const 1025))", "its block is not in its memory, or not at a multiple of 8"),
        ("tags 1", "tags 0", "it creates 1 entries but has only 0 tags"),
        ("tags 1", "tags 9", "at most 4 tags"),
        ("creates 1\\00", "creates 1", "no end"),
        ("(module", "(module (import \"wasi\" \"exit\" (func))", "imports 'exit' of 'wasi'"),
    ] {
        assert!(SUM.contains(from), "{from}");
        let mut text = SUM.replacen(from, to, 1);
        if to == "creates 1" {
            text = text.replace(
                "(memory (export \"memory\") 1)",
                "(memory (export \"memory\") 1) (data (i32.const 100) \"aaaa\")",
            );
            text = text.replacen("creates 1\"", &format!("creates 1{}\"", " ".repeat(2000)), 1);
        }
        let error = load(&text).unwrap_err();
        assert!(error.contains(wrong), "{from} -> {to}: {error}");
    }
}

#[test]
fn broken_instruction_law_is_reported_with_its_cause() {
    let broken = |text: &str| {
        let tried = examine_instruction(&load(text).unwrap(), 4).unwrap();
        let broken: Vec<_> = tried.verdicts.iter().filter(|verdict| verdict.broken.is_some()).map(|v| v.law).collect();
        assert_eq!((tried.is_good(), tried.verdicts.len()), (broken.is_empty(), INSTRUCTION_LAWS.len()));
        (broken, tried)
    };
    let (none, tried) = broken(SUM);
    assert!(none.is_empty() && tried.forwarded == 1600 && tried.created > 100 && tried.rewritten > 100, "{tried:?}");
    assert_eq!(broken(&sum_with_body("(i32.const 7)")).0, ["sound decisions"]);
    let second = "(i32.store (i32.const 1056) (i32.const 2)) (i32.const 0)";
    assert_eq!(broken(&sum_with_body(second)).0, ["bound"], "the second tag, which it does not have");
    assert_eq!(broken(&SUM.replace("creates 1", "creates 0")).0, ["bound"]);
    let remembers = "(i64.store (i32.const 4096) (i64.add (i64.load (i32.const 4096)) (i64.const 1)))
        (i64.store (i32.const 1040) (i64.load (i32.const 4096))) (i32.const 0)";
    assert_eq!(broken(&sum_with_body(remembers)).0, ["forgetting"]);
    let again = [SUM, SUM].map(|text| broken(text).1);
    assert_eq!(again[0], again[1], "the same code has the same verdict");
}

#[test]
fn guest_directory_loads_instructions_and_schemes() {
    let place = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| std::fs::write(place.path().join(name), wat::parse_str(text).unwrap()).unwrap();
    put("sum.wasm", SUM);
    put("fifo.wasm", FIFO);
    let directory = Directory::new(place.path(), Runtime::counted().unwrap());
    assert_eq!([directory.has_instruction("sum"), directory.has_instruction("fifo")], [true, false]);
    let (declared, code) = directory.instruction("sum").unwrap();
    assert_eq!((declared.name, declared.tags, declared.creates), ("sum", 1, 1));
    let mut sum = instruction_maker(&code).unwrap().make().unwrap();
    assert_eq!(sum.execute(&mut call(2, Some(3))), Ok(InstructionOutcome::Forward));
    assert!(directory.instruction("fifo").unwrap_err().0.contains("no instruction"));
    let (reason, hint) = directory.instruction("none").unwrap_err();
    assert!(reason.contains("no none.wasm") && hint.contains("fifo, sum"), "{reason}; {hint}");
    let before = code.digest;
    put("sum.wasm", &SUM.replace("in text", "in other text"));
    assert_ne!(directory.instruction("sum").unwrap().1.digest, before, "it was built anew");
}
