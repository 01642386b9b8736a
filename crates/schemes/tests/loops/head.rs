//! A queue that drops at its head until the arriving packet fits.

use crate::ReferenceScheme;
use schemes::Record;
use schemes::model::ModelFate;
use std::collections::VecDeque;
use units::Instant;

pub struct Head {
    waiting: VecDeque<(usize, u64)>,
    limit: usize,
    bytes: u64,
}

impl Head {
    pub fn new(limit: usize, bytes: u64) -> Head {
        Head { waiting: VecDeque::new(), limit, bytes }
    }

    fn bytes(&self) -> u64 {
        self.waiting.iter().map(|(_, length)| length).sum()
    }
}

impl ReferenceScheme for Head {
    fn arrive(&mut self, number: usize, packet: &Record, fates: &mut Vec<ModelFate>) {
        let length = u64::from(packet.length);
        while self.waiting.len() >= self.limit || self.bytes() + length > self.bytes {
            let Some((first, _)) = self.waiting.pop_front() else { break };
            fates.push(ModelFate::Dropped(first));
        }
        self.waiting.push_back((number, length));
    }

    fn dequeue(&mut self, _: Instant, fates: &mut Vec<ModelFate>) {
        fates.extend(self.waiting.pop_front().map(|(number, _)| ModelFate::Sent(number)));
    }
}
