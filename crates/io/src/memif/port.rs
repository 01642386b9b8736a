//! The `memif:` port. It copies packets between the pool and the shared buffers, a batch at a time.

use super::MemifRole;
use super::ring::ProtocolViolation;
use super::session::{BUFFER, Channel, LOG2_RING, MemifSession, accept_peer, connect_to, listen_at, wait_for};
use crate::advisories::{Advisories, OpenError};
use mailbox::{PeerEvent, PeerMailbox};
use packet::pool::FRAME;
use packet::port::{Port, PortStatistics, WakeSource, refuse};
use packet::{Batch, DropReason, Pool};
use rustix::event::{EventfdFlags, epoll, eventfd};
use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::{fs, io};
use units::{Instant, Rate};

/// Ethernet header and one tag.
const LINK_HEADER: usize = 18;
/// The retry interval of an end without a peer, in milliseconds.
const RETRY: i64 = 50;

/// The exchange point of the connection thread and the port: the thread leaves channels here, and the port reports that it no longer needs one.
mod mailbox {
    use super::Channel;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// News from the thread.
    #[derive(Debug, Default)]
    pub(super) enum PeerEvent {
        /// Nothing new.
        #[default]
        Empty,
        /// A peer has connected.
        Connected(Box<Channel>),
        /// The peer has left.
        Disconnected,
    }

    /// The exchange point. Without news it costs the port an atomic load.
    #[derive(Debug, Default)]
    pub(super) struct PeerMailbox {
        news: AtomicU64,
        slot: Mutex<PeerEvent>,
    }

    impl PeerMailbox {
        fn slot(&self) -> MutexGuard<'_, PeerEvent> {
            // Each change is one assignment, so a panic elsewhere leaves it consistent.
            self.slot.lock().unwrap_or_else(PoisonError::into_inner)
        }

        pub fn post(&self, slot: PeerEvent) {
            *self.slot() = slot;
            self.news.fetch_add(1, Ordering::Release);
        }

        pub fn news(&self) -> u64 {
            self.news.load(Ordering::Acquire)
        }

        pub fn take(&self) -> PeerEvent {
            std::mem::take(&mut *self.slot())
        }
    }
}

/// One end of a link to another process.
#[derive(Debug)]
pub struct MemifPort {
    channel: Option<Box<Channel>>,
    mailbox: Arc<PeerMailbox>,
    events_read: u64,
    /// The descriptor that a worker sleeps on: the peer's signal and the thread's.
    waiter: OwnedFd,
    mailbox_event: Arc<OwnedFd>,
    stop: Arc<OwnedFd>,
    /// The peer violated the protocol: the thread disconnects.
    disconnect_event: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    awake: Cell<bool>,
    /// Packets that the link refuses during the transmission of a batch.
    refused: Batch,
    name: String,
    advisories: Advisories,
}

fn new_event() -> io::Result<Arc<OwnedFd>> {
    Ok(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
}

fn set_event(bell: &OwnedFd) {
    // EAGAIN: the counter is at its maximum, so the event is set.
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}

fn clear_event(bell: &OwnedFd) {
    let _ = rustix::io::read(bell, &mut [0u8; 8]);
}

impl MemifPort {
    /// Opens one end of a link for the port `name`. The peer may be absent; until it connects, the port is down.
    pub fn open(end: &MemifRole, name: &str, warnings: Advisories) -> Result<MemifPort, OpenError> {
        let refused = |error: io::Error| {
            let hint = match error.kind() {
                io::ErrorKind::AddrInUse => "another program listens there: give this port another path",
                io::ErrorKind::NotFound => "create the directory first",
                io::ErrorKind::PermissionDenied => "use a directory of your own, such as /run/switchpath",
                _ => "use a path of at most 107 bytes, in a writable directory",
            };
            OpenError { reason: format!("the socket {}: {error}", end.path().display()), hint: hint.into() }
        };
        let listener = match end {
            MemifRole::Listen(path) => Some(Listener::new(path).map_err(refused)?),
            MemifRole::Connect(_) => None,
        };
        let system = |error: io::Error| OpenError {
            reason: format!("a link to another process: {error}"),
            hint: "close other programs".into(),
        };
        let (stop, news, kick) =
            (new_event().map_err(system)?, new_event().map_err(system)?, new_event().map_err(system)?);
        let waiter = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| system(error.into()))?;
        watch(&waiter, &news).map_err(system)?;
        let desk = Arc::new(PeerMailbox::default());
        let keeper = ConnectionThread {
            end: end.clone(),
            listener,
            mailbox: desk.clone(),
            mailbox_event: news.clone(),
            stop: stop.clone(),
            disconnect_event: kick.clone(),
            name: name.to_owned(),
            advisories: warnings.clone(),
            failure_reported: false,
        };
        let thread = thread::Builder::new().name("memif".into()).spawn(|| keeper.run()).map_err(system)?;
        Ok(MemifPort {
            channel: None,
            mailbox: desk,
            events_read: 0,
            waiter,
            mailbox_event: news,
            stop,
            disconnect_event: kick,
            thread: Some(thread),
            awake: Cell::new(true),
            refused: Batch::new(),
            name: name.to_owned(),
            advisories: warnings,
        })
    }

    #[cold]
    fn handle_event(&mut self) {
        // Read before the event is taken: an event posted in between is at worst looked for twice, never missed.
        self.events_read = self.mailbox.news();
        match self.mailbox.take() {
            PeerEvent::Empty => {}
            PeerEvent::Connected(channel) => {
                self.disconnect();
                if watch(&self.waiter, &channel.receive_event).is_err() {
                    return self.report_violation(ProtocolViolation("cannot wait for its event file descriptor"));
                }
                channel.receive.set_awake(true);
                self.awake.set(true);
                self.channel = Some(channel);
            }
            PeerEvent::Disconnected => self.disconnect(),
        }
    }

    fn disconnect(&mut self) {
        if let Some(channel) = self.channel.take() {
            let _ = epoll::delete(&self.waiter, &channel.receive_event);
        }
    }

    #[cold]
    fn report_violation(&mut self, broken: ProtocolViolation) {
        self.advisories
            .add(format!("port {}: its peer violates the memif protocol ({}): disconnected", self.name, broken.0));
        self.disconnect();
        set_event(&self.disconnect_event);
    }

    /// The peer's signal stays set until it is read, which only matters while the worker may sleep.
    fn resume_polling(&mut self) {
        self.awake.set(true);
        clear_event(&self.mailbox_event);
        if let Some(channel) = &self.channel {
            clear_event(&channel.receive_event);
            channel.receive.set_awake(true);
        }
    }

    fn receive_packets(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) -> Result<(), ProtocolViolation> {
        let Some(channel) = &mut self.channel else { return Ok(()) };
        let waiting = channel.receive.waiting()?;
        let mut slot = 0;
        while slot < waiting && batch.room() > 0 {
            let Some(mut packet) = pool.take() else { break };
            let resized = packet.resize(FRAME);
            assert!(resized, "a frame of the pool holds {FRAME} bytes");
            let (mut length, mut whole, mut next) = (0, true, slot);
            let ended = loop {
                if next == waiting {
                    // The remaining slots of a multi-slot packet have not arrived yet.
                    break false;
                }
                let (bytes, more) = channel.receive.copy(next, &mut packet.bytes_mut()[length..])?;
                next += 1;
                // A packet that is too long is read to its end all the same, so that the next one begins at its first slot.
                whole &= bytes <= FRAME - length;
                length += bytes.min(FRAME - length);
                if !more {
                    break true;
                }
            };
            if !ended {
                pool.give(packet);
                // The peer has no slot left for the rest: without this check the link would stall for ever.
                if slot == 0 && channel.receive.is_full(waiting) {
                    return Err(ProtocolViolation("a packet has no end"));
                }
                break;
            }
            packet.resize(length);
            packet.meta_mut().timestamp = now;
            if !whole {
                packet.meta_mut().refused = DropReason::FrameTooLong as u8 + 1;
            }
            batch.push(packet);
            slot = next;
        }
        let buffers = channel.buffers.map(|(_, receive)| (receive, BUFFER));
        if slot > 0 {
            channel.receive.release(slot, buffers);
        }
        Ok(())
    }

    fn transmit_packets(&mut self, batch: &mut Batch, pool: &mut Pool) -> Result<(), ProtocolViolation> {
        let Some(channel) = &mut self.channel else {
            for packet in batch.as_mut_slice() {
                packet.meta_mut().refused = DropReason::PortDown as u8 + 1;
            }
            return Ok(());
        };
        let buffers = channel.buffers.map_or((0, 0), |(send, _)| (send, BUFFER));
        let mut filled = 0;
        let mut result = Ok(());
        for packet in batch.drain() {
            match result.is_ok().then(|| channel.send.fill(filled, buffers, packet.bytes())) {
                Some(Ok(true)) => {
                    filled += 1;
                    pool.give(packet);
                }
                // Longer than a buffer. Its slot is kept for the next packet.
                Some(Ok(false)) => refuse(packet, DropReason::DeviceRefused, &mut self.refused),
                Some(Err(broken)) => {
                    result = Err(broken);
                    refuse(packet, DropReason::PortDown, &mut self.refused);
                }
                None => refuse(packet, DropReason::PortDown, &mut self.refused),
            }
        }
        if !self.refused.is_empty() {
            // `batch` is empty after its drain and has its full room again.
            std::mem::swap(batch, &mut self.refused);
        }
        if filled > 0 && channel.send.publish(filled) {
            set_event(&channel.send_event);
        }
        result
    }
}

/// Checks for packets before the worker sleeps, which take about a microsecond. One check is enough for a peer that publishes its packets before it
/// tests for a sleeping receiver, as [`Ring::publish`](super::ring::Ring::publish) does. DPDK has no barrier there: the processor may reorder the two,
/// and its packets may become visible a moment after it found no sleeping receiver.
const POLLS_BEFORE_SLEEP: usize = 64;

fn watch(waiter: &OwnedFd, bell: &OwnedFd) -> io::Result<()> {
    Ok(epoll::add(waiter, bell, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?)
}

impl Port for MemifPort {
    fn receive(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        if !self.awake.get() {
            self.resume_polling();
        }
        if self.mailbox.news() != self.events_read {
            self.handle_event();
        }
        if let Err(broken) = self.receive_packets(now, batch, pool) {
            self.report_violation(broken);
        }
    }

    fn room(&self) -> usize {
        // The next packet detects a broken ring and ends the link.
        self.channel.as_ref().map_or(0, |channel| channel.send.room().map_or(1, usize::from))
    }

    fn transmit(&mut self, _now: Instant, batch: &mut Batch, pool: &mut Pool) {
        if let Err(broken) = self.transmit_packets(batch, pool) {
            self.report_violation(broken);
        }
    }

    fn mtu(&self) -> Option<u16> {
        Some((FRAME - LINK_HEADER) as u16)
    }

    fn ring_size(&self) -> u32 {
        // Before a peer connects: the ring size that the port offers.
        self.channel.as_ref().map_or(1 << LOG2_RING, |channel| channel.receive.slots().into())
    }

    fn link_rate(&self) -> Rate {
        Rate::MAX
    }

    fn is_up(&self) -> bool {
        self.channel.is_some()
    }

    fn wake_source(&self) -> WakeSource {
        if self.awake.replace(false)
            && let Some(channel) = &self.channel
        {
            channel.receive.set_awake(false);
        }
        let waits = |channel: &Channel| channel.receive.waiting().map_or(1, usize::from) > 0;
        for _ in 0..POLLS_BEFORE_SLEEP {
            if self.mailbox.news() != self.events_read || self.channel.as_deref().is_some_and(waits) {
                return WakeSource::Poll;
            }
            std::hint::spin_loop();
        }
        WakeSource::Descriptor(self.waiter.as_raw_fd())
    }

    fn undecorated(self: Box<Self>) -> Box<dyn Port> {
        self
    }

    fn statistics(&self) -> PortStatistics {
        // The peer keeps packets without room: no packet is lost before it is received.
        PortStatistics::default()
    }
}

impl Drop for MemifPort {
    fn drop(&mut self) {
        set_event(&self.stop);
        if let Some(thread) = self.thread.take() {
            // Each wait of the thread ends with the stop event, and none of its other steps takes long.
            let _ = thread.join();
        }
    }
}

/// A listening socket. It removes its file when dropped, if the file is still its own.
#[derive(Debug)]
struct Listener {
    socket: OwnedFd,
    path: std::path::PathBuf,
    identity: (u64, u64),
}

impl Listener {
    fn new(path: &Path) -> io::Result<Listener> {
        let is_socket = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
        if is_socket && connect_to(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
            // Left behind by a killed program.
            fs::remove_file(path)?;
        }
        let socket = listen_at(path)?;
        let metadata = fs::symlink_metadata(path)?;
        Ok(Listener { socket, path: path.to_owned(), identity: (metadata.dev(), metadata.ino()) })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path).is_ok_and(|m| (m.dev(), m.ino()) == self.identity);
        if ours {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The thread that connects to peers, repeatedly.
struct ConnectionThread {
    end: MemifRole,
    listener: Option<Listener>,
    mailbox: Arc<PeerMailbox>,
    mailbox_event: Arc<OwnedFd>,
    stop: Arc<OwnedFd>,
    disconnect_event: Arc<OwnedFd>,
    name: String,
    advisories: Advisories,
    /// A failure to connect is reported once, until a connection succeeds.
    failure_reported: bool,
}

impl ConnectionThread {
    fn run(mut self) {
        loop {
            let found = match self.find() {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return,
                Err(error) => {
                    self.report_failure(&error);
                    None
                }
            };
            let ended = match found {
                Some(socket) => self.run_session(&socket),
                None => wait_for(&self.stop, &self.stop, Some(RETRY)).map(drop),
            };
            if let Err(error) = ended {
                if error.kind() == io::ErrorKind::Interrupted {
                    return;
                }
                self.report_failure(&error);
                // A peer that fails at every attempt must not keep the thread busy.
                if wait_for(&self.stop, &self.stop, Some(RETRY)).is_err() {
                    return;
                }
            }
        }
    }

    fn report_failure(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.failure_reported, true) {
            let (name, path) = (&self.name, self.end.path().display());
            self.advisories.add(format!("port {name}: no peer by {path}: {error}"));
        }
    }

    /// A connection, or `None` if no peer is present.
    fn find(&self) -> io::Result<Option<OwnedFd>> {
        let Some(listener) = &self.listener else {
            use io::ErrorKind::{ConnectionRefused, NotFound, WouldBlock};
            return match connect_to(self.end.path()) {
                Ok(socket) => Ok(Some(socket)),
                // The listener does not exist yet, or its backlog is full.
                Err(error) if [ConnectionRefused, NotFound, WouldBlock].contains(&error.kind()) => Ok(None),
                Err(error) => Err(error),
            };
        };
        if wait_for(&listener.socket, &self.stop, None)? { accept_peer(&listener.socket).map(Some) } else { Ok(None) }
    }

    /// Sets up a link with a peer and holds it until one of the two leaves.
    fn run_session(&mut self, socket: &OwnedFd) -> io::Result<()> {
        let name = format!("switchpath {}", self.name);
        let talk = MemifSession { socket: socket.as_fd(), stop: self.stop.as_fd(), name: &name };
        let channel = if self.listener.is_some() { talk.as_server() } else { talk.as_client() }?;
        self.failure_reported = false;
        // A violation by the previous peer must not end this session.
        clear_event(&self.disconnect_event);
        self.post_event(PeerEvent::Connected(Box::new(channel)));
        let ended = self.hold_session(&talk);
        self.post_event(PeerEvent::Disconnected);
        if ended.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::Interrupted) {
            talk.disconnect("the port is closing");
        }
        ended
    }

    fn hold_session(&self, talk: &MemifSession<'_>) -> io::Result<()> {
        loop {
            let mut fds = [
                rustix::event::PollFd::new(&talk.socket, rustix::event::PollFlags::IN),
                rustix::event::PollFd::new(&self.stop, rustix::event::PollFlags::IN),
                rustix::event::PollFd::new(&self.disconnect_event, rustix::event::PollFlags::IN),
            ];
            match rustix::event::poll(&mut fds, None) {
                Err(rustix::io::Errno::INTR) => continue,
                result => result?,
            };
            let ready = fds.map(|fd| !fd.revents().is_empty());
            if ready[1] {
                return Err(io::Error::new(io::ErrorKind::Interrupted, "the port is closing"));
            }
            if ready[2] {
                talk.disconnect("the ring is broken");
                return Ok(());
            }
            // Once connected, the only message of the peer is that it disconnects.
            if ready[0] {
                return match talk.receive_message() {
                    Ok((message, _)) => Err(io::Error::other(format!("it sends {message:?} out of order"))),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
                    Err(_) => Ok(()),
                };
            }
        }
    }

    fn post_event(&self, slot: PeerEvent) {
        self.mailbox.post(slot);
        set_event(&self.mailbox_event);
    }
}
