//! `switchpath filter`: rules of other programs in the language of this router.

use crate::arguments::{FilterArguments, FilterCommand, FilterImportArguments, RuleFormat};
use anyhow::{Context, Result, anyhow};
use plan::import::{ImportFormat, import};
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
    let out: Box<dyn Write> = match &options.output {
        Some(file) => Box::new(File::create(file).with_context(|| format!("'{}' cannot be written", file.display()))?),
        None => Box::new(stdout()),
    };
    let mut out = BufWriter::new(out);
    imported.rules.iter().try_for_each(|rule| writeln!(out, "{rule}"))?;
    out.flush()?;
    for problem in &imported.problems {
        writeln!(stderr(), "left out: {problem}")?;
    }
    Ok(if imported.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
