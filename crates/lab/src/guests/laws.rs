//! The output of `switchpath guest check` about laws, for guests of every kind.

use anyhow::Result;
use cli::output::Rows;
use extension::{LawVerdict, LawViolation};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;

/// A table of the laws, a line for each broken one, and whether the guest in a file is fit for `purpose`.
pub fn print_laws(
    out: &mut dyn Write,
    (file, purpose): (&Path, &str),
    laws: &[(&str, &str)],
    verdicts: &[LawVerdict],
) -> Result<()> {
    let mut rows = Rows::new(&["LAW", "KEPT", "WHICH SAYS THAT"]);
    for ((law, means), verdict) in laws.iter().zip(verdicts) {
        let kept = match (&verdict.broken, verdict.runs) {
            (Some(_), _) => "NO",
            (None, 0) => "-",
            (None, _) => "yes",
        };
        rows.add([(*law).into(), kept.into(), (*means).into()]);
    }
    rows.print(out)?;
    for verdict in verdicts {
        if let Some(case) = &verdict.broken {
            writeln!(out, "BROKEN {}: {case}", verdict.law)?;
        }
    }
    let file = file.display();
    if LawVerdict::hold(verdicts) {
        writeln!(out, "{file} obeys every law")?;
    } else {
        writeln!(out, "{file} is unfit for {purpose}: correct it, and check it again")?;
    }
    Ok(())
}

/// A law with its verdict, for programs.
pub fn json_law(((law, means), verdict): (&(&str, &str), &LawVerdict)) -> Value {
    let broken = verdict.broken.as_ref().map(|LawViolation { reason: how, seed, round, circumstance }| {
        json!({ "how": how, "seed": seed, "round": round, "circumstance": circumstance })
    });
    json!({ "law": law, "means": means, "tried": verdict.runs, "broken": broken })
}
