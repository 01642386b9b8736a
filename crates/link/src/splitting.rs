//! Super-frames and partial checksums at a link. A slow link accepts no super-frames, even if its port does: the path splits them.

use super::{Link, LinkWires};
use packet::accounting::Accounting;
use packet::port::Offloads;
use schemes::Scheme;

impl Link {
    /// The offloads that the link accepts: those of its port, but no super-frames where its scheme wants them split.
    pub fn offloads(&self) -> Offloads {
        self.offloads
    }

    /// The offloads of port and scheme as they are now.
    pub(super) fn supported_offloads(&self) -> Offloads {
        // An emulated link delays single packets.
        if self.emulation.is_some() {
            return Offloads::default();
        }
        let can = self.port.offloads();
        let newer = self.incoming.as_ref().map(|newer| &newer.scheme);
        // A draining link has two schemes. It accepts super-frames only if neither splits them.
        let splits = [Some(&self.scheme), newer].into_iter().flatten().any(|scheme| self.splits(scheme.as_ref()));
        Offloads { super_frames: can.super_frames && !splits, ..can }
    }

    /// True if super-frames are split before this scheme.
    pub(super) fn splits(&self, scheme: &dyn Scheme<LinkWires>) -> bool {
        scheme.splits_super_frames(self.wires.rate)
    }

    /// Accepts these offloads from now on. Returns those before.
    pub(super) fn accept(&mut self, can: Offloads) -> Offloads {
        // A copy with a shared tail is longer on the wire than its buffer, like a super-frame.
        self.wires.super_frames = can.super_frames || can.gather;
        std::mem::replace(&mut self.offloads, can)
    }

    /// Asks the port and the scheme again. If they accept less than before, splits the packets in the queues and returns true: the
    /// paths that lead here may hold more.
    pub fn refresh_offloads(&mut self, fates: &mut Accounting) -> bool {
        self.set_offloads(self.supported_offloads(), fates)
    }

    pub(super) fn set_offloads(&mut self, can: Offloads, fates: &mut Accounting) -> bool {
        let had = self.accept(can);
        let lost = |had: bool, can: bool| had && !can;
        let less = lost(had.super_frames, can.super_frames)
            || lost(had.checksums, can.checksums)
            || lost(had.gather, can.gather);
        // A port that accepts more than before also accepts the waiting packets as they are.
        if less {
            self.refit(can, fates);
            if self.incoming.is_some() {
                self.with_incoming(|link| link.refit(can, fates));
            }
        }
        less
    }

    fn refit(&mut self, can: Offloads, fates: &mut Accounting) {
        self.wires.refit(can, fates);
        self.call_with_fallback(|scheme, lines| scheme.recount(lines));
    }
}
