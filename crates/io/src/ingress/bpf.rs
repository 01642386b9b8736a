//! The drop as a tcx link: bpf(2), BPF_PROG_LOAD and BPF_LINK_CREATE.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const PROG_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;
const PROG_TYPE_SCHED_CLS: u32 = 3;
const ATTACH_TCX_INGRESS: u32 = 46;

/// `struct bpf_insn`.
#[repr(C)]
struct Instruction {
    opcode: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// `r0 = TCX_DROP; exit`.
static PROGRAM: [Instruction; 2] = [
    Instruction { opcode: 0xb7, registers: 0, offset: 0, immediate: 2 },
    Instruction { opcode: 0x95, registers: 0, offset: 0, immediate: 0 },
];

/// The start of `union bpf_attr` for BPF_PROG_LOAD.
#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
}

/// The start of `union bpf_attr` for BPF_LINK_CREATE.
#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
    relative_fd: u32,
    _padding: u32,
    expected_revision: u64,
}

/// # Safety
/// `T` is laid out as the part of `union bpf_attr` that `command` reads, and its pointers are valid during the call.
unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the caller vouches for the attributes, whose size is said; both commands used here only read them.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *attributes, size_of::<T>() as u32) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that was just made and that nobody else knows.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

/// Loads the program and attaches it to the link of that index; it stays while the answer is held.
pub(super) fn attach(index: u32) -> io::Result<OwnedFd> {
    let load = ProgLoad {
        prog_type: PROG_TYPE_SCHED_CLS,
        insn_cnt: PROGRAM.len() as u32,
        insns: PROGRAM.as_ptr().addr() as u64,
        license: c"Apache-2.0 OR MIT".as_ptr().addr() as u64,
        log_level: 0,
        log_size: 0,
        log_buf: 0,
        kern_version: 0,
        prog_flags: 0,
        prog_name: *b"switchpath_drop\0",
    };
    // SAFETY: `ProgLoad` begins as <linux/bpf.h> says; the program and the licence are constants.
    let program = unsafe { bpf(PROG_LOAD, &load) }?;
    let create = LinkCreate {
        prog_fd: program.as_raw_fd() as u32,
        target_ifindex: index,
        attach_type: ATTACH_TCX_INGRESS,
        flags: 0,
        relative_fd: 0,
        _padding: 0,
        expected_revision: 0,
    };
    // SAFETY: `LinkCreate` begins as <linux/bpf.h> says and has no pointer.
    unsafe { bpf(LINK_CREATE, &create) }
}
