//! `switchpath guest check` for a code option of slices: its declarations, and the results of the conformance tests for code options.

use super::laws::{json_law, print_laws};
use anyhow::{Result, anyhow};
use cli::output::{Rows, print_json};
use extension::{Directory, GuestSlice, Runtime, SLICE_LAWS, SliceExamination, examine_slice};
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
    /// Checks the code option in a file, with options as in a configuration, against this many seeds. `None` if the file has no code option.
    pub fn of(file: &Path, options: Option<&str>, seeds: u64) -> Result<Option<SliceCheck>> {
        let name = file.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        let runtime = Runtime::counted().map_err(cli::guests::no_runtime)?;
        let directory = Directory::new(file.parent().unwrap_or(Path::new("")), runtime);
        if !directory.has_code_option(name) {
            return Ok(None);
        }
        let guest = directory.load_code_option(name)?;
        let declaration = guest.declared().declaration(&format!("guest:{name}"));
        let text = options.map_or(format!("guest:{name}"), |options| format!("guest:{name}({options})"));
        let call = Call::parse(&text, &[declaration], "guest");
        let call = call.map_err(|error| anyhow!("{}; {}", error.reason, error.hint))?;
        let values: Vec<u64> = call.options.iter().map(|(_, value)| *value).collect();
        let tried = examine_slice(&guest, &values, seeds)?;
        let bytes = std::fs::metadata(file)?.len();
        Ok(Some(SliceCheck { guest, declaration, call, bytes, tried }))
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
        if !self.declaration.options.is_empty() {
            let mut rows = Rows::new(&["OPTION", "DEFAULT", "WHAT"]);
            for option in self.declaration.options {
                rows.add([option.name.into(), option.default.into(), option.doc.into()]);
            }
            rows.print(out)?;
        }
        let imports = self.guest.imports();
        let imports = if imports.is_empty() { "nothing".to_owned() } else { imports.join(", ") };
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
        print_laws(out, SLICE_LAWS, &tried.verdicts)?;
        let all =
            if self.is_good() { "obeys every law" } else { "is unfit for a slice: correct it, and check it again" };
        writeln!(out, "{} {all}", file.display())?;
        Ok(())
    }
}
