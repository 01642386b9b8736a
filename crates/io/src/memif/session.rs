//! Connection setup, on a thread of its own: it waits for the peer, negotiates, passes the rings to the port, and detects that the peer has left.
//! Then it waits again, because either end may restart at any time.

use super::message::{ETHERNET, LENGTH, MOST_LOG2_RING, Message, VERSION};
use super::ring::{HeadOwner, Ring, SharedMemory, ring_length};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, recvmsg, sendmsg,
    socket_with,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// Descriptors of each ring, as a power of two.
pub(super) const LOG2_RING: u8 = 11;
/// Bytes of a buffer.
pub(super) const BUFFER: u32 = 2048;
/// The time limit for one answer of the peer, in milliseconds.
const PATIENCE: i64 = 1000;

/// The result of the setup: the part for the port.
#[derive(Debug)]
pub(super) struct Channel {
    pub send: Ring,
    pub receive: Ring,
    /// Signalled by this end after sending, and by the peer after its sending.
    pub send_event: Arc<OwnedFd>,
    pub receive_event: Arc<OwnedFd>,
    /// The offsets of the buffers of both rings, if the memory is this end's.
    pub buffers: Option<(usize, usize)>,
}

fn text(message: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.into())
}

/// A socket for the setup.
pub(super) fn new_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Listens at `path`, accessible only by its owner.
pub(super) fn listen_at(path: &Path) -> io::Result<OwnedFd> {
    let socket = new_socket()?;
    // The file gets its mode from the socket (unix(7)), so no other user can connect at any moment.
    rustix::fs::fchmod(&socket, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, 4)?;
    Ok(socket)
}

/// Waits until `fd` is readable, for `milliseconds` or without limit. True if it is readable; an error if `stop` was signalled.
pub(super) fn wait_for(fd: impl AsFd, stop: impl AsFd, milliseconds: Option<i64>) -> io::Result<bool> {
    let timeout = milliseconds.map(|ms| Timespec { tv_sec: ms / 1000, tv_nsec: (ms % 1000 * 1_000_000) as _ });
    let mut fds = [PollFd::new(&fd, PollFlags::IN), PollFd::new(&stop, PollFlags::IN)];
    match poll(&mut fds, timeout.as_ref()) {
        Err(Errno::INTR) => return Ok(false),
        result => result?,
    };
    if !fds[1].revents().is_empty() {
        return Err(io::Error::new(io::ErrorKind::Interrupted, "the port is closing"));
    }
    Ok(!fds[0].revents().is_empty())
}

/// The next peer that connects to `listener`.
pub(super) fn accept_peer(listener: &OwnedFd) -> io::Result<OwnedFd> {
    Ok(accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?)
}

/// The peer that listens at `path`.
pub(super) fn connect_to(path: &Path) -> io::Result<OwnedFd> {
    let socket = new_socket()?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// One session.
pub(super) struct MemifSession<'a> {
    pub socket: BorrowedFd<'a>,
    pub stop: BorrowedFd<'a>,
    pub name: &'a str,
}

impl MemifSession<'_> {
    fn send_message(&self, message: &Message, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let bytes = message.encode(self.name);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors: Vec<BorrowedFd<'_>> = descriptor.into_iter().collect();
        if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(text("no space for a file descriptor"));
        }
        sendmsg(self.socket, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// The next message and its descriptor.
    pub fn receive_message(&self) -> io::Result<(Message, Option<OwnedFd>)> {
        if !wait_for(self.socket, self.stop, Some(PATIENCE))? {
            return Err(text("it does not answer"));
        }
        // One byte more than a message, so that a longer one is rejected and not truncated.
        let mut bytes = [0; LENGTH + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received =
            recvmsg(self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        if received.bytes == 0 {
            return Err(text("it disconnected"));
        }
        // All received descriptors are owned, so that none leaks; one is used.
        let mut descriptors = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        let message = Message::decode(&bytes[..received.bytes]).ok_or_else(|| text("it speaks another protocol"))?;
        if let Message::Disconnect(reason) = &message {
            return Err(text(format!("it disconnected: {reason}")));
        }
        Ok((message, descriptors.into_iter().next()))
    }

    /// Disconnects. The peer may be gone already.
    pub fn disconnect(&self, reason: &str) {
        let _ = self.send_message(&Message::Disconnect(reason.into()), None);
    }

    fn expect_ack(&self) -> io::Result<()> {
        match self.receive_message()?.0 {
            Message::Ack => Ok(()),
            other => Err(text(format!("it answers {other:?} instead of an acknowledgement"))),
        }
    }

    fn offer(&self, message: &Message, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        self.send_message(message, descriptor)?;
        self.expect_ack()
    }

    /// Sets up the link with a server; the memory is this end's.
    pub fn as_client(&self) -> io::Result<Channel> {
        let Message::Hello { versions, log2_ring, .. } = self.receive_message()?.0 else {
            return Err(text("it does not begin with a hello message"));
        };
        if !(versions.0..=versions.1).contains(&VERSION) {
            return Err(text(format!("it supports versions {:#06x} to {:#06x} of memif", versions.0, versions.1)));
        }
        let log2 = LOG2_RING.min(log2_ring);
        if log2 == 0 {
            return Err(text("its rings are too small"));
        }
        self.offer(&Message::Init { version: VERSION, id: 0, mode: ETHERNET }, None)?;
        let ring = ring_length(log2).next_multiple_of(64);
        let slots = 1usize << log2;
        // Layout of the region: both rings, then the buffers of both, from a page boundary on.
        let buffers = (2 * ring).next_multiple_of(4096);
        let length = buffers + 2 * slots * BUFFER as usize;
        let (file, memory) = SharedMemory::create(length)?;
        let memory = Arc::new(memory);
        let broken = |broken: super::ring::ProtocolViolation| text(broken.0);
        let mut send = Ring::new(&memory, 0, log2, HeadOwner::Sender).map_err(broken)?;
        let mut receive = Ring::new(&memory, ring, log2, HeadOwner::Receiver).map_err(broken)?;
        let other_buffers = buffers + slots * BUFFER as usize;
        send.initialise(buffers, BUFFER);
        receive.initialise(other_buffers, BUFFER);
        // The region first: the server checks each ring against it.
        self.offer(&Message::AddRegion { index: 0, size: length as u64 }, Some(file.as_fd()))?;
        let signal = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map(Arc::new);
        let (bell, rung) = (signal()?, signal()?);
        let add = |to_server, offset: usize| Message::AddRing {
            to_server,
            index: 0,
            region: 0,
            // The region has some 8 MB at most, so the offset fits.
            offset: offset as u32,
            log2_size: log2,
            private_header: 0,
        };
        self.offer(&add(true, 0), Some(bell.as_fd()))?;
        self.offer(&add(false, ring), Some(rung.as_fd()))?;
        self.send_message(&Message::Connect, None)?;
        match self.receive_message()?.0 {
            Message::Connected => {
                // Only now: see `Ring::offer`.
                receive.offer();
                Ok(Channel {
                    send,
                    receive,
                    send_event: bell,
                    receive_event: rung,
                    buffers: Some((buffers, other_buffers)),
                })
            }
            other => Err(text(format!("it answers {other:?} instead of connected"))),
        }
    }

    /// Sets up the link with a client, which provides the memory.
    pub fn as_server(&self) -> io::Result<Channel> {
        let hello = Message::Hello { versions: (VERSION, VERSION), last: (0, 0, 0), log2_ring: MOST_LOG2_RING };
        self.send_message(&hello, None)?;
        let mut memory = None;
        let (mut send, mut receive) = (None, None);
        loop {
            let (message, descriptor) = self.receive_message()?;
            let taken = match message {
                Message::Init { version: VERSION, id: 0, mode: ETHERNET } => Ok(()),
                Message::Init { version, id, mode } => {
                    Err(format!("version {version:#06x}, link {id}, mode {mode} instead of 0x0200, 0 and 0 (Ethernet)"))
                }
                Message::AddRegion { index: 0, size } if memory.is_none() => {
                    let file = descriptor.ok_or_else(|| text("memory without a descriptor"))?;
                    memory = Some(Arc::new(SharedMemory::of_peer(&file, size)?));
                    Ok(())
                }
                Message::AddRing { to_server, index: 0, region: 0, offset, log2_size, private_header: 0 } => {
                    let memory = memory.as_ref().ok_or_else(|| text("a ring before its memory"))?;
                    let signal = descriptor.ok_or_else(|| text("a ring without a signal"))?;
                    // The descriptor is the peer's and may be in blocking mode, but a worker must never block on it.
                    rustix::io::ioctl_fionbio(&signal, true)?;
                    let filled = if to_server { HeadOwner::Sender } else { HeadOwner::Receiver };
                    let ring = Ring::new(memory, offset as usize, log2_size, filled).map_err(|b| text(b.0))?;
                    let place = if to_server { &mut receive } else { &mut send };
                    *place = Some((ring, Arc::new(signal)));
                    Ok(())
                }
                Message::Connect => match (send.take(), receive.take()) {
                    (Some((send, bell)), Some((receive, rung))) => {
                        if !(send.is_initialised() && receive.is_initialised()) {
                            return Err(text("its rings are not initialised"));
                        }
                        self.send_message(&Message::Connected, None)?;
                        return Ok(Channel { send, receive, send_event: bell, receive_event: rung, buffers: None });
                    }
                    _ => Err("it connects without a ring in each direction".to_string()),
                },
                other => Err(format!("it sends {other:?}, which is unsupported")),
            };
            match taken {
                Ok(()) => self.send_message(&Message::Ack, None)?,
                Err(reason) => {
                    self.disconnect(&reason);
                    return Err(text(reason));
                }
            }
        }
    }
}
