//! The C interface as a C program uses it: compiled by the machine's compiler, against the header and each of the two libraries.

use esp::host::Computation;
use esp::isa::{Opcode, Operator, StateInstruction};
use esp::seal::OperatorKey;
use esp::wire::{Carriages, Locations, Part};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use switchpath_state::{COutcome, CPart, CSchedule};

const HERE: &str = env!("CARGO_MANIFEST_DIR");

/// The folder of the libraries: the one of this test.
fn libraries() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

fn run_checked(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    output
}

/// The C compiler with strict warnings.
fn compile(arguments: &[&str], program: &Path) -> Command {
    let mut command = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()));
    command.args(["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]);
    command.arg("-I").arg(Path::new(HERE).join("include")).arg(Path::new(HERE).join("tests/program.c"));
    command.arg("-o").arg(program).args(arguments);
    command
}

/// The program's output: a value per line, by the words before it.
fn program_output(program: &Path) -> BTreeMap<String, String> {
    let output = run_checked(Command::new(program).env("LD_LIBRARY_PATH", libraries()));
    let text = String::from_utf8(output.stdout).unwrap();
    let line = |line: &str| line.rsplit_once(' ').map(|(name, value)| (name.to_owned(), value.to_owned()));
    text.lines().filter_map(line).collect()
}

fn check(output: &BTreeMap<String, String>) {
    let at = Locations { input: true, central: false, output: true };
    let part = |locations, instruction| Part {
        locations,
        error: false,
        piggybacked: false,
        trace: false,
        computation: 7,
        instruction,
    };
    for (locations, instruction) in [
        (Locations::CENTRAL, StateInstruction::Nop),
        (at, StateInstruction::Count { counter: 1, threshold: 2, inclusive: false }),
        (at, StateInstruction::Compare { tag: 1, value: 2, relation: Operator::Gt }),
        (at, StateInstruction::Collect { counter: 1, result: 2, value: 3, operator: Operator::Max }),
        (at, StateInstruction::Rcollect { counter: 1, result: 2, child: 3, value: 4, operator: Operator::Xor }),
        (at, StateInstruction::Rchld { counter: 1, child: 2 }),
        (at, StateInstruction::Mark { tag: 1, value: 2 }),
        (at, StateInstruction::Test { tag: 1 }),
        (at, StateInstruction::Get { tag: 1, value: 0 }),
        (at, StateInstruction::Put { tag: 1, value: 2 }),
        (at, StateInstruction::Setfwd { tag: 1, value: 2, relation: Operator::Le }),
    ] {
        let bytes: String = part(locations, instruction).to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(output[&instruction.opcode().to_string()], bytes, "{instruction}");
    }
    let key: OperatorKey = "000102030405060708090a0b0c0d0e0f".parse().unwrap();
    let sealed = key.seal(&part(Locations::INPUT, StateInstruction::Put { tag: 1, value: 2 }));
    assert_eq!(output["sealed"], sealed.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    let mut own = Computation::seeded([3, 4]);
    assert_eq!(output["number"], format!("{:016x}", own.id()));
    assert_eq!(output["tag"], format!("{:016x}", own.tag()));
    let opcodes = Opcode::ALL.map(|opcode| (opcode.to_string(), u64::from(opcode.number())));
    let operators = Operator::ALL.map(|operator| (operator.name().to_owned(), u64::from(operator.number())));
    let others = [("port", Carriages::PORT.into()), ("protocol", Carriages::PROTOCOL.into()), ("most", 46)];
    let others = others.map(|(name, number): (&str, u64)| (name.to_owned(), number));
    for (name, number) in opcodes.into_iter().chain(operators).chain(others) {
        assert_eq!(output[&format!("value {}", name.to_uppercase())], number.to_string(), "{name}");
    }
    for (name, size) in [
        ("part", size_of::<CPart>()),
        ("schedule", size_of::<CSchedule>()),
        ("outcome", size_of::<COutcome>()),
        ("flags", std::mem::offset_of!(CPart, flags)),
        ("ending", std::mem::offset_of!(COutcome, ending)),
    ] {
        assert_eq!(output[&format!("size {name}")], size.to_string(), "{name}");
    }
}

#[test]
fn c_program_links_with_either_library() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (own, shared) = (folder.join("state-own"), folder.join("state-shared"));
    let archive = libraries().join("libswitchpath_state.a");
    run_checked(&mut compile(&[archive.to_str().unwrap(), "-lpthread", "-ldl", "-lm"], &own));
    check(&program_output(&own));
    let search = format!("-L{}", libraries().display());
    run_checked(&mut compile(&[&search, "-lswitchpath_state"], &shared));
    check(&program_output(&shared));
}

#[test]
fn header_compiles_as_cpp() {
    let Ok(found) = Command::new("c++").arg("--version").output() else { return };
    assert!(found.status.success());
    let header = Path::new(HERE).join("include/switchpath-state.h");
    run_checked(
        Command::new("c++")
            .args(["-std=c++11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++"])
            .arg(header),
    );
}
