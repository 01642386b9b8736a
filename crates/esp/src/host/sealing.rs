//! A socket for routers that execute only parts sealed with the operator's key ([`crate::seal`]).

use super::Datagrams;
use crate::seal::OperatorKey;
use crate::wire::Part;
use units::Instant;

/// A socket that seals the parts it sends, if it has a key, and discards received parts without a valid seal. Data behind a part stays unchanged.
#[derive(Clone, Copy, Debug)]
pub struct Sealing<S> {
    socket: S,
    key: Option<OperatorKey>,
}

impl<S: Datagrams> Sealing<S> {
    /// Wraps a socket, with an optional key.
    pub const fn new(socket: S, key: Option<OperatorKey>) -> Sealing<S> {
        Sealing { socket, key }
    }

    /// The socket.
    pub fn into_inner(self) -> S {
        self.socket
    }
}

impl<S: Datagrams> Datagrams for Sealing<S> {
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
            let came = self.socket.receive(until).await?;
            let (Some(bytes), Some(key)) = (&came, self.key) else { return Ok(came) };
            // The seal is valid, so the length in the head is right.
            if let (Ok(plain), Some(&length)) = (key.unsealed(bytes), bytes.get(2)) {
                let data = bytes.get(usize::from(length)..).unwrap_or_default();
                return Ok(Some([plain.as_slice(), data].concat()));
            }
        }
    }
}
