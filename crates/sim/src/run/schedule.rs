//! The schedule of a world: its events, the samples of time series, and the ends of warm-up and run.

use crate::describe::WorldPlan;

/// A scheduled item.
pub(crate) enum ScheduledItem {
    /// A sample of the time series.
    Sample,
    /// The start of the measured time.
    WarmupEnd,
    /// An event of the world, by index.
    Event(usize),
    /// The end of the run.
    End,
}

/// The schedule, ordered by time.
pub(crate) fn world_schedule(world: &WorldPlan) -> Vec<(u64, ScheduledItem)> {
    let end = world.duration.get();
    let mut agenda: Vec<(u64, ScheduledItem)> = Vec::new();
    let happens = world.events.iter().enumerate().filter(|(_, (time, _))| time.get() < end);
    agenda.extend(happens.map(|(index, (time, _))| (time.get(), ScheduledItem::Event(index))));
    agenda.push((world.warmup.get(), ScheduledItem::WarmupEnd));
    agenda.extend((1..=end / world.sample.get()).map(|number| (number * world.sample.get(), ScheduledItem::Sample)));
    agenda.push((end, ScheduledItem::End));
    agenda.sort_by_key(|(time, _)| *time);
    agenda
}
