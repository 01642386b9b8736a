//! When something happens in a world besides what is in it: its events, the points of its series, the ends of the warm-up and of the run.

use crate::describe::World;

/// What happens at a time besides what the world says.
pub(crate) enum Due {
    /// A point of the series.
    Sample,
    /// What is measured begins.
    Warm,
    /// Something of the world.
    Happens(usize),
    /// The end.
    End,
}

/// Everything that happens at a time, in its order.
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
