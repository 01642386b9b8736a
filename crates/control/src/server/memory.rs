//! The memory of requests and their answers: all of them together, and what each caller may have of it.
//!
//! A caller who may only look has a share that the router's owner never waits for: bodies of 1 MiB at most, two answers made at
//! a time, one check at a time. A check counts with what reading makes of its text ([`plan::footprint`]), which is many times
//! its bytes. Large texts of the owner are parsed one after the other, at any size: a configuration of a million routes is
//! legitimate. Small requests of the owner wait for nothing here, so that a trial can always be confirmed.

use crate::api::{ApiError, ErrorKind, Needs};
use crate::daemon::Daemon;
use crate::request::Request;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use units::Bytes;

/// Bytes of large bodies and answers of the owner together.
const OWNER: usize = 20 << 20;
/// The same for callers who may only look: bodies, answers, and what one check of theirs makes. All four make 64 MiB.
const BODIES: usize = 12 << 20;
const ANSWERS: usize = 8 << 20;
const CHECK: usize = 24 << 20;
/// The largest body: the largest configuration that is read, and what a caller sends who may only look.
const MOST_BODY: usize = 64 << 20;
const MOST_READER_BODY: usize = 1 << 20;
/// The largest answer for a caller who may only look.
const MOST_READER_ANSWER: usize = ANSWERS / 2;
/// Bodies and answers of the owner that are not counted: as many as the owner has connections.
const SMALL: usize = 1 << 20;
/// Texts of the owner that need up to this much are read at once, one on each thread.
const SMALL_TEXT: usize = 8 << 20;
/// An answer without a list of rows.
const ANSWER: usize = 256 << 10;
/// Bytes of a route or a connection in an answer, with the report it is made from.
const ROW: usize = 640;
/// Bytes of an event of a CPU scheduler.
const EVENT: usize = 64;
/// Requests of callers who may only look that are worked on at a time.
const WORKERS: usize = 2;
/// How long a request waits for its turn.
const PATIENCE: Duration = Duration::from_secs(10);
/// The hint about a text that is too large.
const ELSEWHERE: &str = "check it with `switchpath check FILE`, or as somebody who may apply it";
/// Permits of a semaphore are so many bytes.
const UNIT: usize = 1 << 10;

/// The memory left for further requests.
#[derive(Debug)]
pub(super) struct Memory {
    owner: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
    answers: Arc<Semaphore>,
    /// The owner's turn to have a large text read.
    large: Arc<Semaphore>,
    /// The readers' turn to have a text checked.
    check: Arc<Semaphore>,
    workers: Arc<Semaphore>,
    look: Arc<Semaphore>,
}

/// A part of the memory; given back when it is dropped.
#[derive(Debug, Default)]
pub(super) struct Charge(Option<OwnedSemaphorePermit>);

/// The turn of a request to be answered.
#[derive(Debug)]
pub(super) struct Turn {
    answer: Charge,
    /// Given back when the answer is made.
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
    match timeout(PATIENCE, from.clone().acquire_many_owned(permits)).await {
        Ok(Ok(permit)) => Ok(Charge(Some(permit))),
        _ => Err(ApiError::new(ErrorKind::Busy, "too many requests are being answered", "try again in a moment")),
    }
}

impl Charge {
    /// Keeps what `bytes` need and gives the rest back.
    fn shrink(&mut self, bytes: usize) {
        if let Some(permit) = &mut self.0 {
            let surplus = permit.num_permits().saturating_sub(units(bytes) as usize);
            drop(permit.split(surplus));
        }
    }
}

impl Turn {
    /// The answer is made and has `bytes`: returns the charge it keeps until it is sent. An answer above the caller's limit is
    /// refused.
    pub fn made(mut self, caller: Needs, bytes: usize) -> Result<Charge, ApiError> {
        if caller == Needs::Read && bytes > MOST_READER_ANSWER {
            return Err(answer_too_large(bytes));
        }
        self.answer.shrink(bytes);
        Ok(self.answer)
    }
}

impl Memory {
    pub fn new() -> Memory {
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        Memory {
            owner: semaphore(OWNER / UNIT),
            bodies: semaphore(BODIES / UNIT),
            answers: semaphore(ANSWERS / UNIT),
            large: semaphore(1),
            check: semaphore(1),
            workers: semaphore(WORKERS),
            look: semaphore(1),
        }
    }

    /// Room for a body of `least` to `most` bytes, as its head says, and how many bytes it may have.
    pub async fn body(&self, caller: Needs, least: u64, most: Option<u64>) -> Result<(Charge, usize), ApiError> {
        let allowed = match caller {
            Needs::Full => MOST_BODY,
            Needs::Read => MOST_READER_BODY,
        };
        if least > allowed as u64 {
            return Err(body_too_large(caller));
        }
        // All of it at once: two bodies that wait for each other's memory would wait for ever.
        let bytes = most.map_or(allowed, |most| (most as usize).min(allowed));
        let charge = match caller {
            Needs::Full if bytes <= SMALL => Charge::default(),
            Needs::Full => acquire(&self.owner, units(bytes.min(OWNER))).await?,
            Needs::Read => acquire(&self.bodies, units(bytes)).await?,
        };
        Ok((charge, allowed))
    }

    /// Waits until there is room to answer `request`.
    pub async fn turn(&self, caller: Needs, request: &Request, daemon: &Daemon) -> Result<Turn, ApiError> {
        let answer = answer(request, daemon);
        if caller == Needs::Full {
            let large = if is_large(request) { acquire(&self.large, 1).await? } else { Charge::default() };
            let answer = match answer {
                bytes if bytes > SMALL => acquire(&self.owner, units(bytes.min(OWNER))).await?,
                _ => Charge::default(),
            };
            return Ok(Turn { answer, _others: [large, Charge::default()] });
        }
        if answer > MOST_READER_ANSWER {
            return Err(answer_too_large(answer));
        }
        let check =
            if is_read_within(request, daemon, CHECK)? { acquire(&self.check, 1).await? } else { Charge::default() };
        let answer = acquire(&self.answers, units(answer)).await?;
        let worker = acquire(&self.workers, 1).await?;
        Ok(Turn { answer, _others: [check, worker] })
    }

    /// How many events of each CPU scheduler a caller may have kept.
    pub fn events(caller: Needs, asked: usize, workers: usize) -> usize {
        match caller {
            Needs::Full => asked,
            Needs::Read => asked.min(MOST_READER_ANSWER / EVENT / workers.max(1)),
        }
    }

    /// Room for what a caller has the CPU schedulers keep. One caller who may only look has that at a time: a thread writes it
    /// as fast as the caller reads.
    pub async fn schedule(&self, caller: Needs, events: usize, workers: usize) -> Result<[Charge; 2], ApiError> {
        match caller {
            Needs::Full => Ok(Default::default()),
            Needs::Read => {
                let look = self.look.clone().try_acquire_owned().map_err(|_| {
                    let reason = "somebody looks at the CPU schedulers already";
                    ApiError::new(ErrorKind::Busy, reason, "try again when that is over")
                })?;
                Ok([Charge(Some(look)), acquire(&self.answers, units(events * workers * EVENT)).await?])
            }
        }
    }
}

/// A body that is refused.
pub(super) fn body_too_large(caller: Needs) -> ApiError {
    match caller {
        Needs::Full => too_large("the body is larger than 64 MiB".into(), "is this a configuration?"),
        Needs::Read => {
            too_large("the body is larger than 1 MiB, the most for callers who may only look".into(), ELSEWHERE)
        }
    }
}

fn answer_too_large(bytes: usize) -> ApiError {
    let (needed, allowed) = (rounded(bytes), rounded(MOST_READER_ANSWER));
    let reason = format!("this answer needs up to {needed}, and callers who may only look have {allowed}");
    too_large(reason, "give a smaller limit, or ask as somebody who may change the router")
}

/// The text of a request, which is read to answer it.
fn text(request: &Request) -> Option<&str> {
    match request {
        Request::Check(text) | Request::Diff(text) | Request::Apply(text, _) | Request::Edit(text) => Some(&text.text),
        _ => None,
    }
}

/// Returns whether parsing the text of the owner's request may need much. Long texts are not scanned, which would take time.
fn is_large(request: &Request) -> bool {
    text(request).is_some_and(|text| text.len() > SMALL / 2 || plan::footprint(text) > SMALL_TEXT)
}

/// Returns whether a request has a text to parse. Refuses one that may need more than `most` bytes.
fn is_read_within(request: &Request, daemon: &Daemon, most: usize) -> Result<bool, ApiError> {
    let Some(text) = text(request) else { return Ok(false) };
    let running = match request {
        // The two are compared, and each difference is put into words.
        Request::Diff(_) => Some(daemon.text_at_once().ok_or_else(applying)?),
        _ => None,
    };
    let texts = std::iter::once(text).chain(running.as_deref());
    // A text that is longer than all it may need is not looked at: that takes time.
    let footprint = |text: &str| if text.len() > most { text.len() } else { plan::footprint(text) };
    let needed: usize = texts.map(footprint).sum();
    if needed > most {
        let (needed, allowed) = (rounded(needed), rounded(most));
        let reason = format!("reading this needs {needed} or more, and callers who may only look have {allowed}");
        return Err(too_large(reason, ELSEWHERE));
    }
    Ok(true)
}

fn applying() -> ApiError {
    ApiError::new(ErrorKind::Busy, "a configuration is being applied", "try again in a moment")
}

/// The bytes that an answer may need. An estimate is enough: [`Turn::made`] compares the answer itself.
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
