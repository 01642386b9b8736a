//! FIFO: packets leave in the order of arrival. A full queue drops the arriving packet, or the oldest one.
//!
//! The queue holds at most `limit` packets and `bytes` bytes. This is the default of most routers. An unbounded queue causes bufferbloat (Gettys and
//! Nichols, ACM Queue 9(11), 2011). Then only the memory of the link limits it, and drops are counted with that reason.

use crate::aqm::{BYTES, LIMIT, Tail};
use crate::options::{BuildError, Values, switch};
use units::Bytes;
use units::declare::{Declaration, DeclaredCost, OptionDeclaration, Unit};

/// The packet that a full queue drops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Drop {
    /// The arriving packet.
    Tail,
    /// The oldest packet.
    Head,
}

/// In the order of the words in the declaration.
pub(crate) const DROPS: &[Drop] = &[Drop::Tail, Drop::Head];

/// The declaration for configurations.
pub(crate) const DECLARATION: Declaration = Declaration {
    name: "fifo",
    summary: "first in, first out; a full queue drops a packet",
    cost: DeclaredCost::None,
    source: "RFC 7567, section 2: tail drop, head drop",
    options: &[
        LIMIT,
        BYTES,
        OptionDeclaration {
            name: "drop",
            unit: Unit::Choice(&["tail", "head"]),
            default: "tail",
            least: 0,
            most: 1,
            doc: "the packet that a full queue drops: the arriving one, or the oldest one",
        },
        switch(
            "unbounded",
            "off",
            "if on, `limit` and `bytes` are ignored, and only the link's memory bounds the queue",
        ),
    ],
};

/// The bounds of the queue.
pub(crate) fn bounds(options: &Values<'_>) -> Result<Tail, BuildError> {
    if options.is_on("unbounded")? {
        // The greatest values make both comparisons true, so the packet path needs no special case.
        return Ok(Tail { limit: u32::MAX, bytes: Bytes::new(u64::MAX) });
    }
    Ok(Tail { limit: options.count("limit")?, bytes: options.bytes("bytes")? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Model, ModelFate};
    use crate::single::Single;
    use crate::{Next, Scheme};
    use ModelFate::{Refused, Sent};

    fn tail(limit: u32, bytes: u64) -> Single<Tail> {
        Single::new(Tail { limit, bytes: Bytes::new(bytes) })
    }

    #[test]
    fn fifo_sends_packets_in_arrival_order() {
        let (mut fifo, mut model) = (tail(10, 10_000), Model::default());
        model.arrive(&mut fifo, &[100; 4]);
        assert_eq!(Scheme::<Model>::next(&fifo, &model), Next::Ready);
        model.ready(&mut fifo, 3);
        model.arrive(&mut fifo, &[100]);
        model.ready(&mut fifo, 9);
        assert_eq!(model.fates, [Sent(0), Sent(1), Sent(2), Sent(3), Sent(4)]);
        assert_eq!(Scheme::<Model>::next(&fifo, &model), Next::Idle);
    }

    #[test]
    fn full_fifo_drops_arriving_packet() {
        let (mut fifo, mut model) = (tail(2, 10_000), Model::default());
        model.arrive(&mut fifo, &[100; 4]);
        model.ready(&mut fifo, 1);
        model.arrive(&mut fifo, &[100; 2]);
        model.ready(&mut fifo, 9);
        assert_eq!(model.fates, [Refused(2), Refused(3), Sent(0), Refused(5), Sent(1), Sent(4)]);
    }

    #[test]
    fn byte_limit_drops_large_packet_and_admits_small_one() {
        let (mut fifo, mut model) = (tail(10, 1000), Model::default());
        model.arrive(&mut fifo, &[600, 600, 400, 1]);
        model.ready(&mut fifo, 9);
        assert_eq!(model.fates, [Refused(1), Refused(3), Sent(0), Sent(2)]);
    }
}
