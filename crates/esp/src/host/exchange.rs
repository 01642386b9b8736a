//! Rounds and requests as futures, for any socket of any runtime: this module decides when to send, and the caller supplies an asynchronous socket
//! (spec E-49). If routers require sealed parts, use a [`SealingSocket`](super::SealingSocket) socket.

use super::{Action, GroupRoot, Member};
use crate::wire::Part;
use std::fmt;
use std::future::Future;
use units::{Instant, Nanos};

/// A datagram socket towards the root or the members of a computation, with a clock.
pub trait DatagramSocket {
    /// The error of the socket.
    type Error;

    /// The time, by a monotonic clock.
    fn now(&self) -> Instant;

    /// Sends a datagram.
    fn send(&self, bytes: &[u8]) -> impl Future<Output = Result<(), Self::Error>>;

    /// Receives the next datagram; `None` if none has arrived by `until`.
    fn receive(&self, until: Instant) -> impl Future<Output = Result<Option<Vec<u8>>, Self::Error>>;
}

/// Runs a member, such as a [`Reporter`](super::Reporter), until its rounds are over. Ignores received datagrams.
///
/// # Errors
/// Those of the socket.
pub async fn report<S: DatagramSocket>(socket: &S, mut member: impl Member) -> Result<(), S::Error> {
    loop {
        match member.poll(socket.now()) {
            Action::Send(part) => socket.send(&part.to_bytes()).await?,
            Action::Wait(until) => drop(socket.receive(until).await?),
            Action::Over(()) => return Ok(()),
        }
    }
}

/// Runs the root, such as a [`RoundController`](super::RoundController), and returns the outcome of its rounds. Afterwards the root knows the number of packets
/// received.
///
/// # Errors
/// Those of the socket.
pub async fn collect<S: DatagramSocket, R: GroupRoot>(socket: &S, root: &mut R) -> Result<R::Outcome, S::Error> {
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

/// Retransmission and deadline of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RetryPolicy {
    /// The time between two transmissions.
    pub retry: Nanos,
    /// The time at which to give up.
    pub deadline: Instant,
}

/// The reason why there is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestError<E> {
    /// A router could not execute the part and set its error bit.
    Failed,
    /// No answer arrived before the deadline.
    TimedOut,
    /// The socket failed.
    Socket(E),
}

impl<E: fmt::Display> fmt::Display for RequestError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestError::Failed => f.write_str("a router on the path could not execute the instruction"),
            RequestError::TimedOut => f.write_str("no answer in time"),
            RequestError::Socket(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for RequestError<E> {}

/// Sends a part to a host that returns it (as `switchpath state listen --answer` does). Returns the part with the values that routers wrote into it.
/// Retransmits it until the answer arrives, so its instruction must be one that may be executed twice.
///
/// # Errors
/// A router failed, no answer arrived before the deadline, or the socket failed.
pub async fn request<S: DatagramSocket>(
    socket: &S,
    part: &Part,
    patience: RetryPolicy,
) -> Result<Part, RequestError<S::Error>> {
    let bytes = part.to_bytes();
    loop {
        if socket.now() >= patience.deadline {
            return Err(RequestError::TimedOut);
        }
        socket.send(&bytes).await.map_err(RequestError::Socket)?;
        let until = (socket.now() + patience.retry.max(Nanos::new(1))).min(patience.deadline);
        while socket.now() < until {
            let Some(received) = socket.receive(until).await.map_err(RequestError::Socket)? else { break };
            let Ok(answer) = Part::read(&received) else { continue };
            let opcode = |part: &Part| part.instruction.opcode();
            if answer.computation != part.computation || opcode(&answer) != opcode(part) {
                continue;
            }
            return if answer.error { Err(RequestError::Failed) } else { Ok(answer) };
        }
    }
}
