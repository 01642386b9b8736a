//! Forwarding inside the input task: always in the layout with one task, and as inline forwarding of minimal paths (spec Q-07) if
//! the configuration asks for it. The paper advises against the latter.

use super::Worker;
use super::paths::Paths;
use crate::path::Instance;
use cpu::meter::WorkMeter;
use packet::BATCH;
use units::{Nanos, PortId};

impl Worker {
    /// Forwards new packets inside the input task if their path is minimal and had an empty queue (spec Q-07). So no packet is
    /// overtaken, and the switch to the forwarding task is saved. The forwarding task gets the packets without room on the output
    /// queue. Returns the time used.
    pub(super) fn run_inlined<M: WorkMeter>(&mut self, port: PortId, meter: &mut M) -> Nanos {
        let input = self.ports.states.get(port).map(|state| state.input);
        // Taken out, because `forward` borrows the whole worker. Given back at the end for its capacity.
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
            // The time was used in the input task but belongs to the forwarding task.
            if let Some(input) = input {
                tasks.run_queue.record_inline(input, task, vector.used, vector.moved);
            }
            if let Some(instance) = instances.get_mut(target)
                && instance.has_work()
            {
                let left = instance.input.len();
                tasks.record_arrivals(target, instance, left, accounting.now);
            }
        }
        touched.clear();
        self.paths.touched = touched;
        used
    }

    /// Runs the rest of the pipeline in the input task, for the layout with one task. Returns the time used.
    pub(super) fn run_through<M: WorkMeter>(&mut self, meter: &mut M) -> Nanos {
        let mut touched = std::mem::take(&mut self.paths.touched);
        let mut used = Nanos::ZERO;
        for &target in &touched {
            let aside = |instance: &Instance| instance.function_thread.is_some();
            if self.paths.instances.get(target).is_some_and(aside) {
                // A preemptible path has its own task, which runs it in slices.
                continue;
            }
            loop {
                let vector = self.forward(target, BATCH, meter);
                used += vector.used;
                let instance = self.paths.instances.get(target);
                let more = instance.is_some_and(|i| i.has_work() && i.output.room() > 0);
                if !more || vector.moved == 0 && !vector.unfinished {
                    break;
                }
            }
        }
        touched.clear();
        self.paths.touched = touched;
        used
    }
}
