//! A marking threshold, as DCTCP requires of a switch: a packet that arrives while more than K wait is marked (Alizadeh et al., SIGCOMM 2010, section
//! 3.1; RFC 8257, section 3.1). The queue length is not averaged; senders average the marks. Packets that cannot be marked are enqueued unmarked.

use super::{Manage, QueueContext};
use crate::options::{BuildError, Values};
use crate::wires::{is_short, packet_bounds};
use crate::{Record, Size, Tell, Wires};
use units::Instant;
use units::declare::{Declaration, DeclaredCost, OptionDeclaration, Unit};

/// The threshold.
#[derive(Clone, Copy, Debug)]
pub struct Threshold {
    /// The number of waiting packets above which arriving ones are marked.
    pub mark: u32,
    /// The most packets that wait.
    pub limit: u32,
}

impl Threshold {
    /// The declaration for configurations.
    pub const DECLARATION: Declaration = Declaration {
        name: "threshold",
        summary: "marks packets that arrive while more than `mark` packets wait; DCTCP senders then keep the queue short",
        cost: DeclaredCost::None,
        source: "RFC 8257, section 3.1; Alizadeh et al., SIGCOMM 2010",
        options: &[
            OptionDeclaration {
                name: "mark",
                unit: Unit::Count,
                default: "65",
                least: 0,
                most: 65536,
                doc: "the most packets that wait without marks for arriving ones: 65 for 10 Gbit/s, 20 for 1 Gbit/s",
            },
            super::LIMIT,
        ],
    };

    /// The threshold with the values of its options.
    pub fn of(options: &Values<'_>) -> Result<Threshold, BuildError> {
        Ok(Threshold { mark: options.count("mark")?, limit: options.count("limit")? })
    }
}

impl Manage for Threshold {
    type Memory = ();

    #[inline]
    fn arrive<W: Wires>(&mut self, (): &mut (), at: &mut QueueContext<'_, W>, packet: &Record) -> bool {
        if at.is_full(self.limit, packet) {
            return false;
        }
        // The last segment of a super-frame finds the others waiting.
        if at.waiting.packets + packet.more > self.mark {
            // The result does not matter: a packet that is not ECN-capable is enqueued unmarked.
            at.wires.mark();
        }
        at.wires.enqueue(at.queue)
    }

    fn splits_super_frames(&self) -> bool {
        is_short(packet_bounds(self.limit))
    }

    fn state(&self, (): &(), _: Instant, waiting: Size, tell: &mut Tell<'_>) {
        tell("marking", u8::from(waiting.packets > self.mark).into());
    }

    fn passes_when_idle(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::model::{Model, ModelFate};
    use crate::single::Single;

    #[test]
    fn threshold_marks_ecn_capable_packets_and_drops_none() {
        let mut scheme = Single::new(Threshold { mark: 2, limit: 6 });
        let mut model = Model::default();
        let record = |ecn| Record { length: 100, ecn, ..Record::default() };
        model.arrive_all(&mut scheme, [1, 1, 1, 2, 0, 1, 1].map(record).into_iter());
        assert_eq!((&model.marked[..], &model.fates[..]), (&[3, 5][..], &[ModelFate::Refused(6)][..]));
    }
}
