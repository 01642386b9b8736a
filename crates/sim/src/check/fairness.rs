//! The fairness bound: how far a task that always has something to do falls behind what its share entitles it to.

use std::collections::BTreeMap;

/// What is known of a task at one moment.
#[derive(Clone, PartialEq, Debug)]
pub struct Claim {
    /// Its part of the processor, of all parts together one at most.
    pub share: f64,
    /// Time it was charged with since the beginning, in nanoseconds.
    pub used: u64,
    /// Time since the beginning that it had nothing to do, in nanoseconds: where this stays, it was backlogged throughout.
    pub idle: u64,
    /// The longest it has run at once, in nanoseconds.
    pub longest: u64,
}

/// Follows the tasks of one core by looks at them now and then.
///
/// Between two looks between which a task was backlogged throughout, and tasks together were charged `work`, it is
/// entitled to `share * work`. It may lag behind that by its own longest run and the longest of all others, as runs are
/// not interrupted (Bennett and Zhang 1997, theorem 3, with runs for packets), and by as much again for each end of the
/// interval, as it does not begin where service does.
#[derive(Debug, Default)]
pub struct Fairness {
    /// Of each task that has been backlogged since: what it was then, and the work of all.
    since: BTreeMap<String, (Claim, u64)>,
    /// The greatest lag seen, in nanoseconds, and whose.
    pub worst: Option<(f64, String)>,
}

impl Fairness {
    /// Looks at all tasks of the core. Answers those that lag by more than the bound: name, lag and bound.
    pub fn look(&mut self, tasks: &BTreeMap<String, Claim>) -> Vec<(String, f64, f64)> {
        let work: u64 = tasks.values().map(|task| task.used).sum();
        let mut late = Vec::new();
        for (name, task) in tasks {
            let begun = self.since.get(name).filter(|(then, _)| then.idle == task.idle && then.share == task.share);
            let Some((then, before)) = begun else {
                self.since.insert(name.clone(), (task.clone(), work));
                continue;
            };
            let others = tasks.iter().filter(|(other, _)| *other != name).map(|(_, other)| other.longest).max();
            let bound = 2.0 * (task.longest + others.unwrap_or(0)) as f64;
            let lag = task.share * work.saturating_sub(*before) as f64 - (task.used - then.used) as f64;
            if self.worst.as_ref().is_none_or(|(worst, _)| lag > *worst) {
                self.worst = Some((lag, name.clone()));
            }
            if lag > bound {
                late.push((name.clone(), lag, bound));
            }
        }
        self.since.retain(|name, _| tasks.contains_key(name));
        late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(fairness: &mut Fairness, tasks: &[(&str, f64, u64, u64)]) -> Vec<String> {
        let claim = |&(name, share, used, idle): &(&str, f64, u64, u64)| {
            (name.to_owned(), Claim { share, used, idle, longest: 10 })
        };
        fairness.look(&tasks.iter().map(claim).collect()).into_iter().map(|(name, ..)| name).collect()
    }

    #[test]
    fn a_backlogged_task_that_is_starved_is_found_and_an_idle_one_is_not() {
        let mut fairness = Fairness::default();
        let nobody: [String; 0] = [];
        assert_eq!(look(&mut fairness, &[("a", 0.5, 0, 0), ("b", 0.5, 0, 0)]), nobody);
        assert_eq!(look(&mut fairness, &[("a", 0.5, 500, 0), ("b", 0.5, 480, 0)]), nobody);
        // 900 more for `a` and 100 for `b`, which had something to do all the time.
        assert_eq!(look(&mut fairness, &[("a", 0.5, 1400, 0), ("b", 0.5, 580, 0)]), ["b"]);
        assert_eq!(fairness.worst.as_ref().unwrap().1, "b");
        let mut fairness = Fairness::default();
        look(&mut fairness, &[("a", 0.5, 0, 0), ("b", 0.5, 0, 0)]);
        assert_eq!(look(&mut fairness, &[("a", 0.5, 1400, 0), ("b", 0.5, 0, 700)]), nobody, "it had nothing to do");
    }
}
