//! The rules of a generation: the shares and limits of tasks, and the order in which the packets of paths leave.

use super::super::paths::Paths;
use super::super::ports::Ports;
use crate::classify::Target;
use crate::path::Instance;
use crate::snapshot::{CONTROL, GENERAL, Layout, Snapshot};
use crate::worker::Worker;
use crate::worker::paths::{TaskKey, terms_of};
use crate::worker::task_table::Task;
use cpu::Ring;
use cpu::task::TaskTerms;
use plan::{Congestion, Receive};
use std::collections::BTreeMap;
use std::sync::Arc;
use units::Instant;

impl Worker {
    /// The scheduling rules of `snapshot` are in force, for tasks and ports that were there before as well.
    pub(in crate::worker) fn apply_rules(&mut self, snapshot: &Snapshot, now: Instant) {
        self.tasks.run_queue.configure(&snapshot.cpu, now);
        self.ports.interrupted = (snapshot.cpu.receive == Receive::Interrupt).then_some(0);
        for (port, state) in self.ports.states.open_mut() {
            let Some(view) = snapshot.port(port) else { continue };
            state.link.set_measuring(view.objective.is_some());
            state.throttles = view.cpu.congestion == Congestion::Throttle;
            let agenda = &mut self.tasks.run_queue;
            let terms = |share| TaskTerms { share, max_wait: None, capacity: u32::MAX, cost: None, prompt: false };
            agenda.set(state.input, terms(view.shares.input));
            agenda.set(state.output, terms(view.shares.output));
            // In the other layouts the forwarding task of a path transmits as well, in the path's own share.
            let wanted = snapshot.layout == Layout::Three && !state.reserved.is_empty();
            match (wanted, state.reserved_output) {
                (true, Some(task)) => agenda.set(task, terms(view.shares.reserved)),
                (true, None) => {
                    let task = self.tasks.add(Task::Reserved(port), terms(view.shares.reserved), now);
                    state.reserved_output = Some(task);
                }
                (false, Some(task)) => {
                    state.reserved_output = None;
                    self.tasks.remove(task, now);
                }
                (false, None) => {}
            }
            let agenda = &mut self.tasks.run_queue;
            // `estimate` replaces the batch by the packet limit of an input run.
            let ring = Ring { slots: state.link.port.ring_size(), batch: 1, line_rate: view.cpu.line_rate };
            // In interrupt mode no input task runs, so an estimator would get no samples.
            let estimator = view.cpu.estimator.filter(|_| self.ports.interrupted.is_none());
            agenda.estimate(state.input, estimator, view.cpu.greedy, ring, now);
            match self.ports.interrupted {
                Some(_) => agenda.stop_polling(state.input, now),
                None => agenda.wake(state.input, now),
            }
        }
        let inlines = snapshot.cpu.inline && snapshot.layout != Layout::One && self.ports.interrupted.is_none();
        let mut sums: BTreeMap<TaskKey, TaskTerms> = BTreeMap::new();
        for path in &snapshot.paths {
            let of = |instance: &&mut Instance| instance.path == path.id;
            let minimal = inlines
                && path.cpu.limit.is_none()
                && !path.cpu.preemptible
                && path.functions.iter().all(|call| call.name == "ip");
            for instance in self.paths.instances.iter_mut().filter(of) {
                instance.limit = path.cpu.limit;
                // The local protocols are not forwarding, and never run in an input task.
                instance.may_inline = minimal && instance.port.is_some() && path.id != CONTROL && path.id != GENERAL;
            }
            let terms = terms_of(path);
            let together = |sum: &mut TaskTerms| sum.join(terms);
            // Paths with a common task: it gets the sum of their shares and the strictest of their limits.
            sums.entry(TaskKey::of(path, snapshot.cpu.best_effort)).and_modify(together).or_insert(terms);
        }
        for (common, terms) in &sums {
            if let Some(&task) = self.paths.forwarders.get(common) {
                self.tasks.run_queue.set(task, *terms);
            }
        }
        let Worker { paths: Paths { forwarders, .. }, tasks, .. } = self;
        // The instances refer to other tasks by now, so the tasks of keys without a path can go.
        forwarders.retain(|common, &mut task| {
            let kept = sums.contains_key(common);
            if !kept {
                tasks.remove(task, now);
            }
            kept
        });
    }

    /// Changes the division of the processor in the running or the pending generation to that of this snapshot.
    pub(super) fn apply_shares(&mut self, snapshot: Arc<Snapshot>, now: Instant) {
        if let Some(change) = &mut self.adoption.pending
            && change.snapshot.generation == snapshot.generation
        {
            // `adopt` applies its rules. Shares for any other generation are out of date.
            change.snapshot = snapshot;
        } else if self.snapshot.generation == snapshot.generation {
            self.apply_rules(&snapshot, now);
            self.paths.set_flow_rates(&snapshot, now);
            self.paths.set_reserved_rates(&snapshot, &mut self.tasks);
            // Shares of flows may have changed too: an idle link would look only later.
            self.ports.states.iter_mut().for_each(|state| state.link.carry_out_shares());
            self.snapshot = snapshot;
        }
    }
}

impl Ports {
    /// Sorts the paths of each port in the order in which its output tasks serve them. Paths with a reservation come first, or the highest class
    /// if the scheme ranks classes (spec Q-04). Equal paths keep their order of matching.
    pub(in crate::worker) fn rank_outputs(&mut self, paths: &mut Paths) {
        let Ports { states: ports, .. } = self;
        let Paths { instances, .. } = paths;
        let instance = |target: &Target| instances.get(*target);
        let class = |target: &Target| instance(target).map(|instance| instance.class);
        let is_reserved = |target: &Target| instance(target).is_some_and(|instance| instance.allowance.is_some());
        for state in ports.iter_mut() {
            match state.link.ranks_classes() {
                true => state.outputs.sort_by_key(|target| (std::cmp::Reverse(class(target)), *target)),
                false => state.outputs.sort_by_key(|target| (!is_reserved(target), *target)),
            }
            (state.reserved, state.shared) = state.outputs.iter().partition(|target| is_reserved(target));
        }
    }
}
