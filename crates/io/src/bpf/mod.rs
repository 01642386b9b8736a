//! BPF programs in the kernel, by bpf(2): loading, the maps that they share with the router, and the links that attach them.
//!
//! Everything belongs to descriptors. When the last descriptor of a program, map or link is closed, even by kill -9, the kernel removes it. Nothing
//! is pinned. The programs are a few instructions each, built by [`instruction`]: they need no compiler and no C library, neither for the build nor
//! on the target machine.

pub mod instruction;

use instruction::BpfInstruction;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP: libc::c_int = 1;
const MAP_UPDATE: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const PROG_TEST_RUN: libc::c_int = 10;
const LINK_CREATE: libc::c_int = 28;
/// BPF_F_TEST_XDP_LIVE_FRAMES.
const LIVE_FRAMES: u32 = 2;

/// The type of a program (`enum bpf_prog_type`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BpfProgramKind {
    /// Run by a queueing discipline or tcx for a frame of a link.
    Classifier = 3,
    /// Run by the driver of a link for a received frame.
    Xdp = 6,
}

/// A program that the kernel has verified and loaded.
#[derive(Debug)]
pub struct BpfProgram {
    descriptor: OwnedFd,
}

/// The place where a program is attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BpfHook {
    /// tcx ingress (Linux 6.6).
    TcxIngress,
    /// tcx egress (Linux 6.6).
    TcxEgress,
    /// XDP in the driver.
    XdpNative,
    /// XDP in the stack, for drivers without XDP.
    XdpGeneric,
}

impl BpfHook {
    /// `enum bpf_attach_type`, and the flags of <linux/if_link.h>.
    const fn numbers(self) -> (u32, u32) {
        match self {
            BpfHook::TcxIngress => (46, 0),
            BpfHook::TcxEgress => (47, 0),
            BpfHook::XdpNative => (37, 1 << 2),
            BpfHook::XdpGeneric => (37, 1 << 1),
        }
    }
}

/// A program attached to a network link as long as this value lives.
#[derive(Debug)]
pub struct BpfAttachment {
    _descriptor: OwnedFd,
}

/// The type of a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapKind {
    /// Values of eight bytes by index, shared by all processors.
    Array,
    /// Values of [`RECORD`] bytes by index, shared by all processors.
    Records,
    /// AF_XDP sockets by index.
    Sockets,
}

/// Bytes of a value of [`MapKind::Records`].
pub const RECORD: usize = 40;

impl MapKind {
    /// `enum bpf_map_type`, and the bytes of a value.
    const fn numbers(self) -> (u32, u32) {
        match self {
            MapKind::Array => (2, size_of::<u64>() as u32),
            MapKind::Records => (2, RECORD as u32),
            MapKind::Sockets => (17, size_of::<u32>() as u32),
        }
    }
}

/// A map: memory shared between a program and the router.
#[derive(Debug)]
pub struct Map {
    descriptor: OwnedFd,
    kind: MapKind,
}

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

/// The start of `union bpf_attr` for BPF_MAP_CREATE.
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
}

/// `union bpf_attr` for BPF_MAP_LOOKUP_ELEM and BPF_MAP_UPDATE_ELEM.
#[repr(C)]
struct MapElement {
    map_fd: u32,
    _padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// `union bpf_attr` for BPF_PROG_TEST_RUN.
// Large: the kernel's structure (bpf(2)).
#[repr(C)]
struct TestRun {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    _padding: u32,
}

/// # Safety
/// `T` is laid out as the part of `union bpf_attr` that `command` uses, and its pointers are valid for that during the
/// call.
unsafe fn bpf<T>(command: libc::c_int, attributes: &mut T) -> io::Result<libc::c_int> {
    // SAFETY: the caller vouches for the attributes, whose size is passed; the kernel may write to them (BPF_PROG_TEST_RUN).
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attributes, size_of::<T>() as u32) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as libc::c_int) }
}

/// # Safety
/// See [`bpf`]; in addition `command` returns a new descriptor.
unsafe fn bpf_open<T>(command: libc::c_int, attributes: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: the caller vouches for the call; a new descriptor has no other owner.
    unsafe { bpf(command, attributes).map(|fd| OwnedFd::from_raw_fd(fd)) }
}

/// The name of a program or a map in listings: at most 15 bytes.
fn named(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes.iter_mut().take(15).zip(name.bytes()).for_each(|(to, from)| *to = from);
    bytes
}

impl BpfProgram {
    /// Has the kernel verify and load a program. Needs CAP_BPF and CAP_NET_ADMIN, which a user namespace does not grant.
    pub fn load(kind: BpfProgramKind, name: &str, instructions: &[BpfInstruction]) -> io::Result<BpfProgram> {
        let mut load = ProgLoad {
            prog_type: kind as u32,
            insn_cnt: instructions.len() as u32,
            insns: instructions.as_ptr().addr() as u64,
            license: c"Apache-2.0 OR MIT".as_ptr().addr() as u64,
            log_level: 0,
            log_size: 0,
            log_buf: 0,
            kern_version: 0,
            prog_flags: 0,
            prog_name: named(name),
        };
        // SAFETY: `ProgLoad` begins like the structure in <linux/bpf.h>; its pointers are valid for the stated lengths.
        let descriptor = unsafe { bpf_open(PROG_LOAD, &mut load) }?;
        Ok(BpfProgram { descriptor })
    }

    /// Attaches it to the network link with this index, in the network namespace of the calling thread. `EBUSY` if another program is attached there.
    pub fn attach(&self, hook: BpfHook, index: u32) -> io::Result<BpfAttachment> {
        let (attach_type, flags) = hook.numbers();
        let mut create = LinkCreate {
            prog_fd: self.descriptor.as_raw_fd() as u32,
            target_ifindex: index,
            attach_type,
            flags,
            relative_fd: 0,
            _padding: 0,
            expected_revision: 0,
        };
        // SAFETY: `LinkCreate` begins as <linux/bpf.h> says and has no pointer.
        let descriptor = unsafe { bpf_open(LINK_CREATE, &mut create) }?;
        Ok(BpfAttachment { _descriptor: descriptor })
    }

    /// Runs an XDP program on `count` frames. Each frame begins as `frame`, or as the program left it in an earlier run. The kernel carries out the
    /// program's result: redirected frames leave by a link of the calling thread's network namespace (Linux 5.18). Batches are at most 256.
    pub fn run_live(&self, frame: &[u8], count: u32, batch: u32) -> io::Result<()> {
        let mut run = TestRun {
            prog_fd: self.descriptor.as_raw_fd() as u32,
            retval: 0,
            data_size_in: frame.len() as u32,
            data_size_out: 0,
            data_in: frame.as_ptr().addr() as u64,
            data_out: 0,
            repeat: count,
            duration: 0,
            ctx_size_in: 0,
            ctx_size_out: 0,
            ctx_in: 0,
            ctx_out: 0,
            flags: LIVE_FRAMES,
            cpu: 0,
            batch_size: batch,
            _padding: 0,
        };
        // SAFETY: `TestRun` is as <linux/bpf.h> says; the frame is only read, and there are no other pointers.
        unsafe { bpf(PROG_TEST_RUN, &mut run) }.map(drop)
    }
}

impl Map {
    /// An empty map with room for `entries`.
    pub fn create(kind: MapKind, entries: u32) -> io::Result<Map> {
        let (map_type, value_size) = kind.numbers();
        let mut create =
            MapCreate { map_type, key_size: size_of::<u32>() as u32, value_size, max_entries: entries, map_flags: 0 };
        // SAFETY: `MapCreate` begins as <linux/bpf.h> says and has no pointer.
        let descriptor = unsafe { bpf_open(MAP_CREATE, &mut create) }?;
        Ok(Map { descriptor, kind })
    }

    /// Stores a socket. Closing the socket removes it.
    pub fn set_socket(&self, key: u32, socket: impl AsFd) -> io::Result<()> {
        assert_eq!(self.kind, MapKind::Sockets);
        let value = socket.as_fd().as_raw_fd() as u32;
        self.element(MAP_UPDATE, key, (&raw const value).addr() as u64)
    }

    /// Stores a number; `E2BIG` for a key outside the map.
    pub fn set(&self, key: u32, value: u64) -> io::Result<()> {
        assert_eq!(self.kind, MapKind::Array);
        self.element(MAP_UPDATE, key, (&raw const value).addr() as u64)
    }

    /// Stores a record; `E2BIG` for a key outside the map.
    pub fn set_record(&self, key: u32, value: &[u8; RECORD]) -> io::Result<()> {
        assert_eq!(self.kind, MapKind::Records);
        self.element(MAP_UPDATE, key, value.as_ptr().addr() as u64)
    }

    /// Reads a number; `ENOENT` for a key outside the map.
    pub fn get(&self, key: u32) -> io::Result<u64> {
        assert_eq!(self.kind, MapKind::Array);
        let mut value = 0u64;
        self.element(MAP_LOOKUP, key, (&raw mut value).expose_provenance() as u64)?;
        Ok(value)
    }

    /// `value` is the address of a value of this kind of map: an update reads it, a lookup writes it.
    fn element(&self, command: libc::c_int, key: u32, value: u64) -> io::Result<()> {
        let key_address = (&raw const key).addr() as u64;
        let map_fd = self.descriptor.as_raw_fd() as u32;
        let mut element = MapElement { map_fd, _padding: 0, key: key_address, value, flags: 0 };
        // SAFETY: `MapElement` matches <linux/bpf.h>. The key has the four bytes that the map was made for. The four callers above, the only ones,
        // pass a pointer to a value of this map's value size.
        unsafe { bpf(command, &mut element) }.map(drop)
    }

    /// The number that loads the map into a register of a program.
    pub(crate) fn number(&self) -> i32 {
        self.descriptor.as_raw_fd()
    }
}
