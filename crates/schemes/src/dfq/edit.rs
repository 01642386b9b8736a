//! Changes of the shares, while packets wait. No packet is lost or overtakes another of its share.

use super::grants::{BEST_EFFORT, Reservation};
use super::{DiscretizedFairQueueing, Place, queue};
use crate::{ShareParameters, Wires};
use units::{Instant, Rate, ShareId};

impl DiscretizedFairQueueing {
    /// Adds a share, or gives it other parameters. A share without a rate gets no flow: its packets are best effort.
    pub(super) fn put<W: Wires>(&mut self, share: ShareId, parameters: &ShareParameters, wires: &W) {
        if share == ShareId(0) {
            return;
        }
        if parameters.peak() == Rate::ZERO {
            return self.remove(share, wires);
        }
        let present = self.flow_of(share);
        if present != BEST_EFFORT {
            let place = &mut self.places[present as usize];
            self.closing -= u32::from(place.is_closing);
            (place.is_closing, place.parameters) = (false, *parameters);
            return self.reserve(present, wires.now());
        }
        let Some(flow) = self.unused.pop().or_else(|| self.new_flow()) else {
            self.refused += 1;
            return;
        };
        if self.flow_of.len() <= share.index() {
            self.flow_of.resize(share.index() + 1, BEST_EFFORT);
        }
        self.flow_of[share.index()] = flow;
        // Earlier packets of the share may wait as best effort.
        let follows = if wires.size(queue(BEST_EFFORT)).packets > 0 { wires.now() } else { Instant::NEVER };
        self.places[flow as usize] = Place { share, is_closing: false, follows, parameters: *parameters };
        self.allocation.set_granted(flow, 0);
        if follows != Instant::NEVER {
            self.followers.push(flow);
        }
        self.reserve(flow, wires.now());
        self.refresh(flow, wires);
    }

    /// A flow that was never used.
    fn new_flow(&mut self) -> Option<u32> {
        let flow = self.places.len() as u32;
        if flow >= self.count {
            return None;
        }
        self.places.push(self.places[BEST_EFFORT as usize]);
        self.allocation.grow(self.places.len());
        Some(flow)
    }

    pub(super) fn reserve(&mut self, flow: u32, now: Instant) {
        let parameters = &self.places[flow as usize].parameters;
        let (rate, peak, burst) = (parameters.rate.max(Rate::bits(1)), parameters.peak(), parameters.burst);
        self.allocation.reserve(flow, &Reservation { rate, peak, burst }, now);
    }

    /// Removes a share. Its packets leave first, with its reservation.
    pub(super) fn remove<W: Wires>(&mut self, share: ShareId, wires: &W) {
        let flow = self.flow_of(share);
        if flow == BEST_EFFORT {
            return;
        }
        self.closing += u32::from(!core::mem::replace(&mut self.places[flow as usize].is_closing, true));
        if wires.size(queue(flow)).packets == 0 {
            self.finish_closing(flow);
        }
    }

    /// Frees an empty flow whose share was removed.
    #[cold]
    pub(super) fn finish_closing(&mut self, flow: u32) {
        let place = &mut self.places[flow as usize];
        self.closing -= u32::from(core::mem::take(&mut place.is_closing));
        place.follows = Instant::NEVER;
        // Share 0 is the port itself: the place is not in use.
        let share = core::mem::replace(&mut place.share, ShareId(0));
        self.flow_of[share.index()] = BEST_EFFORT;
        self.followers.retain(|follower| *follower != flow);
        self.aqm.emptied(flow as usize);
        self.allocation.release(flow);
        if self.sending == Some(flow) {
            self.sending = None;
        }
        self.unused.push(flow);
    }

    /// Lets flows send whose earlier packets have left the queue of best effort.
    #[cold]
    pub(super) fn release_followers<W: Wires>(&mut self, wires: &W) {
        let oldest = wires.head(queue(BEST_EFFORT)).map_or(Instant::NEVER, |head| head.timestamp);
        let mut followers = core::mem::take(&mut self.followers);
        followers.retain(|flow| {
            let follows = self.places[*flow as usize].follows;
            if oldest > follows {
                self.places[*flow as usize].follows = Instant::NEVER;
                self.refresh(*flow, wires);
            }
            oldest <= follows
        });
        self.followers = followers;
    }
}
