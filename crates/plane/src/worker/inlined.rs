//! Minimal forwarding inside the input task (spec Q-07), which the paper advises against: off unless it is wanted.

use super::paths::Paths;
use super::Worker;
use cpu::meter::Meter;
use packet::BATCH;
use units::{Nanos, PortId};

impl Worker {
    /// Forwards in the input task what has just come for paths that do nothing else and had nothing waiting (spec Q-07):
    /// nothing is overtaken, and the forwarding task is not changed to. What finds no room is left to that. Answers what it
    /// took.
    pub(super) fn run_inlined<M: Meter>(&mut self, port: PortId, meter: &mut M) -> Nanos {
        let input = self.ports.states.get(port.index()).and_then(Option::as_ref).map(|state| state.input);
        let mut touched = std::mem::take(&mut self.paths.touched);
        let mut used = Nanos::ZERO;
        for &target in &touched {
            let Some(Some(instance)) = self.paths.instances.get_mut(usize::from(target)) else { continue };
            if !std::mem::take(&mut instance.inlined) {
                continue;
            }
            let task = instance.task;
            let vector = self.run_forward(target, BATCH, meter);
            used += vector.used;
            let Worker { paths: Paths { instances, .. }, duties, fates, .. } = self;
            if let Some(input) = input {
                duties.agenda.inlined(input, task, vector.used, vector.moved);
            }
            if let Some(Some(instance)) = instances.get_mut(usize::from(target))
                && instance.has_work()
            {
                let left = instance.input.len();
                duties.came(target, instance, left, fates.now);
            }
        }
        touched.clear();
        self.paths.touched = touched;
        used
    }
}
