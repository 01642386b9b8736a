//! The record of a world's CPU schedulers, for a viewer.

use super::{Live, instant};
use cpu::trace::Trace;
use cpu::trace::export::{Core, Router, write};
use std::collections::BTreeMap;
use units::{Instant, TaskId};

impl Live<'_> {
    /// Every core records the latest `events` of its scheduler from now on.
    pub(super) fn watch(&mut self, events: usize) {
        for core in &mut self.cores {
            core.following.leave();
            core.worker.watch(Some(Box::new(Trace::new(events))));
        }
    }

    /// The records, as a file.
    pub(super) fn watched(&mut self) -> Vec<u8> {
        let watched: Vec<_> = self.cores.iter_mut().map(|core| (core.node, core.worker.watch(None))).collect();
        let mut routers: Vec<Router<'_>> =
            self.nodes.iter().map(|node| Router { name: &node.plan.name, cores: Vec::new() }).collect();
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
            routers[*node].cores.push(Core { worker: watched.worker.0, trace, tasks });
        }
        let mut file = Vec::new();
        let span = (Instant::START, instant(self.world.duration.get()));
        write(&mut file, &routers, span, None).expect("memory takes whatever is written");
        file
    }
}
