//! The schedule of a world: its events, the samples of time series, and the ends of warm-up and run.

use crate::describe::World;

/// A scheduled item.
pub(crate) enum Due {
    /// A sample of the time series.
    Sample,
    /// The start of the measured time.
    Warm,
    /// An event of the world, by index.
    Happens(usize),
    /// The end of the run.
    End,
}

/// The schedule, ordered by time.
pub(crate) fn agenda(world: &World) -> Vec<(u64, Due)> {
    let end = world.duration.get();
    let mut agenda: Vec<(u64, Due)> = Vec::new();
    let happens = world.events.iter().enumerate().filter(|(_, (time, _))| time.get() < end);
    agenda.extend(happens.map(|(index, (time, _))| (time.get(), Due::Happens(index))));
    agenda.push((world.warmup.get(), Due::Warm));
    agenda.extend((1..=end / world.sample.get()).map(|number| (number * world.sample.get(), Due::Sample)));
    agenda.push((end, Due::End));
    agenda.sort_by_key(|(time, _)| *time);
    agenda
}
