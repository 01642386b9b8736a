//! `switchpath guest new`: creates a folder with a working scheme to start from.

use super::kit::{EXAMPLES, GuestTemplate};
use super::tools::{Missing, missing, shell};
use anyhow::{Context, Result, bail};
use cli::arguments::{GuestKind, NewGuest, UsageError};
use extension::is_name;
use std::fs::{self, OpenOptions};
use std::io::{Write, stdout};
use std::path::Path;
use std::process::ExitCode;

/// Writes the folder and prints the next steps.
pub fn create(arguments: &NewGuest) -> Result<ExitCode> {
    let folder = &arguments.folder;
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !is_name(name) {
        let rule = "a guest's name has at most 32 of a-z, 0-9, - and _, the first one a letter";
        return Err(UsageError(format!("'{}' is no guest name; {rule}", folder.display())).into());
    }
    let example = arguments.example.as_ref().and_then(|wanted| EXAMPLES.iter().find(|example| example.name == wanted));
    let language = arguments.language.or(example.map(|example| example.language));
    let Some(language) = language else { bail!("no language given; write --language c, rust or assemblyscript") };
    let kind = example.map_or(arguments.kind, |example| example.kind);
    let start = GuestTemplate::new(name, language, kind, example);
    write(folder, &start)?;
    let out = &mut stdout();
    writeln!(out, "{} is a guest in {}:", folder.display(), language.name())?;
    let what = match kind {
        GuestKind::Scheme => "the scheme: change this file",
        GuestKind::Function => "the function: change this file",
        GuestKind::Slice => "the code option: change this file",
    };
    let places = [(start.scheme, what), (start.kit, "build files")];
    let places = places.map(|(place, what)| (folder.join(place).display().to_string(), what));
    let width = places.iter().map(|(place, _)| place.len()).max().unwrap_or(0);
    for (place, what) in places {
        writeln!(out, "  {place:width$}  {what}")?;
    }
    writeln!(out, "Next:")?;
    for Missing { what, how } in missing(language, folder) {
        writeln!(out, "  {how}    # {what}")?;
    }
    writeln!(out, "  switchpath guest build {} --guests guests", shell(folder))?;
    match kind {
        GuestKind::Function => {
            writeln!(out, "  functions = [\"guest:{name}\", \"ip\"]    # in the configuration, under a [[path]]")?;
        }
        GuestKind::Slice => {
            let to = "on a router that was started with --guests guests";
            writeln!(out, "  switchpath slice create NAME code guest:{name}    # {to}")?;
            return Ok(ExitCode::SUCCESS);
        }
        GuestKind::Scheme if start.is_instruction() => {
            writeln!(out, "  [state.instruction.{name}]")?;
            writeln!(out, "  number = 128    # in the configuration")?;
        }
        GuestKind::Scheme => {
            writeln!(out, "  scheme = \"guest:{name}\"    # in the configuration, under a port")?;
        }
    }
    writeln!(
        out,
        "  switchpath apply router.toml --guests guests    # to a router that was started with --guests guests"
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Writes all files, or none if one of them exists already.
fn write(folder: &Path, start: &GuestTemplate) -> Result<()> {
    let entries = folder.read_dir().map(|mut entries| entries.next().is_some());
    if entries.unwrap_or(folder.exists()) {
        bail!("{} exists already; choose another name", folder.display());
    }
    for (place, text) in &start.files {
        let path = folder.join(place);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
        let mut file = OpenOptions::new().write(true).create_new(true).open(&path);
        file.as_mut()
            .map_or_else(|error| Err(std::io::Error::from(error.kind())), |file| file.write_all(text.as_bytes()))
            .with_context(|| path.display().to_string())?;
    }
    Ok(())
}
