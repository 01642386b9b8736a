//! Prints why a command failed: sentences on the standard error for people; with `-j` one object on the standard output, in the same form for every
//! command:
//!
//! ```json
//! {"error": {"message": "unknown key 'mtuu'", "hint": "did you mean 'mtu'?", "kind": "configuration", "file": "a.toml",
//!            "line": 3, "column": 1, "diagnostics": []}}
//! ```

use crate::arguments::{Arguments, UsageError};
use crate::output::{print_json, show_diagnostics};
use anyhow::Error;
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use control::ClientError;
use control::api::{ApiError, DiagnosticReply, ErrorKind, Problem};
use plan::{Diagnostics, Severity};
use serde::Serialize;
use std::fmt;
use std::io::stdout;
use std::process::ExitCode;

/// Errors in configurations.
#[derive(Debug)]
pub struct ConfigurationErrors(pub Vec<Diagnostics>);

impl fmt::Display for ConfigurationErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration has errors")
    }
}

impl std::error::Error for ConfigurationErrors {}

/// The object printed with `-j`.
#[derive(Serialize)]
struct Failed {
    error: Failure,
}

/// A failure. Unknown fields are omitted.
#[derive(Serialize, Default)]
struct Failure {
    /// The error in one sentence.
    message: String,
    /// The remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// `usage` for a wrong command line, `unreachable` if no router answers, or the error kind of the API.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    /// The position of the first error in a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
    /// All errors of a configuration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    diagnostics: Vec<DiagnosticReply>,
    /// All problems that keep the configuration from running.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<Problem>,
}

/// Parses the command line, and returns whether it asks for JSON.
pub fn arguments() -> Result<(Arguments, bool), ExitCode> {
    let parsed = Arguments::command().try_get_matches().and_then(|matches| {
        let json = wants_json(&matches);
        Ok((Arguments::from_arg_matches(&matches)?, json))
    });
    parsed.map_err(|error| {
        // clap reports help and the version as errors.
        if !error.use_stderr() || !may_want_json() {
            error.exit();
        }
        let text = error.render().to_string();
        let message = text.split("\n\n").next().unwrap_or(&text).trim_start_matches("error: ").trim();
        let hint = text.split("\n\n").find_map(|part| part.trim().strip_prefix("tip: ")).map(str::to_owned);
        print(Failure { message: message.into(), hint, kind: Some("usage".into()), ..Failure::default() });
        ExitCode::from(2)
    })
}

/// Returns whether the command or one of its subcommands has `-j`.
fn wants_json(matches: &ArgMatches) -> bool {
    matches!(matches.try_get_one::<bool>("json"), Ok(Some(true)))
        || matches.subcommand().is_some_and(|(_, matches)| wants_json(matches))
}

/// Returns whether a wrong command line contains `-j`.
fn may_want_json() -> bool {
    let words = std::env::args_os().skip(1).take_while(|word| word != "--");
    words.into_iter().any(|word| word == "-j" || word == "--json")
}

/// Prints why a command failed, and returns its exit code.
pub fn report(error: &Error, json: bool) -> ExitCode {
    if json {
        print(Failure::of(error));
    } else if let Some(ConfigurationErrors(found)) = error.downcast_ref() {
        // If the terminal is gone, that is not reported as a second error.
        let _ = found.iter().try_for_each(show_diagnostics);
    } else {
        eprintln!("switchpath: {error:#}");
    }
    if error.is::<UsageError>() { ExitCode::from(2) } else { ExitCode::FAILURE }
}

fn print(error: Failure) {
    // Ignored for the same reason as in `report`.
    let _ = print_json(&mut stdout(), &Failed { error });
}

impl Failure {
    fn of(error: &Error) -> Failure {
        if let Some(faulty) = error.chain().find_map(|cause| cause.downcast_ref::<ConfigurationErrors>()) {
            return Failure::of_configuration(faulty);
        }
        let refusal = error.chain().enumerate().find_map(|(at, cause)| match cause.downcast_ref() {
            Some(ClientError::Refused(refusal)) => Some((at, refusal)),
            _ => cause.downcast_ref::<ApiError>().map(|refusal| (at, refusal)),
        });
        if let Some((at, refusal)) = refusal {
            let before: String = error.chain().take(at).map(|cause| format!("{cause}: ")).collect();
            return Failure::of_refusal(&before, refusal);
        }
        let kind = if error.is::<UsageError>() {
            Some("usage")
        } else {
            error.chain().find_map(|cause| match cause.downcast_ref()? {
                ClientError::Unreachable(..) => Some("unreachable"),
                ClientError::Occupied(_) => Some("busy"),
                _ => None,
            })
        };
        Failure { message: format!("{error:#}"), kind: kind.map(str::to_owned), ..Failure::default() }
    }

    fn of_configuration(faulty: &ConfigurationErrors) -> Failure {
        let all = faulty.0.iter().flat_map(|found| found.list());
        let first = all.clone().find(|diagnostic| diagnostic.severity == Severity::Error).map(DiagnosticReply::from);
        Failure::at(first, all.map(DiagnosticReply::from).collect())
    }

    /// Builds the failure of a text with errors from its first error.
    fn at(first: Option<DiagnosticReply>, diagnostics: Vec<DiagnosticReply>) -> Failure {
        let kind = Some("configuration".to_owned());
        let Some(first) = first else {
            return Failure { message: "the configuration has errors".into(), kind, diagnostics, ..Failure::default() };
        };
        Failure {
            message: first.reason,
            hint: some(&first.hint),
            kind,
            file: Some(first.file),
            line: (first.line > 0).then_some(first.line),
            column: (first.line > 0).then_some(first.column),
            diagnostics,
            problems: Vec::new(),
        }
    }

    fn of_refusal(before: &str, refusal: &ApiError) -> Failure {
        let first = refusal.diagnostics.iter().find(|diagnostic| diagnostic.severity == "error");
        if refusal.error == ErrorKind::Configuration && first.is_some() {
            return Failure::at(first.cloned(), refusal.diagnostics.clone());
        }
        // The error kinds are named as the API sends them.
        let kind = serde_json::to_value(refusal.error).ok().and_then(|kind| kind.as_str().map(str::to_owned));
        Failure {
            message: format!("{before}{}", refusal.reason),
            hint: some(&refusal.hint),
            kind,
            diagnostics: refusal.diagnostics.clone(),
            problems: refusal.problems.clone(),
            ..Failure::default()
        }
    }
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
