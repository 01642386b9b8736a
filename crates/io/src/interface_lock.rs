//! Allows only one router on an interface: a lock that ends with the process in any case.
//!
//! Two routers on the same interface would both forward each received packet. The lock is an abstract Unix socket (unix(7)), named by the index of
//! the interface. Name and index both belong to the interface's network namespace. Any user may bind such a name, so a holder that is another
//! unprivileged user is ignored.

use crate::advisories::OpenError;
use rustix::net::sockopt::socket_peercred;
use rustix::process::getuid;
use std::collections::HashMap;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::{Arc, Weak};

/// A claimed interface, held as long as this value lives.
#[derive(Debug, Default)]
pub(crate) struct InterfaceLock {
    /// `None` if a user without the right to it holds the name.
    _listener: Option<UnixListener>,
}

/// The claimed interfaces of one network namespace. A port that replaces another one on the same interface shares its claim.
#[derive(Debug, Default)]
pub(crate) struct InterfaceLocks {
    held: HashMap<u32, Weak<InterfaceLock>>,
}

impl InterfaceLocks {
    /// Claims the interface with this name and index, in the network namespace of the calling thread.
    pub(crate) fn lock(&mut self, interface: &str, index: u32) -> Result<Arc<InterfaceLock>, OpenError> {
        self.held.retain(|_, claim| claim.strong_count() > 0);
        if let Some(claim) = self.held.get(&index).and_then(Weak::upgrade) {
            return Ok(claim);
        }
        let listener = listen(index).map_err(|error| lock_error(interface, error))?;
        let claim = Arc::new(InterfaceLock { _listener: listener });
        self.held.insert(index, Arc::downgrade(&claim));
        Ok(claim)
    }
}

/// The reason why a name is not available: its holder, as far as the kernel reports it.
enum LockFailure {
    Process(i32),
    Other(io::Error),
}

fn listen(index: u32) -> Result<Option<UnixListener>, LockFailure> {
    let address =
        SocketAddr::from_abstract_name(format!("switchpath interface {index}")).map_err(LockFailure::Other)?;
    let error = match UnixListener::bind_addr(&address) {
        Ok(listener) => return Ok(Some(listener)),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => error,
        Err(error) => return Err(LockFailure::Other(error)),
    };
    // The credentials are those of the process that called listen(2).
    let holder = UnixStream::connect_addr(&address).and_then(|stream| Ok(socket_peercred(&stream)?));
    match holder {
        // Otherwise any user could keep the router from its interfaces.
        Ok(holder) if !holder.uid.is_root() && holder.uid != getuid() => Ok(None),
        Ok(holder) => Err(LockFailure::Process(holder.pid.as_raw_nonzero().get())),
        Err(_) => Err(LockFailure::Other(error)),
    }
}

fn lock_error(interface: &str, refusal: LockFailure) -> OpenError {
    let owner = match refusal {
        LockFailure::Process(id) if id == std::process::id() as i32 => "another router of this process".to_string(),
        LockFailure::Process(id) => format!("another router, process {id},"),
        LockFailure::Other(error) => format!("an unknown process ({error})"),
    };
    OpenError {
        reason: format!("{owner} uses the interface '{interface}'"),
        hint: "end that router, or give each router interfaces of its own".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No interface has such an index, so tests do not collide with routers.
    const INDEX: u32 = 0x7fff_fff0;

    #[test]
    fn interface_lock_is_shared_within_a_router_and_exclusive_between_routers() {
        let (mut ours, mut theirs) = (InterfaceLocks::default(), InterfaceLocks::default());
        let first = ours.lock("eth0", INDEX).unwrap();
        let second = ours.lock("eth0", INDEX).unwrap();
        drop(first);
        let error = theirs.lock("eth0", INDEX).unwrap_err();
        assert!(error.reason.contains("of this process uses the interface 'eth0'"), "{error}");
        theirs.lock("eth1", INDEX - 1).unwrap();
        drop(second);
        theirs.lock("eth0", INDEX).unwrap();
    }
}
