//! Parts in their C layout, and packets that carry them.

use crate::bytes;
use esp::isa::{Opcode, Operator, StateInstruction};
use esp::wire::{Carriages, EncodePart, Locations, Part, WrapError, before_data, strip, with_data, wrap, wrap_option};

/// The length of the longest part.
const MOST: usize = 46;
const INPUT: u8 = 1;
const CENTRAL: u8 = 2;
const OUTPUT: u8 = 4;
const ERROR: u8 = 1;
const PIGGYBACKED: u8 = 2;
const TRACE: u8 = 4;

/// `switchpath_part`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct CPart {
    /// The computation.
    pub computation: u64,
    /// The operands, in wire order.
    pub operands: [u64; 4],
    /// The opcode.
    pub instruction: u8,
    /// The operator's number.
    pub operation: u8,
    /// The locations at which routers execute it.
    pub places: u8,
    /// Error, piggybacked, trace.
    pub flags: u8,
}

const fn bit(is: bool, bit: u8) -> u8 {
    if is { bit } else { 0 }
}

impl From<&Part> for CPart {
    fn from(part: &Part) -> CPart {
        let places = bit(part.locations.input, INPUT)
            | bit(part.locations.central, CENTRAL)
            | bit(part.locations.output, OUTPUT);
        let flags = bit(part.error, ERROR) | bit(part.piggybacked, PIGGYBACKED) | bit(part.trace, TRACE);
        let (operands, operator) = match part.instruction {
            StateInstruction::Nop => ([0; 4], None),
            StateInstruction::Count { counter, threshold, inclusive } => {
                ([counter, threshold.into(), 0, 0], Some(if inclusive { Operator::Le } else { Operator::Lt }))
            }
            StateInstruction::Compare { tag, value, relation } | StateInstruction::Setfwd { tag, value, relation } => {
                ([tag, value, 0, 0], Some(relation))
            }
            StateInstruction::Collect { counter, result, value, operator } => {
                ([counter, result, value, 0], Some(operator))
            }
            StateInstruction::Rcollect { counter, result, child, value, operator } => {
                ([counter, result, child, value], Some(operator))
            }
            StateInstruction::Rchld { counter, child } => ([counter, child, 0, 0], None),
            StateInstruction::Test { tag } => ([tag, 0, 0, 0], None),
            StateInstruction::Mark { tag, value }
            | StateInstruction::Get { tag, value }
            | StateInstruction::Put { tag, value } => ([tag, value, 0, 0], None),
        };
        let (instruction, operation) = (part.instruction.opcode().number(), operator.map_or(0, Operator::number));
        CPart { computation: part.computation, operands, instruction, operation, places, flags }
    }
}

impl CPart {
    /// The part; `None` for an unknown opcode, or an operator that the instruction does not have.
    pub fn part(&self) -> Option<Part> {
        let CPart { computation, operands: [first, second, third, fourth], places, flags, .. } = *self;
        let operator = Operator::of(self.operation)?;
        let relation = Some(operator).filter(|operator| !operator.combines());
        let combine = Some(operator).filter(|operator| operator.combines());
        let instruction = match Opcode::of(self.instruction)? {
            Opcode::Nop => StateInstruction::Nop,
            Opcode::Count => {
                let inclusive = match operator {
                    Operator::Le => true,
                    Operator::Lt | Operator::Add => false,
                    _ => return None,
                };
                StateInstruction::Count { counter: first, threshold: u32::try_from(second).ok()?, inclusive }
            }
            Opcode::Compare => StateInstruction::Compare { tag: first, value: second, relation: relation? },
            Opcode::Collect => {
                StateInstruction::Collect { counter: first, result: second, value: third, operator: combine? }
            }
            Opcode::Rcollect => StateInstruction::Rcollect {
                counter: first,
                result: second,
                child: third,
                value: fourth,
                operator: combine?,
            },
            Opcode::Rchld => StateInstruction::Rchld { counter: first, child: second },
            Opcode::Mark => StateInstruction::Mark { tag: first, value: second },
            Opcode::Test => StateInstruction::Test { tag: first },
            Opcode::Get => StateInstruction::Get { tag: first, value: second },
            Opcode::Put => StateInstruction::Put { tag: first, value: second },
            Opcode::Setfwd => StateInstruction::Setfwd { tag: first, value: second, relation: relation? },
        };
        let among = |place| places & place != 0;
        let locations = Locations { input: among(INPUT), central: among(CENTRAL), output: among(OUTPUT) };
        let is = |flag| flags & flag != 0;
        let (error, piggybacked, trace) = (is(ERROR), is(PIGGYBACKED), is(TRACE));
        Some(Part { locations, error, piggybacked, trace, computation, instruction })
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn switchpath_write(part: Option<&CPart>, into: Option<&mut [u8; MOST]>) -> usize {
    let (Some(part), Some(into)) = (part.and_then(CPart::part), into) else { return 0 };
    part.write(into).unwrap_or(0)
}

/// See the header.
///
/// # Safety
/// `from` is null or valid for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn switchpath_read(part: Option<&mut CPart>, from: *const u8, length: usize) -> usize {
    // SAFETY: as the caller promises.
    let bytes = unsafe { bytes::read(from, length) };
    let (Ok(read), Some(part)) = (Part::read(bytes), part) else { return 0 };
    *part = CPart::from(&read);
    read.length()
}

/// See the header.
///
/// # Safety
/// `data` is null or valid for `length` bytes, `into` is null or valid for `room`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn switchpath_before_data(
    part: Option<&CPart>,
    data: *const u8,
    length: usize,
    into: *mut u8,
    room: usize,
) -> usize {
    let Some(part) = part.and_then(CPart::part) else { return 0 };
    // SAFETY: as the caller promises.
    let made = before_data(&part, unsafe { bytes::read(data, length) });
    // SAFETY: as the caller promises.
    unsafe { bytes::put(&made, into, room) }
}

/// See the header.
///
/// # Safety
/// `from` is null or valid for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn switchpath_with_data(part: Option<&mut CPart>, from: *const u8, length: usize) -> usize {
    // SAFETY: as the caller promises.
    let bytes = unsafe { bytes::read(from, length) };
    let (Ok((read, Some(data))), Some(part)) = (with_data(bytes), part) else { return 0 };
    *part = CPart::from(&read);
    bytes.len() - data.len()
}

/// See the header.
///
/// # Safety
/// `packet` is null or valid for `length` bytes, `into` is null or valid for `room`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn switchpath_wrap(
    part: Option<&CPart>,
    packet: *const u8,
    length: usize,
    into: *mut u8,
    room: usize,
) -> usize {
    let Some(part) = part.and_then(CPart::part) else { return 0 };
    // SAFETY: as the caller promises.
    unsafe { wrap_into(wrap, &part, (packet, length), (into, room)) }
}

/// See the header.
///
/// # Safety
/// `packet` is null or valid for `length` bytes, `into` is null or valid for `room`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn switchpath_wrap_option(
    part: Option<&CPart>,
    packet: *const u8,
    length: usize,
    into: *mut u8,
    room: usize,
) -> usize {
    let Some(part) = part.and_then(CPart::part) else { return 0 };
    // SAFETY: as the caller promises.
    unsafe { wrap_into(wrap_option, &part, (packet, length), (into, room)) }
}

/// A function that puts a part, sealed or plain, into a packet.
type Wrap<P> = fn(&Carriages, &[u8], &P) -> Result<Vec<u8>, WrapError>;

/// Writes a packet with a part into the caller's buffer. Returns its length, or 0.
///
/// # Safety
/// `packet` is null or valid for `length` bytes, `into` is null or valid for `room`.
pub(crate) unsafe fn wrap_into<P: EncodePart>(
    how: Wrap<P>,
    part: &P,
    (packet, length): (*const u8, usize),
    (into, room): (*mut u8, usize),
) -> usize {
    // SAFETY: as the caller promises.
    let Ok(made) = how(&Carriages::default(), unsafe { bytes::read(packet, length) }, part) else { return 0 };
    // SAFETY: as the caller promises.
    unsafe { bytes::put(&made, into, room) }
}

/// See the header.
///
/// # Safety
/// `packet` is null or valid for `length` bytes, `into` is null or valid for `room`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn switchpath_strip(
    part: Option<&mut CPart>,
    packet: *const u8,
    length: usize,
    into: *mut u8,
    room: usize,
) -> usize {
    // SAFETY: as the caller promises.
    let Ok((made, read)) = strip(&Carriages::default(), unsafe { bytes::read(packet, length) }) else { return 0 };
    if let Some(part) = part {
        *part = CPart::from(&read);
    }
    // SAFETY: as the caller promises.
    unsafe { bytes::put(&made, into, room) }
}
