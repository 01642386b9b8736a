//! `switchpath guest`: creates, builds, checks and measures guests.

mod bench;
mod build;
mod check;
mod create;
mod function;
mod instruction;
mod kit;
mod laws;
mod module_file;
mod slice;
mod tools;

use anyhow::{Result, anyhow};
use cli::arguments::{GuestArguments, GuestCommand};
use cli::guests::catalogue;
use extension::{Directory, GuestProgram, Runtime};
use io::clock;
use plan::Call;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use units::Nanos;
use units::declare::Declaration;

/// Creates, builds, checks or measures guests.
pub fn guest(arguments: &GuestArguments) -> Result<ExitCode> {
    match &arguments.of {
        GuestCommand::New(new) => create::create(new),
        GuestCommand::Build(options) => build::build(options),
        GuestCommand::Check(options) => check::check(options),
        GuestCommand::Bench(options) => bench::bench(options),
    }
}

/// A guest from a file, under its name in a configuration.
struct Named {
    program: GuestProgram,
    declaration: Declaration,
    call: Call,
    /// The time to read and compile it.
    compile: Nanos,
}

impl Named {
    /// Loads NAME.wasm. `options` is the text between the parentheses in a configuration.
    fn find(file: &Path, options: Option<&str>, runtime: Runtime) -> Result<Named> {
        let name = file.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        if file.extension().is_none_or(|extension| extension != "wasm") {
            let hint = "a guest is a file NAME.wasm; create it with `switchpath guest build`";
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

    /// The values of its options, in order.
    fn values(&self) -> Vec<u64> {
        self.call.options.iter().map(|(_, value)| *value).collect()
    }
}
