//! Guests: where those of a configuration come from, and `switchpath guest`, which makes them.

mod begin;
mod build;
mod check;
mod instruction;
mod kit;
mod measure;
mod tools;

use crate::arguments::{Guest, GuestDirectory, OfGuest};
use anyhow::{Error, Result, anyhow};
use extension::{Directory, Program, Runtime};
use io::clock;
use plan::{Call, Catalogue, Guests};
use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use units::Nanos;
use units::declare::Declaration;

/// The directory that was named, if one was.
pub fn directory(arguments: &GuestDirectory) -> Result<Option<Arc<dyn Guests>>> {
    from(arguments, || Runtime::timed(clock::processor_time))
}

/// The same for simulations: what a guest may do is counted in instructions, so that every run is the same.
pub fn counted(arguments: &GuestDirectory) -> Result<Option<Arc<dyn Guests>>> {
    from(arguments, Runtime::counted)
}

fn from<E: Display>(
    arguments: &GuestDirectory,
    runtime: impl FnOnce() -> Result<Runtime, E>,
) -> Result<Option<Arc<dyn Guests>>> {
    let Some(path) = &arguments.guests else { return Ok(None) };
    let runtime = runtime().map_err(no_runtime)?;
    Ok(Some(Arc::new(Directory::new(path, runtime))))
}

/// What a configuration may name.
pub fn catalogue(guests: Option<Arc<dyn Guests>>) -> Catalogue {
    Catalogue { guests, ..plane::catalogue() }
}

fn no_runtime(error: impl Display) -> Error {
    anyhow!("guests cannot run on this machine: {error:#}")
}

/// Makes, builds, checks or measures guests.
pub fn guest(arguments: &Guest) -> Result<ExitCode> {
    match &arguments.of {
        OfGuest::New(new) => begin::begin(new),
        OfGuest::Build(options) => build::build(options),
        OfGuest::Check(options) => check::check(options),
        OfGuest::Bench(options) => measure::bench(options),
    }
}

/// The names of the published schemes that a guest can be begun with.
pub fn examples() -> impl Iterator<Item = &'static str> {
    kit::EXAMPLES.iter().map(|example| example.name)
}

/// A guest from a file, as a configuration would name it.
struct Named {
    program: Program,
    declaration: Declaration,
    call: Call,
    /// How long it took to read and compile it.
    compile: Nanos,
}

impl Named {
    /// NAME.wasm, with options as they stand between the parentheses.
    fn find(file: &Path, options: Option<&str>, runtime: Runtime) -> Result<Named> {
        let name = file.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        if file.extension().is_none_or(|extension| extension != "wasm") {
            let hint = "a guest is a file NAME.wasm; `switchpath guest build` makes one";
            return Err(anyhow!("{} is no guest; {hint}", file.display()));
        }
        let directory = Directory::new(file.parent().unwrap_or(Path::new("")), runtime);
        let start = clock::now();
        let program = directory.load(name)?;
        let compile = clock::now().since(start);
        let declaration = program.declared().declaration(&format!("guest:{name}"));
        let text = options.map_or(format!("guest:{name}"), |options| format!("guest:{name}({options})"));
        let catalogue = catalogue(Some(Arc::new(directory)));
        let call = Call::scheme(&text, &catalogue).map_err(|error| anyhow!("{}; {}", error.reason, error.hint))?;
        Ok(Named { program, declaration, call, compile })
    }

    /// The values of its options, in their order.
    fn values(&self) -> Vec<u64> {
        self.call.options.iter().map(|(_, value)| *value).collect()
    }
}
