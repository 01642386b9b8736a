//! `switchpath guest check` for a code option of slices: its declarations, and the results of the conformance tests for code options.

use super::laws::{json_law, print_laws};
use super::module_file::{ModuleFile, listed, print_options};
use anyhow::Result;
use cli::output::print_json;
use extension::{GuestSlice, SLICE_LAWS, SliceExamination, examine_slice};
use plan::Call;
use serde_json::json;
use slice::code::GuestCodeOption;
use std::io::{Write, stdout};
use std::path::Path;
use units::declare::Declaration;

/// The results.
pub struct SliceCheck {
    guest: GuestSlice,
    declaration: Declaration,
    call: Call,
    bytes: u64,
    tried: SliceExamination,
}

impl SliceCheck {
    /// Checks the code option in a file, with options as in a configuration, against this many seeds.
    pub fn of(file: &ModuleFile<'_>, options: Option<&str>, seeds: u64) -> Result<SliceCheck> {
        let guest = file.directory.load_code_option(file.name)?;
        let (declaration, call) = file.call(guest.declared(), options)?;
        let values: Vec<u64> = call.options.iter().map(|(_, value)| *value).collect();
        let tried = examine_slice(&guest, &values, seeds)?;
        Ok(SliceCheck { guest, declaration, call, bytes: file.bytes()?, tried })
    }

    /// True if it keeps every law.
    pub fn is_good(&self) -> bool {
        self.tried.is_good()
    }

    /// For programs.
    pub fn print_json(&self, file: &Path) -> Result<()> {
        let tried = &self.tried;
        let laws: Vec<_> = SLICE_LAWS.iter().zip(&tried.verdicts).map(json_law).collect();
        let told = json!({
            "file": file.display().to_string(),
            "good": self.is_good(),
            "kind": "slice",
            "summary": self.declaration.summary,
            "code": self.call.text,
            "version": self.guest.version(),
            "bytes": self.bytes,
            "memory": tried.memory,
            "slice_memory": self.guest.memory(),
            "imports": self.guest.imports(),
            "packets": tried.packets,
            "keys": tried.keys,
            "sent": tried.sent,
            "changed": tried.changed,
            "exceptions": tried.exceptions,
            "dropped": tried.dropped,
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
        let imports = listed(&self.guest.imports());
        writeln!(
            out,
            "a code option of {} bytes, version {}; {} KiB of memory of 1024; {} bytes of a slice's memory; calls {imports}",
            self.bytes,
            self.guest.version(),
            tried.memory >> 10,
            self.guest.memory()
        )?;
        writeln!(
            out,
            "{}: {} packets, {} with a key, {} sent, {} of them changed, {} exceptions, {} dropped",
            self.call.text, tried.packets, tried.keys, tried.sent, tried.changed, tried.exceptions, tried.dropped
        )?;
        print_laws(out, (file, "a slice"), SLICE_LAWS, &tried.verdicts)
    }
}
