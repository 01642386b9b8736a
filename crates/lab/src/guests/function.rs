//! `switchpath guest check` for a packet function: its declarations, and the results of the conformance tests for functions.

use super::laws::{json_law, print_laws};
use anyhow::{Result, anyhow};
use cli::output::{Rows, print_json};
use extension::{Directory, FUNCTION_LAWS, FunctionExamination, GuestFunction, Runtime, examine_function};
use plan::Call;
use serde_json::json;
use std::io::{Write, stdout};
use std::path::Path;
use units::declare::Declaration;

/// The results.
pub struct FunctionCheck {
    function: GuestFunction,
    declaration: Declaration,
    call: Call,
    bytes: u64,
    tried: FunctionExamination,
}

impl FunctionCheck {
    /// Checks the packet function in a file, with options as in a configuration, against this many seeds. `None` if the file has no function.
    pub fn of(file: &Path, options: Option<&str>, seeds: u64) -> Result<Option<FunctionCheck>> {
        let name = file.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        let runtime = Runtime::counted().map_err(cli::guests::no_runtime)?;
        let directory = Directory::new(file.parent().unwrap_or(Path::new("")), runtime);
        if !directory.has_function(name) {
            return Ok(None);
        }
        let function = directory.load_function(name)?;
        let declaration = function.declared().declaration(&format!("guest:{name}"));
        let text = options.map_or(format!("guest:{name}"), |options| format!("guest:{name}({options})"));
        let call = Call::parse(&text, &[declaration], "guest");
        let call = call.map_err(|error| anyhow!("{}; {}", error.reason, error.hint))?;
        let tried = examine_function(&function, &call, seeds)?;
        let bytes = std::fs::metadata(file)?.len();
        Ok(Some(FunctionCheck { function, declaration, call, bytes, tried }))
    }

    /// True if it keeps every law.
    pub fn is_good(&self) -> bool {
        self.tried.is_good()
    }

    /// For programs.
    pub fn print_json(&self, file: &Path) -> Result<()> {
        let tried = &self.tried;
        let laws: Vec<_> = FUNCTION_LAWS.iter().zip(&tried.verdicts).map(json_law).collect();
        let told = json!({
            "file": file.display().to_string(),
            "good": self.is_good(),
            "kind": "function",
            "summary": self.declaration.summary,
            "function": self.call.text,
            "bytes": self.bytes,
            "memory": tried.memory,
            "imports": self.function.imports(),
            "packets": tried.packets,
            "dropped": tried.dropped,
            "changed": tried.changed,
            "rules": tried.has_rules,
            "laws": laws,
        });
        print_json(&mut stdout(), &told)
    }

    /// For people.
    pub fn print(&self, file: &Path) -> Result<()> {
        let out = &mut stdout();
        let tried = &self.tried;
        writeln!(out, "{}: {}", file.display(), self.declaration.summary)?;
        let mut rows = Rows::new(&["OPTION", "DEFAULT", "WHAT"]);
        for option in self.declaration.options {
            rows.add([option.name.into(), option.default.into(), option.doc.into()]);
        }
        rows.print(out)?;
        let imports = self.function.imports();
        let imports = if imports.is_empty() { "nothing".to_owned() } else { imports.join(", ") };
        writeln!(
            out,
            "a packet function of {} bytes; {} KiB of memory of 1024; calls {imports}",
            self.bytes,
            tried.memory >> 10
        )?;
        let rules = if tried.has_rules { "with two rules" } else { "without rules" };
        writeln!(
            out,
            "{} {rules}: {} packets, {} of them dropped, {} changed",
            self.call.text, tried.packets, tried.dropped, tried.changed
        )?;
        print_laws(out, FUNCTION_LAWS, &tried.verdicts)?;
        let all =
            if self.is_good() { "obeys every law" } else { "is unfit for a path: correct it, and check it again" };
        writeln!(out, "{} {all}", file.display())?;
        Ok(())
    }
}
