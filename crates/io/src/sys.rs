//! The socket calls that have no safe wrapper: options of plain integers and structures, and interface requests.

use packet::pool::Umem;
use std::ffi::c_int;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd};

/// A structure the kernel may read or write byte for byte: every bit pattern is a value, and there is no padding whose
/// content matters.
///
/// # Safety
/// That holds for the type, and it contains no pointer.
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
    // SAFETY: `value` points to as many bytes as are said, and the kernel only reads them.
    let result = unsafe { libc::setsockopt(fd, level, name, (&raw const *value).cast(), mem::size_of::<T>() as u32) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// getsockopt(2) into `value`; what the kernel does not fill in keeps its value.
pub(crate) fn get_option<T: Plain>(socket: impl AsFd, level: c_int, name: c_int, mut value: T) -> io::Result<T> {
    let mut length = mem::size_of::<T>() as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `length` bytes, which `value` has, and any bytes are a valid `T`.
    let result = unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

/// An interface's name as the kernel's requests carry it, or an error where it is too long to be one.
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
    // SAFETY: the call that succeeded has filled in this member.
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
    // SAFETY: the call that succeeded has filled in this member.
    Ok(unsafe { request.ifr_ifru.ifru_mtu } as u32)
}

/// Whether the interface of that name is still the one of that index, switched on and connected. An interface made anew
/// under an old name is another one.
pub(crate) fn is_running(socket: impl AsFd, interface: &str, index: u32) -> bool {
    let running = (libc::IFF_UP | libc::IFF_RUNNING) as u32;
    rustix::net::netdevice::name_to_index(&socket, interface) == Ok(index)
        && interface_flags(&socket, interface).is_ok_and(|flags| flags & running == running)
}

/// An ethtool request (SIOCETHTOOL) on an interface, in the network namespace of `socket`. `words` begins with the command
/// and has the size of its structure in <linux/ethtool.h>: 11 words for ETHTOOL_GSET, 49 for ETHTOOL_GDRVINFO, 2 for
/// those of one value.
pub(crate) fn ethtool<const N: usize>(socket: impl AsFd, interface: &str, words: &mut [u32; N]) -> io::Result<()> {
    let right = match words[0] {
        1 => N == 11,
        3 => N == 49,
        0x14..=0x17 | 0x1e | 0x1f | 0x23..=0x26 | 0x2b | 0x2c => N == 2,
        _ => false,
    };
    assert!(right, "the structure of another command");
    let mut request = interface_request(interface)?;
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: SIOCETHTOOL reads and writes the structure of the command at `ifru_data`: an `ethtool_cmd` of 11 words for
    // ETHTOOL_GSET, an `ethtool_drvinfo` of 49, an `ethtool_value` of two for the others that were let through above.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Has a socket receive nothing more (SO_ATTACH_FILTER): a program of one instruction, `ret 0`.
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

/// Makes of a descriptor of /dev/net/tun the device of that name, or a queue of it (TUNSETIFF), in the network namespace
/// the descriptor was opened in. `flags` are IFF_*.
pub(crate) fn attach_tun(tun: impl AsFd, name: &str, flags: c_int) -> io::Result<()> {
    let mut request = interface_request(name)?;
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: TUNSETIFF reads the name and the flags of the `ifreq` it is given, and writes both.
    let result = unsafe { libc::ioctl(tun.as_fd().as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whether a descriptor of /dev/net/tun still has its device (TUNGETIFF), in whichever network namespace that is by now.
pub(crate) fn has_tun(tun: impl AsFd) -> bool {
    // SAFETY: all zeros is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    // SAFETY: TUNGETIFF writes the `ifreq` it is given.
    unsafe { libc::ioctl(tun.as_fd().as_raw_fd(), libc::TUNGETIFF, &raw mut request) >= 0 }
}

/// Says what the reader of a tap device takes (TUNSETOFFLOAD): TUN_F_*.
pub(crate) fn set_tun_offload(tun: impl AsFd, flags: u32) -> io::Result<()> {
    // SAFETY: the argument of TUNSETOFFLOAD is the number itself.
    let result = unsafe { libc::ioctl(tun.as_fd().as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(flags)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Says how long the header before each frame of a tap device is, in bytes (TUNSETVNETHDRSZ).
pub(crate) fn set_tun_header(tun: impl AsFd, length: c_int) -> io::Result<()> {
    // SAFETY: TUNSETVNETHDRSZ reads the integer it is given.
    let result = unsafe { libc::ioctl(tun.as_fd().as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Binds a packet socket to a link, for every protocol; from now on it receives.
pub(crate) fn bind_packet(socket: impl AsFd, index: u32) -> io::Result<()> {
    // SAFETY: all zeros is a valid `sockaddr_ll`.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index as c_int;
    let length = mem::size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: `address` is a `sockaddr_ll` of the length that is said.
    let result = unsafe { libc::bind(socket.as_fd().as_raw_fd(), (&raw const address).cast(), length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Tells the kernel of the memory that an AF_XDP socket receives into and sends from (XDP_UMEM_REG): chunks of one size
/// that need not be a power of two. It writes only to those that are put on the fill ring.
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
    // SAFETY: `register` is a `struct xdp_umem_reg` of the length that is said, and the kernel only reads it.
    let result =
        unsafe { libc::setsockopt(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, (&raw const register).cast(), length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Binds an AF_XDP socket to a queue of a link. `shared` is the descriptor of the socket whose memory it shares, where
/// the flags say so.
pub(crate) fn bind_xdp(socket: impl AsFd, index: u32, queue: u32, flags: u16, shared: u32) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: index,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: shared,
    };
    let length = mem::size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
    // SAFETY: `address` is a `sockaddr_xdp` of the length that is said.
    let result = unsafe { libc::bind(socket.as_fd().as_raw_fd(), (&raw const address).cast(), length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
