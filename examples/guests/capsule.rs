//! @NAME@: active capsules: packets that bring a small program, which runs at each router on their way.
//!
//! This is the "active protocol" among the forwarding functions of Qie, Bavier, Peterson and Karlin, "Scheduling Computations on a Software-Based
//! Router", SIGMETRICS 2001, table 1, where a capsule of the ANTS system runs on the router. Here the program is in the packet. It may read and
//! write words of the packet, soft state of the router that expires after ten seconds, the time, and the port to its destination. It can end the
//! packet or assign it to a rule of the path. For example it suppresses copies of a request that another receiver has sent already (Lehman, Garland,
//! Tennenhouse, "Active reliable multicast", INFOCOM 1998).
//!
//! The payload of a capsule, in UDP to the port of the option, over IPv4 or IPv6:
//!
//! | bytes | content |
//! |---|---|
//! | 4 | `SPAC` |
//! | 1 | bytes of the program, at most 128 |
//! | 1 | words of data, at most 32 |
//! | 2 | zero |
//! | | the program |
//! | | the words, 4 bytes each, big-endian |
//!
//! An operation is a byte; those with an operand have a second one. The stack holds 16 numbers of 32 bits. A program runs at most 256 operations. A
//! program that fails leaves its packet unchanged, and the packet continues.

#![cfg_attr(not(test), no_std)]

use switchpath_guest::{
    Lookup, Needs, Options, Packet, PacketFunction, String, Verdict, count, function, lookup, rules, updated_checksum,
};

function! {
    "summary Runs the programs of active capsules.\n\
    option port count 3322 1 65535 The UDP port of capsules.\n\
    counter capsules\n\
    counter failed programs\n\
    counter operations",
    Capsules
}

/// The option and the counters.
const PORT: usize = 0;
const CAPSULES: u32 = 0;
const FAILED: u32 = 1;
const OPERATIONS: u32 = 2;

const UDP: u8 = 17;
const HEADER: usize = 8;
const CODE: usize = 128;
const WORDS: usize = 32;
const STACK: usize = 16;
const FUEL: u32 = 256;
/// Entries of soft state, a power of two, and their lifetime in nanoseconds.
const ENTRIES: usize = 1024;
const LIFETIME: u64 = 10_000_000_000;

/// Operations. `k` is the operand.
mod op {
    /// Ends the program: the packet continues.
    pub const END: u8 = 0;
    /// Ends the program and the packet.
    pub const DROP: u8 = 1;
    /// Ends the program: rule k of the path applies.
    pub const RULE: u8 = 2;
    /// Pushes k.
    pub const PUSH: u8 = 3;
    /// Pushes word k of the packet, or pops it.
    pub const LOAD: u8 = 4;
    pub const STORE: u8 = 5;
    /// Pops two numbers and pushes their sum, difference, minimum, maximum; 1 if they are equal, or the first is less.
    pub const ADD: u8 = 6;
    pub const SUB: u8 = 7;
    pub const MIN: u8 = 8;
    pub const MAX: u8 = 9;
    pub const EQUAL: u8 = 10;
    pub const LESS: u8 = 11;
    /// Pops a number; continues at byte k of the program if it is zero.
    pub const JUMP_ZERO: u8 = 12;
    /// Pops a key; pushes its value in the soft state, and 1; or 0 and 0.
    pub const GET: u8 = 13;
    /// Pops a value and then a key, and keeps them.
    pub const PUT: u8 = 14;
    /// Pushes the time in milliseconds, the number of the ingress port, the number of the port to the destination.
    pub const TIME: u8 = 15;
    pub const CAME: u8 = 16;
    pub const LEAVES: u8 = 17;
    /// Pushes the upper number once more.
    pub const COPY: u8 = 18;
}

struct Capsules {
    port: u16,
    /// The number of the path's rules.
    rules: usize,
}

/// An entry of soft state; it expires.
#[derive(Clone, Copy)]
struct Entry {
    key: u32,
    value: u32,
    until: u64,
}

impl PacketFunction for Capsules {
    const NEEDS: Needs = Needs { bytes: 512, packets: 16, fields: true, writes: true, ..Needs::NOTHING };
    type State = [Entry; ENTRIES];
    const INITIAL: [Entry; ENTRIES] = [Entry { key: 0, value: 0, until: 0 }; ENTRIES];

    fn start(options: &Options) -> Result<Capsules, String> {
        Ok(Capsules { port: options.value(PORT) as u16, rules: rules().len() })
    }

    fn process(&mut self, entries: &mut Self::State, packet: &mut Packet<'_>) -> Verdict {
        let (Some(transport), Some(payload)) = (packet.transport(), packet.payload_offset()) else {
            return Verdict::Pass;
        };
        let to_capsules = packet.bytes().get(transport + 2..transport + 4) == Some(&self.port.to_be_bytes());
        if packet.protocol() != UDP || !to_capsules {
            return Verdict::Pass;
        }
        let Some((code, data)) = parts(packet.bytes(), payload) else { return Verdict::Pass };
        count(CAPSULES, 1);
        let mut program = [0; CODE];
        program[..code.len()].copy_from_slice(&packet.bytes()[code.clone()]);
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(packet.bytes()[data.clone()].chunks_exact(4)) {
            *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        let all = data.len() / 4;
        let mut run = Run {
            code: &program[..code.len()],
            words: &mut words[..all],
            stack: [0; STACK],
            height: 0,
            rules: self.rules,
            entries,
        };
        let (ended, used) = run.run(packet);
        count(OPERATIONS, used.into());
        let Some(verdict) = ended else {
            count(FAILED, 1);
            return Verdict::Pass;
        };
        for (which, word) in words[..all].iter().enumerate() {
            write(packet, (transport, data.start + which * 4), *word);
        }
        verdict
    }
}

/// The places of the program and of the words.
fn parts(bytes: &[u8], payload: usize) -> Option<(core::ops::Range<usize>, core::ops::Range<usize>)> {
    let head = bytes.get(payload..payload + HEADER)?;
    let (code, words) = (usize::from(head[4]), usize::from(head[5]));
    if &head[..4] != b"SPAC" || code > CODE || words > WORDS {
        return None;
    }
    let start = payload + HEADER;
    let (middle, end) = (start + code, start + code + words * 4);
    (end <= bytes.len()).then_some((start..middle, middle..end))
}

/// Changes a word of a packet, and its UDP checksum with it (RFC 1624). Zero means that there is none.
fn write(packet: &mut Packet<'_>, (transport, at): (usize, usize), word: u32) {
    let is_pending = packet.is_pending();
    let bytes = packet.bytes_mut();
    let Some(place) = bytes.get(at..at + 4) else { return };
    let old = u32::from_be_bytes([place[0], place[1], place[2], place[3]]);
    if old == word {
        return;
    }
    bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
    let Some(sum) = bytes.get_mut(transport + 6..transport + 8) else { return };
    let before = u16::from_be_bytes([sum[0], sum[1]]);
    if before == 0 || is_pending {
        return;
    }
    // A word at an odd offset adds to the sum with its bytes swapped (RFC 1071 2B).
    let turn = |half: u16| if (at - transport).is_multiple_of(2) { half } else { half.swap_bytes() };
    let upper = updated_checksum(before, turn((old >> 16) as u16), turn((word >> 16) as u16));
    let after = updated_checksum(upper, turn(old as u16), turn(word as u16));
    sum.copy_from_slice(&if after == 0 { 0xffff } else { after }.to_be_bytes());
}

/// A program at work.
struct Run<'a> {
    code: &'a [u8],
    words: &'a mut [u32],
    stack: [u32; STACK],
    height: usize,
    rules: usize,
    entries: &'a mut [Entry; ENTRIES],
}

impl Run<'_> {
    fn push(&mut self, value: u32) -> Option<()> {
        *self.stack.get_mut(self.height)? = value;
        self.height += 1;
        Some(())
    }

    fn pop(&mut self) -> Option<u32> {
        self.height = self.height.checked_sub(1)?;
        Some(self.stack[self.height])
    }

    /// Runs it. `None` if it fails. Also returns the number of operations.
    fn run(&mut self, packet: &Packet<'_>) -> (Option<Verdict>, u32) {
        let mut at = 0;
        for used in 1..=FUEL {
            match self.step(&mut at, packet) {
                None => return (None, used),
                Some(Some(verdict)) => return (Some(verdict), used),
                Some(None) => {}
            }
        }
        (None, FUEL)
    }

    /// One operation: none if it fails, and a verdict if it is the last.
    fn step(&mut self, at: &mut usize, packet: &Packet<'_>) -> Option<Option<Verdict>> {
        let operation = *self.code.get(*at)?;
        *at += 1;
        let mut operand = || {
            let operand = self.code.get(*at).copied();
            *at += 1;
            operand
        };
        match operation {
            op::END => return Some(Some(Verdict::Pass)),
            op::DROP => return Some(Some(Verdict::Drop)),
            // A rule that the path lacks would be a fault of the guest, and a capsule must not cause one.
            op::RULE => {
                let rule = operand().filter(|rule| usize::from(*rule) < self.rules)?;
                return Some(Some(Verdict::Rule(rule.into())));
            }
            op::PUSH => {
                let value = operand()?.into();
                self.push(value)?;
            }
            op::LOAD => {
                let word = *self.words.get(usize::from(operand()?))?;
                self.push(word)?;
            }
            op::STORE => {
                let which = usize::from(operand()?);
                let value = self.pop()?;
                *self.words.get_mut(which)? = value;
            }
            op::ADD..=op::LESS => {
                let (second, first) = (self.pop()?, self.pop()?);
                self.push(match operation {
                    op::ADD => first.wrapping_add(second),
                    op::SUB => first.wrapping_sub(second),
                    op::MIN => first.min(second),
                    op::MAX => first.max(second),
                    op::EQUAL => u32::from(first == second),
                    _ => u32::from(first < second),
                })?;
            }
            op::JUMP_ZERO => {
                let to = usize::from(operand()?);
                if self.pop()? == 0 {
                    *at = to;
                }
            }
            op::GET => {
                let key = self.pop()?;
                let entry = &self.entries[place(key)];
                let found = entry.key == key && entry.until > packet.now();
                let value = if found { entry.value } else { 0 };
                self.push(value)?;
                self.push(found.into())?;
            }
            op::PUT => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.entries[place(key)] = Entry { key, value, until: packet.now() + LIFETIME };
            }
            op::TIME => self.push((packet.now() / 1_000_000) as u32)?,
            op::CAME => self.push(packet.in_port().into())?,
            op::LEAVES => {
                let destination = if packet.is_ipv6() { 24..40 } else { 16..20 };
                let port = lookup(packet.bytes().get(destination)?);
                self.push(if let Lookup::Port(port) = port { port.into() } else { u32::MAX })?;
            }
            op::COPY => {
                let value = self.pop()?;
                self.push(value)?;
                self.push(value)?;
            }
            _ => return None,
        }
        Some(None)
    }
}

/// The place of a key in the soft state (Knuth, TAOCP 3, 6.4).
fn place(key: u32) -> usize {
    (key.wrapping_mul(0x9e37_79b1) >> 22) as usize % ENTRIES
}
