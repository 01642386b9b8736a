//! Sends many frames in one system call, directly from the frames of the pool (sendmmsg(2)).

use crate::vnet;
use packet::{BATCH, Packet};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::{mem, ptr};

/// The messages of a call, reused by the next.
pub(crate) struct SendBatch {
    messages: Vec<libc::mmsghdr>,
    /// The header, the frame, and the tail of a frame that is not in one piece.
    parts: Vec<[libc::iovec; 3]>,
    headers: Vec<[u8; vnet::HEADER]>,
    /// True if each frame is preceded by its header.
    prefixed: bool,
}

// SAFETY: its pointers are only used within `send`, which sets them anew.
unsafe impl Send for SendBatch {}

impl std::fmt::Debug for SendBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SendBatch").field("prefixed", &self.prefixed).finish_non_exhaustive()
    }
}

impl SendBatch {
    /// For a socket with PACKET_VNET_HDR if `prefixed`, otherwise without.
    pub(crate) fn new(prefixed: bool) -> SendBatch {
        SendBatch {
            messages: Vec::with_capacity(BATCH),
            parts: Vec::with_capacity(BATCH),
            headers: Vec::with_capacity(BATCH),
            prefixed,
        }
    }

    /// Sends `packets` as long as the socket accepts them. Returns the number accepted, at least one, or the error of the first.
    pub(crate) fn send(&mut self, socket: impl AsFd, packets: &[Packet]) -> io::Result<usize> {
        assert!(packets.len() <= BATCH, "no more than a batch");
        let SendBatch { messages, parts, headers, prefixed } = self;
        headers.clear();
        headers.extend(packets.iter().map(vnet::header));
        let part = |bytes: &[u8]| libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        parts.clear();
        parts.extend(
            headers.iter().zip(packets).map(|(header, packet)| [&header[..], packet.bytes(), packet.tail()].map(part)),
        );
        messages.clear();
        messages.extend(parts.iter_mut().map(|parts| {
            // SAFETY: all zeros is a valid `mmsghdr`: no address, no control data.
            let mut message: libc::mmsghdr = unsafe { mem::zeroed() };
            let first = if *prefixed { 0 } else { 1 };
            let end = if parts[2].iov_len == 0 { 2 } else { 3 };
            message.msg_hdr.msg_iov = ptr::from_mut(&mut parts[first]);
            message.msg_hdr.msg_iovlen = (end - first) as _;
            message
        }));
        // SAFETY: each message points to one to three parts. Each part points to bytes of a header or packet that outlive the call. The kernel reads
        // these and writes only the lengths in `messages`.
        let sent = unsafe {
            let fd = socket.as_fd().as_raw_fd();
            libc::sendmmsg(fd, messages.as_mut_ptr(), messages.len() as u32, libc::MSG_DONTWAIT as _)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(sent as usize) }
    }
}
