//! `switchpath guest build`: builds a folder into the router's guest directory.

use super::check::GuestCheck;
use super::kit::language_of;
use super::tools::{self, Missing, missing, shell};
use anyhow::{Context, Result, bail};
use cli::arguments::BuildGuest;
use extension::is_name;
use std::fs;
use std::io::{Write, stdout};
use std::path::Path;
use std::process::ExitCode;

/// Number of traffic seeds that a guest is checked with before it is installed.
const SEEDS: u64 = 8;

/// Builds and checks the guest, and installs it if it passes.
pub fn build(arguments: &BuildGuest) -> Result<ExitCode> {
    let given = &arguments.folder;
    let folder = given.canonicalize().with_context(|| given.display().to_string())?;
    let Some(language) = language_of(&folder) else {
        bail!(
            "{} has no guest: no Cargo.toml, no asconfig.json and no .c file; create one with `switchpath guest new mine \
             --language c`",
            given.display()
        );
    };
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !is_name(name) {
        bail!(
            "the guest has the name of its folder, and '{name}' is no guest name; rename the folder to at most 32 of a-z, \
             0-9, - and _, the first one a letter"
        );
    }
    let missing = missing(language, given);
    if !missing.is_empty() {
        let line = |Missing { what, how }: &Missing| format!("\n  {what}: {how}");
        let lines: String = missing.iter().map(line).collect();
        bail!("tools for a guest in {} are missing:{lines}", language.name());
    }
    let file = folder.join(name).with_extension("wasm");
    tools::build(language, &folder, &file)?;
    let shown = given.join(name).with_extension("wasm");
    let found = GuestCheck::of(&file, None, SEEDS)?;
    found.print(&shown)?;
    if !found.is_good() {
        if arguments.guests.is_some() {
            bail!("it is not copied into the directory of --guests, because it violates a law");
        }
        return Ok(ExitCode::FAILURE);
    }
    match &arguments.guests {
        Some(guests) => {
            put(&file, guests, name)?;
            let place = guests.join(name).with_extension("wasm");
            writeln!(
                stdout(),
                "copied to {}; use {}, and --guests {}",
                place.display(),
                found.named(name),
                shell(guests)
            )?;
        }
        None => writeln!(stdout(), "--guests DIR copies it into the directory where the router finds guests.")?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Installs the file atomically: a concurrent reader sees either the old file or the new one, whole.
fn put(file: &Path, guests: &Path, name: &str) -> Result<()> {
    fs::create_dir_all(guests).with_context(|| guests.display().to_string())?;
    let beside = guests.join(format!(".{name}.new"));
    fs::copy(file, &beside).with_context(|| beside.display().to_string())?;
    let place = guests.join(name).with_extension("wasm");
    fs::rename(&beside, &place).with_context(|| place.display().to_string())
}
