//! Another scheme for a link, with a generation or by itself.

use super::super::ports::Ports;
use crate::snapshot::Snapshot;
use crate::worker::Worker;
use crate::worker::paths::Paths;
use crate::worker::ports::PortState;
use crate::worker::task_table::TaskTable;
use link::Queueing;
use packet::accounting::Accounting;
use packet::event::Event;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use units::PortId;

/// Another scheme for the link of a port. It is the same generation still, and nothing else of it changes.
#[derive(Debug)]
pub struct Reschedule {
    /// The generation, with the scheme in it.
    pub snapshot: Arc<Snapshot>,
    /// The port.
    pub port: PortId,
    /// The scheme.
    pub scheme: Queueing,
    /// Receives replaced schemes, to free their memory.
    pub reply: Sender<Vec<(PortId, Queueing)>>,
}

impl Worker {
    /// Gives a port another scheme, unless another generation runs by now.
    pub(super) fn reschedule(&mut self, new: Reschedule) {
        let Reschedule { snapshot, port, scheme, reply } = new;
        let retired = if self.adoption.pending.is_none() && self.snapshot.generation == snapshot.generation {
            let retired = self
                .ports
                .replace_scheme(port, scheme, &mut self.paths, &mut self.tasks, &mut self.accounting)
                .collect();
            self.snapshot = snapshot;
            // The schemes may differ in whether they rank classes, which decides the order of the paths.
            self.ports.rank_outputs(&mut self.paths);
            retired
        } else {
            vec![(port, scheme)]
        };
        // If the control side no longer listens, the schemes are freed here.
        let _ = reply.send(retired);
    }
}

impl Ports {
    /// Gives a link another scheme. Returns the replaced ones.
    pub(in crate::worker) fn replace_scheme(
        &mut self,
        id: PortId,
        scheme: Queueing,
        paths: &mut Paths,
        tasks: &mut TaskTable,
        accounting: &mut Accounting,
    ) -> impl Iterator<Item = (PortId, Queueing)> + use<> {
        let Ports { states: ports, .. } = self;
        let mut splits = false;
        let old = match ports.get_mut(id) {
            Some(PortState { link, output, .. }) => {
                let (waited, dropped, before) =
                    (link.backlog().packets, link.counters().dropped, link.counters_since_change());
                // A drain that an earlier change began may have ended: return its old scheme as well, because a worker frees no memory.
                let drained = link.take_drained();
                let had = link.offloads();
                let (way, replaced) = link.replace_scheme(scheme, accounting);
                link.refresh_offloads(accounting);
                splits = had.super_frames && !link.offloads().super_frames;
                let dropped = u32::try_from(link.counters().dropped - dropped).unwrap_or(u32::MAX);
                // The new scheme may release packets at once that the old one would have delayed.
                tasks.wake_output(*output, accounting.now);
                let (worker, version, packets) = (accounting.worker, link.version(), (waited, dropped));
                accounting.event(&Event::SchemeChanged { worker, port: id, transition: way, version, before, packets });
                [replaced, drained]
            }
            _ => [Some(scheme), None],
        };
        // Without super-frames at the link, those on the paths must be segmented before it.
        if splits {
            self.refit_paths(id, paths, accounting);
        }
        old.into_iter().flatten().map(move |scheme| (id, scheme))
    }
}
