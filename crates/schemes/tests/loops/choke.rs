//! CHOKe with a loop: doomed packets stay in the queue, and are removed at a dequeue, until one that is not doomed is found. Source: Pan, Prabhakar
//! and Psounis, INFOCOM 2000, figure 1.

use crate::ReferenceScheme;
use crate::red::Red;
use crate::register::Register;
use schemes::Record;
use schemes::model::ModelFate;
use std::collections::VecDeque;
use units::Instant;

pub struct Choke {
    red: Red,
    /// The generator that picks the packet to compare with.
    register: Register,
    /// Numbers, flows, and whether packets are doomed.
    waiting: VecDeque<(usize, u32, bool)>,
}

impl Choke {
    pub fn new(red: Red, seed: u32) -> Choke {
        Choke { red: red.sharp(), register: Register::new(seed ^ 0x9e37_79b9), waiting: VecDeque::new() }
    }

    fn staying(&self) -> usize {
        self.waiting.iter().filter(|(_, _, goes)| !goes).count()
    }

    /// True if the packet is of the same flow as the picked one, which is then doomed.
    fn meets_its_own(&mut self, flow: u32) -> bool {
        let picked = self.register.below(self.waiting.len() as u32) as usize;
        let (_, other, goes) = &mut self.waiting[picked];
        let own = !*goes && *other == flow;
        *goes |= own;
        own
    }
}

impl ReferenceScheme for Choke {
    fn arrive(&mut self, number: usize, packet: &Record, fates: &mut Vec<ModelFate>) {
        self.red.average(self.staying(), packet.timestamp);
        let full = self.waiting.len() >= self.red.limit();
        let compares = !full && self.red.is_above_least() && !self.waiting.is_empty();
        if full || compares && self.meets_its_own(packet.flow_hash) || self.red.hits() {
            fates.push(ModelFate::Refused(number));
        } else {
            self.waiting.push_back((number, packet.flow_hash, false));
            self.red.busy(packet.timestamp);
        }
    }

    fn dequeue(&mut self, now: Instant, fates: &mut Vec<ModelFate>) {
        while let Some((number, _, true)) = self.waiting.front() {
            fates.push(ModelFate::Dropped(*number));
            self.waiting.pop_front();
            self.red.busy(now);
        }
        if let Some((number, ..)) = self.waiting.pop_front() {
            fates.push(ModelFate::Sent(number));
            self.red.busy(now);
        }
    }
}
