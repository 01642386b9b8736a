//! The flow map of a sender: which number a share has in batches, and whether the other end knows it (spec P-37, P-39).
//!
//! Packets of a share travel as flow 0, best effort, until the other end has acknowledged its entry. So a batch never has a flow that its receiver does
//! not know. All bytes of a flow are sent before its number may change, so an entry can be reused at any time: the frames keep their order.

use super::message::{MOST_ENTRIES, MapEntry};
use units::{Instant, Nanos, ShareId};

/// An entry that was not acknowledged is sent again after this time.
const REPEAT: Nanos = Nanos::millis(100);
/// An entry without packets for this long may be used for another share.
const UNUSED: Nanos = Nanos::secs(60);
/// Shares above this number stay in flow 0: the table is indexed by share.
const MOST_SHARE: usize = 1 << 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum EntryState {
    Free,
    /// The entry is to be sent at this time, and again until it is acknowledged.
    Announced(Instant),
    Acknowledged,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    share: ShareId,
    state: EntryState,
    used: Instant,
}

/// The map of one sender.
#[derive(Debug)]
pub(super) struct FlowMap {
    /// By flow number; the first is best effort and never in use.
    entries: Vec<Entry>,
    /// Flow numbers below this may be used: the least of both ends.
    most: u16,
    /// The flow number of each share; 0 for none.
    flows: Vec<u16>,
    free: Vec<u16>,
    quantum: u16,
    /// No announcement is due before this time.
    due: Instant,
    announced: usize,
    acknowledged: u16,
}

impl FlowMap {
    /// An empty map of flow numbers below `most`, all with the same quantum in bytes.
    pub fn new(most: u16, quantum: u16) -> FlowMap {
        let entry = Entry { share: ShareId(0), state: EntryState::Free, used: Instant::START };
        let entries = vec![entry; usize::from(most)];
        let mut map = FlowMap {
            entries,
            most,
            flows: Vec::new(),
            free: Vec::new(),
            quantum,
            due: Instant::START,
            announced: 0,
            acknowledged: 0,
        };
        map.free = (1..most).rev().collect();
        map
    }

    /// The quantum of every flow.
    pub fn quantum(&self) -> u16 {
        self.quantum
    }

    /// Flows that the other end has acknowledged.
    pub fn acknowledged(&self) -> u16 {
        self.acknowledged
    }

    /// The flow of a packet of `share`: 0 until the other end knows it.
    #[inline]
    pub fn flow_of(&mut self, share: ShareId, now: Instant) -> u16 {
        if share == ShareId(0) {
            return 0;
        }
        let flow = self.flows.get(share.0 as usize).copied().unwrap_or(0);
        match self.entries.get_mut(usize::from(flow)) {
            Some(entry) if flow != 0 => {
                entry.used = now;
                if entry.state == EntryState::Acknowledged && flow < self.most { flow } else { 0 }
            }
            _ => {
                self.add(share, now);
                0
            }
        }
    }

    #[cold]
    fn add(&mut self, share: ShareId, now: Instant) {
        let index = share.0 as usize;
        // The lowest free number is last, so flows that begin together are close together and fit one bitmap.
        let Some(&flow) = self.free.last().filter(|flow| **flow < self.most && index < MOST_SHARE) else { return };
        self.free.pop();
        if self.flows.len() <= index {
            self.flows.resize(index + 1, 0);
        }
        self.flows[index] = flow;
        self.entries[usize::from(flow)] = Entry { share, state: EntryState::Announced(now), used: now };
        self.due = now;
        self.announced += 1;
    }

    /// The other end has a new session: it knows no entry, and accepts flows below `most`.
    pub fn restart(&mut self, most: u16, now: Instant) {
        self.most = most;
        (self.announced, self.acknowledged, self.due) = (0, 0, now);
        for entry in &mut self.entries {
            if entry.state != EntryState::Free {
                entry.state = EntryState::Announced(now);
                self.announced += 1;
            }
        }
    }

    /// Appends entries that are to be sent now, as many as one message has room for.
    pub fn take_due(&mut self, now: Instant, message: &mut Vec<MapEntry>) {
        if self.announced == 0 || now < self.due {
            return;
        }
        let quantum = self.quantum;
        let all = self.entries.iter_mut().zip(0..self.most);
        let due = all.filter(|(entry, _)| matches!(entry.state, EntryState::Announced(due) if due <= now));
        message.extend(due.take(MOST_ENTRIES).map(|(entry, flow)| {
            entry.state = EntryState::Announced(now + REPEAT);
            MapEntry { flow, label: entry.share.0, quantum }
        }));
        if message.len() < MOST_ENTRIES {
            self.due = now + REPEAT;
        }
    }

    /// The other end has acknowledged an entry. An answer to a former entry of the same number changes nothing.
    pub fn acknowledge(&mut self, answer: &MapEntry) {
        let Some(entry) = self.entries.get_mut(usize::from(answer.flow)) else { return };
        let is_same = entry.share.0 == answer.label && answer.quantum == self.quantum;
        if is_same && matches!(entry.state, EntryState::Announced(_)) {
            entry.state = EntryState::Acknowledged;
            self.announced -= 1;
            self.acknowledged += 1;
        }
    }

    /// Frees the entries of shares without packets.
    pub fn expire(&mut self, now: Instant) {
        for (entry, flow) in self.entries.iter_mut().zip(0..) {
            if entry.state == EntryState::Free || now.since(entry.used) < UNUSED {
                continue;
            }
            match entry.state {
                EntryState::Acknowledged => self.acknowledged -= 1,
                _ => self.announced -= 1,
            }
            entry.state = EntryState::Free;
            self.flows[entry.share.0 as usize] = 0;
            self.free.push(flow);
        }
    }
}
