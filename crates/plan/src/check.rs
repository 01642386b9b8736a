//! From text to a plan: one pass finds all errors, and a plan is accepted only as a whole.

mod cpu_settings;
mod reserved_links;
mod tunnels;
mod unused;

use crate::diagnostic::{Diagnostics, Report};
use crate::document::{Path, Section};
use crate::include::include;
use crate::section::route::chunks::{self, BadSyntax, Chunks};
use crate::section::{ROOT, VERSION};
use crate::section::{
    cpu, linux, multicast, nat, neighbour, objectives, passthrough, path, policy, port, route, router, routing, set,
    state, subscribers,
};
use crate::subscribers::SubscriberResult;
use crate::text::{quote, tidy};
use crate::{Catalogue, Plan, PortPlan, SetEntry, SetKind, ShareTree, SubscriberSource, set_entries};
use std::io::Read;
use toml::de::{DeTable, DeValue};

/// Limit of a file's size, in bytes.
const MOST_BYTES: usize = 64 << 20;

/// A checked configuration: its plan, unless there was an error, and all diagnostics.
#[derive(Clone, Debug)]
pub struct CheckResult {
    /// The plan; `None` if the diagnostics have an error.
    pub plan: Option<Plan>,
    /// Errors and warnings. If there is a plan, only warnings.
    pub diagnostics: Diagnostics,
}

impl CheckResult {
    /// The plan, or the diagnostics. Drops the warnings of a valid configuration.
    pub fn into_result(self) -> Result<Plan, Diagnostics> {
        self.plan.ok_or(self.diagnostics)
    }
}

/// Parses and checks a configuration: the plan, or every error and warning at once. `file_name` is for messages, and files
/// of sets lie in its directory.
pub fn check(source: &str, file_name: &str, catalogue: &Catalogue) -> Result<Plan, Diagnostics> {
    examine(source, file_name, catalogue).into_result()
}

/// As [`check`] for a file of at most 64 MiB in UTF-8. Errors include those of reading it.
pub fn load(path: &std::path::Path, catalogue: &Catalogue) -> Result<Plan, Diagnostics> {
    examine_file(path, catalogue).into_result()
}

/// As [`load`], with the warnings of a valid configuration.
pub fn examine_file(path: &std::path::Path, catalogue: &Catalogue) -> CheckResult {
    match read_file(path) {
        Ok(source) => examine(&source, &path.to_string_lossy(), catalogue),
        Err(diagnostics) => CheckResult { plan: None, diagnostics },
    }
}

/// Reads the elements of a file for a set of this type. Errors include those of reading it.
pub fn load_set(path: &std::path::Path, kind: SetKind) -> Result<Vec<SetEntry>, Diagnostics> {
    let name = path.to_string_lossy();
    set_entries(&read(path, &name)?, &name, kind)
}

/// Reads the shares of a port, those of its file included. Errors include those of reading it.
pub fn load_shares(port: &PortPlan) -> Result<ShareTree, Diagnostics> {
    let text = port.shares.file.as_ref().map(|file| read(std::path::Path::new(file), file)).transpose()?;
    port.share_tree(text.as_deref().zip(port.shares.file.as_deref()))
}

/// Reads the subscribers of an access network from their files. Errors include those of reading them.
pub fn load_subscribers(source: &SubscriberSource) -> SubscriberResult {
    source.read(|file| read(std::path::Path::new(file), file))
}

/// The text of a configuration, with the contents of the files of rules that it names: it depends on no other file.
pub fn read_file(path: &std::path::Path) -> Result<String, Diagnostics> {
    let name = path.to_string_lossy();
    with_files(read(path, &name)?, &name)
}

/// As [`read_file`] for a text. Relative names of files start at the directory of `file_name`.
pub fn with_files(source: String, file_name: &str) -> Result<String, Diagnostics> {
    // Most configurations name no file, and need not be parsed twice.
    let may_name_files = source.len() <= MOST_BYTES && source.contains("file");
    if may_name_files { include(&source, file_name, MOST_BYTES) } else { Ok(source) }
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
    // One byte more than the limit, so that `examine` detects a file that is too large.
    file.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let bytes = error.into_bytes();
        let lossy = String::from_utf8_lossy(&bytes[..bytes.len().min(valid + 64)]);
        let mut report = Report::new(&lossy, name);
        report.error(valid..valid + 1, "", || {
            let reason = format!("the file is not UTF-8: byte 0x{:02x} does not begin a character", bytes[valid]);
            (reason, "save the file as UTF-8".to_string())
        });
        report.finish()
    })
}

/// As [`check`], with the warnings of a valid configuration.
pub fn examine(source: &str, file_name: &str, catalogue: &Catalogue) -> CheckResult {
    examine_in_chunks(source, file_name, catalogue, (chunks::LEAST, chunks::TABLES))
}

/// As [`examine`], in chunks of `tables` routes if there are at least `least`.
fn examine_in_chunks(
    source: &str,
    file_name: &str,
    catalogue: &Catalogue,
    (least, tables): (usize, usize),
) -> CheckResult {
    let mut report = Report::new(source, file_name);
    if source.len() > MOST_BYTES {
        report.error(0..0, "", || {
            (format!("the file is larger than {} MiB", MOST_BYTES >> 20), "is this a configuration?".to_string())
        });
        return CheckResult { plan: None, diagnostics: report.finish() };
    }
    if let Some(chunks) = chunks::divide(source, least, tables) {
        if let Ok(plan) = plan(&mut report, (&chunks.rest, file_name), Some(&chunks), catalogue) {
            return finished(plan, report);
        }
        // A chunk has a syntax error. Parse the whole text again, because its error messages are more accurate.
        report = Report::new(source, file_name);
    }
    let plan = plan(&mut report, (source, file_name), None, catalogue)
        .unwrap_or_else(|BadSyntax| unreachable!("it was reported"));
    finished(plan, report)
}

fn finished(plan: Option<Plan>, report: Report<'_>) -> CheckResult {
    let plan = plan.filter(|_| !report.failed());
    CheckResult { plan, diagnostics: report.finish() }
}

/// The plan of `text` and of its routes in chunks, if there are any. `None` for an unknown version.
fn plan(
    report: &mut Report<'_>,
    (text, file_name): (&str, &str),
    chunks: Option<&Chunks>,
    catalogue: &Catalogue,
) -> Result<Option<Plan>, BadSyntax> {
    let (tree, errors) = DeTable::parse_recoverable(text);
    if chunks.is_some() && !(errors.is_empty() && tree.get_ref().get("route").is_none()) {
        return Err(BadSyntax);
    }
    for error in errors {
        let span = error.span().unwrap_or(0..0);
        report.syntax(span, || (error.message().to_string(), syntax_hint(error.message()).to_string()));
    }
    let table = tree.get_ref();
    if !version(report, table) {
        // The pass over the whole text reports the syntax errors.
        return if chunks.is_some() { Err(BadSyntax) } else { Ok(None) };
    }
    let root = Section::open(report, table, 0..0, Path::Root(ROOT), ROOT);
    let router = router::check(report, &root);
    let cpu = cpu::check(report, &root, catalogue);
    let objectives = objectives::check(report, &root);
    let policies = policy::check(report, &root, catalogue);
    let (jumbo, batch, workers) = (router.super_frames > 0, cpu.input_limit(), router.workers);
    let by = port::PortContext { catalogue, jumbo, workers, batch, policies: &policies, file_name };
    let (mut ports, mut connected) = port::check(report, &root, &by);
    let routes = match chunks {
        None => route::check(report, &root, &connected),
        Some(chunks) => route::check_chunks(report, &root, &connected, chunks)?,
    };
    tunnels::check(report, &connected, &ports, &routes);
    let neighbours = neighbour::check(report, &root, &connected);
    let multicast = multicast::check(report, &root, &connected);
    let passthrough = passthrough::check(report, &root, &connected, &ports);
    let linux = linux::check(report, &root, &connected, (&ports, &passthrough));
    let subscribers = subscribers::check(report, &root, (&ports, connected.incomplete), file_name);
    let errors = report.error_count();
    let sets = set::check(report, &root, file_name);
    // A set that is not found may be the one with an error.
    connected.incomplete |= report.error_count() > errors;
    connected.sets = sets.iter().map(|set| (set.name.clone(), set.kind)).collect();
    let paths = path::check(report, &root, &connected, catalogue, cpu.layout);
    let routing = routing::check(report, &root, &connected);
    let nat = nat::check(report, &root, &connected, (&ports, &paths), linux.as_ref());
    let state = state::check(report, &root, (&ports, workers), catalogue);
    cpu_settings::CpuSettings { cpu: &cpu, ports: &mut ports, paths: &paths }.check_all(report, table);
    unused::check(report, &root, (&objectives, &policies), (&ports, &paths));
    let mut plan = Plan {
        name: router.name,
        workers: router.workers,
        cores: router.cores,
        busy_poll: router.busy_poll,
        cpu,
        frames: router.frames,
        super_frames: router.super_frames,
        route_cache: router.route_cache,
        icmp_rate: router.icmp_rate,
        icmp_burst: router.icmp_burst,
        ports,
        routes,
        neighbours,
        multicast,
        passthrough,
        subscribers,
        paths,
        routing,
        sets,
        nat,
        state,
        linux,
        objectives,
        policies: policies.plans,
    };
    reserved_links::set_default_schemes(report, table, &mut plan, catalogue);
    Ok(Some(plan))
}

/// True if the file has a supported version. Other errors in a file of another version would be meaningless.
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
        let reason = format!("this build supports version {VERSION} of the format, not {found}");
        (reason, format!("write version = {VERSION}, or use a build that supports the version"))
    });
    false
}

fn syntax_hint(message: &str) -> &'static str {
    if message.contains("duplicate key") {
        "keep one of the two: a key is given once, and a table has one header"
    } else if message.contains("string values must be quoted") || message.contains("missing opening quote") {
        "write \"...\" around it"
    } else if message.contains("recursion") || message.contains("nest") {
        "the tables nest too deep"
    } else {
        "the file is TOML: `key = value` lines below `[table]` headers"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use units::declare::{Declaration, DeclaredCost};

    /// Parts of configurations, some of them invalid.
    const PARTS: [&str; 16] = [
        "[[route]]\nto = '203.0.113.0/24'\nblackhole = true\n",
        "[[route]]\nto = '203.0.114.0/24'\nunreachable = true\n",
        "[[route]] # via\nto = \"10.1.0.0/16\"\nvia = [\n  '192.0.2.9',\n  '192.0.2.10 weight 2',\n]\n",
        "[[neighbour]]\naddress = '192.0.2.9'\nmac = '02:00:00:00:00:09'\nport = 'lan'\n",
        "[router]\nname = 'edge'\n",
        "  # a comment\n\n",
        "[[route]]\nto = '127.0.0.0/8'\nblackhole = true\n",
        "[[route]]\nto = '10.2.0.0/16'\nvia = '192.0.2.9 wait 7'\n",
        "[[route]]\nto = '10.3.0.1/16'\nvia = '198.51.100.9'\n",
        "[[route]]\nfrom = '10.4.0.0/16'\n",
        "[[route]]\nto = 'ünknown'\nblackhole = 1\n",
        "[[route]]\nto = '10.5.0.0/16'\nto = '10.6.0.0/16'\nblackhole = true\n",
        "[[route]]\n",
        "[[ route ]]\nto = '10.7.0.0/16'\nblackhole = true\n",
        "[[route.via]]\n",
        "[router]\nname = '''\n[[route]]\n'''\n",
    ];

    const MEMORY: Declaration =
        Declaration { name: "memory", summary: "", source: "", cost: DeclaredCost::None, options: &[] };

    proptest! {
        #[test]
        fn configuration_in_chunks_equals_configuration_as_a_whole(
            // Half of the cases use valid parts only, so that there is a plan.
            parts in prop_oneof![
                proptest::collection::vec(0..6usize, 1..8),
                proptest::collection::vec(0..PARTS.len(), 1..8),
            ],
            tables in 1usize..4,
            version in prop_oneof![Just("version = 1\n"), Just("version = 1\n"), Just(""), Just("version = 2\n")],
        ) {
            let port = "[port.lan]\ndevice = 'memory:'\naddress = ['192.0.2.1/24']\n";
            let rest: String = parts.iter().map(|&part| PARTS[part]).collect();
            let text = format!("{version}{port}{rest}");
            let catalogue = Catalogue { devices: vec![MEMORY], ..Catalogue::default() };
            let whole = examine_in_chunks(&text, "f", &catalogue, (usize::MAX, tables));
            let chunks = examine_in_chunks(&text, "f", &catalogue, (1, tables));
            prop_assert_eq!(format!("{:?}", chunks.plan), format!("{:?}", whole.plan), "{}", text);
            prop_assert_eq!(&chunks.diagnostics, &whole.diagnostics, "{}", text);
        }
    }
}
