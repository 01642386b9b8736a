//! A socket for routers that execute only parts sealed with the operator's key ([`crate::seal`]).

use super::DatagramSocket;
use crate::seal::OperatorKey;
use crate::wire::Part;
use units::Instant;

/// A socket that seals the parts it sends, if it has a key, and discards received parts without a valid seal. Data behind a part stays unchanged.
#[derive(Clone, Copy, Debug)]
pub struct SealingSocket<S> {
    socket: S,
    key: Option<OperatorKey>,
}

impl<S: DatagramSocket> SealingSocket<S> {
    /// Wraps a socket, with an optional key.
    pub const fn new(socket: S, key: Option<OperatorKey>) -> SealingSocket<S> {
        SealingSocket { socket, key }
    }

    /// The socket.
    pub fn into_inner(self) -> S {
        self.socket
    }
}

impl<S: DatagramSocket> DatagramSocket for SealingSocket<S> {
    type Error = S::Error;

    fn now(&self) -> Instant {
        self.socket.now()
    }

    async fn send(&self, bytes: &[u8]) -> Result<(), S::Error> {
        match (self.key, Part::read(bytes)) {
            (Some(key), Ok(part)) => {
                let data = bytes.get(part.length()..).unwrap_or_default();
                self.socket.send(&[key.seal(&part).as_slice(), data].concat()).await
            }
            _ => self.socket.send(bytes).await,
        }
    }

    async fn receive(&self, until: Instant) -> Result<Option<Vec<u8>>, S::Error> {
        loop {
            let received = self.socket.receive(until).await?;
            let (Some(bytes), Some(key)) = (&received, self.key) else { return Ok(received) };
            // The seal is valid, so the length in the head is right.
            if let (Ok(plain), Some(&length)) = (key.unsealed(bytes), bytes.get(2)) {
                let data = bytes.get(usize::from(length)..).unwrap_or_default();
                return Ok(Some([plain.as_slice(), data].concat()));
            }
        }
    }
}
