//! Whether paths get their shares: what agendas note is followed all the time, and judged whenever a point of the series
//! is looked at.

use super::core::Core;
use super::{Live, Node};
use crate::check::{Fairness, Lag, Law};
use cpu::trace::Trace;
use plan::{Charge, CpuPlan, Discipline};
use plane::TaskReport;
use std::collections::BTreeMap;

/// Steps after which what was noted is followed.
pub(super) const FOLLOWED: u32 = 256;
/// What is kept of it: some sixty notes a step.
const KEPT: usize = 64 * FOLLOWED as usize;

/// Who follows what the agenda of a core notes.
pub(super) struct Following {
    /// Whether its tasks get their shares.
    fairness: Fairness,
    /// Where it notes next.
    spare: Option<Box<Trace>>,
    /// Somebody else looks at its notes.
    watched: bool,
}

impl Following {
    pub fn new() -> Following {
        Following { fairness: Fairness::default(), spare: Some(Box::new(Trace::new(KEPT))), watched: false }
    }
}

impl Core {
    /// Its tasks have other shares: what was noted until now says nothing of what comes.
    pub fn entitle(&mut self, cpu: &CpuPlan) {
        let tasks = self.follow();
        let fairness = &mut self.following.fairness;
        fairness.begin_anew();
        // Where less is promised than there is, all get as much more.
        let promised: f64 = tasks.iter().map(|task| task.view.share.as_f64()).sum();
        let goes_by_shares = !matches!(cpu.scheduler, Discipline::RoundRobin | Discipline::Drr);
        for task in &tasks {
            // What a port would have for its tasks nobody knows, and who pays for switches gets less work for a share.
            let known = task.kind == "forwarding" && goes_by_shares && cpu.charge == Charge::None;
            fairness.entitle(task.task, if known { task.view.share.as_f64() / promised } else { 0.0 });
        }
    }

    /// Follows what its agenda has noted. Answers its tasks.
    #[cold]
    pub fn follow(&mut self) -> Vec<TaskReport> {
        self.unfollowed = 0;
        if self.following.watched {
            return Vec::new();
        }
        let watched = self.worker.watch(self.following.spare.take());
        if let Some(mut trace) = watched.trace {
            if trace.lost() > 0 {
                self.following.fairness.begin_anew();
            }
            self.following.fairness.follow(trace.records());
            trace.clear();
            self.following.spare = Some(trace);
        }
        // The first time there is none yet to go on with.
        self.following.spare.get_or_insert_with(|| Box::new(Trace::new(KEPT)));
        watched.tasks
    }

    /// Somebody else looks at what its agenda notes: nobody follows it.
    pub fn leave(&mut self) {
        self.following.watched = true;
    }

    /// How far each of its paths was behind at most, since the beginning.
    fn lags(&mut self) -> Vec<(TaskReport, Lag)> {
        let tasks = self.follow().into_iter().filter(|task| task.kind == "forwarding");
        let fairness = &mut self.following.fairness;
        tasks.map(|task| (fairness.look(task.task, task.view.state), task)).map(|(lag, task)| (task, lag)).collect()
    }
}

/// What a task may be behind at most.
fn bound(lag: &Lag, discipline: Discipline) -> u64 {
    match discipline {
        // The runs of all others may come first.
        Discipline::Sfq | Discipline::Stride => lag.own + lag.others,
        _ => lag.own + lag.other,
    }
}

impl Live<'_> {
    /// Looks whether the paths of every core have got their shares.
    pub(super) fn is_fair(&mut self, time: u64) {
        for index in 0..self.cores.len() {
            let node = self.cores[index].node;
            let Node { plan, pending, .. } = &self.nodes[node];
            let discipline = plan.plan.cpu.scheduler;
            if pending.is_some() {
                continue;
            }
            for (task, lag) in self.cores[index].lags() {
                // Twice, as what a run takes is not known before it is over: whoever was thought short may have been long.
                let most = 2 * bound(&lag, discipline);
                if lag.worst <= most as f64 {
                    continue;
                }
                let (name, router) = (self.task_name(node, &task), &self.nodes[node].plan.name);
                let what = || {
                    let name = name.unwrap_or_default();
                    format!("task {name} of router {router} is {:.0} ns behind its share, over {most}", lag.worst)
                };
                self.outside.lock().violations.add(time, Law::Fairness, what);
            }
        }
    }

    /// How far paths were behind.
    pub(super) fn fair_values(&mut self, node: usize, values: &mut BTreeMap<String, f64>) {
        let (prefix, discipline) = (self.prefix(node), self.nodes[node].plan.plan.cpu.scheduler);
        let lags: Vec<(TaskReport, Lag)> =
            self.cores.iter_mut().filter(|core| core.node == node).flat_map(Core::lags).collect();
        for (task, lag) in lags {
            let Some(name) = self.task_name(node, &task) else { continue };
            let mut put = |key: &str, value: f64| {
                let most = values.entry(format!("{prefix}task.{name}.{key}")).or_default();
                *most = most.max(value);
            };
            put("behind_max_us", lag.worst / 1e3);
            put("behind_bound_us", bound(&lag, discipline) as f64 / 1e3);
        }
    }
}
