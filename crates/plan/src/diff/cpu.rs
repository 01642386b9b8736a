//! What differs in how the processor is divided: `[cpu]`.

use super::{Change, edit, or_none};
use crate::cpu::CpuPlan;

/// Adds what differs, where something does.
pub(super) fn cpu(old: &CpuPlan, new: &CpuPlan, changes: &mut Vec<Change>) {
    let mut what = Vec::new();
    edit(&mut what, "layout", old.layout, new.layout);
    edit(&mut what, "scheduler", old.scheduler, new.scheduler);
    edit(&mut what, "receive", old.receive, new.receive);
    edit(&mut what, "input", old.input, new.input);
    edit(&mut what, "forwarding", old.forwarding, new.forwarding);
    edit(&mut what, "output", old.output, new.output);
    edit(&mut what, "vector", or_none(&old.vector), or_none(&new.vector));
    edit(&mut what, "charge", old.charge, new.charge);
    edit(&mut what, "switch_cost", or_none(&old.switch_cost), or_none(&new.switch_cost));
    edit(&mut what, "strict", old.strict, new.strict);
    edit(&mut what, "harvest", old.harvest, new.harvest);
    edit(&mut what, "max_wait", or_none(&old.max_wait), or_none(&new.max_wait));
    edit(&mut what, "tune", or_none(&old.tune), or_none(&new.tune));
    edit(&mut what, "input_share", old.input_share, new.input_share);
    let ratio = |cpu: &CpuPlan| cpu.balance.map(|part| part.to_string()).join(":");
    edit(&mut what, "balance", ratio(old), ratio(new));
    edit(&mut what, "best_effort", old.best_effort, new.best_effort);
    edit(&mut what, "admission", old.admission, new.admission);
    edit(&mut what, "classify_budget", or_none(&old.classify_budget), or_none(&new.classify_budget));
    edit(&mut what, "inline", old.inline, new.inline);
    if !what.is_empty() {
        changes.push(Change::CpuChanged { what });
    }
}
