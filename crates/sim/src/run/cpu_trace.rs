//! The record of a world's CPU schedulers, for a viewer.

use super::{RunningWorld, instant};
use cpu::trace::TaskTrace;
use cpu::trace::export::{TracedCore, TracedRouter, write};
use std::collections::BTreeMap;
use units::{Instant, TaskId};

impl RunningWorld<'_> {
    /// Every core records the latest `events` of its scheduler from now on.
    pub(super) fn record_cpu_trace(&mut self, events: usize) {
        for core in &mut self.cores {
            core.fairness.disable();
            core.worker.trace_scheduler(Some(Box::new(TaskTrace::new(events))));
        }
    }

    /// The records, as a file.
    pub(super) fn cpu_trace(&mut self) -> Vec<u8> {
        let watched: Vec<_> =
            self.cores.iter_mut().map(|core| (core.node, core.worker.trace_scheduler(None))).collect();
        let mut routers: Vec<TracedRouter<'_>> =
            self.nodes.iter().map(|node| TracedRouter { name: &node.plan.name, cores: Vec::new() }).collect();
        for (node, watched) in &watched {
            let snapshot = self.nodes[*node].router.snapshot();
            let path_name = |id| snapshot.paths.iter().find(|path| path.id == id).map(|path| path.name.to_string());
            let port_name = |id| snapshot.port(id).map(|port| port.name.to_string());
            let name = |task: &plane::TaskReport| {
                let paths: Vec<String> = task.paths.iter().filter_map(|&path| path_name(path)).collect();
                let of = task.port.and_then(port_name).unwrap_or_else(|| paths.join(","));
                format!("{} {of}", task.kind)
            };
            let tasks: BTreeMap<TaskId, String> = watched.tasks.iter().map(|task| (task.task, name(task))).collect();
            let Some(trace) = watched.trace.as_deref() else { continue };
            routers[*node].cores.push(TracedCore { worker: watched.worker.0, trace, tasks });
        }
        let mut file = Vec::new();
        let span = (Instant::START, instant(self.world.duration.get()));
        write(&mut file, &routers, span, None).expect("memory takes whatever is written");
        file
    }
}
