//! The queues of slices: shares of ports. A scheduler is a share of the configuration, a slice a share below it, and a queue a leaf below that.

use super::{Slice, Slices};
use crate::spec::{QueueSpec, SchedulerId, SliceError, SliceRates};
use link::ShareCounts;
use plan::{Name, ShareChange, ShareName, ShareSettings};
use plane::{Router, ShareReport};
use units::{Bytes, PortId, Rate, ShareId, UnitError};

/// The part of a scheduler that a slice has.
pub(super) struct Reservation {
    rates: SliceRates,
    share: ShareName,
}

/// A queue of a slice, and the leaf that it is.
pub(super) struct Queue {
    spec: QueueSpec,
    share: ShareName,
    /// The leaf and its port, which rows of filters have.
    pub place: (ShareId, PortId),
}

/// A slice's part of a scheduler.
#[derive(Clone, Debug)]
pub struct ReservationReport {
    /// The scheduler.
    pub scheduler: SchedulerId,
    /// Its rates.
    pub rates: SliceRates,
}

/// A queue of a slice.
#[derive(Clone, Debug)]
pub struct SliceQueueReport {
    /// Its number.
    pub queue: u16,
    /// Its definition.
    pub spec: QueueSpec,
    /// Its packets since it was made.
    pub counts: ShareCounts,
}

fn refused((_, reason, hint): (usize, String, String)) -> SliceError {
    SliceError { reason, hint }
}

fn wrong_setting(wrong: UnitError) -> SliceError {
    SliceError::new(wrong.reason, wrong.hint)
}

fn share_name(text: &str) -> Result<ShareName, SliceError> {
    ShareName::new(text).map_err(wrong_setting)
}

/// The port of this name in the running configuration.
fn port_id(router: &Router, name: &str) -> Option<PortId> {
    let ports = &router.snapshot().ports;
    ports.iter().position(|port| port.as_ref().is_some_and(|port| &*port.name == name)).map(PortId::at)
}

impl Slices {
    /// Gives a slice a part of a scheduler, or changes it.
    ///
    /// # Errors
    /// The slice's quota, or the rate of the scheduler, is too small for the reserved rate. Or the scheduler does not exist.
    pub fn reserve(
        &mut self,
        router: &mut Router,
        name: &str,
        scheduler: &SchedulerId,
        rates: SliceRates,
    ) -> Result<(), SliceError> {
        let slice = self.slice_mut(name)?;
        let others = slice.reservations.iter().filter(|(known, _)| *known != scheduler);
        let others: u64 = others.map(|(_, reservation)| reservation.rates.rate.unwrap_or(Rate::ZERO).get()).sum();
        let (wanted, quota) = (rates.rate.unwrap_or(Rate::ZERO), slice.spec.quota.rate);
        if others.saturating_add(wanted.get()) > quota.get() {
            let left = Rate::bits(quota.get().saturating_sub(others));
            let hint = format!("reserve at most {left}");
            return Err(SliceError::new(format!("the slice has a quota of {quota} for reserved rates"), hint));
        }
        let suffix = scheduler.share.as_ref().map_or_else(String::new, |share| format!("@{}", share.as_str()));
        let share = share_name(&format!("slice:{name}{suffix}"))?;
        let settings = ShareSettings {
            rate: rates.rate,
            ceiling: rates.ceiling,
            weight: rates.weight,
            ..ShareSettings::default()
        };
        settings.check().map_err(wrong_setting)?;
        let change = if slice.reservations.contains_key(scheduler) {
            let no_ceiling = rates.ceiling.is_none();
            ShareChange::Set { name: share.clone(), settings, no_ceiling, lease: None }
        } else {
            ShareChange::Add { name: share.clone(), parent: scheduler.share.clone(), settings, lease: None }
        };
        router.edit_shares(&scheduler.port, &[change]).map_err(refused)?;
        slice.reservations.insert(scheduler.clone(), Reservation { rates, share });
        Ok(())
    }

    /// Gives a slice a queue, or changes the weight and the limit of one. A queue stays at its scheduler.
    ///
    /// # Errors
    /// The slice has no part of the scheduler, or a quota is used up.
    pub fn set_queue(
        &mut self,
        router: &mut Router,
        name: &str,
        (number, spec): (u16, QueueSpec),
    ) -> Result<(), SliceError> {
        let slice = self.slice_mut(name)?;
        let running = slice.queues.get(&number);
        let quota = slice.spec.quota;
        if running.is_none() && slice.queues.len() >= quota.queues {
            let reason = format!("the slice has a quota of {} queues", quota.queues);
            return Err(SliceError::new(reason, "delete a queue first"));
        }
        if running.is_some_and(|running| running.spec.scheduler != spec.scheduler) {
            let reason = format!("queue {number} is served by another scheduler");
            return Err(SliceError::new(reason, "delete the queue first"));
        }
        // A queue with the scheme of the port has the limit of that scheme, in packets, and frames that the router bounds.
        let bytes = |spec: &QueueSpec| spec.limit.unwrap_or(Bytes::ZERO).get();
        let others: u64 = slice.queues.iter().filter(|(other, _)| **other != number).map(|(_, q)| bytes(&q.spec)).sum();
        if others.saturating_add(bytes(&spec)) > quota.buffers.get() {
            let left = Bytes::new(quota.buffers.get().saturating_sub(others));
            let reason = format!("the limits of the queues exceed the slice's quota of {} for buffers", quota.buffers);
            return Err(SliceError::new(reason, format!("use a limit of at most {left}")));
        }
        let Some(reservation) = slice.reservations.get(&spec.scheduler) else {
            let reason = format!("the slice has no part of {}", spec.scheduler);
            return Err(SliceError::new(reason, "reserve one first: `switchpath slice reserve`"));
        };
        let settings = ShareSettings { weight: Some(spec.weight), queue: spec.limit, ..ShareSettings::default() };
        settings.check().map_err(wrong_setting)?;
        let (share, change) = match running {
            Some(running) => {
                let (name, no_ceiling) = (running.share.clone(), false);
                (name.clone(), ShareChange::Set { name, settings, no_ceiling, lease: None })
            }
            None => {
                let share = share_name(&format!("slice:{name}:{number}"))?;
                let parent = Some(reservation.share.clone());
                (share.clone(), ShareChange::Add { name: share, parent, settings, lease: None })
            }
        };
        let Some(port) = port_id(router, &spec.scheduler.port) else {
            let reason = format!("there is no port '{}'", spec.scheduler.port);
            return Err(SliceError::new(reason, "name a port of the configuration"));
        };
        router.edit_shares(&spec.scheduler.port, &[change]).map_err(refused)?;
        let Some(id) = router.share_id(&share) else {
            return Err(SliceError::new("the queue has no number", "report this error"));
        };
        slice.queues.insert(number, Queue { spec, share, place: (id, port) });
        self.publish_slice(name);
        Ok(())
    }

    /// Takes a queue from a slice. Its packets are sent before it ends.
    ///
    /// # Errors
    /// There is none, or a filter uses it.
    pub fn delete_queue(&mut self, router: &mut Router, name: &str, number: u16) -> Result<(), SliceError> {
        let slice = self.slice_mut(name)?;
        if let Some(position) = slice.filter_with(|queue, _| queue == number) {
            let reason = format!("the filter at position {position} uses queue {number}");
            return Err(SliceError::new(reason, "change the filter first"));
        }
        let Some(queue) = slice.queues.get(&number) else {
            return Err(SliceError::new(format!("there is no queue {number}"), "see `switchpath slice list`"));
        };
        let remove = ShareChange::Remove { name: queue.share.clone(), all: false };
        router.edit_shares(&queue.spec.scheduler.port, &[remove]).map_err(refused)?;
        slice.queues.remove(&number);
        self.publish_slice(name);
        Ok(())
    }
}

/// Removes all shares of a slice.
pub(super) fn remove_all(router: &mut Router, slice: &mut Slice) {
    slice.queues.clear();
    for (scheduler, reservation) in std::mem::take(&mut slice.reservations) {
        // The share is gone already if the port is.
        let _ = router.edit_shares(&scheduler.port, &[ShareChange::Remove { name: reservation.share, all: true }]);
    }
}

/// The state of a slice's parts of schedulers, and of its queues.
pub(super) fn reports(router: &Router, slice: &Slice) -> (Vec<ReservationReport>, Vec<SliceQueueReport>) {
    let reservation = |(scheduler, reservation): (&SchedulerId, &Reservation)| ReservationReport {
        scheduler: scheduler.clone(),
        rates: reservation.rates,
    };
    let mut ports: Vec<(&Name, Vec<ShareReport>)> = Vec::new();
    let mut queues = Vec::new();
    for (number, queue) in &slice.queues {
        let port = &queue.spec.scheduler.port;
        if !ports.iter().any(|(known, _)| *known == port) {
            ports.push((port, router.shares(port).unwrap_or_default()));
        }
        let shares = ports.iter().find(|(known, _)| *known == port).map(|(_, shares)| shares);
        let counts = shares.into_iter().flatten().find(|share| share.name == queue.share).map(|share| share.counts);
        queues.push(SliceQueueReport { queue: *number, spec: queue.spec.clone(), counts: counts.unwrap_or_default() });
    }
    (slice.reservations.iter().map(reservation).collect(), queues)
}
