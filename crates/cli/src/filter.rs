//! `switchpath filter`: rules of other programs in the language of this router.

use crate::arguments::{FilterArguments, FilterCommand, FilterImportArguments, RuleFormat};
use crate::output::print_json;
use anyhow::{Context, Result, anyhow};
use plan::FilterRule;
use plan::import::{ImportFormat, ImportPlace, ImportProblem, Imported, import};
use serde::Serialize;
use std::fs::File;
use std::io::{BufWriter, Read, Write, stderr, stdin, stdout};
use std::path::Path;
use std::process::ExitCode;

/// The most bytes read of a rule set: a million rules with long JSON.
const MOST: u64 = 1 << 30;

/// `switchpath filter`
pub fn filter(arguments: &FilterArguments) -> Result<ExitCode> {
    match &arguments.command {
        FilterCommand::Import(options) => translate(options),
    }
}

fn translate(options: &FilterImportArguments) -> Result<ExitCode> {
    let name = options.file.display();
    let input: Box<dyn Read> = match options.file == Path::new("-") {
        true => Box::new(stdin()),
        false => Box::new(File::open(&options.file).with_context(|| format!("'{name}' cannot be read"))?),
    };
    let mut text = String::new();
    input.take(MOST).read_to_string(&mut text).with_context(|| format!("'{name}' cannot be read"))?;
    let format = match options.format {
        RuleFormat::Guess => ImportFormat::guess(&text),
        RuleFormat::Nftables => ImportFormat::Nftables,
        RuleFormat::Classbench => ImportFormat::Classbench,
    };
    let imported = import(&text, format, options.chain.as_deref()).map_err(|reason| anyhow!("'{name}': {reason}"))?;
    if let Some(file) = &options.output {
        let failed = || format!("'{}' cannot be written", file.display());
        write_rules(&imported, File::create(file).with_context(failed)?).with_context(failed)?;
    }
    if options.json {
        print_json(&mut stdout(), &ImportReply::new(format, &imported))?;
    } else {
        if options.output.is_none() {
            write_rules(&imported, stdout())?;
        }
        for (kind, problem) in imported
            .warnings
            .iter()
            .map(|problem| ("warning", problem))
            .chain(imported.problems.iter().map(|problem| ("left out", problem)))
        {
            let file = match problem.place {
                ImportPlace::Line { .. } => format!("{name}:"),
                ImportPlace::Chain { .. } => String::new(),
            };
            writeln!(stderr(), "{kind}: {file}{problem}")?;
        }
    }
    Ok(if imported.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Writes the rules, one on each line.
fn write_rules(imported: &Imported, out: impl Write) -> std::io::Result<()> {
    let mut out = BufWriter::new(out);
    imported.rules.iter().try_for_each(|(_, rule)| writeln!(out, "{rule}"))?;
    out.flush()
}

/// The answer with `-j`.
#[derive(Serialize)]
struct ImportReply<'i> {
    /// The format of the text.
    format: &'static str,
    /// The rules in order, each with its place in the text.
    rules: Vec<ImportedRule<'i>>,
    /// The parts that have no counterpart.
    left_out: &'i [ImportProblem],
    /// Translated parts whose meaning here may surprise.
    warnings: &'i [ImportProblem],
}

/// A rule and its place.
#[derive(Serialize)]
struct ImportedRule<'i> {
    #[serde(flatten)]
    place: &'i ImportPlace,
    rule: String,
}

impl<'i> ImportReply<'i> {
    fn new(format: ImportFormat, imported: &'i Imported) -> ImportReply<'i> {
        let rule = |(place, rule): &'i (ImportPlace, FilterRule)| ImportedRule { place, rule: rule.to_string() };
        ImportReply {
            format: format.name(),
            rules: imported.rules.iter().map(rule).collect(),
            left_out: &imported.problems,
            warnings: &imported.warnings,
        }
    }
}
