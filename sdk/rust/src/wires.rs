//! The wires of a guest. They write its decisions as commands for the host, and assume that the host carries them out.

use crate::block::{Block, COMMANDS, EVALUATIONS, MARK, Shown};
use crate::mirror::Mirror;
use schemes::{Record, Size, Wires};
use units::{Bytes, Instant, QueueId, Rate};

const SEND: u32 = 1;
const SEND_MARKED: u32 = 2;
const DROP_FRONT: u32 = 3;
const DROP_TAIL: u32 = 4;

/// A guest scheme's view of the link.
pub struct Link {
    mirror: Mirror,
    pub(crate) block: &'static mut Block,
    now: Instant,
    /// Packets that the link can still accept.
    room: u32,
    /// Commands that still fit into the block.
    left: u32,
    commands: usize,
    /// Number of records that the scheme has read.
    seen: usize,
    count: usize,
    /// True if the last record read has no verdict yet.
    current: bool,
    /// The packet of the last send command: may it still be marked, and is it ECN-capable?
    hand: Option<bool>,
}

impl Link {
    pub(crate) fn new(queues: usize, holds: u32, block: &'static mut Block) -> Link {
        let mirror = Mirror::new(queues, holds);
        Link {
            mirror,
            block,
            now: Instant::START,
            room: 0,
            left: 0,
            commands: 0,
            seen: 0,
            count: 0,
            current: false,
            hand: None,
        }
    }

    /// Begins a call of the host, with the room of the link and the maximum number of commands.
    fn enter(&mut self, room: u32, left: u32) {
        self.now = Instant::new(self.block.now);
        (self.room, self.left, self.commands) = (room, left, 0);
        (self.seen, self.count, self.current, self.hand) = (0, 0, false, None);
    }

    /// Begins an arrival of packets.
    pub(crate) fn begin(&mut self) {
        self.enter(0, COMMANDS as u32);
        self.count = self.block.count as usize;
    }

    /// Begins an evaluation for a ready link.
    pub(crate) fn ask(&mut self) {
        self.enter(self.block.room, self.block.count.min(EVALUATIONS));
    }

    /// Adds queued packets to the copy of the queues during a recount.
    pub(crate) fn recount(&mut self) {
        self.enter(0, 0);
        if self.block.room & 1 != 0 {
            self.mirror.clear();
        }
        for shown in &self.block.record[..self.block.count as usize] {
            self.mirror.push(QueueId(shown.queue.into()), shown);
        }
    }

    /// Ends the call: publishes the number of commands, and the time of the next call.
    pub(crate) fn leave(&mut self, next: u64) {
        self.block.commands = self.commands as u32;
        self.block.next = next;
    }

    /// Writes a command. False if the block has no room for more.
    #[inline(always)]
    fn command(&mut self, act: u32, queue: QueueId) -> bool {
        if self.left == 0 {
            return false;
        }
        // The command is executed before the verdict of the last record read, or after it if the verdict was already given.
        let place = if self.current { self.seen - 1 } else { self.seen };
        self.block.command[self.commands] = act << 24 | (place as u32) << 16 | (queue.0 & 0xffff);
        self.commands += 1;
        self.left -= 1;
        true
    }
}

impl Wires for Link {
    #[inline(always)]
    fn now(&self) -> Instant {
        self.now
    }

    #[inline(always)]
    fn size(&self, queue: QueueId) -> Size {
        self.mirror.size(queue)
    }

    #[inline(always)]
    fn head(&self, queue: QueueId) -> Option<Record> {
        self.mirror.head(queue)
    }

    #[inline(always)]
    fn arriving(&mut self) -> Option<Record> {
        self.current = self.seen < self.count;
        if !self.current {
            return None;
        }
        let shown = &self.block.record[self.seen];
        self.block.verdict[self.seen] = 0;
        self.seen += 1;
        Some(record(shown))
    }

    #[inline(always)]
    fn enqueue(&mut self, queue: QueueId) -> bool {
        if !core::mem::take(&mut self.current) {
            return false;
        }
        let shown = &self.block.record[self.seen - 1];
        let fits = self.mirror.push(queue, shown);
        if fits {
            self.block.verdict[self.seen - 1] |= queue.0 as u16 + 1;
        } else {
            self.block.verdict[self.seen - 1] = 0;
        }
        fits
    }

    fn drop_front(&mut self, queue: QueueId) -> Option<Record> {
        self.mirror.head(queue).filter(|_| self.command(DROP_FRONT, queue))?;
        self.mirror.pop(queue)
    }

    fn drop_tail(&mut self, queue: QueueId) -> Option<Record> {
        self.mirror.head(queue).filter(|_| self.command(DROP_TAIL, queue))?;
        self.mirror.pop_back(queue)
    }

    #[inline(always)]
    fn dequeue(&mut self, queue: QueueId) -> Option<Record> {
        self.hand = None;
        if self.room == 0 {
            return None;
        }
        // Do not dequeue if no command can report it.
        if self.left == 0 {
            return None;
        }
        let record = self.mirror.pop(queue)?;
        self.command(SEND, queue);
        self.room -= 1;
        self.hand = Some(record.ecn != 0);
        Some(record)
    }

    #[inline(always)]
    fn transmit(&mut self) {
        self.hand = None;
    }

    fn mark(&mut self) -> bool {
        if let Some(can) = self.hand {
            if can {
                let command = &mut self.block.command[self.commands - 1];
                *command = *command & 0x00ff_ffff | SEND_MARKED << 24;
            }
            return can;
        }
        if !self.current || self.block.record[self.seen - 1].ecn == 0 {
            return false;
        }
        self.block.verdict[self.seen - 1] |= MARK;
        self.block.record[self.seen - 1].ecn = 3;
        true
    }

    #[inline(always)]
    fn link_ready(&self) -> bool {
        self.room > 0 && self.left > 0
    }

    fn link_rate(&self) -> Rate {
        Rate::bits(self.block.rate)
    }

    #[inline(always)]
    fn enqueue_while(&mut self, queue: QueueId, bounds: Size) -> u32 {
        self.current = false;
        let before = self.seen;
        while self.seen < self.count {
            let (shown, waiting) = (&self.block.record[self.seen], self.mirror.size(queue));
            let fits = waiting.packets < bounds.packets
                && waiting.bytes + Bytes::new(shown.length.into()) <= bounds.bytes
                && self.mirror.push(queue, shown);
            if !fits {
                break;
            }
            self.block.verdict[self.seen] = queue.0 as u16 + 1;
            self.seen += 1;
        }
        (self.seen - before) as u32
    }

    #[inline(always)]
    fn send_while(&mut self, queue: QueueId, since: Instant) -> u32 {
        self.hand = None;
        let most = self.room.min(self.left);
        let mut sent = 0;
        while sent < most && self.mirror.head(queue).is_some_and(|head| head.timestamp >= since) {
            self.mirror.pop(queue);
            self.command(SEND, queue);
            sent += 1;
        }
        self.room -= sent;
        sent
    }
}

#[inline(always)]
fn record(shown: &Shown) -> Record {
    Record {
        length: shown.length,
        timestamp: Instant::new(shown.timestamp),
        queue: QueueId(shown.queue.into()),
        class: shown.class,
        flow_hash: shown.flow_hash,
        source: shown.source,
        destination: shown.destination,
        dscp: shown.dscp,
        ecn: shown.ecn,
        // Super-frames are split before guests see them.
        more: 0,
    }
}
