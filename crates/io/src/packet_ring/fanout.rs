//! Several sockets on one interface, among which the kernel spreads flows (PACKET_FANOUT, packet(7)).

use crate::sys;
use std::io;
use std::os::fd::OwnedFd;

/// By flow hash; with a group number that the kernel chooses; without packets that the host itself sends.
const FLAGS: u32 =
    libc::PACKET_FANOUT_HASH | libc::PACKET_FANOUT_FLAG_UNIQUEID | libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING;

/// Binds sockets to the link with this index. From now on they receive, and each flow goes to one of them. Returns their number: only the first
/// socket if the kernel does not support this.
///
/// A socket can join a group only after it is bound. Until then it would receive every packet, in addition to the others. Therefore all sockets
/// reject packets until the last one has joined.
pub(super) fn bind<'a>(sockets: impl ExactSizeIterator<Item = &'a OwnedFd> + Clone, index: u32) -> io::Result<usize> {
    let count = sockets.len();
    if count > 1 {
        sockets.clone().try_for_each(sys::refuse_packets)?;
    }
    sockets.clone().try_for_each(|socket| sys::bind_packet(socket, index))?;
    if count == 1 {
        return Ok(1);
    }
    let joined = join(sockets.clone()).is_ok();
    // Without a group the others would receive every packet as well: they keep rejecting packets and are closed.
    let staying = if joined { count } else { 1 };
    sockets.take(staying).try_for_each(sys::admit_packets)?;
    Ok(staying)
}

fn join<'a>(mut sockets: impl Iterator<Item = &'a OwnedFd>) -> io::Result<()> {
    let Some(first) = sockets.next() else { return Ok(()) };
    // The lower half is the group, which must be zero if the kernel chooses it. The upper half has the kind and the flags.
    sys::set_option(first, libc::SOL_PACKET, libc::PACKET_FANOUT, &(FLAGS << 16))?;
    let group = sys::get_option(first, libc::SOL_PACKET, libc::PACKET_FANOUT, 0u32)? & 0xffff;
    // The kernel has chosen the number by now.
    let flags = FLAGS & !libc::PACKET_FANOUT_FLAG_UNIQUEID;
    sockets
        .try_for_each(|socket| sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &(group | flags << 16)))
}
