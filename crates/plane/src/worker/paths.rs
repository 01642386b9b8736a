//! The paths of a worker: one instance for each path at each port.

use super::adoption::NewFunctions;
use super::instances::Instances;
use super::ports::Ports;
use super::task_table::{Task, TaskTable};
use crate::classify::{Dispatch, REFUSED, TUNNELLED, Target};
use crate::flow_queues::FlowOrder;
use crate::function::{self, Function, Functions};
use crate::input_queue::InputQueue;
use crate::multicast::GroupCounters;
use crate::path::{Allowance, Instance, PathCounters, QueueFill};
use crate::preempt::{FunctionThreads, VirtualThreads};
use crate::snapshot::{BEST_EFFORT, CONTROL, GENERAL, PathSpec, Snapshot};
use cpu::task::TaskTerms;
use packet::accounting::Accounting;
use packet::event::{Event, Stage};
use packet::latency::QueueEntryTimes;
use packet::{DropReason, Packet, Queue};
use plan::Grouping;
use std::collections::BTreeMap;
use units::{Instant, PathId, PortId, TaskId};

/// The property that paths with a common task share (spec ).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum TaskKey {
    /// The path itself.
    Path(PathId),
    /// The functions of the path.
    Functions(Vec<String>),
    /// All paths without a reservation or share.
    BestEffort,
    /// All paths share one task.
    All,
}

/// The terms of a path's forwarding task.
pub(super) fn terms_of(path: &PathSpec) -> TaskTerms {
    TaskTerms {
        share: path.share,
        // None means that the task waits without a limit.
        max_wait: path.cpu.max_wait,
        capacity: path.capacity.min(path.output_capacity) as u32,
        cost: path.cost,
        prompt: path.id == CONTROL || path.id == GENERAL,
    }
}

/// The scheduler of the flows of a path. `None`: no flows can be reserved on it.
pub(super) fn flow_order(snapshot: &Snapshot, path: &PathSpec, tasks: &TaskTable) -> Option<FlowOrder> {
    path.cpu.reservations.then(|| FlowOrder {
        rates: snapshot.flow_rates.clone(),
        scheduler: snapshot.cpu.flow_scheduler.name,
        schedulers: tasks.run_queue.schedulers().clone(),
    })
}

impl TaskKey {
    pub fn of(path: &PathSpec, grouping: Grouping) -> TaskKey {
        let own = path.id == CONTROL || path.id == GENERAL;
        match grouping {
            _ if own => TaskKey::Path(path.id),
            Grouping::Single => TaskKey::All,
            // A preemptible path does not block others, so it gets a task of its own.
            _ if path.cpu.preemptible => TaskKey::Path(path.id),
            _ if path.cpu.reservation.is_some() || path.cpu.share.is_some() => TaskKey::Path(path.id),
            Grouping::ByRule => TaskKey::Path(path.id),
            Grouping::Aggregate => TaskKey::BestEffort,
            Grouping::PerFunction => {
                TaskKey::Functions(path.functions.iter().map(|call| call.text.to_string()).collect())
            }
        }
    }
}

/// See the [module](self).
pub(super) struct Paths {
    /// By target.
    pub instances: Instances,
    pub dispatch: Dispatch,
    /// The registered functions.
    pub available_functions: Functions,
    /// The tasks that run functions, by common property.
    pub forwarders: BTreeMap<TaskKey, TaskId>,
    /// The counters of the multicast routes, in the order of the snapshot's routes.
    pub group_counters: Vec<GroupCounters>,
    /// The instances that have received packets of this vector.
    pub touched: Vec<Target>,
    /// Makes the threads that run preemptible functions.
    pub function_threads: Box<dyn FunctionThreads>,
}

impl Default for Paths {
    fn default() -> Paths {
        Paths {
            instances: Instances::default(),
            dispatch: Dispatch::default(),
            available_functions: Functions::default(),
            forwarders: BTreeMap::new(),
            group_counters: Vec::new(),
            touched: Vec::with_capacity(16),
            function_threads: Box::new(VirtualThreads),
        }
    }
}

impl Paths {
    /// Gives the paths of reserved flows the rates of their present sums.
    pub fn set_flow_rates(&mut self, snapshot: &Snapshot, now: Instant) {
        for path in snapshot.paths.iter().filter(|path| path.cpu.reservations) {
            let Some(reserved) = path.cpu.reservation else { continue };
            for instance in self.instances.iter_mut().filter(|instance| instance.path == path.id) {
                instance.allowance.iter_mut().for_each(|allowance| allowance.set_rate(reserved.packets, now));
            }
        }
    }

    /// The task that runs the functions of a path.
    pub(in crate::worker) fn forwarder(
        &mut self,
        path: &PathSpec,
        snapshot: &Snapshot,
        tasks: &mut TaskTable,
        accounting: &mut Accounting,
    ) -> TaskId {
        let common = TaskKey::of(path, snapshot.cpu.best_effort);
        let terms = terms_of(path);
        let Paths { forwarders, .. } = self;
        *forwarders.entry(common).or_insert_with(|| tasks.add(Task::Forward, terms, accounting.now))
    }

    /// Replaces the instances by those of `snapshot`. An instance is kept, with its counters, if its path and port stay.
    pub(in crate::worker) fn rebuild_paths(
        &mut self,
        snapshot: &Snapshot,
        functions: Vec<NewFunctions>,
        ports: &mut Ports,
        tasks: &mut TaskTable,
        accounting: &mut Accounting,
    ) {
        tasks.clear_ready();
        // Ordered maps, so that every run assigns the same ids to the same tasks.
        let mut old: BTreeMap<(PathId, Option<PortId>), Instance> =
            self.instances.drain().map(|instance| ((instance.path, instance.port), instance)).collect();
        let mut functions: BTreeMap<(PathId, PortId), Vec<Box<dyn Function>>> =
            functions.into_iter().map(|new| ((new.path, new.port), new.functions)).collect();
        // The ports of the generation that belong to this worker.
        let mine = ports.states.open().map(|(port, _)| port);
        let open: Vec<PortId> = mine.filter(|&port| snapshot.port(port).is_some()).collect();
        // Targets change with the instances: the outputs are filled again below.
        ports.states.iter_mut().for_each(|state| state.outputs.clear());
        let mut own = [REFUSED; 2];
        let mut served = Vec::with_capacity(snapshot.paths.len() * open.len());
        let mut heirs = BTreeMap::new();
        for (position, path) in snapshot.paths.iter().enumerate() {
            heirs.insert(path.id, self.instances.next_target());
            // The router's own protocols have one input for all ports, besides an output at each.
            if path.id == CONTROL || path.id == GENERAL {
                let kept = old.remove(&(path.id, None));
                own[usize::from(path.id == GENERAL)] =
                    self.add_instance((snapshot, path), None, kept, None, tasks, accounting);
            }
            for &port in &open {
                let (kept, new) = (old.remove(&(path.id, Some(port))), functions.remove(&(path.id, port)));
                let target = self.add_instance((snapshot, path), Some(port), kept, new, tasks, accounting);
                ports.states.get_mut(port).into_iter().for_each(|state| state.outputs.push(target));
                served.push((position, port, target));
            }
        }
        self.retire(old, &heirs, accounting);
        ports.rank_outputs(self);
        let best_effort = snapshot.paths.iter().position(|path| path.id == BEST_EFFORT).unwrap_or(0);
        let size = (snapshot.paths.len(), snapshot.ports.len());
        self.dispatch = Dispatch::new(size, best_effort, own.into(), snapshot, served.into_iter());
    }

    /// Removes instances that the new generation does not have. `heirs` has the first instance of each path.
    pub(in crate::worker) fn retire(
        &mut self,
        old: BTreeMap<(PathId, Option<PortId>), Instance>,
        heirs: &BTreeMap<PathId, Target>,
        accounting: &mut Accounting,
    ) {
        let mut last = None;
        for (_, gone) in old {
            debug_assert_eq!(gone.queued(), 0);
            let heir = heirs.get(&gone.path).and_then(|&at| self.instances.get_mut(at));
            match heir.filter(|heir| heir.path == gone.path) {
                // A path keeps its counters when one of its ports is removed.
                Some(heir) => heir.counters += gone.counters,
                // The instances are sorted by path, so one event for each path is enough.
                None if last.replace(gone.path) != Some(gone.path) => {
                    accounting.event(&Event::PathDrained { path: gone.path });
                }
                None => {}
            }
        }
    }

    pub(in crate::worker) fn add_instance(
        &mut self,
        (snapshot, path): (&Snapshot, &PathSpec),
        port: Option<PortId>,
        kept: Option<Instance>,
        functions: Option<Vec<Box<dyn Function>>>,
        tasks: &mut TaskTable,
        accounting: &mut Accounting,
    ) -> Target {
        let target = self.instances.next_target();
        let task = self.forwarder(path, snapshot, tasks, accounting);
        // The highest targets have special meanings: refused, copied, undecided, at the end of a tunnel.
        assert!(target < TUNNELLED, "ports and paths are bounded");
        let before = kept.as_ref().and_then(|instance| instance.allowance);
        let reserved = path.cpu.reservation.map(|reserved| reserved.packets);
        let order = flow_order(snapshot, path, tasks);
        let allowance = reserved.map(|rate| Allowance::of(rate, path.output_capacity, before));
        let instance = match kept {
            Some(mut instance) => {
                // The paths are empty during an adoption, so a queue can be replaced.
                if instance.input.scheduler() != order.as_ref().map(|order| order.scheduler) {
                    instance.input = InputQueue::new(path.capacity, order.as_ref());
                }
                if instance.input.capacity() != path.capacity {
                    instance.input.resize(path.capacity);
                }
                if instance.output.capacity() != path.output_capacity {
                    instance.output.resize(path.output_capacity);
                }
                if let Some(mut functions) = functions {
                    function::hand_over_state(&instance.functions, &mut functions);
                    instance.functions = functions;
                }
                (instance.task, instance.class, instance.allowance) = (task, path.class, allowance);
                instance.interleaved = path.cpu.interleave;
                // No ready list has the instance any more: see `TaskTable::clear_ready`.
                instance.ready = false;
                instance
            }
            None => Instance {
                path: path.id,
                port,
                class: path.class,
                task,
                input: InputQueue::new(path.capacity, order.as_ref()),
                interleaved: path.cpu.interleave,
                output: Queue::new(path.output_capacity),
                half: None,
                offloads: false,
                hooked: false,
                functions: functions.unwrap_or_default(),
                counters: PathCounters::default(),
                may_inline: false,
                inlined: false,
                ready: false,
                limit: None,
                fill: QueueFill::default(),
                function_thread: None,
                arrivals: QueueEntryTimes::default(),
                allowance,
            },
        };
        self.instances.push(instance);
        target
    }
}

impl Paths {
    /// Puts a packet on the input queue of an instance.
    pub(in crate::worker) fn put_in(
        &mut self,
        target: Target,
        packet: Packet,
        tasks: &mut TaskTable,
        accounting: &mut Accounting,
    ) {
        let Paths { instances, touched, .. } = self;
        let Some(instance) = instances.get_mut(target) else {
            return accounting.drop(packet, DropReason::PortRemoved);
        };
        accounting.record_stage(&packet, Stage::Waiting { packets_ahead: instance.input.len() });
        if let Some(packet) = instance.enter(packet) {
            accounting.drop(packet, DropReason::PathQueue);
        }
        tasks.record_arrivals(target, instance, 1, accounting.now);
        if !touched.contains(&target) {
            touched.push(target);
        }
    }

    pub(in crate::worker) fn count_control(&mut self, change: impl FnOnce(&mut crate::path::PathCounters)) {
        let control = self.dispatch.control;
        if let Some(instance) = self.instances.get_mut(control) {
            change(&mut instance.counters);
        }
    }
}
