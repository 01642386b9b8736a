//! Rounds and questions as futures, over any socket of any runtime: what to send when is decided here, a socket that can wait is the caller's
//! (spec E-49). Where routers want what they execute sealed the socket is to be a [`Sealing`](super::Sealing) one.

use super::{Action, Member, Root};
use crate::wire::Part;
use std::fmt;
use std::future::Future;
use units::{Instant, Nanos};

/// A datagram socket to where a computation is asked or answered, and the clock beside it.
pub trait Datagrams {
    /// Why nothing can be sent or received.
    type Error;

    /// The time, by a clock that only goes forward.
    fn now(&self) -> Instant;

    /// Sends a datagram.
    fn send(&self, bytes: &[u8]) -> impl Future<Output = Result<(), Self::Error>>;

    /// The next datagram; none where none has come by `until`.
    fn receive(&self, until: Instant) -> impl Future<Output = Result<Option<Vec<u8>>, Self::Error>>;
}

/// Plays the part of a member, like a [`Reporter`](super::Reporter), until its rounds are over. What comes in the
/// meantime is nothing to it.
///
/// # Errors
/// Those of the socket.
pub async fn report<S: Datagrams>(socket: &S, mut member: impl Member) -> Result<(), S::Error> {
    loop {
        match member.poll(socket.now()) {
            Action::Send(part) => socket.send(&part.to_bytes()).await?,
            Action::Wait(until) => drop(socket.receive(until).await?),
            Action::Over(()) => return Ok(()),
        }
    }
}

/// Plays the part of the root, like a [`Controller`](super::Controller), and answers how its rounds ended. The root
/// knows afterwards how many packets that took.
///
/// # Errors
/// Those of the socket.
pub async fn collect<S: Datagrams, R: Root>(socket: &S, root: &mut R) -> Result<R::Outcome, S::Error> {
    loop {
        match root.poll(socket.now()) {
            Action::Send(part) => socket.send(&part.to_bytes()).await?,
            Action::Wait(until) => {
                if let Some(bytes) = socket.receive(until).await?
                    && let Ok(part) = Part::read(&bytes)
                {
                    root.received(&part);
                }
            }
            Action::Over(outcome) => return Ok(outcome),
        }
    }
}

/// How long to go on asking.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// The time until a part is sent again.
    pub retry: Nanos,
    /// When to give up.
    pub deadline: Instant,
}

/// Why there is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unanswered<E> {
    /// A router could not execute it, and said so in the part.
    Failed,
    /// Nothing has come back in time.
    Late,
    /// Nothing could be sent or received.
    Socket(E),
}

impl<E: fmt::Display> fmt::Display for Unanswered<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unanswered::Failed => f.write_str("a router on the way could not execute the instruction"),
            Unanswered::Late => f.write_str("nothing has come back in time"),
            Unanswered::Socket(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for Unanswered<E> {}

/// Sends a part to a host that sends back what it gets (as `switchpath state listen --answer` does), and answers the part as it came back:
/// what routers have written into it on the way. It is sent again and again, so its instruction is to be one that may be executed twice.
///
/// # Errors
/// That a router has failed, that nothing has come back before the deadline, those of the socket.
pub async fn ask<S: Datagrams>(socket: &S, part: &Part, patience: Patience) -> Result<Part, Unanswered<S::Error>> {
    let bytes = part.to_bytes();
    loop {
        if socket.now() >= patience.deadline {
            return Err(Unanswered::Late);
        }
        socket.send(&bytes).await.map_err(Unanswered::Socket)?;
        let until = (socket.now() + patience.retry.max(Nanos::new(1))).min(patience.deadline);
        while socket.now() < until {
            let Some(came) = socket.receive(until).await.map_err(Unanswered::Socket)? else { break };
            let Ok(answer) = Part::read(&came) else { continue };
            let opcode = |part: &Part| part.instruction.opcode();
            if answer.computation != part.computation || opcode(&answer) != opcode(part) {
                continue;
            }
            return if answer.error { Err(Unanswered::Failed) } else { Ok(answer) };
        }
    }
}
