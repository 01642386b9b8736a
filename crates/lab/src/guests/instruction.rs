//! `switchpath guest check` for an instruction of ephemeral state: its declarations, and the results of the conformance tests for instructions.

use super::laws::{json_law, print_laws};
use anyhow::{Result, bail};
use cli::output::print_json;
use extension::{Directory, GuestInstruction, INSTRUCTION_LAWS, InstructionExamination, Runtime, examine_instruction};
use serde_json::json;
use std::io::{Write, stdout};
use std::path::Path;

/// The results.
pub struct InstructionCheck {
    instruction: GuestInstruction,
    bytes: u64,
    tried: InstructionExamination,
}

impl InstructionCheck {
    /// Checks the instruction in a file against this many seeds. `None` if the file has no instruction.
    pub fn of(file: &Path, options: Option<&str>, seeds: u64) -> Result<Option<InstructionCheck>> {
        let name = file.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        let directory = Directory::new(
            file.parent().unwrap_or(Path::new("")),
            Runtime::counted().map_err(cli::guests::no_runtime)?,
        );
        if !directory.has_instruction(name) {
            return Ok(None);
        }
        if options.is_some() {
            bail!("an instruction has no options");
        }
        let instruction = directory.load_instruction(name)?;
        let tried = examine_instruction(&instruction, seeds)?;
        Ok(Some(InstructionCheck { instruction, bytes: std::fs::metadata(file)?.len(), tried }))
    }

    /// True if it keeps every law.
    pub fn is_good(&self) -> bool {
        self.tried.is_good()
    }

    /// For programs.
    pub fn print_json(&self, file: &Path) -> Result<()> {
        let (text, tried) = (self.instruction.text(), &self.tried);
        let laws: Vec<_> = INSTRUCTION_LAWS.iter().zip(&tried.verdicts).map(json_law).collect();
        let told = json!({
            "file": file.display().to_string(),
            "good": self.is_good(),
            "kind": "instruction",
            "summary": text.summary,
            "bytes": self.bytes,
            "tags": text.tags,
            "creates": text.creates,
            "imports": self.instruction.imports(),
            "forwarded": tried.forwarded,
            "rewritten": tried.rewritten,
            "dropped": tried.dropped,
            "aborted": tried.aborted,
            "created": tried.created,
            "laws": laws,
        });
        print_json(&mut stdout(), &told)
    }

    /// For people.
    pub fn print(&self, file: &Path) -> Result<()> {
        let out = &mut stdout();
        let (text, tried) = (self.instruction.text(), &self.tried);
        writeln!(out, "{}: {}", file.display(), text.summary)?;
        let imports = self.instruction.imports();
        let imports = if imports.is_empty() { "nothing".to_owned() } else { imports.join(", ") };
        writeln!(
            out,
            "an instruction of {} bytes; {} tags, at most {} of them created; calls {imports}",
            self.bytes, text.tags, text.creates
        )?;
        writeln!(
            out,
            "calls: {} forwarded, {} of them with another value, {} dropped, {} aborted",
            tried.forwarded, tried.rewritten, tried.dropped, tried.aborted
        )?;
        print_laws(out, INSTRUCTION_LAWS, &tried.verdicts)?;
        let all =
            if self.is_good() { "obeys every law" } else { "is unfit for packets: correct it, and check it again" };
        writeln!(out, "{} {all}", file.display())?;
        Ok(())
    }
}
