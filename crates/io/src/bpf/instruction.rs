//! The BPF instructions of the router's programs (RFC 9669). Registers are numbered: 0 is the result, 1 the context and the first argument of a call,
//! 10 the end of the stack.

use super::Map;

/// One instruction (`struct bpf_insn`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct BpfInstruction {
    opcode: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// Return values of programs: `enum xdp_action` for XDP programs, `enum tcx_action_base` for classifiers.
pub mod action {
    /// Drop the frame.
    pub const DROP: i32 = 1;
    /// Pass the frame to the host's stack.
    pub const PASS: i32 = 2;
    /// Continue with the next program.
    pub const CLASSIFIER_NEXT: i32 = -1;
    /// Drop the frame.
    pub const CLASSIFIER_DROP: i32 = 2;
}

/// Calls into the kernel (`enum bpf_func_id`).
pub mod call {
    /// `bpf_map_lookup_elem(map, key)`: the address of the value, or zero.
    pub const MAP_LOOKUP: i32 = 1;
    /// `bpf_skb_vlan_push(context, type of the tag in network byte order, control field)`.
    pub const VLAN_PUSH: i32 = 18;
    /// `bpf_skb_vlan_pop(context)`: removes the outermost tag.
    pub const VLAN_POP: i32 = 19;
    /// `bpf_redirect(index, flags)`.
    pub const REDIRECT: i32 = 23;
    /// `bpf_redirect_map(map, key, flags)`: if the map has no entry, the result is the lower bits of the flags.
    pub const REDIRECT_MAP: i32 = 51;
}

/// Offsets in the context of a program.
pub mod context {
    /// The first byte of the frame and the one after the last, for an XDP program (`struct xdp_md`).
    pub const XDP_DATA: (i16, i16) = (0, 4);
    /// The index of the ingress link, for an XDP program.
    pub const XDP_LINK: i16 = 12;
    /// The queue of the ingress link, for an XDP program.
    pub const XDP_QUEUE: i16 = 16;
    /// The first byte of the frame and the one after the last, for a classifier (`struct __sk_buff`).
    pub const CLASSIFIER_DATA: (i16, i16) = (76, 80);
}

impl BpfInstruction {
    /// The same instruction, skipping the next `over` instructions.
    pub const fn over(self, over: i16) -> BpfInstruction {
        BpfInstruction { offset: over, ..self }
    }
}

const fn encode(opcode: u8, to: u8, from: u8, offset: i16, immediate: i32) -> BpfInstruction {
    // The halves of the byte are swapped on big-endian machines, which the router does not support.
    BpfInstruction { opcode, registers: to | from << 4, offset, immediate }
}

/// `to = number`.
pub const fn set(to: u8, number: i32) -> BpfInstruction {
    encode(0xb7, to, 0, 0, number)
}

/// `to = from`.
pub const fn copy(to: u8, from: u8) -> BpfInstruction {
    encode(0xbf, to, from, 0, 0)
}

/// `to += number`.
pub const fn add(to: u8, number: i32) -> BpfInstruction {
    encode(0x07, to, 0, 0, number)
}

/// `to &= number`.
pub const fn and(to: u8, number: i32) -> BpfInstruction {
    encode(0x57, to, 0, 0, number)
}

/// `to = the 16 bits at from + offset`.
pub const fn load16(to: u8, from: u8, offset: i16) -> BpfInstruction {
    encode(0x69, to, from, offset, 0)
}

/// `to = the 32 bits at from + offset`.
pub const fn load32(to: u8, from: u8, offset: i16) -> BpfInstruction {
    encode(0x61, to, from, offset, 0)
}

/// `to = the 64 bits at from + offset`.
pub const fn load64(to: u8, from: u8, offset: i16) -> BpfInstruction {
    encode(0x79, to, from, offset, 0)
}

/// `the 16 bits at to + offset = from`.
pub const fn store16(to: u8, offset: i16, from: u8) -> BpfInstruction {
    encode(0x6b, to, from, offset, 0)
}

/// `the 32 bits at to + offset = from`.
pub const fn store32(to: u8, offset: i16, from: u8) -> BpfInstruction {
    encode(0x63, to, from, offset, 0)
}

/// `the 64 bits at to + offset = from`.
pub const fn store64(to: u8, offset: i16, from: u8) -> BpfInstruction {
    encode(0x7b, to, from, offset, 0)
}

/// Skips the next `over` instructions if `one > other`.
pub const fn skip_if_greater(one: u8, other: u8, over: i16) -> BpfInstruction {
    encode(0x2d, one, other, over, 0)
}

/// Skips the next `over` instructions if `one == number`.
pub const fn skip_if_equal(one: u8, number: i32, over: i16) -> BpfInstruction {
    encode(0x15, one, 0, over, number)
}

/// Skips the next `over` instructions if `one != number`.
pub const fn skip_if_different(one: u8, number: i32, over: i16) -> BpfInstruction {
    encode(0x55, one, 0, over, number)
}

/// Calls the kernel with the arguments in registers 1 to 5. The result is in register 0; registers 6 to 9 are preserved.
pub const fn call(function: i32) -> BpfInstruction {
    encode(0x85, 0, 0, 0, function)
}

/// Returns register 0.
pub const fn exit() -> BpfInstruction {
    encode(0x95, 0, 0, 0, 0)
}

/// `to = number`, of 64 bits. Occupies two instructions.
pub const fn set64(to: u8, number: u64) -> [BpfInstruction; 2] {
    [encode(0x18, to, 0, 0, number as u32 as i32), encode(0, 0, 0, 0, (number >> 32) as u32 as i32)]
}

/// `to = map`. Occupies two instructions.
pub fn set_map(to: u8, map: &Map) -> [BpfInstruction; 2] {
    // BPF_PSEUDO_MAP_FD: the kernel replaces the descriptor by the map's address.
    const FROM_DESCRIPTOR: u8 = 1;
    [encode(0x18, to, FROM_DESCRIPTOR, 0, map.number()), encode(0, 0, 0, 0, 0)]
}
