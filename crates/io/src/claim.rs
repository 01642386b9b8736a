//! Allows only one router on an interface: a lock that ends with the process in any case.
//!
//! Two routers on the same interface would both forward each received packet. The lock is an abstract Unix socket (unix(7)), named by the index of
//! the interface. Name and index both belong to the interface's network namespace. Any user may bind such a name, so a holder that is another
//! unprivileged user is ignored.

use crate::remarks::OpenError;
use rustix::net::sockopt::socket_peercred;
use rustix::process::getuid;
use std::collections::HashMap;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::{Arc, Weak};

/// A claimed interface, held as long as this value lives.
#[derive(Debug, Default)]
pub(crate) struct Claim {
    /// `None` if a user without the right to it holds the name.
    _listener: Option<UnixListener>,
}

/// The claimed interfaces of one network namespace. A port that replaces another one on the same interface shares its claim.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    held: HashMap<u32, Weak<Claim>>,
}

impl Claims {
    /// Claims the interface with this name and index, in the network namespace of the calling thread.
    pub(crate) fn claim(&mut self, interface: &str, index: u32) -> Result<Arc<Claim>, OpenError> {
        self.held.retain(|_, claim| claim.strong_count() > 0);
        if let Some(claim) = self.held.get(&index).and_then(Weak::upgrade) {
            return Ok(claim);
        }
        let listener = listen(index).map_err(|error| taken(interface, error))?;
        let claim = Arc::new(Claim { _listener: listener });
        self.held.insert(index, Arc::downgrade(&claim));
        Ok(claim)
    }
}

/// The reason why a name is not available: its holder, as far as the kernel reports it.
enum Refusal {
    Process(i32),
    Other(io::Error),
}

fn listen(index: u32) -> Result<Option<UnixListener>, Refusal> {
    let address = SocketAddr::from_abstract_name(format!("switchpath interface {index}")).map_err(Refusal::Other)?;
    let error = match UnixListener::bind_addr(&address) {
        Ok(listener) => return Ok(Some(listener)),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => error,
        Err(error) => return Err(Refusal::Other(error)),
    };
    // The credentials are those of the process that called listen(2).
    let holder = UnixStream::connect_addr(&address).and_then(|stream| Ok(socket_peercred(&stream)?));
    match holder {
        // Otherwise any user could keep the router from its interfaces.
        Ok(holder) if !holder.uid.is_root() && holder.uid != getuid() => Ok(None),
        Ok(holder) => Err(Refusal::Process(holder.pid.as_raw_nonzero().get())),
        Err(_) => Err(Refusal::Other(error)),
    }
}

fn taken(interface: &str, refusal: Refusal) -> OpenError {
    let owner = match refusal {
        Refusal::Process(id) if id == std::process::id() as i32 => "another router of this process".to_string(),
        Refusal::Process(id) => format!("another router, process {id},"),
        Refusal::Other(error) => format!("something that does not say who it is ({error})"),
    };
    OpenError {
        reason: format!("{owner} has the interface '{interface}'"),
        hint: "end that router, or give each router interfaces of its own".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No interface has such an index, so tests do not collide with routers.
    const INDEX: u32 = 0x7fff_fff0;

    #[test]
    fn a_claim_is_shared_in_a_router_refused_to_another_and_free_in_the_end() {
        let (mut ours, mut theirs) = (Claims::default(), Claims::default());
        let first = ours.claim("eth0", INDEX).unwrap();
        let second = ours.claim("eth0", INDEX).unwrap();
        drop(first);
        let error = theirs.claim("eth0", INDEX).unwrap_err();
        assert!(error.reason.contains("of this process has the interface 'eth0'"), "{error}");
        theirs.claim("eth1", INDEX - 1).unwrap();
        drop(second);
        theirs.claim("eth0", INDEX).unwrap();
    }
}
