//! The reports of a scheme: the groups of its queues, the queue of a packet, and its state for a queue. They are outside of the packet path.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use units::Instant;

/// Receives a value of a queue's state: its name in the literature, and the value. Times are in seconds. Probabilities are between zero and one.
/// Booleans are zero or one.
pub type Tell<'a> = dyn FnMut(&'static str, f64) + 'a;

/// Consecutive queues of a scheme that are reported together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// The name: `class 2`, `flows`, `voice`; [`Group::ALL`] if there is only one group.
    pub name: String,
    /// The number of queues.
    pub queues: u32,
    /// True if each queue is for one flow. Then the link counts flows that share a queue.
    pub flows: bool,
}

impl Group {
    /// The name of a group of all queues of a scheme.
    pub const ALL: &'static str = "all";
    /// Up to this number, unnamed queues are a group each.
    const FEW: u32 = 8;

    /// A group.
    pub fn new(name: impl ToString, queues: u32) -> Group {
        Group { name: name.to_string(), queues, flows: false }
    }

    /// Marks each queue of the group as being for one flow.
    pub(crate) fn of_flows(self) -> Group {
        Group { flows: true, ..self }
    }

    /// The groups of a scheme that names none.
    pub(crate) fn unnamed(queues: u32) -> Vec<Group> {
        // A single queue needs no number, and a group for each of many would make the report unreadable.
        match queues {
            2..=Group::FEW => (0..queues).map(|queue| Group::new(format!("queue {queue}"), 1)).collect(),
            _ => [Group::new(Group::ALL, queues.max(1))].into(),
        }
    }

    /// The group inside the scheme `outer`.
    pub(crate) fn inside(self, outer: &str) -> Group {
        // The only group of an inner scheme has no name of its own.
        let name = if self.name == Group::ALL { outer.to_string() } else { format!("{outer} {}", self.name) };
        Group { name, ..self }
    }
}

/// Seconds from `now` to `then`, negative if `then` is past.
pub(crate) fn seconds_to(then: Instant, now: Instant) -> f64 {
    // `since` is never negative: one of the two terms is zero.
    then.since(now).as_secs_f64() - now.since(then).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use crate::model::Model;
    use crate::{Group, Layer, OptionValues, Record, Scheme, Wires, build};
    use alloc::boxed::Box;
    use alloc::string::String;
    use alloc::vec::Vec;
    use units::{Nanos, QueueId};

    /// A layer with these options.
    fn layer<'a>(name: &'a str, given: &'a [(&'static str, u64)], inside: Vec<Layer<'a>>) -> Layer<'a> {
        Layer { name, options: given as OptionValues<'a>, inside }
    }

    const FIFO: &[(&str, u64)] = &[("limit", 10), ("bytes", 1 << 30), ("drop", 0), ("unbounded", 0)];
    const CODEL: &[(&str, u64)] = &[
        ("target", 5_000_000),
        ("interval", 100_000_000),
        ("mtu", 0),
        ("limit", 1000),
        ("ecn", 0),
        ("again", 0),
        ("root", 0),
    ];

    fn names(scheme: &dyn Scheme<Model>) -> Vec<(String, u32)> {
        scheme.groups().into_iter().map(|Group { name, queues, .. }| (name, queues)).collect()
    }

    fn state(scheme: &dyn Scheme<Model>, queue: u32, model: &Model) -> Vec<(&'static str, f64)> {
        let mut told = Vec::new();
        let queue = QueueId(queue);
        scheme.state(queue, model.now, model.size(queue), &mut |name, value| told.push((name, value)));
        told
    }

    #[test]
    fn groups_are_named_and_queue_of_finds_the_queue_of_a_packet() {
        let branch = |class: u64| [("class", class), ("weight", 1), ("ceiling", 0), ("burst", 0)];
        let (high, low) = (branch(3), branch(0));
        let (flows, levels) = ([("flows", 16), ("quantum", 1514), ("limit", 100)], [("levels", 3)]);
        let fifo = || layer("fifo", FIFO, Vec::new());
        let fq = layer("fq", &flows, [layer("codel", CODEL, Vec::new())].into());
        let ranks = layer("priority", &levels, [fifo()].into());
        let tree =
            layer("tree", &[], [layer("branch", &low, [fq].into()), layer("branch", &high, [ranks].into())].into());
        let mut scheme: Box<dyn Scheme<Model>> = build(&tree).expect("it is declared");
        // The highest class comes first, outside and inside.
        let expected =
            [("branch 3 class 2", 1), ("branch 3 class 1", 1), ("branch 3 class 0", 1), ("branch 0 flows", 16)];
        assert_eq!(names(&*scheme), expected.map(|(name, queues)| (name.into(), queues)));
        let mut model = Model::with_queues(19);
        for (class, flow_hash) in [(3, 0), (0, 0), (1, u32::MAX), (200, 0), (2, 1 << 31)] {
            let packet = Record { length: 100, class, flow_hash, ..Record::default() };
            let before: Vec<u32> = (0..19).map(|queue| model.size(QueueId(queue)).packets).collect();
            let told = scheme.queue_of(&packet);
            model.arrive_all(&mut *scheme, [packet].into_iter());
            let grown = (0..19).find(|queue| model.size(QueueId(*queue)).packets > before[*queue as usize]);
            assert_eq!(told, grown.map(QueueId), "class {class}");
        }
        assert_eq!(names(&*build::<Model>(&fifo()).expect("it is declared")), [("all".into(), 1)]);
    }

    #[test]
    fn state_is_reported_only_by_the_scheme_of_the_queue() {
        let flows = [("flows", 2), ("quantum", 1514), ("limit", 100)];
        let fq = layer("fq", &flows, [layer("codel", CODEL, Vec::new())].into());
        let mut scheme: Box<dyn Scheme<Model>> = build(&fq).expect("it is declared");
        let mut model = Model::default();
        let of = |flow_hash: u32| Record { length: 1000, flow_hash, ..Record::default() };
        model.arrive_all(&mut *scheme, (0..40).map(|_| of(0)).chain([of(u32::MAX)]));
        // The first packet of flow 0 has waited 10 ms. 110 ms after the next one exceeded the target too, a packet is dropped.
        for _ in 0..13 {
            model.now += Nanos::millis(10);
            model.ready(&mut *scheme, 1);
        }
        let told = state(&*scheme, 0, &model);
        let of = |name: &str| told.iter().find(|(told, _)| *told == name).map(|(_, value)| *value);
        assert_eq!((of("dropping"), of("count")), (Some(1.0), Some(1.0)), "{told:?}");
        let next = of("drop_next").expect("it is told");
        assert!((0.0..=0.1).contains(&next), "{next}");
        let other = state(&*scheme, 1, &model);
        assert_eq!(other.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["count", "dropping", "drop_next"]);
        assert!(other.iter().all(|(_, value)| *value == 0.0), "{other:?}");
        assert_eq!(state(&*scheme, 2, &model), [], "there is no queue 2 in {:?}", names(&*scheme));
    }
}
