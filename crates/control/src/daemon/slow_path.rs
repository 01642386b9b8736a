//! The slow path of a slice, and the rights of its owner.
//!
//! The kernel says which user a caller is. The owner of a slice sees and changes this slice only; others do not exist for it.

use super::failure::ApplyFailure;
use super::{Control, Daemon, REPORT_TIMEOUT, RUNNING};
use crate::api::{self, AccessLevel, Author};
use io::clock;
use plan::refuse_lines;
use slice::{ExceptionReader, Reinjection, ReturnedPackets, SliceCommand, SliceError, SliceException};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The most packets that return in one request.
const MOST_RETURNED: usize = 256;

/// A caller as far as slices are concerned.
#[derive(Clone, Copy, Debug)]
pub struct SliceRights<'a> {
    /// Its identity.
    pub author: &'a Author,
    /// Its rights to the whole router.
    pub allowed: AccessLevel,
}

impl SliceRights<'_> {
    /// True if it owns a slice.
    fn owns(&self, control: &Control, slice: &str) -> bool {
        control.slices.owners().any(|(uid, name)| Some(uid) == self.author.uid && **name == *slice)
    }

    /// True if it may see the state of a slice.
    pub(super) fn sees(&self, control: &Control, slice: &str) -> bool {
        self.allowed >= AccessLevel::Read || self.owns(control, slice)
    }

    /// Refuses a caller that may not see the state of a slice.
    pub(super) fn check_sees(&self, control: &Control, slice: &str) -> Result<(), ApplyFailure> {
        if self.sees(control, slice) { Ok(()) } else { Err(ApplyFailure::Slice(self.unknown(control, slice))) }
    }

    /// Refuses a caller that may not see the packets of a slice or change it.
    pub(super) fn check_owns(&self, control: &Control, slice: &str) -> Result<(), ApplyFailure> {
        if self.allowed == AccessLevel::Full || self.owns(control, slice) {
            return Ok(());
        }
        self.check_sees(control, slice)?;
        Err(ApplyFailure::NotOwner(self.author.clone()))
    }

    /// Refuses a change that belongs to another owner, or to the operator.
    pub(super) fn check_change(&self, control: &Control, change: &SliceCommand) -> Result<(), SliceError> {
        if self.allowed == AccessLevel::Full {
            return Ok(());
        }
        let slice = change.slice();
        if !self.owns(control, slice) && self.allowed >= AccessLevel::Read {
            let reason = format!("{} does not own the slice '{slice}'", self.author);
            return Err(SliceError { reason, hint: "ask its owner, or the operator".to_owned() });
        }
        if !self.owns(control, slice) {
            return Err(self.unknown(control, slice));
        }
        if !change.is_for_owner() {
            let reason = "this change belongs to the operator of the router".to_owned();
            let hint = "the owner of a slice changes its filters, queues and memory".to_owned();
            return Err(SliceError { reason, hint });
        }
        Ok(())
    }

    /// The error for a slice that does not exist for this caller. It names only its own ones.
    fn unknown(&self, control: &Control, slice: &str) -> SliceError {
        let own = control.slices.owners().filter(|(uid, _)| Some(*uid) == self.author.uid).map(|(_, name)| &**name);
        let own: Vec<&str> = own.collect();
        SliceError { reason: format!("there is no slice '{slice}'"), hint: plan::did_you_mean(slice, own) }
    }
}

/// The packets for the slow path of a slice, for its program.
pub(crate) struct SlowPathReader {
    reader: ExceptionReader,
    key_bytes: usize,
}

impl SlowPathReader {
    /// Takes at most `most` packets, the oldest first. `None` if the slice has been deleted.
    pub fn take(&self, most: usize) -> Option<Vec<api::SliceExceptionReply>> {
        Some(self.reader.take(most)?.iter().map(|exception| exception_reply(exception, self.key_bytes)).collect())
    }
}

pub(super) fn exception_reply(exception: &SliceException, key_bytes: usize) -> api::SliceExceptionReply {
    let key = exception.key.bytes::<{ classifier::OpaqueKey::MOST_BYTES }>();
    api::SliceExceptionReply {
        code: exception.code.to_string(),
        interface: exception.interface,
        key: hex(&key[..key_bytes.min(key.len())]),
        mtu: exception.mtu,
        rounds: exception.rounds,
        packet: hex(&exception.packet),
    }
}

impl Daemon {
    /// True if a user owns a slice. Takes no lock: it is asked for each connection of a stranger.
    pub(crate) fn owns_slice(&self, uid: u32) -> bool {
        self.slice_owners.load().contains(&uid)
    }

    /// Publishes the owners of slices after a change.
    pub(super) fn publish_slice_owners(&self, control: &Control) {
        self.slice_owners.store(Arc::new(control.slices.owners().map(|(uid, _)| uid).collect()));
    }

    /// Opens the packets for the slow path of a slice for one program, which `wake` wakes when a packet waits.
    pub(crate) fn open_slow_path(
        &self,
        rights: SliceRights<'_>,
        name: &str,
        wake: impl Fn() + Send + 'static,
    ) -> Result<SlowPathReader, ApplyFailure> {
        let control = self.control.lock();
        rights.check_owns(&control, name)?;
        let key_bytes = control.slices.key_bytes(name)?;
        Ok(SlowPathReader { reader: control.slices.open_exceptions(name, wake)?, key_bytes })
    }

    /// Returns packets of the slow path of a slice, one a line, to the fast path, and waits until a worker has accepted them. `source` is the name of
    /// the text in messages.
    pub(crate) fn reinject_slice(
        &self,
        rights: SliceRights<'_>,
        name: &str,
        (text, source): (&str, &str),
    ) -> Result<api::SliceReinjected, ApplyFailure> {
        if self.state.load(Ordering::Acquire) != RUNNING {
            return Err(ApplyFailure::Unavailable);
        }
        let lines =
            text.lines().enumerate().map(|(at, line)| (at + 1, line.trim())).filter(|(_, line)| !line.is_empty());
        let (mut packets, mut wrong) = (Vec::new(), Vec::new());
        for (number, line) in lines {
            match line.parse::<Reinjection>() {
                Ok(packet) => packets.push(packet),
                Err(SliceError { reason, hint }) => wrong.push((number, reason, hint)),
            }
        }
        if packets.len() > MOST_RETURNED {
            let hint = format!("return at most {MOST_RETURNED} in one request");
            wrong.push((1, format!("{} packets are too many", packets.len()), hint));
        }
        if !wrong.is_empty() {
            return Err(ApplyFailure::Batch(refuse_lines(text, source, wrong)));
        }
        let control = self.control.lock();
        rights.check_owns(&control, name)?;
        let returned = control.slices.reinject(&control.router, name, &packets, clock::now())?;
        drop(control);
        let ReturnedPackets { limited, accepted } = returned;
        // The worker answers within a step. One that has failed has dropped the command, and the packets with it.
        let accepted = accepted.recv_timeout(REPORT_TIMEOUT).unwrap_or(0);
        Ok(api::SliceReinjected {
            packets: accepted,
            limited_packets: limited,
            lost_packets: packets.len() as u64 - limited - accepted,
        })
    }
}

/// Two digits for each byte.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
