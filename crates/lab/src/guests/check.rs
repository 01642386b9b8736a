//! `switchpath guest check`: the declarations of a guest, and the results of the scheme conformance tests.

use super::laws::print_laws;
use super::module_file::{ModuleFile, listed};
use super::{Named, function, instruction, slice};
use anyhow::Result;
use cli::arguments::CheckGuest;
use cli::output::{Rows, print_json};
use extension::{Examination, GuestProgram, LAWS, LawVerdict, LawViolation, Runtime, examine};
use schemes::Scheme;
use schemes::model::Model;
use serde::Serialize;
use std::io::{Write, stdout};
use std::path::Path;
use std::process::ExitCode;
use units::declare::OptionDeclaration;

/// Prints the results. Fails if the guest breaks a law.
pub fn check(arguments: &CheckGuest) -> Result<ExitCode> {
    let of = &arguments.of;
    let found = GuestCheck::of(&of.file, of.options.as_deref(), arguments.seeds)?;
    match &found {
        GuestCheck::Scheme(found) if of.json => print_json(&mut stdout(), &found.json(&of.file))?,
        GuestCheck::Function(found) if of.json => found.print_json(&of.file)?,
        GuestCheck::Instruction(found) if of.json => found.print_json(&of.file)?,
        GuestCheck::Slice(found) if of.json => found.print_json(&of.file)?,
        found => found.print(&of.file)?,
    }
    Ok(if found.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The results for a guest of any kind.
pub enum GuestCheck {
    /// A queueing scheme.
    Scheme(Box<SchemeCheck>),
    /// A packet function.
    Function(Box<function::FunctionCheck>),
    /// An instruction of ephemeral state.
    Instruction(Box<instruction::InstructionCheck>),
    /// A code option of slices.
    Slice(Box<slice::SliceCheck>),
}

impl GuestCheck {
    /// Checks a guest, with options as in a configuration, against this many seeds.
    pub fn of(file: &Path, options: Option<&str>, seeds: u64) -> Result<GuestCheck> {
        let module = ModuleFile::new(file)?;
        let (directory, name) = (&module.directory, module.name);
        if directory.has_instruction(name) {
            let found = instruction::InstructionCheck::of(&module, options, seeds)?;
            return Ok(GuestCheck::Instruction(Box::new(found)));
        }
        if directory.has_function(name) {
            return Ok(GuestCheck::Function(Box::new(function::FunctionCheck::of(&module, options, seeds)?)));
        }
        if directory.has_code_option(name) {
            return Ok(GuestCheck::Slice(Box::new(slice::SliceCheck::of(&module, options, seeds)?)));
        }
        Ok(GuestCheck::Scheme(Box::new(SchemeCheck::of(file, options, seeds)?)))
    }

    /// True if it keeps every law.
    pub fn is_good(&self) -> bool {
        match self {
            GuestCheck::Scheme(found) => found.is_good(),
            GuestCheck::Function(found) => found.is_good(),
            GuestCheck::Instruction(found) => found.is_good(),
            GuestCheck::Slice(found) => found.is_good(),
        }
    }

    /// For people.
    pub fn print(&self, file: &Path) -> Result<()> {
        match self {
            GuestCheck::Scheme(found) => print(found, file),
            GuestCheck::Function(found) => found.print(file),
            GuestCheck::Instruction(found) => found.print(file),
            GuestCheck::Slice(found) => found.print(file),
        }
    }

    /// The configuration text that selects it.
    pub fn named(&self, name: &str) -> String {
        match self {
            GuestCheck::Scheme(_) => format!("scheme = \"guest:{name}\""),
            GuestCheck::Function(_) => format!("functions = [\"guest:{name}\", \"ip\"]"),
            GuestCheck::Instruction(_) => format!("[state.instruction.{name}] number = 128"),
            GuestCheck::Slice(_) => format!("`switchpath slice create NAME code guest:{name}`"),
        }
    }
}

/// The results for a scheme.
pub struct SchemeCheck {
    named: Named,
    shape: Shape,
    bytes: u64,
    examination: Examination,
}

/// The resources that it requests with its options.
#[derive(Serialize, Debug)]
struct Shape {
    queues: u32,
    holds: u32,
    memory: usize,
    imports: Vec<String>,
    wants_flow_hash: bool,
    wants_hosts: bool,
    passes_when_idle: bool,
    ranks_classes: bool,
}

impl Shape {
    fn of(program: &GuestProgram, options: &[u64]) -> Result<Shape> {
        let guest = program.guest(options)?;
        let memory = guest.memory();
        let scheme: &dyn Scheme<Model> = &guest;
        Ok(Shape {
            queues: scheme.queues(),
            holds: scheme.holds_at_most(),
            memory,
            imports: program.imports(),
            wants_flow_hash: scheme.wants_flow_hash(),
            wants_hosts: scheme.wants_hosts(),
            passes_when_idle: scheme.passes_when_idle(),
            ranks_classes: scheme.ranks_classes(),
        })
    }

    fn notes(&self) -> String {
        let remarks = [
            (self.wants_flow_hash, "reads flows"),
            (self.wants_hosts, "reads hosts and code points"),
            (self.passes_when_idle, "packets bypass it on an idle link"),
            (self.ranks_classes, "higher classes leave first"),
        ];
        let remarks: Vec<&str> = remarks.into_iter().filter(|(is, _)| *is).map(|(_, remark)| remark).collect();
        if remarks.is_empty() { String::from("reads no flows") } else { remarks.join(", ") }
    }
}

impl SchemeCheck {
    /// Checks a guest, with options as in a configuration, against this many seeds.
    fn of(file: &Path, options: Option<&str>, seeds: u64) -> Result<SchemeCheck> {
        let runtime = Runtime::counted().map_err(cli::guests::no_runtime)?;
        let named = Named::find(file, options, runtime)?;
        let shape = Shape::of(&named.program, &named.values())?;
        let examination = examine(&named.program, &named.values(), seeds)?;
        let bytes = std::fs::metadata(file)?.len();
        Ok(SchemeCheck { named, shape, bytes, examination })
    }

    /// True if it keeps every law.
    fn is_good(&self) -> bool {
        self.examination.is_good()
    }

    fn json<'a>(&'a self, file: &'a Path) -> Json<'a> {
        let (named, examination) = (&self.named, &self.examination);
        let options = named.declaration.options.iter().zip(&named.call.options);
        let law =
            |((law, means), verdict): (&(&'static str, &'static str), &'a LawVerdict)| JsonLaw {
                law,
                means,
                tried: verdict.runs,
                broken: verdict.broken.as_ref().map(|LawViolation { reason: how, seed, round, circumstance }| {
                    JsonCase { how, seed: *seed, round: *round, circumstance }
                }),
            };
        Json {
            file: file.display().to_string(),
            good: self.is_good(),
            summary: named.declaration.summary,
            bytes: self.bytes,
            scheme: &named.call.text,
            options: options.map(|(declared, (_, value))| JsonOption::of(declared, *value)).collect(),
            shape: &self.shape,
            runs: examination.runs,
            sent: examination.sent,
            refused: examination.refused,
            dropped: examination.dropped,
            marked: examination.marked,
            counters: examination.counters,
            logged: Some(examination.line.as_str()).filter(|line| !line.is_empty()),
            laws: LAWS.iter().zip(&examination.verdicts).map(law).collect(),
        }
    }
}

#[derive(Serialize)]
struct Json<'a> {
    file: String,
    good: bool,
    summary: &'a str,
    bytes: u64,
    scheme: &'a str,
    options: Vec<JsonOption>,
    #[serde(flatten)]
    shape: &'a Shape,
    runs: u32,
    sent: u64,
    refused: u64,
    dropped: u64,
    marked: u64,
    counters: [u64; 8],
    logged: Option<&'a str>,
    laws: Vec<JsonLaw<'a>>,
}

#[derive(Serialize)]
struct JsonOption {
    name: &'static str,
    value: String,
    default: &'static str,
    least: u64,
    most: u64,
    doc: &'static str,
}

impl JsonOption {
    fn of(declared: &OptionDeclaration, value: u64) -> JsonOption {
        let OptionDeclaration { name, default, least, most, doc, unit } = *declared;
        JsonOption { name, value: unit.write(value), default, least, most, doc }
    }
}

#[derive(Serialize)]
struct JsonLaw<'a> {
    law: &'static str,
    means: &'static str,
    /// Runs that tested the law.
    tried: u32,
    broken: Option<JsonCase<'a>>,
}

#[derive(Serialize)]
struct JsonCase<'a> {
    how: &'a str,
    seed: u64,
    round: Option<usize>,
    circumstance: &'static str,
}

/// For people.
fn print(found: &SchemeCheck, file: &Path) -> Result<()> {
    let out = &mut stdout();
    let SchemeCheck { named, shape, bytes, examination } = found;
    writeln!(out, "{}: {}", file.display(), named.declaration.summary)?;
    let mut rows = Rows::new(&["OPTION", "DEFAULT", "LEAST", "MOST", "WHAT"]);
    for OptionDeclaration { name, unit, default, least, most, doc } in named.declaration.options {
        let bound = |value: u64| if matches!(value, 0 | u64::MAX) { "-".into() } else { unit.write(value) };
        rows.add([(*name).into(), (*default).into(), bound(*least), bound(*most), (*doc).into()]);
    }
    if !named.declaration.options.is_empty() {
        rows.print(out)?;
    }
    let imports = listed(&shape.imports);
    writeln!(
        out,
        "{bytes} bytes; {} for {} packets, {} KiB of memory of 1024; {}; calls {imports}",
        if shape.queues == 1 { "1 queue".into() } else { format!("{} queues", shape.queues) },
        shape.holds,
        shape.memory >> 10,
        shape.notes(),
    )?;
    let Examination { runs, sent, refused, dropped, marked, .. } = examination;
    writeln!(
        out,
        "{} in {runs} runs of virtual time: {sent} packets sent, {refused} refused, {dropped} dropped, {marked} marked",
        named.call.text
    )?;
    if examination.counters.iter().any(|count| *count > 0) {
        writeln!(out, "it counted {:?}", examination.counters)?;
    }
    if !examination.line.is_empty() {
        writeln!(out, "it logged: {}", examination.line)?;
    }
    print_laws(out, (file, "a port"), LAWS, &examination.verdicts)
}
