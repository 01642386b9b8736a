//! The part of a packet that routers execute (spec E-15).
//!
//! | offset | field |
//! |---|---|
//! | 0 | version (3 bits) = 1, then one bit each: input, central, output, error, piggybacked |
//! | 1 | opcode |
//! | 2 | length in bytes, checksum included: fixed by the opcode |
//! | 3 | flags (0x80: trace, 0x40: sealed) and operator (4 bits each) |
//! | 4 | computation |
//! | 12 | operands: tags and values of 8 bytes, a threshold of 4 |
//! | last 2 | Internet checksum over all of it |
//!
//! A sealed part has eight bytes more before its checksum: see [`crate::seal`].
//!
//! The checksum stays right with every change, so the sum over the whole part never changes: a UDP checksum around it stays
//! right by itself (RFC 1071 2(B): the part is of even length, and begins at an even offset).

use crate::isa::{Abort, Instruction, Opcode, Operator, REGISTERED};
use packet::wire::checksum;
use std::hint::cold_path;
use zerocopy::byteorder::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const VERSION: u8 = 1;
const INPUT: u8 = 1 << 4;
const CENTRAL: u8 = 1 << 3;
const OUTPUT: u8 = 1 << 2;
pub(super) const ERROR: u8 = 1 << 1;
const PIGGYBACKED: u8 = 1;
const TRACE: u8 = 0x80;
/// The flag of a part that is sealed.
pub(crate) const SEALED: u8 = 0x40;
/// Bytes of a seal.
pub const SEAL: usize = 8;
const CHECKSUM: usize = 2;

/// The fixed beginning.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Head {
    bits: u8,
    opcode: u8,
    length: u8,
    operator: u8,
    computation: U64,
}

const HEAD: usize = size_of::<Head>();

/// COUNT.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct CountBody {
    counter: U64,
    threshold: U32,
}

/// Everything with two operands of 8 bytes: a tag and a value, or a counter and a child.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PairBody {
    tag: U64,
    value: U64,
}

/// COLLECT.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct CollectBody {
    counter: U64,
    result: U64,
    value: U64,
}

/// RCOLLECT.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RcollectBody {
    counter: U64,
    result: U64,
    child: U64,
    value: U64,
}

/// A bit of the first byte, or of the fourth.
const fn bit(is: bool, bit: u8) -> u8 {
    if is { bit } else { 0 }
}

/// Where in a router an instruction is to be executed: any of three places (spec E-37).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Locations {
    /// At the port it comes in by.
    pub input: bool,
    /// In the middle.
    pub central: bool,
    /// At the port it leaves by, once for each copy.
    pub output: bool,
}

impl Locations {
    /// At the port it comes in by.
    pub const INPUT: Locations = Locations { input: true, central: false, output: false };
    /// In the middle.
    pub const CENTRAL: Locations = Locations { input: false, central: true, output: false };
    /// At the port it leaves by.
    pub const OUTPUT: Locations = Locations { input: false, central: false, output: true };

    /// Those of the first byte of a part, or of several joined.
    pub(crate) const fn of(bits: u8) -> Locations {
        Locations { input: bits & INPUT != 0, central: bits & CENTRAL != 0, output: bits & OUTPUT != 0 }
    }

    /// The same in the first byte of a part.
    pub(crate) const fn bits(self) -> u8 {
        bit(self.input, INPUT) | bit(self.central, CENTRAL) | bit(self.output, OUTPUT)
    }

    /// Whether each of these is among them.
    pub const fn contain(self, others: Locations) -> bool {
        self.bits() & others.bits() == others.bits()
    }
}

/// The part, read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Where it is to be executed.
    pub locations: Locations,
    /// Whether a router could not execute it: none behind it does.
    pub error: bool,
    /// Whether data of somebody else follows.
    pub piggybacked: bool,
    /// Whether its sender wants to be able to follow it.
    pub trace: bool,
    /// The computation it belongs to, by a number that its host has drawn.
    pub computation: u64,
    /// What is to be done.
    pub instruction: Instruction,
}

/// Why there is nothing to execute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unread {
    /// It is of another version, or too short to say.
    Foreign,
    /// It is ours, and wrong.
    Wrong(Abort),
    /// It is sealed: whether it is right says who has the key ([`crate::seal`]).
    Sealed,
}

/// What the first bytes of a part say, without a look at the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peeked {
    bits: u8,
    opcode: u8,
    length: u8,
    operator: u8,
    /// The computation it belongs to.
    pub computation: u64,
}

impl Peeked {
    /// Where it is to be executed.
    pub const fn locations(self) -> Locations {
        Locations::of(self.bits)
    }

    /// The byte that says where it is to be executed.
    #[inline(always)]
    pub(crate) const fn bits(self) -> u8 {
        self.bits
    }

    /// Whether it is to be executed at one of these.
    #[inline(always)]
    pub const fn asks(self, locations: Locations) -> bool {
        self.bits & locations.bits() != 0
    }

    /// Whether a router could not execute it.
    #[inline(always)]
    pub const fn error(self) -> bool {
        self.bits & ERROR != 0
    }

    /// Which instruction it says it is.
    #[inline(always)]
    pub(crate) fn opcode(self) -> Result<Opcode, Abort> {
        let unknown = if self.opcode >= REGISTERED { Abort::NotEnabled } else { Abort::BadOpcode };
        Opcode::of(self.opcode).ok_or(unknown)
    }

    /// Whether it has a seal, and the length of its instruction and that.
    fn is_sealed(self, opcode: Opcode, bytes: &[u8]) -> bool {
        let length = usize::from(self.length);
        self.operator & SEALED != 0 && length == opcode.length() + SEAL && bytes.len() >= length
    }

    /// Its instruction, from the bytes that begin with it; `opcode` is what it says it is, so that where that is known
    /// nothing is left to be decided. Length, checksum and operator have to be right.
    #[inline(always)]
    pub(crate) fn instruction(self, opcode: Opcode, bytes: &[u8]) -> Result<Instruction, Abort> {
        if usize::from(self.length) != opcode.length() {
            return Err(Abort::BadLength);
        }
        sound(opcode, self.operator, bytes)
    }
}

/// The instruction of a part that says it has its length.
#[inline(always)]
fn sound(opcode: Opcode, operator: u8, bytes: &[u8]) -> Result<Instruction, Abort> {
    let of = bytes.get(HEAD..opcode.length()).ok_or(Abort::BadLength)?;
    let summed = match opcode.length() {
        14 => is_summed::<14>(bytes),
        22 => is_summed::<22>(bytes),
        26 => is_summed::<26>(bytes),
        38 => is_summed::<38>(bytes),
        46 => is_summed::<46>(bytes),
        _ => is_summed::<30>(bytes),
    };
    if !summed {
        return Err(Abort::BadChecksum);
    }
    operands(opcode, operator, of).ok_or(Abort::BadOpcode)
}

/// The first four bytes of a part of which nothing is out of the ordinary: its version, that no router before could not execute it, an
/// opcode that is executed here, the length that this has, no seal, and nobody who wants it traced.
#[derive(Clone, Copy)]
pub(crate) struct Ordinary {
    word: u32,
}

/// How parts begin that are executed here, of which nothing is out of the ordinary.
#[derive(Clone, Debug)]
pub(crate) struct Heads {
    /// The instructions, a bit for each by its number, and where.
    of: (u16, Locations),
    /// By the low bits of an opcode what the bytes have to be.
    heads: [u32; 16],
}

impl Heads {
    /// What is looked at; the rest is free.
    const SAME: u32 = u32::from_le_bytes([0xe0 | ERROR, 0xff, 0xff, TRACE | SEALED]);
    /// The same with where it is to be executed.
    const WHERE: u32 = Heads::SAME | u32::from_le_bytes([INPUT | CENTRAL | OUTPUT, 0, 0, 0]);
    /// In the place of an instruction that there is not, or that is not executed: what no bytes are.
    const NONE: u32 = !Heads::WHERE;

    /// Those of the instructions with a bit in `allowed`, by its number, at a place.
    pub fn of((allowed, at): (u16, Locations)) -> Heads {
        let mut heads = [Heads::NONE; 16];
        for opcode in Opcode::ALL.into_iter().filter(|opcode| allowed >> opcode.number() & 1 != 0) {
            let bytes = [VERSION << 5 | at.bits(), opcode.number(), opcode.length() as u8, 0];
            heads[usize::from(opcode.number())] = u32::from_le_bytes(bytes);
        }
        Heads { of: (allowed, at), heads }
    }

    /// Makes them those of others, where they are others.
    #[inline(always)]
    pub fn keep_to(&mut self, of: (u16, Locations)) {
        if self.of != of {
            cold_path();
            *self = Heads::of(of);
        }
    }

    /// The beginning of a part that is to be executed at this place and nowhere else, if it is one of these: all in one comparison.
    #[inline(always)]
    pub fn only_here(&self, bytes: &[u8]) -> Option<Ordinary> {
        self.like::<{ Heads::WHERE }>(bytes)
    }

    /// The same, wherever it is to be executed.
    pub fn begin(&self, bytes: &[u8]) -> Option<Ordinary> {
        self.like::<{ Heads::SAME }>(bytes)
    }

    #[inline(always)]
    fn like<const BITS: u32>(&self, bytes: &[u8]) -> Option<Ordinary> {
        let word = u32::from_le_bytes(*bytes.first_chunk()?);
        let begun = Ordinary { word };
        let head = self.heads[begun.number() as usize] & (BITS | Heads::NONE);
        (word & BITS == head).then_some(begun)
    }
}

impl Ordinary {
    /// The number of its instruction.
    #[inline(always)]
    pub const fn number(self) -> u32 {
        self.word >> 8 & 0xf
    }

    /// As [`Peeked::instruction`].
    #[inline(always)]
    pub fn instruction(self, opcode: Opcode, bytes: &[u8]) -> Option<Instruction> {
        sound(opcode, (self.word >> 24) as u8, bytes).ok()
    }
}

/// Looks at the first bytes. `None` where they are of another version, or too few.
#[inline(always)]
pub fn peek(bytes: &[u8]) -> Option<Peeked> {
    let head = bytes.first_chunk::<HEAD>()?;
    let head: &Head = zerocopy::transmute_ref!(head);
    let Head { bits, opcode, length, operator, computation } = *head;
    (bits >> 5 == VERSION).then(|| Peeked { bits, opcode, length, operator, computation: computation.get() })
}

/// Whether somebody wants to know what becomes of a part, of whatever kind.
#[inline(always)]
pub(crate) fn is_traced(bytes: &[u8]) -> bool {
    bytes.get(3).is_some_and(|operator| operator & TRACE != 0)
}

/// The computation of a part of which more has been looked at.
#[inline(always)]
pub(crate) fn computation(bytes: &[u8]) -> Option<u64> {
    let head: &Head = zerocopy::transmute_ref!(bytes.first_chunk::<HEAD>()?);
    Some(head.computation.get())
}

/// What a piggybacked part has behind it: the protocol of that, and its bytes. `None` where it is not piggybacked.
pub(crate) fn behind(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let head = bytes.first_chunk::<HEAD>()?;
    let head: &Head = zerocopy::transmute_ref!(head);
    if head.bits & PIGGYBACKED == 0 {
        return None;
    }
    let (&[protocol, _], inside) = bytes.get(usize::from(head.length)..)?.split_first_chunk::<2>()?;
    Some((protocol, inside))
}

impl Part {
    /// The part at the start of `bytes`, which may go on behind it.
    #[inline]
    pub fn read(bytes: &[u8]) -> Result<Part, Unread> {
        let head = peek(bytes).ok_or(Unread::Foreign)?;
        let opcode = head.opcode().map_err(Unread::Wrong)?;
        if head.is_sealed(opcode, bytes) {
            return Err(Unread::Sealed);
        }
        let instruction = head.instruction(opcode, bytes).map_err(Unread::Wrong)?;
        Ok(Part {
            locations: head.locations(),
            error: head.error(),
            piggybacked: head.bits & PIGGYBACKED != 0,
            trace: head.operator & TRACE != 0,
            computation: head.computation,
            instruction,
        })
    }

    /// Bytes it takes.
    pub const fn length(&self) -> usize {
        self.instruction.opcode().length()
    }

    /// Writes it at the start of `bytes`. Answers how many it took; `None` where they are too few.
    pub fn write(&self, bytes: &mut [u8]) -> Option<usize> {
        let (opcode, length) = (self.instruction.opcode(), self.length());
        let whole = bytes.get_mut(..length)?;
        let error = bit(self.error, ERROR) | bit(self.piggybacked, PIGGYBACKED);
        let head = Head {
            bits: VERSION << 5 | self.locations.bits() | error,
            opcode: opcode.number(),
            length: length as u8,
            operator: bit(self.trace, TRACE) | operator(&self.instruction).number(),
            computation: U64::new(self.computation),
        };
        head.write_to_prefix(whole).ok()?;
        write_operands(&self.instruction, &mut whole[HEAD..]);
        let sum = checksum::checksum(&whole[..length - CHECKSUM]);
        whole[length - CHECKSUM..].copy_from_slice(&sum.to_be_bytes());
        Some(length)
    }

    /// The same as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.length()];
        self.write(&mut bytes);
        bytes
    }
}

/// Whether the checksum of a part of this length is right: all its words sum up to nothing.
#[inline(always)]
fn is_summed<const LENGTH: usize>(bytes: &[u8]) -> bool {
    // Parts are 14 to 46 bytes long: a straight line once the length is known.
    let Some(whole) = bytes.first_chunk::<LENGTH>() else { return false };
    let (words, mut rest) = whole.as_chunks::<8>();
    // One chain of additions with carry: what is above 64 bits counts as much as what is below.
    let (mut total, mut carry) = (0u64, false);
    for word in words {
        (total, carry) = total.carrying_add(u64::from_ne_bytes(*word), carry);
    }
    if let Some((word, behind)) = rest.split_first_chunk::<4>() {
        (total, carry) = total.carrying_add(u32::from_ne_bytes(*word).into(), carry);
        rest = behind;
    }
    if let Some(pair) = rest.first_chunk::<2>() {
        (total, carry) = total.carrying_add(u16::from_ne_bytes(*pair).into(), carry);
    }
    // Nothing is carried once more: the sum was less than all ones then.
    let total = total.wrapping_add(carry.into());
    // The ones' complement sum of all words is 0xffff where the sum of all is a multiple of that, and none of the words is
    // nothing as the first is not. It does not mind the order of bytes (RFC 1071 2(B)).
    total.is_multiple_of(0xffff)
}

/// The instruction of an opcode with these operands; none where its operator, the low four bits of that byte, is not one that it has.
#[inline(always)]
fn operands(opcode: Opcode, operator: u8, bytes: &[u8]) -> Option<Instruction> {
    let operator_of = || Operator::of(operator & 0x0f);
    let compares = || operator_of().filter(|operator| !operator.combines());
    // Those of the first eight numbers.
    const { assert!(Operator::Lt as u8 == 8 && Operator::Last as u8 == 7) };
    let combines = || if operator & 0x08 == 0 { Operator::of(operator & 0x07) } else { None };
    let pair = || PairBody::ref_from_prefix(bytes).ok().map(|(body, _)| (body.tag.get(), body.value.get()));
    Some(match opcode {
        Opcode::Nop => Instruction::Nop,
        Opcode::Count => {
            let body = CountBody::ref_from_prefix(bytes).ok()?.0;
            // The operator that a packet has which asks for none is the one of number 0.
            const THESE: u32 = 1 << Operator::Add as u32 | 1 << Operator::Lt as u32 | 1 << Operator::Le as u32;
            // Twice, so that the bit above the operator need not be taken off.
            if (THESE | THESE << 16) >> (operator & 0x1f) & 1 == 0 {
                return None;
            }
            // Of these it is the only odd one.
            let inclusive = operator & 1 != 0;
            const { assert!(Operator::Le as u8 & 1 != 0 && (Operator::Add as u8 | Operator::Lt as u8) & 1 == 0) };
            Instruction::Count { counter: body.counter.get(), threshold: body.threshold.get(), inclusive }
        }
        Opcode::Compare => {
            let (tag, value) = pair()?;
            Instruction::Compare { tag, value, relation: compares()? }
        }
        Opcode::Collect => {
            let body = CollectBody::ref_from_prefix(bytes).ok()?.0;
            let (counter, result, value) = (body.counter.get(), body.result.get(), body.value.get());
            Instruction::Collect { counter, result, value, operator: combines()? }
        }
        Opcode::Rcollect => {
            let body = RcollectBody::ref_from_prefix(bytes).ok()?.0;
            let (counter, result) = (body.counter.get(), body.result.get());
            let (child, value) = (body.child.get(), body.value.get());
            Instruction::Rcollect { counter, result, child, value, operator: combines()? }
        }
        Opcode::Rchld => {
            let (counter, child) = pair()?;
            Instruction::Rchld { counter, child }
        }
        Opcode::Mark => {
            let (tag, value) = pair()?;
            Instruction::Mark { tag, value }
        }
        Opcode::Test => Instruction::Test { tag: u64::from_be_bytes(*bytes.first_chunk()?) },
        Opcode::Get => {
            let (tag, value) = pair()?;
            Instruction::Get { tag, value }
        }
        Opcode::Put => {
            let (tag, value) = pair()?;
            Instruction::Put { tag, value }
        }
        Opcode::Setfwd => {
            let (tag, value) = pair()?;
            Instruction::Setfwd { tag, value, relation: compares()? }
        }
    })
}

/// The operator of an instruction; the one of number 0 for those that have none.
fn operator(instruction: &Instruction) -> Operator {
    match *instruction {
        Instruction::Count { inclusive, .. } => {
            if inclusive {
                Operator::Le
            } else {
                Operator::Lt
            }
        }
        Instruction::Compare { relation: operator, .. }
        | Instruction::Setfwd { relation: operator, .. }
        | Instruction::Collect { operator, .. }
        | Instruction::Rcollect { operator, .. } => operator,
        _ => Operator::Add,
    }
}

fn write_operands(instruction: &Instruction, bytes: &mut [u8]) {
    let mut pair = |tag: u64, value: u64| {
        let _ = PairBody { tag: U64::new(tag), value: U64::new(value) }.write_to_prefix(bytes);
    };
    match *instruction {
        Instruction::Nop => {}
        Instruction::Count { counter, threshold, .. } => {
            let body = CountBody { counter: U64::new(counter), threshold: U32::new(threshold) };
            let _ = body.write_to_prefix(bytes);
        }
        Instruction::Test { tag } => {
            let _ = U64::new(tag).write_to_prefix(bytes);
        }
        Instruction::Compare { tag, value, .. }
        | Instruction::Mark { tag, value }
        | Instruction::Get { tag, value }
        | Instruction::Put { tag, value }
        | Instruction::Setfwd { tag, value, .. } => pair(tag, value),
        Instruction::Rchld { counter, child } => pair(counter, child),
        Instruction::Collect { counter, result, value, .. } => {
            let [counter, result, value] = [counter, result, value].map(U64::new);
            let _ = CollectBody { counter, result, value }.write_to_prefix(bytes);
        }
        Instruction::Rcollect { counter, result, child, value, .. } => {
            let [counter, result, child, value] = [counter, result, child, value].map(U64::new);
            let _ = RcollectBody { counter, result, child, value }.write_to_prefix(bytes);
        }
    }
}

/// Writes what an executed instruction has changed, its value and its child, into the part it was read from; the checksum
/// follows (RFC 1624). Bytes that are not that part stay as they are.
#[inline(always)]
pub fn rewrite(bytes: &mut [u8], instruction: &Instruction) {
    let Some(whole) = bytes.get_mut(..instruction.opcode().length()) else { return };
    match *instruction {
        Instruction::Collect { value, .. } => replace(whole, [(HEAD + 16, value)]),
        Instruction::Get { value, .. } => replace(whole, [(HEAD + 8, value)]),
        Instruction::Rchld { child, .. } => replace(whole, [(HEAD + 8, child)]),
        Instruction::Rcollect { child, value, .. } => replace(whole, [(HEAD + 16, child), (HEAD + 24, value)]),
        _ => {}
    }
}

/// Says in a part that it was not executed, so that no router behind does (spec E-06). Its length is what it says itself, for
/// it may be none that we know; where that cannot be, nothing happens, and the answer is no: see [`set_error_in`](super::set_error_in).
pub fn set_error(bytes: &mut [u8]) -> bool {
    let Some(&[before, opcode, length, ..]) = bytes.first_chunk::<HEAD>() else { return false };
    let length = usize::from(length);
    let Some(at) = length.checked_sub(CHECKSUM).filter(|&at| at >= HEAD && at % 2 == 0 && length <= bytes.len()) else {
        return false;
    };
    let word = |first: u8| u16::from_be_bytes([first, opcode]);
    bytes[0] = before | ERROR;
    let sum = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let sum = checksum::update(sum, word(before), word(before | ERROR));
    bytes[at..at + CHECKSUM].copy_from_slice(&sum.to_be_bytes());
    true
}

/// Replaces operands of 8 bytes.
#[inline(always)]
fn replace<const OPERANDS: usize>(whole: &mut [u8], operands: [(usize, u64); OPERANDS]) {
    let end = whole.len() - CHECKSUM;
    let Some(sum) = whole[end..].first_chunk::<CHECKSUM>() else { return };
    // The sum does not mind the order of bytes (RFC 1071 2(B)), nor that words are 64 bits long: the carry goes round all the same.
    let mut more = 0u64;
    let mut sum = u16::from_ne_bytes(*sum);
    for (at, new) in operands {
        let Some(field) = whole[at..].first_chunk_mut::<8>() else { return };
        let (old, new) = (u64::from_ne_bytes(*field), new.to_be_bytes());
        *field = new;
        let (with, carry) = more.overflowing_add(u64::from_ne_bytes(new));
        let (without, borrow) = (with + u64::from(carry)).overflowing_sub(old);
        more = without - u64::from(borrow);
    }
    // What the operands have more the checksum has less (RFC 1624 eqn. 4).
    let (more, carry) = more.overflowing_add(u64::from(!sum));
    sum = !checksum::fold(more + u64::from(carry));
    whole[end..].copy_from_slice(&sum.to_ne_bytes());
}
