//! From text to a plan: everything that is wrong is found in one pass, and nothing is half taken.

mod advertise;
pub(crate) mod connected;
mod cpu;
pub(crate) mod hop;
mod multicast;
mod nat;
mod passthrough;
mod path;
mod policy;
pub(crate) mod port;
mod promises;
pub(crate) mod route;
mod router;
mod state;

use crate::diagnostic::{Diagnostics, Report};
use crate::document::{Path, Section};
use crate::keys::{MOST_BYTES, ROOT, VERSION};
use crate::text::{quote, tidy};
use crate::{Catalogue, Plan};
use std::io::Read;
use toml::de::{DeTable, DeValue};

/// A checked configuration: its plan, unless there was an error, and whatever was found.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The plan; none where the diagnostics have an error.
    pub plan: Option<Plan>,
    /// Errors and warnings; with a plan there are only warnings.
    pub diagnostics: Diagnostics,
}

impl Checked {
    /// The plan, or what is wrong. Drops the warnings of a good configuration.
    pub fn into_result(self) -> Result<Plan, Diagnostics> {
        self.plan.ok_or(self.diagnostics)
    }
}

/// Reads a configuration: the plan, or every error and warning at once. `file_name` is for the messages only.
pub fn check(source: &str, file_name: &str, catalogue: &Catalogue) -> Result<Plan, Diagnostics> {
    examine(source, file_name, catalogue).into_result()
}

/// As [`check`], for a file: its errors include those of reading it. At most 64 MiB, in UTF-8.
pub fn load(path: &std::path::Path, catalogue: &Catalogue) -> Result<Plan, Diagnostics> {
    examine_file(path, catalogue).into_result()
}

/// As [`load`], with the warnings of a good configuration.
pub fn examine_file(path: &std::path::Path, catalogue: &Catalogue) -> Checked {
    let name = path.to_string_lossy();
    match read(path, &name) {
        Ok(source) => examine(&source, &name, catalogue),
        Err(diagnostics) => Checked { plan: None, diagnostics },
    }
}

fn read(path: &std::path::Path, name: &str) -> Result<String, Diagnostics> {
    let failed = |error: std::io::Error| {
        let hint = match error.kind() {
            std::io::ErrorKind::NotFound => "check the name of the file",
            std::io::ErrorKind::PermissionDenied => "check who may read the file",
            _ => "",
        };
        Diagnostics::unreadable(name, format!("the file cannot be read: {error}"), hint)
    };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    // One byte more than is taken, so that `examine` sees a file that is too large.
    file.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let bytes = error.into_bytes();
        let lossy = String::from_utf8_lossy(&bytes[..bytes.len().min(valid + 64)]);
        let mut report = Report::new(&lossy, name);
        report.error(valid..valid + 1, "", || {
            let reason = format!("the file is not UTF-8: byte 0x{:02x} begins no character", bytes[valid]);
            (reason, "save the file as UTF-8".to_string())
        });
        report.finish()
    })
}

/// As [`check`], with the warnings of a good configuration.
pub fn examine(source: &str, file_name: &str, catalogue: &Catalogue) -> Checked {
    let mut report = Report::new(source, file_name);
    let plan = if source.len() > MOST_BYTES {
        report.error(0..0, "", || {
            (format!("the file is larger than {} MiB", MOST_BYTES >> 20), "is this a configuration?".to_string())
        });
        None
    } else {
        plan(&mut report, catalogue)
    };
    let plan = plan.filter(|_| !report.failed());
    Checked { plan, diagnostics: report.finish() }
}

fn plan(report: &mut Report<'_>, catalogue: &Catalogue) -> Option<Plan> {
    let (tree, errors) = DeTable::parse_recoverable(report.source);
    for error in errors {
        let span = error.span().unwrap_or(0..0);
        report.syntax(span, || (error.message().to_string(), syntax_hint(error.message()).to_string()));
    }
    let table = tree.get_ref();
    if !version(report, table) {
        return None;
    }
    let root = Section::open(report, table, 0..0, Path::Root, ROOT);
    let router = router::read(report, &root);
    let cpu = cpu::read(report, &root);
    let policies = policy::Policies::read(report, &root, catalogue);
    let (jumbo, batch) = (router.super_frames > 0, cpu.input_limit());
    let workers = router.workers;
    let shared = port::Shared { catalogue, jumbo, workers, batch, policies: &policies };
    let (mut ports, connected) = port::read(report, &root, shared);
    let routes = route::read(report, &root, &connected);
    let neighbours = route::neighbours(report, &root, &connected);
    let multicast = multicast::read(report, &root, &connected);
    let passthrough = passthrough::read(report, &root, &connected, &ports);
    let paths = path::read(report, &root, &connected, catalogue, cpu.layout);
    let nat = nat::read(report, &root, &connected, (&ports, &paths));
    let state = state::read(report, &root, (&ports, workers), catalogue);
    promises::Promises { cpu: &cpu, ports: &mut ports, paths: &paths }.settle(report, table);
    policies.settle(report, &root, &ports, &paths);
    Some(Plan {
        name: router.name,
        workers: router.workers,
        cores: router.cores,
        spin: router.spin,
        cpu,
        frames: router.frames,
        super_frames: router.super_frames,
        icmp_rate: router.icmp_rate,
        icmp_burst: router.icmp_burst,
        ports,
        routes,
        neighbours,
        multicast,
        passthrough,
        paths,
        nat,
        state,
        objectives: policies.code_points,
        policies: policies.policies,
    })
}

/// Whether the file is of a version that can be read. What else is wrong with one of another version means nothing.
fn version(report: &mut Report<'_>, table: &DeTable<'_>) -> bool {
    let Some(value) = table.get("version") else { return true };
    let found = match value.get_ref() {
        DeValue::Integer(found) if found.as_str() == VERSION.to_string() => return true,
        DeValue::Integer(found) => tidy(&found.to_string(), 30),
        DeValue::Float(found) => tidy(&found.to_string(), 30),
        DeValue::String(found) => quote(found),
        _ => "of another kind".to_string(),
    };
    report.error(value.span(), "version", || {
        let reason = format!("version {found} of the format is not known; this build reads version {VERSION}");
        (reason, format!("write version = {VERSION}, or use a build that knows the version"))
    });
    false
}

fn syntax_hint(message: &str) -> &'static str {
    if message.contains("duplicate key") {
        "keep one of the two: a key is given once, and a table has one header"
    } else if message.contains("string values must be quoted") || message.contains("missing opening quote") {
        "write \"...\" around it"
    } else if message.contains("recursion") || message.contains("nest") {
        "nothing here nests that deep"
    } else {
        "the file is TOML: `key = value` lines below `[table]` headers"
    }
}
