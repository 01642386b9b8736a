//! `switchpath guest check` for a packet function: its declarations, and the results of the conformance tests for functions.

use super::laws::{json_law, print_laws};
use super::module_file::{ModuleFile, listed, print_options};
use anyhow::Result;
use cli::output::print_json;
use extension::{FUNCTION_LAWS, FunctionExamination, GuestFunction, examine_function};
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
    /// Checks the packet function in a file, with options as in a configuration, against this many seeds.
    pub fn of(file: &ModuleFile<'_>, options: Option<&str>, seeds: u64) -> Result<FunctionCheck> {
        let function = file.directory.load_function(file.name)?;
        let (declaration, call) = file.call(function.declared(), options)?;
        let tried = examine_function(&function, &call, seeds)?;
        Ok(FunctionCheck { function, declaration, call, bytes: file.bytes()?, tried })
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
        print_options(out, &self.declaration)?;
        let imports = listed(&self.function.imports());
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
        print_laws(out, (file, "a path"), FUNCTION_LAWS, &tried.verdicts)
    }
}
