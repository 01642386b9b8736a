//! The rates of the shares of a tree: those below a share fit its own.

use super::{Place, Refused, ShareTree};
use crate::share::{ShareName, ShareSettings};
use units::Rate;

impl ShareTree {
    /// Checks new settings of a node whose children have this sum of guarantees.
    pub(super) fn check_rates(&self, place: Place, settings: &ShareSettings, sum: u64) -> Result<(), Refused> {
        match settings.rate {
            Some(rate) if sum > rate.get() => Err(self.too_much(place, sum, rate)),
            _ => {
                let guarantee = self.own_guarantee(settings).unwrap_or(sum);
                check_ceiling(&self.nodes[place as usize].name, settings, guarantee)
            }
        }
    }

    /// Checks the rates of a node and of those above it, when a child's guarantee changes from `old` to `new`.
    pub(super) fn check_sums(&self, from: Place, mut old: u64, mut new: u64) -> Result<(), Refused> {
        for place in self.path_up(from) {
            if new <= old {
                break;
            }
            let node = &self.nodes[place as usize];
            let sum = node.sum - old + new;
            match node.settings.rate {
                Some(rate) if sum > rate.get() => return Err(self.too_much(place, sum, rate)),
                Some(_) => break,
                None => {}
            }
            if let Some(ceiling) = node.settings.ceiling.filter(|ceiling| sum > ceiling.get()) {
                let reason = format!(
                    "the rates below {} would add up to {}, more than its ceiling of {ceiling}",
                    self.label(place),
                    Rate::bits(sum)
                );
                return Err((reason, "give lower rates, or raise the ceiling first".to_string()));
            }
            (old, new) = (node.sum, sum);
        }
        Ok(())
    }

    fn too_much(&self, place: Place, sum: u64, rate: Rate) -> Refused {
        let (label, sum) = (self.label(place), Rate::bits(sum));
        let reason = format!("the rates below {label} add up to {sum}, more than its rate of {rate}");
        (reason, format!("give lower rates below it, or {label} at least {sum}"))
    }
}

/// Checks that a ceiling is not below the guarantee.
pub(super) fn check_ceiling(name: &ShareName, settings: &ShareSettings, guarantee: u64) -> Result<(), Refused> {
    match settings.ceiling {
        Some(ceiling) if guarantee > ceiling.get() => {
            let guarantee = Rate::bits(guarantee);
            let reason = format!("the ceiling {ceiling} of '{}' is below its rate of {guarantee}", name.as_str());
            Err((reason, format!("give a ceiling of at least {guarantee}, or a lower rate")))
        }
        _ => Ok(()),
    }
}
