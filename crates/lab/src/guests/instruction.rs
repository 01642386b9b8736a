//! `switchpath guest check` for an instruction of ephemeral state: its declarations, and the results of the conformance tests for instructions.

use super::laws::{json_law, print_laws};
use super::module_file::{ModuleFile, listed};
use anyhow::{Result, bail};
use cli::output::print_json;
use extension::{GuestInstruction, INSTRUCTION_LAWS, InstructionExamination, examine_instruction};
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
    /// Checks the instruction in a file against this many seeds.
    pub fn of(file: &ModuleFile<'_>, options: Option<&str>, seeds: u64) -> Result<InstructionCheck> {
        if options.is_some() {
            bail!("an instruction has no options");
        }
        let instruction = file.directory.load_instruction(file.name)?;
        let tried = examine_instruction(&instruction, seeds)?;
        Ok(InstructionCheck { instruction, bytes: file.bytes()?, tried })
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
        let imports = listed(&self.instruction.imports());
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
        print_laws(out, (file, "packets"), INSTRUCTION_LAWS, &tried.verdicts)
    }
}
