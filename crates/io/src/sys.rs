//! Socket calls without a safe wrapper: options of plain integers and structures, and interface requests.

use packet::pool::Umem;
use std::ffi::{CStr, c_int};
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A structure that the kernel may read or write byte for byte: every bit pattern is valid, and it has no padding with meaning.
///
/// # Safety
/// The type meets this and contains no pointer.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: integers.
unsafe impl Plain for u32 {}
// SAFETY: integers.
unsafe impl Plain for c_int {}
// SAFETY: integers.
unsafe impl<const N: usize> Plain for [u32; N] {}
// SAFETY: three integers.
unsafe impl Plain for libc::tpacket_req {}
// SAFETY: two integers.
unsafe impl Plain for libc::tpacket_stats {}
// SAFETY: integers and an array of bytes.
unsafe impl Plain for libc::packet_mreq {}

// SAFETY: integers.
unsafe impl Plain for libc::xdp_mmap_offsets {}
// SAFETY: integers.
unsafe impl Plain for libc::xdp_statistics {}

/// setsockopt(2).
pub(crate) fn set_option<T: Plain>(socket: impl AsFd, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: `value` points to as many bytes as stated, and the kernel only reads them.
    let result = unsafe { libc::setsockopt(fd, level, name, (&raw const *value).cast(), mem::size_of::<T>() as u32) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Binds a socket to an interface (SO_BINDTODEVICE).
pub(crate) fn bind_to_device(socket: impl AsFd, interface: &str) -> io::Result<()> {
    let request = interface_request(interface)?;
    let name = request.ifr_name.map(|byte| byte as u8);
    let words: [u32; 4] =
        std::array::from_fn(|i| u32::from_ne_bytes([name[4 * i], name[4 * i + 1], name[4 * i + 2], name[4 * i + 3]]));
    set_option(socket, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, &words)
}

/// getsockopt(2) into `value`. Bytes that the kernel does not write keep their value.
pub(crate) fn get_option<T: Plain>(socket: impl AsFd, level: c_int, name: c_int, mut value: T) -> io::Result<T> {
    let mut length = mem::size_of::<T>() as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `length` bytes, which `value` has, and any bytes are a valid `T`.
    let result = unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

/// A request with an interface's name, or an error if the name is too long.
fn interface_request(interface: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all zeros is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    if interface.is_empty() || interface.len() >= libc::IFNAMSIZ || interface.contains('\0') {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

/// The IFF_* flags of an interface (SIOCGIFFLAGS), in the network namespace of `socket`.
pub(crate) fn interface_flags(socket: impl AsFd, interface: &str) -> io::Result<u32> {
    let mut request = interface_request(interface)?;
    // SAFETY: SIOCGIFFLAGS reads the name and writes the flags of the `ifreq` it is given.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the successful call has written this member.
    Ok(unsafe { request.ifr_ifru.ifru_flags } as u16 as u32)
}

/// The MTU of an interface (SIOCGIFMTU), in the network namespace of `socket`.
pub(crate) fn interface_mtu(socket: impl AsFd, interface: &str) -> io::Result<u32> {
    let mut request = interface_request(interface)?;
    // SAFETY: SIOCGIFMTU reads the name and writes the MTU of the `ifreq` it is given.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::SIOCGIFMTU, &raw mut request) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the successful call has written this member.
    Ok(unsafe { request.ifr_ifru.ifru_mtu } as u32)
}

/// True if the interface with this name still has this index and is operational. An interface recreated under an old name is another one.
pub(crate) fn is_running(socket: impl AsFd, interface: &str, index: u32) -> bool {
    let running = (libc::IFF_UP | libc::IFF_RUNNING) as u32;
    rustix::net::netdevice::name_to_index(&socket, interface) == Ok(index)
        && interface_flags(&socket, interface).is_ok_and(|flags| flags & running == running)
}

/// An ethtool request (SIOCETHTOOL) on an interface, in the network namespace of `socket`. `words` begins with the command and has the size of its
/// structure in <linux/ethtool.h>: 11 words for ETHTOOL_GSET, 49 for ETHTOOL_GDRVINFO, 2 for commands with a single value.
pub(crate) fn ethtool<const N: usize>(socket: impl AsFd, interface: &str, words: &mut [u32; N]) -> io::Result<()> {
    let right = match words[0] {
        1 => N == 11,
        3 => N == 49,
        0x0a | 0x14..=0x17 | 0x1e | 0x1f | 0x23..=0x26 | 0x2b | 0x2c => N == 2,
        _ => false,
    };
    assert!(right, "the structure of another command");
    let mut request = interface_request(interface)?;
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: SIOCETHTOOL reads and writes the command's structure at `ifru_data`: an `ethtool_cmd` of 11 words for ETHTOOL_GSET, an
    // `ethtool_drvinfo` of 49, an `ethtool_value` of two for the other commands admitted above.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes a socket drop all packets (SO_ATTACH_FILTER): a program of one instruction, `ret 0`.
pub(crate) fn refuse_packets(socket: impl AsFd) -> io::Result<()> {
    let mut refuse = libc::sock_filter { code: libc::BPF_RET as u16 | libc::BPF_K as u16, jt: 0, jf: 0, k: 0 };
    let program = libc::sock_fprog { len: 1, filter: &raw mut refuse };
    let (fd, length) = (socket.as_fd().as_raw_fd(), mem::size_of_val(&program) as u32);
    // SAFETY: `program` is a `sock_fprog` whose instruction outlives the call; the kernel copies it.
    let result =
        unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, (&raw const program).cast(), length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Undoes [`refuse_packets`].
pub(crate) fn admit_packets(socket: impl AsFd) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0u32)
}

/// Attaches a descriptor of /dev/net/tun to the device with this name, or a queue of it (TUNSETIFF). The network namespace is that in which the
/// descriptor was opened. `flags` are IFF_*.
pub(crate) fn attach_tun(tun: impl AsFd, name: &str, flags: c_int) -> io::Result<()> {
    let mut request = interface_request(name)?;
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: TUNSETIFF reads the name and the flags of the `ifreq` it is given, and writes both.
    let result = unsafe { libc::ioctl(tun.as_fd().as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// True if a descriptor of /dev/net/tun still has its device, in any network namespace.
pub(crate) fn has_tun(tun: impl AsFd) -> bool {
    tun_name(tun).is_some()
}

/// The name of the device of a descriptor of /dev/net/tun (TUNGETIFF). None if it has none, or is another kind of descriptor.
pub(crate) fn tun_name(tun: impl AsFd) -> Option<String> {
    // SAFETY: all zeros is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    // SAFETY: TUNGETIFF writes the `ifreq` it is given.
    let result = unsafe { libc::ioctl(tun.as_fd().as_raw_fd(), libc::TUNGETIFF, &raw mut request) };
    let name = request.ifr_name.map(|byte| byte as u8);
    let name = CStr::from_bytes_until_nul(&name).ok().filter(|_| result >= 0)?;
    name.to_str().ok().map(str::to_owned)
}

/// The descriptors that the service manager has passed to this process: `count` of them from number 3 on (sd_listen_fds(3)). Only the first call may
/// have a count. They are not passed on to child processes.
pub(crate) fn inherited_descriptors(count: u16) -> Vec<OwnedFd> {
    const FIRST: RawFd = 3;
    let open = |number: &RawFd| {
        // SAFETY: F_SETFD fails for numbers that are not open.
        unsafe { libc::fcntl(*number, libc::F_SETFD, libc::FD_CLOEXEC) >= 0 }
    };
    // SAFETY: the manager has opened them for this process, and nothing else knows their numbers.
    (FIRST..FIRST + RawFd::from(count)).filter(open).map(|number| unsafe { OwnedFd::from_raw_fd(number) }).collect()
}

/// Keeps a tap device when its last descriptor is closed, or no longer (TUNSETPERSIST).
pub(crate) fn keep_tun(tun: impl AsFd, keep: bool) -> io::Result<()> {
    // SAFETY: the argument of TUNSETPERSIST is the number itself.
    let result = unsafe { libc::ioctl(tun.as_fd().as_raw_fd(), libc::TUNSETPERSIST, libc::c_ulong::from(keep)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Mounts `source` at `target` too (mount(2), MS_BIND).
pub(crate) fn bind_mount(source: &CStr, target: &CStr) -> io::Result<()> {
    // SAFETY: the paths are strings with a final zero; type and data may be null for a bind mount.
    let result =
        unsafe { libc::mount(source.as_ptr(), target.as_ptr(), std::ptr::null(), libc::MS_BIND, std::ptr::null()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets the offloads that the reader of a tap device supports (TUNSETOFFLOAD): TUN_F_*.
pub(crate) fn set_tun_offload(tun: impl AsFd, flags: u32) -> io::Result<()> {
    // SAFETY: the argument of TUNSETOFFLOAD is the number itself.
    let result = unsafe { libc::ioctl(tun.as_fd().as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(flags)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets the length of the header before each frame of a tap device, in bytes (TUNSETVNETHDRSZ).
pub(crate) fn set_tun_header(tun: impl AsFd, length: c_int) -> io::Result<()> {
    // SAFETY: TUNSETVNETHDRSZ reads the integer it is given.
    let result = unsafe { libc::ioctl(tun.as_fd().as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets the carrier of a tap device (TUNSETCARRIER, since Linux 5.0): the state of the cable as the kernel reports it on its interface.
pub(crate) fn set_tun_carrier(tun: impl AsFd, is_present: bool) -> io::Result<()> {
    let carrier = c_int::from(is_present);
    // SAFETY: TUNSETCARRIER reads the integer it is given.
    let result = unsafe { libc::ioctl(tun.as_fd().as_raw_fd(), libc::TUNSETCARRIER, &raw const carrier) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Binds a packet socket to a link for all protocols; from now on it receives.
pub(crate) fn bind_packet(socket: impl AsFd, index: u32) -> io::Result<()> {
    // SAFETY: all zeros is a valid `sockaddr_ll`.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index as c_int;
    let length = mem::size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: `address` is a `sockaddr_ll` of the stated length.
    let result = unsafe { libc::bind(socket.as_fd().as_raw_fd(), (&raw const address).cast(), length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Registers the memory of an AF_XDP socket with the kernel (XDP_UMEM_REG): chunks of one size that need not be a power of two. The kernel writes
/// only to chunks on the fill ring.
pub(crate) fn register_frames(socket: impl AsFd, umem: Umem) -> io::Result<()> {
    let register = libc::xdp_umem_reg {
        addr: umem.base.as_ptr().expose_provenance() as u64,
        len: umem.length as u64,
        chunk_size: umem.chunk,
        headroom: 0,
        flags: libc::XDP_UMEM_UNALIGNED_CHUNK_FLAG,
        tx_metadata_len: 0,
    };
    let fd = socket.as_fd().as_raw_fd();
    let length = mem::size_of_val(&register) as u32;
    // SAFETY: `register` is a `struct xdp_umem_reg` of the stated length, and the kernel only reads it.
    let result =
        unsafe { libc::setsockopt(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, (&raw const register).cast(), length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Binds an AF_XDP socket to a queue of a link. `shared` is the descriptor of the socket whose memory it shares, if the flags say so.
pub(crate) fn bind_xdp(socket: impl AsFd, index: u32, queue: u32, flags: u16, shared: u32) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: index,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: shared,
    };
    let length = mem::size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
    // SAFETY: `address` is a `sockaddr_xdp` of the stated length.
    let result = unsafe { libc::bind(socket.as_fd().as_raw_fd(), (&raw const address).cast(), length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
