//! A module that is checked: its file, and its call with options as in a configuration.

use anyhow::{Result, anyhow};
use cli::output::Rows;
use extension::{Directory, GuestDescription, Runtime};
use plan::Call;
use std::io::Write;
use std::path::Path;
use units::declare::Declaration;

/// See the [module](self).
pub struct ModuleFile<'f> {
    path: &'f Path,
    pub name: &'f str,
    pub directory: Directory,
}

impl<'f> ModuleFile<'f> {
    pub fn new(path: &'f Path) -> Result<ModuleFile<'f>> {
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        let runtime = Runtime::counted().map_err(cli::guests::no_runtime)?;
        Ok(ModuleFile { path, name, directory: Directory::new(path.parent().unwrap_or(Path::new("")), runtime) })
    }

    /// Its length.
    pub fn bytes(&self) -> Result<u64> {
        Ok(std::fs::metadata(self.path)?.len())
    }

    /// Its declaration under its name in a configuration, and a call. `options` is the text between the parentheses.
    pub fn call(&self, declared: &GuestDescription, options: Option<&str>) -> Result<(Declaration, Call)> {
        let name = format!("guest:{}", self.name);
        let declaration = declared.declaration(&name);
        let text = options.map_or(name.clone(), |options| format!("{name}({options})"));
        let call = Call::parse(&text, &[declaration], "guest");
        Ok((declaration, call.map_err(|error| anyhow!("{}; {}", error.reason, error.hint))?))
    }
}

/// A table of the options of a guest.
pub fn print_options(out: &mut dyn Write, declaration: &Declaration) -> Result<()> {
    if declaration.options.is_empty() {
        return Ok(());
    }
    let mut rows = Rows::new(&["OPTION", "DEFAULT", "WHAT"]);
    for option in declaration.options {
        rows.add([option.name.into(), option.default.into(), option.doc.into()]);
    }
    rows.print(out)
}

/// The imports of a guest in a sentence.
pub fn listed(imports: &[String]) -> String {
    if imports.is_empty() { "nothing".to_owned() } else { imports.join(", ") }
}
