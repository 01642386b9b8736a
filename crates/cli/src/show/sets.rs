//! `switchpath show sets` and `switchpath set list`.

use super::ShowView;
use crate::output::{Rows, or_dash, short, span, time_of_day};
use anyhow::Result;
use control::api;
use std::io::Write;

impl ShowView for api::SetsReply {
    fn table(&self, _: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        if self.sets.is_empty() {
            return Ok(writeln!(out, "no sets: the configuration has no [set.NAME]")?);
        }
        let mut rows =
            Rows::new(&["set", "type", ">elements", ">size", ">memory", "last change", ">next expiry", "file"]);
        for set in &self.sets {
            rows.add([
                set.name.clone(),
                set.kind.clone(),
                set.elements.to_string(),
                set.size.to_string(),
                format!("{}B", short(set.memory_bytes as f64)),
                time_of_day(set.changed_ns),
                or_dash(set.next_expiry_ns.map(span).as_deref()),
                or_dash(set.file.as_deref()),
            ]);
        }
        rows.print(out)
    }
}

impl ShowView for api::SetElements {
    fn table(&self, _: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        let mut rows = Rows::new(&["element", ">expires in"]);
        for element in &self.elements {
            rows.add([element.element.clone(), or_dash(element.left_ns.map(span).as_deref())]);
        }
        rows.print(out)?;
        if let Some(next) = &self.next {
            writeln!(out, "{} of {} elements; see --first {next} and --limit", self.elements.len(), self.set.elements)?;
        }
        Ok(())
    }
}
