//! Limits the memory of requests and their answers, in total and for each caller.
//!
//! Callers with read access have a share of their own, for which the router's owner never waits: bodies of 1 MiB at most, two answers at a time, one
//! check at a time. A check is charged with the memory that parsing needs ([`plan::footprint`]), a multiple of the text. Large texts of the owner are
//! parsed one after the other, at any size, because a configuration of a million routes is legitimate. Small requests of the owner never wait here,
//! so that a trial can always be confirmed.

use crate::api::{AccessLevel, ApiError, ErrorKind};
use crate::daemon::Daemon;
use crate::request::Request;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use units::Bytes;

/// The byte limit of the owner's large bodies and answers.
const OWNER: usize = 20 << 20;
/// The byte limits of callers with read access: bodies, answers, and the memory of one check. All four limits make 64 MiB.
const BODIES: usize = 12 << 20;
const ANSWERS: usize = 8 << 20;
const CHECK: usize = 24 << 20;
/// The largest body: of the owner, which is the largest configuration, and of callers with read access.
const MOST_BODY: usize = 64 << 20;
const MOST_READER_BODY: usize = 1 << 20;
/// The largest answer for a caller with read access.
const MOST_READER_ANSWER: usize = ANSWERS / 2;
/// Bodies and answers of the owner up to this size are not counted; the number of connections limits them.
const SMALL: usize = 1 << 20;
/// Texts of the owner that need up to this much are parsed at once, one on each thread.
const SMALL_TEXT: usize = 8 << 20;
/// The size of an answer without a list of rows.
const ANSWER: usize = 256 << 10;
/// The bytes of a route or a connection in an answer, including the report it is made from.
const ROW: usize = 640;
/// The bytes of an event of a CPU scheduler.
const EVENT: usize = 64;
/// The most requests of callers with read access in progress.
const WORKERS: usize = 2;
/// The longest wait of a request for its turn.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(10);
/// The hint about a text that is too large.
const TOO_LARGE_HINT: &str = "run `switchpath check FILE`, or use the rights to change the router";
/// The bytes of a permit of a semaphore.
const UNIT: usize = 1 << 10;

/// The memory available for further requests.
#[derive(Debug)]
pub(super) struct RequestMemory {
    owner: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
    answers: Arc<Semaphore>,
    /// Serializes the parsing of the owner's large texts.
    large: Arc<Semaphore>,
    /// Serializes the checks of callers with read access.
    check: Arc<Semaphore>,
    workers: Arc<Semaphore>,
    recording: Arc<Semaphore>,
}

/// A part of the memory, released when it is dropped.
#[derive(Debug, Default)]
pub(super) struct Charge(Option<OwnedSemaphorePermit>);

/// The permission to answer a request.
#[derive(Debug)]
pub(super) struct AnswerPermit {
    answer: Charge,
    /// Released when the answer is complete.
    _others: [Charge; 2],
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
}

fn too_large(reason: String, hint: &str) -> ApiError {
    ApiError::new(ErrorKind::TooLarge, reason, hint)
}

fn rounded(bytes: usize) -> impl std::fmt::Display {
    Bytes::new(bytes as u64).rounded()
}

async fn acquire(from: &Arc<Semaphore>, permits: u32) -> Result<Charge, ApiError> {
    match timeout(PERMIT_TIMEOUT, from.clone().acquire_many_owned(permits)).await {
        Ok(Ok(permit)) => Ok(Charge(Some(permit))),
        _ => Err(ApiError::new(ErrorKind::Busy, "the router is answering too many requests", "try again in a moment")),
    }
}

impl Charge {
    /// Keeps the charge for `bytes` and releases the rest.
    fn shrink(&mut self, bytes: usize) {
        if let Some(permit) = &mut self.0 {
            let surplus = permit.num_permits().saturating_sub(units(bytes) as usize);
            drop(permit.split(surplus));
        }
    }
}

impl AnswerPermit {
    /// Completes the answer of `bytes`, and returns the charge that it keeps until it is sent. Refuses an answer above the caller's limit.
    pub fn complete(mut self, caller: AccessLevel, bytes: usize) -> Result<Charge, ApiError> {
        if caller < AccessLevel::Full && bytes > MOST_READER_ANSWER {
            return Err(answer_too_large(bytes));
        }
        self.answer.shrink(bytes);
        Ok(self.answer)
    }
}

impl RequestMemory {
    pub fn new() -> RequestMemory {
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        RequestMemory {
            owner: semaphore(OWNER / UNIT),
            bodies: semaphore(BODIES / UNIT),
            answers: semaphore(ANSWERS / UNIT),
            large: semaphore(1),
            check: semaphore(1),
            workers: semaphore(WORKERS),
            recording: semaphore(1),
        }
    }

    /// Waits for memory for a body of `least` to `most` bytes, from its head, and returns its limit.
    pub async fn body(&self, caller: AccessLevel, least: u64, most: Option<u64>) -> Result<(Charge, usize), ApiError> {
        let allowed = match caller {
            AccessLevel::Full => MOST_BODY,
            AccessLevel::Slice | AccessLevel::Read => MOST_READER_BODY,
        };
        if least > allowed as u64 {
            return Err(body_too_large(caller));
        }
        // All at once: two bodies that each waited for more memory could wait for each other for ever.
        let bytes = most.map_or(allowed, |most| (most as usize).min(allowed));
        let charge = match caller {
            AccessLevel::Full if bytes <= SMALL => Charge::default(),
            // A body above the whole share takes all of it; asking for more would wait for ever.
            AccessLevel::Full => acquire(&self.owner, units(bytes.min(OWNER))).await?,
            AccessLevel::Slice | AccessLevel::Read => acquire(&self.bodies, units(bytes)).await?,
        };
        Ok((charge, allowed))
    }

    /// Waits until `request` can be answered.
    pub async fn answer_permit(
        &self,
        caller: AccessLevel,
        request: &Request,
        daemon: &Daemon,
    ) -> Result<AnswerPermit, ApiError> {
        let answer = answer(request, daemon);
        if caller == AccessLevel::Full {
            let large = if is_large(request) { acquire(&self.large, 1).await? } else { Charge::default() };
            let answer = match answer {
                bytes if bytes > SMALL => acquire(&self.owner, units(bytes.min(OWNER))).await?,
                _ => Charge::default(),
            };
            return Ok(AnswerPermit { answer, _others: [large, Charge::default()] });
        }
        if answer > MOST_READER_ANSWER {
            return Err(answer_too_large(answer));
        }
        let check =
            if is_read_within(request, daemon, CHECK)? { acquire(&self.check, 1).await? } else { Charge::default() };
        let answer = acquire(&self.answers, units(answer)).await?;
        let worker = acquire(&self.workers, 1).await?;
        Ok(AnswerPermit { answer, _others: [check, worker] })
    }

    /// Returns how many events of each CPU scheduler a caller may record.
    pub fn events(caller: AccessLevel, asked: usize, workers: usize) -> usize {
        match caller {
            AccessLevel::Full => asked,
            AccessLevel::Slice | AccessLevel::Read => asked.min(MOST_READER_ANSWER / EVENT / workers.max(1)),
        }
    }

    /// Waits for memory for a recording of the CPU schedulers. Of the callers with read access only one may have it at a time, because a thread is
    /// busy as long as the caller reads.
    pub async fn schedule(&self, caller: AccessLevel, events: usize, workers: usize) -> Result<[Charge; 2], ApiError> {
        match caller {
            AccessLevel::Full => Ok(Default::default()),
            AccessLevel::Slice | AccessLevel::Read => {
                let look = self.recording.clone().try_acquire_owned().map_err(|_| {
                    let reason = "another trace of the CPU schedulers is running";
                    ApiError::new(ErrorKind::Busy, reason, "try again after its end")
                })?;
                Ok([Charge(Some(look)), acquire(&self.answers, units(events * workers * EVENT)).await?])
            }
        }
    }
}

/// Returns the error for a body that is too large.
pub(super) fn body_too_large(caller: AccessLevel) -> ApiError {
    match caller {
        AccessLevel::Full => too_large("the body is larger than 64 MiB".into(), "is this a configuration?"),
        AccessLevel::Slice | AccessLevel::Read => {
            too_large("the body is larger than 1 MiB, the limit for read-only callers".into(), TOO_LARGE_HINT)
        }
    }
}

fn answer_too_large(bytes: usize) -> ApiError {
    let (needed, allowed) = (rounded(bytes), rounded(MOST_READER_ANSWER));
    let reason = format!("this answer needs up to {needed}, but read-only callers have {allowed}");
    too_large(reason, "give a smaller limit, or use the rights to change the router")
}

/// Returns the text of a request that has to be parsed.
fn text(request: &Request) -> Option<&str> {
    match request {
        Request::Check(text) | Request::Diff(text) | Request::Apply(text, _) | Request::Edit(text) => Some(&text.text),
        Request::SetEdit(_, _, text) => Some(&text.text),
        _ => None,
    }
}

/// Returns whether parsing a text of the owner may need much memory. Long texts count as large without a scan, which would take time.
fn is_large(request: &Request) -> bool {
    text(request).is_some_and(|text| text.len() > SMALL / 2 || plan::footprint(text) > SMALL_TEXT)
}

/// Returns whether a request has a text to parse. Refuses one that may need more than `most` bytes.
fn is_read_within(request: &Request, daemon: &Daemon, most: usize) -> Result<bool, ApiError> {
    let Some(text) = text(request) else { return Ok(false) };
    let running = match request {
        // Both texts are compared, and each difference is put into words.
        Request::Diff(_) => Some(daemon.text_unless_applying().ok_or_else(applying)?),
        _ => None,
    };
    let texts = std::iter::once(text).chain(running.as_deref());
    // A text longer than the limit is not scanned, which would take time.
    let footprint = |text: &str| if text.len() > most { text.len() } else { plan::footprint(text) };
    let needed: usize = texts.map(footprint).sum();
    if needed > most {
        let (needed, allowed) = (rounded(needed), rounded(most));
        let reason = format!("reading this needs {needed} or more, but read-only callers have {allowed}");
        return Err(too_large(reason, TOO_LARGE_HINT));
    }
    Ok(true)
}

fn applying() -> ApiError {
    ApiError::new(ErrorKind::Busy, "a configuration is being applied", "try again in a moment")
}

/// Returns the bytes that an answer may need. An estimate suffices: [`AnswerPermit::complete`] compares the real size.
fn answer(request: &Request, daemon: &Daemon) -> usize {
    let rows = |limit: usize, most: usize| limit.min(most).saturating_mul(ROW);
    let bytes = match request {
        Request::Routes { limit, .. } => rows(*limit, daemon.route_count()),
        Request::Nat(limit) => rows(*limit, usize::MAX),
        Request::EphemeralEntries(_, limit) => rows(*limit, usize::MAX),
        // The text, and its copy as JSON.
        Request::Config(generation) => daemon.text_length(*generation).unwrap_or(0) * 3,
        _ => 0,
    };
    bytes.max(ANSWER)
}
