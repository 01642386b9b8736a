//! The part of a packet that routers execute: one instruction with its operands (spec E-15).
//!
//! | offset | field |
//! |---|---|
//! | 0 | version (3 bits) = 1, then one bit each: input, central, output, error, piggybacked |
//! | 1 | opcode |
//! | 2 | length in bytes, checksum included: fixed by the opcode |
//! | 3 | flags (0x80: trace, 0x40: sealed) and operator (4 bits each) |
//! | 4 | computation |
//! | 12 | operands: tags and values of 8 bytes, thresholds of 4 |
//! | last 2 | Internet checksum over the whole part |
//!
//! A sealed part has eight more bytes before its checksum: see [`crate::seal`].
//!
//! The part's checksum is updated with every change, so the sum over the part is constant, and an enclosing UDP checksum stays valid. For that the
//! part has an even length and starts at an even offset (RFC 1071 2(B)).

use crate::isa::{Abort, Opcode, Operator, REGISTERED, StateInstruction};
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
/// The flag of a sealed part.
pub(crate) const SEALED: u8 = 0x40;
/// The length of a seal.
pub const SEAL: usize = 8;
const CHECKSUM: usize = 2;

/// The fixed head.
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

/// The operands of COUNT.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct CountBody {
    counter: U64,
    threshold: U32,
}

/// Two operands of 8 bytes: tag and value, or counter and child.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PairBody {
    tag: U64,
    value: U64,
}

/// The operands of COLLECT.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct CollectBody {
    counter: U64,
    result: U64,
    value: U64,
}

/// The operands of RCOLLECT.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RcollectBody {
    counter: U64,
    result: U64,
    child: U64,
    value: U64,
}

/// A bit, if `is`.
const fn bit(is: bool, bit: u8) -> u8 {
    if is { bit } else { 0 }
}

/// The locations at which routers execute a part: any of three (spec E-37).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Locations {
    /// The port where the packet arrives.
    pub input: bool,
    /// The router's centre.
    pub central: bool,
    /// The egress port, once per replicated copy.
    pub output: bool,
}

impl Locations {
    /// The port where the packet arrives.
    pub const INPUT: Locations = Locations { input: true, central: false, output: false };
    /// The router's centre.
    pub const CENTRAL: Locations = Locations { input: false, central: true, output: false };
    /// The egress port.
    pub const OUTPUT: Locations = Locations { input: false, central: false, output: true };

    /// The locations in the first byte of a part, or in several such bytes or-ed.
    pub(crate) const fn of(bits: u8) -> Locations {
        Locations { input: bits & INPUT != 0, central: bits & CENTRAL != 0, output: bits & OUTPUT != 0 }
    }

    /// The locations as bits of a part's first byte.
    pub(crate) const fn bits(self) -> u8 {
        bit(self.input, INPUT) | bit(self.central, CENTRAL) | bit(self.output, OUTPUT)
    }

    /// True if all of `others` are included.
    pub const fn contain_all(self, others: Locations) -> bool {
        self.bits() & others.bits() == others.bits()
    }
}

/// A parsed part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The locations at which routers execute it.
    pub locations: Locations,
    /// True if a router could not execute it. Later routers do not try.
    pub error: bool,
    /// True if it is piggybacked: the original payload follows.
    pub piggybacked: bool,
    /// True if the sender asks for a trace.
    pub trace: bool,
    /// The computation: a random number of the sending host.
    pub computation: u64,
    /// The instruction.
    pub instruction: StateInstruction,
}

/// The reason why a part was not parsed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartError {
    /// Another version, or too short.
    NotAPart,
    /// This version, but invalid.
    Invalid(Abort),
    /// Sealed: only the holder of the key can verify it ([`crate::seal`]).
    Sealed,
}

/// The head of a part, parsed without the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartHead {
    bits: u8,
    opcode: u8,
    length: u8,
    operator: u8,
    /// The computation.
    pub computation: u64,
}

impl PartHead {
    /// The locations at which routers execute it.
    pub const fn locations(self) -> Locations {
        Locations::of(self.bits)
    }

    /// The first byte, with the locations.
    #[inline(always)]
    pub(crate) const fn bits(self) -> u8 {
        self.bits
    }

    /// True if it asks for one of these locations.
    #[inline(always)]
    pub const fn is_addressed_to(self, locations: Locations) -> bool {
        self.bits & locations.bits() != 0
    }

    /// True if a router could not execute it.
    #[inline(always)]
    pub const fn error(self) -> bool {
        self.bits & ERROR != 0
    }

    /// The opcode.
    #[inline(always)]
    pub(crate) fn opcode(self) -> Result<Opcode, Abort> {
        let unknown = if self.opcode >= REGISTERED { Abort::NotEnabled } else { Abort::BadOpcode };
        Opcode::of(self.opcode).ok_or(unknown)
    }

    /// True if the part has the flag and the length of a sealed one.
    fn is_sealed(self, opcode: Opcode, bytes: &[u8]) -> bool {
        let length = usize::from(self.length);
        self.operator & SEALED != 0 && length == opcode.length() + SEAL && bytes.len() >= length
    }

    /// Parses the instruction at the start of `bytes`. The caller passes the opcode, usually as a constant, so that the compiler removes the other
    /// cases. Checks length, checksum and operator.
    #[inline(always)]
    pub(crate) fn instruction(self, opcode: Opcode, bytes: &[u8]) -> Result<StateInstruction, Abort> {
        if usize::from(self.length) != opcode.length() {
            return Err(Abort::BadLength);
        }
        parse_instruction(opcode, self.operator, bytes)
    }
}

/// The instruction of a part whose length field is right.
#[inline(always)]
fn parse_instruction(opcode: Opcode, operator: u8, bytes: &[u8]) -> Result<StateInstruction, Abort> {
    let of = bytes.get(HEAD..opcode.length()).ok_or(Abort::BadLength)?;
    let summed = match opcode.length() {
        14 => has_valid_checksum::<14>(bytes),
        22 => has_valid_checksum::<22>(bytes),
        26 => has_valid_checksum::<26>(bytes),
        38 => has_valid_checksum::<38>(bytes),
        46 => has_valid_checksum::<46>(bytes),
        _ => has_valid_checksum::<30>(bytes),
    };
    if !summed {
        return Err(Abort::BadChecksum);
    }
    parse_operands(opcode, operator, of).ok_or(Abort::BadOpcode)
}

/// The usual head, its first four bytes: this version, no error bit, an opcode executed here with its length, no seal and no trace.
#[derive(Clone, Copy)]
pub(crate) struct UsualHead {
    word: u32,
}

/// The usual heads of the instructions executed at a place.
#[derive(Clone, Debug)]
pub(crate) struct UsualHeads {
    /// The instructions, one bit per opcode, and the location.
    of: (u16, Locations),
    /// The expected head, by the low bits of the opcode.
    heads: [u32; 16],
}

impl UsualHeads {
    /// The bits compared; the others are free.
    const HEAD_MASK: u32 = u32::from_le_bytes([0xe0 | ERROR, 0xff, 0xff, TRACE | SEALED]);
    /// The same with the location bits.
    const LOCATION_MASK: u32 = UsualHeads::HEAD_MASK | u32::from_le_bytes([INPUT | CENTRAL | OUTPUT, 0, 0, 0]);
    /// The entry of an instruction that does not exist or is not executed. No head equals it.
    const NONE: u32 = !UsualHeads::LOCATION_MASK;

    /// The heads of the instructions in `allowed`, one bit per opcode, at a location.
    pub fn of((allowed, at): (u16, Locations)) -> UsualHeads {
        let mut heads = [UsualHeads::NONE; 16];
        for opcode in Opcode::ALL.into_iter().filter(|opcode| allowed >> opcode.number() & 1 != 0) {
            let bytes = [VERSION << 5 | at.bits(), opcode.number(), opcode.length() as u8, 0];
            heads[usize::from(opcode.number())] = u32::from_le_bytes(bytes);
        }
        UsualHeads { of: (allowed, at), heads }
    }

    /// Rebuilds the table if instructions or location have changed.
    #[inline(always)]
    pub fn refresh(&mut self, of: (u16, Locations)) {
        if self.of != of {
            cold_path();
            *self = UsualHeads::of(of);
        }
    }

    /// Matches a part with the usual head that asks for this location only, by one comparison.
    #[inline(always)]
    pub fn match_exactly(&self, bytes: &[u8]) -> Option<UsualHead> {
        self.match_masked::<{ UsualHeads::LOCATION_MASK }>(bytes)
    }

    /// The same for any locations.
    pub fn match_head(&self, bytes: &[u8]) -> Option<UsualHead> {
        self.match_masked::<{ UsualHeads::HEAD_MASK }>(bytes)
    }

    #[inline(always)]
    fn match_masked<const BITS: u32>(&self, bytes: &[u8]) -> Option<UsualHead> {
        let word = u32::from_le_bytes(*bytes.first_chunk()?);
        let begun = UsualHead { word };
        let head = self.heads[begun.number() as usize] & (BITS | UsualHeads::NONE);
        (word & BITS == head).then_some(begun)
    }
}

impl UsualHead {
    /// The opcode.
    #[inline(always)]
    pub const fn number(self) -> u32 {
        self.word >> 8 & 0xf
    }

    /// The instruction, as [`PartHead::instruction`].
    #[inline(always)]
    pub fn instruction(self, opcode: Opcode, bytes: &[u8]) -> Option<StateInstruction> {
        parse_instruction(opcode, (self.word >> 24) as u8, bytes).ok()
    }
}

/// Parses the head. `None` for another version, or too few bytes.
#[inline(always)]
pub fn peek(bytes: &[u8]) -> Option<PartHead> {
    let head = bytes.first_chunk::<HEAD>()?;
    let head: &Head = zerocopy::transmute_ref!(head);
    let Head { bits, opcode, length, operator, computation } = *head;
    (bits >> 5 == VERSION).then(|| PartHead { bits, opcode, length, operator, computation: computation.get() })
}

/// True if the sender asks for a trace; for parts of any kind.
#[inline(always)]
pub(crate) fn is_traced(bytes: &[u8]) -> bool {
    bytes.get(3).is_some_and(|operator| operator & TRACE != 0)
}

/// The computation of a part whose head was checked before.
#[inline(always)]
pub(crate) fn computation(bytes: &[u8]) -> Option<u64> {
    let head: &Head = zerocopy::transmute_ref!(bytes.first_chunk::<HEAD>()?);
    Some(head.computation.get())
}

/// The protocol and the bytes of the payload behind a piggybacked part. `None` if it is not piggybacked.
pub(crate) fn piggybacked_payload(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let head = bytes.first_chunk::<HEAD>()?;
    let head: &Head = zerocopy::transmute_ref!(head);
    if head.bits & PIGGYBACKED == 0 {
        return None;
    }
    let (&[protocol, _], inside) = bytes.get(usize::from(head.length)..)?.split_first_chunk::<2>()?;
    Some((protocol, inside))
}

impl Part {
    /// Parses the part at the start of `bytes`, which may continue behind it.
    #[inline]
    pub fn read(bytes: &[u8]) -> Result<Part, PartError> {
        let head = peek(bytes).ok_or(PartError::NotAPart)?;
        let opcode = head.opcode().map_err(PartError::Invalid)?;
        if head.is_sealed(opcode, bytes) {
            return Err(PartError::Sealed);
        }
        let instruction = head.instruction(opcode, bytes).map_err(PartError::Invalid)?;
        Ok(Part {
            locations: head.locations(),
            error: head.error(),
            piggybacked: head.bits & PIGGYBACKED != 0,
            trace: head.operator & TRACE != 0,
            computation: head.computation,
            instruction,
        })
    }

    /// The length in bytes.
    pub const fn length(&self) -> usize {
        self.instruction.opcode().length()
    }

    /// Writes the part at the start of `bytes`. Returns its length; `None` if there is no room.
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

    /// The part as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.length()];
        self.write(&mut bytes);
        bytes
    }
}

/// True if the checksum of a part of this length is right.
#[inline(always)]
fn has_valid_checksum<const LENGTH: usize>(bytes: &[u8]) -> bool {
    // Parts have 14 to 46 bytes: straight-line code for a constant length.
    let Some(whole) = bytes.first_chunk::<LENGTH>() else { return false };
    let (words, mut rest) = whole.as_chunks::<8>();
    // One chain of additions with carry. A carry out of 64 bits is worth one, as in any ones' complement sum.
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
    // This cannot carry again: after a carry the sum is below all ones.
    let total = total.wrapping_add(carry.into());
    // The ones' complement sum is 0xffff if the total is a multiple of 0xffff. It cannot be zero, because the first word is not. The byte order does
    // not matter (RFC 1071 2(B)).
    total.is_multiple_of(0xffff)
}

/// Parses the operands of an opcode. `None` if the instruction does not have this operator, the low four bits of `operator`.
#[inline(always)]
fn parse_operands(opcode: Opcode, operator: u8, bytes: &[u8]) -> Option<StateInstruction> {
    let operator_of = || Operator::of(operator & 0x0f);
    let compares = || operator_of().filter(|operator| !operator.combines());
    // The combining operators have the numbers 0 to 7.
    const { assert!(Operator::Lt as u8 == 8 && Operator::Last as u8 == 7) };
    let combines = || if operator & 0x08 == 0 { Operator::of(operator & 0x07) } else { None };
    let pair = || PairBody::ref_from_prefix(bytes).ok().map(|(body, _)| (body.tag.get(), body.value.get()));
    Some(match opcode {
        Opcode::Nop => StateInstruction::Nop,
        Opcode::Count => {
            let body = CountBody::ref_from_prefix(bytes).ok()?.0;
            // Number 0 stands for "no operator given" and means the default, `lt`.
            const THESE: u32 = 1 << Operator::Add as u32 | 1 << Operator::Lt as u32 | 1 << Operator::Le as u32;
            // Duplicated in the upper half, so that bit 4 need not be masked off.
            if (THESE | THESE << 16) >> (operator & 0x1f) & 1 == 0 {
                return None;
            }
            // `le` is the only odd number among these.
            let inclusive = operator & 1 != 0;
            const { assert!(Operator::Le as u8 & 1 != 0 && (Operator::Add as u8 | Operator::Lt as u8) & 1 == 0) };
            StateInstruction::Count { counter: body.counter.get(), threshold: body.threshold.get(), inclusive }
        }
        Opcode::Compare => {
            let (tag, value) = pair()?;
            StateInstruction::Compare { tag, value, relation: compares()? }
        }
        Opcode::Collect => {
            let body = CollectBody::ref_from_prefix(bytes).ok()?.0;
            let (counter, result, value) = (body.counter.get(), body.result.get(), body.value.get());
            StateInstruction::Collect { counter, result, value, operator: combines()? }
        }
        Opcode::Rcollect => {
            let body = RcollectBody::ref_from_prefix(bytes).ok()?.0;
            let (counter, result) = (body.counter.get(), body.result.get());
            let (child, value) = (body.child.get(), body.value.get());
            StateInstruction::Rcollect { counter, result, child, value, operator: combines()? }
        }
        Opcode::Rchld => {
            let (counter, child) = pair()?;
            StateInstruction::Rchld { counter, child }
        }
        Opcode::Mark => {
            let (tag, value) = pair()?;
            StateInstruction::Mark { tag, value }
        }
        Opcode::Test => StateInstruction::Test { tag: u64::from_be_bytes(*bytes.first_chunk()?) },
        Opcode::Get => {
            let (tag, value) = pair()?;
            StateInstruction::Get { tag, value }
        }
        Opcode::Put => {
            let (tag, value) = pair()?;
            StateInstruction::Put { tag, value }
        }
        Opcode::Setfwd => {
            let (tag, value) = pair()?;
            StateInstruction::Setfwd { tag, value, relation: compares()? }
        }
    })
}

/// The operator of an instruction; number 0 for instructions without one.
fn operator(instruction: &StateInstruction) -> Operator {
    match *instruction {
        StateInstruction::Count { inclusive, .. } => {
            if inclusive {
                Operator::Le
            } else {
                Operator::Lt
            }
        }
        StateInstruction::Compare { relation: operator, .. }
        | StateInstruction::Setfwd { relation: operator, .. }
        | StateInstruction::Collect { operator, .. }
        | StateInstruction::Rcollect { operator, .. } => operator,
        _ => Operator::Add,
    }
}

fn write_operands(instruction: &StateInstruction, bytes: &mut [u8]) {
    let mut pair = |tag: u64, value: u64| {
        let _ = PairBody { tag: U64::new(tag), value: U64::new(value) }.write_to_prefix(bytes);
    };
    match *instruction {
        StateInstruction::Nop => {}
        StateInstruction::Count { counter, threshold, .. } => {
            let body = CountBody { counter: U64::new(counter), threshold: U32::new(threshold) };
            let _ = body.write_to_prefix(bytes);
        }
        StateInstruction::Test { tag } => {
            let _ = U64::new(tag).write_to_prefix(bytes);
        }
        StateInstruction::Compare { tag, value, .. }
        | StateInstruction::Mark { tag, value }
        | StateInstruction::Get { tag, value }
        | StateInstruction::Put { tag, value }
        | StateInstruction::Setfwd { tag, value, .. } => pair(tag, value),
        StateInstruction::Rchld { counter, child } => pair(counter, child),
        StateInstruction::Collect { counter, result, value, .. } => {
            let [counter, result, value] = [counter, result, value].map(U64::new);
            let _ = CollectBody { counter, result, value }.write_to_prefix(bytes);
        }
        StateInstruction::Rcollect { counter, result, child, value, .. } => {
            let [counter, result, child, value] = [counter, result, child, value].map(U64::new);
            let _ = RcollectBody { counter, result, child, value }.write_to_prefix(bytes);
        }
    }
}

/// Writes the value and the child that an instruction changed back into its part, and updates the checksum (RFC 1624). Bytes of any other part stay
/// unchanged.
#[inline(always)]
pub fn rewrite(bytes: &mut [u8], instruction: &StateInstruction) {
    let Some(whole) = bytes.get_mut(..instruction.opcode().length()) else { return };
    match *instruction {
        StateInstruction::Collect { value, .. } => replace(whole, [(HEAD + 16, value)]),
        StateInstruction::Get { value, .. } => replace(whole, [(HEAD + 8, value)]),
        StateInstruction::Rchld { child, .. } => replace(whole, [(HEAD + 8, child)]),
        StateInstruction::Rcollect { child, value, .. } => replace(whole, [(HEAD + 16, child), (HEAD + 24, value)]),
        _ => {}
    }
}

/// Sets the error bit of a part, so that later routers do not execute it (spec E-06). Uses the part's own length field, because the opcode may be
/// unknown. If that length is impossible it changes nothing and returns false: see [`set_error_in`](super::set_error_in).
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

/// Replaces operands of 8 bytes, and updates the checksum.
#[inline(always)]
fn replace<const OPERANDS: usize>(whole: &mut [u8], operands: [(usize, u64); OPERANDS]) {
    let end = whole.len() - CHECKSUM;
    let Some(sum) = whole[end..].first_chunk::<CHECKSUM>() else { return };
    // The sum depends neither on the byte order (RFC 1071 2(B)) nor on the word size: carries wrap around in any case.
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
    // The checksum decreases by the amount that the operands increase (RFC 1624 eqn. 4).
    let (more, carry) = more.overflowing_add(u64::from(!sum));
    sum = !checksum::fold(more + u64::from(carry));
    whole[end..].copy_from_slice(&sum.to_ne_bytes());
}
