//! Forwarding inside the input task: all of it in the layout of one task, and minimal forwarding (spec Q-07), which the paper advises
//! against, where it is wanted.

use super::Worker;
use super::paths::Paths;
use crate::path::Instance;
use cpu::meter::Meter;
use packet::BATCH;
use units::{Nanos, PortId};

impl Worker {
    /// Forwards in the input task what has just come for paths that do nothing else and had nothing waiting (spec Q-07):
    /// nothing is overtaken, and the forwarding task is not changed to. What finds no room is left to that. Answers what it
    /// took.
    pub(super) fn run_inlined<M: Meter>(&mut self, port: PortId, meter: &mut M) -> Nanos {
        let input = self.ports.states.get(port).map(|state| state.input);
        let mut touched = std::mem::take(&mut self.paths.touched);
        let mut used = Nanos::ZERO;
        for &target in &touched {
            let Some(instance) = self.paths.instances.get_mut(target) else { continue };
            if !std::mem::take(&mut instance.inlined) {
                continue;
            }
            let task = instance.task;
            let vector = self.forward(target, BATCH, meter);
            used += vector.used;
            let Worker { paths: Paths { instances, .. }, tasks, accounting, .. } = self;
            if let Some(input) = input {
                tasks.agenda.inlined(input, task, vector.used, vector.moved);
            }
            if let Some(instance) = instances.get_mut(target)
                && instance.has_work()
            {
                let left = instance.input.len();
                tasks.came(target, instance, left, accounting.now);
            }
        }
        touched.clear();
        self.paths.touched = touched;
        used
    }

    /// The rest of the pipeline in the same task, for the layout of one. Answers what it took.
    pub(super) fn run_through<M: Meter>(&mut self, meter: &mut M) -> Nanos {
        let mut touched = std::mem::take(&mut self.paths.touched);
        let mut used = Nanos::ZERO;
        for &target in &touched {
            let aside = |instance: &Instance| instance.side.is_some();
            if self.paths.instances.get(target).is_some_and(aside) {
                // Its own task runs it, slice by slice.
                continue;
            }
            loop {
                let vector = self.forward(target, BATCH, meter);
                used += vector.used;
                let instance = self.paths.instances.get(target);
                let more = instance.is_some_and(|i| i.has_work() && i.output.room() > 0);
                if vector.moved == 0 || !more {
                    break;
                }
            }
        }
        touched.clear();
        self.paths.touched = touched;
        used
    }
}
