//! Identifies callers of the API, and decides what they may do.
//!
//! On the Unix socket the kernel reports the process at the other end (unix(7), SO_PEERCRED), so no caller can pretend to be another user. Root and
//! the user who started the router have full access, and so do members of the socket's group. Members of the readers' group have read access.

use crate::api::{AccessLevel, ApiError, Author, ErrorKind, Via};
use crate::daemon::{ApplyRequest, SliceRights};
use crate::request::ApplyConditions;
use io::login::Login;

/// A caller of the API.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// Its identity.
    pub author: Author,
    /// Its rights.
    pub allowed: AccessLevel,
    /// The connection itself, if losing it would cut the caller off.
    pub login: Option<Login>,
}

/// The process at the other end of a Unix socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Peer {
    /// Its user.
    pub uid: u32,
    /// Its groups, including the primary one.
    pub groups: Vec<u32>,
}

/// The groups that may use a Unix socket, besides root and its owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AccessGroups {
    /// Its members have full access.
    pub full: Option<u32>,
    /// Its members have read access.
    pub read: Option<u32>,
}

impl AccessGroups {
    /// Returns the rights of a process; none for a stranger, who can connect only if the socket's mode permits it.
    pub(crate) fn allowed(&self, owner: u32, peer: &Peer) -> Option<AccessLevel> {
        let member = |group: Option<u32>| group.is_some_and(|group| peer.groups.contains(&group));
        if peer.uid == 0 || peer.uid == owner || member(self.full) {
            Some(AccessLevel::Full)
        } else if member(self.read) {
            Some(AccessLevel::Read)
        } else {
            None
        }
    }
}

impl Caller {
    /// Identifies a process at the other end of the control socket.
    pub fn of_process(peer: &Peer, allowed: AccessLevel) -> Caller {
        let who = Author { uid: Some(peer.uid), user: io::accounts::user_name(peer.uid), ..Author::by(Via::Socket) };
        Caller { author: who, allowed, login: None }
    }

    /// Its identity and its rights, for slices.
    pub fn rights(&self) -> SliceRights<'_> {
        SliceRights { author: &self.author, allowed: self.allowed }
    }

    /// Identifies a scraper of metrics on this machine.
    pub fn scraper() -> Caller {
        Caller { author: Author::by(Via::Remote), allowed: AccessLevel::Read, login: None }
    }

    /// Builds an order from its conditions and the caller's identity.
    pub fn apply_request(&self, conditions: ApplyConditions) -> ApplyRequest {
        let ApplyConditions { confirm, login, force } = conditions;
        let logins = login.into_iter().chain(self.login).collect();
        ApplyRequest { author: self.author.clone(), confirm, logins, force, ..ApplyRequest::new("", "") }
    }

    /// Refuses a request that needs more rights than the caller has.
    pub fn require(&self, needs: AccessLevel) -> Result<(), ApiError> {
        if self.allowed >= needs { Ok(()) } else { Err(forbidden(&self.author)) }
    }
}

/// Returns the error for a caller without the necessary rights.
pub(crate) fn forbidden(who: &Author) -> ApiError {
    let hint = match who.via {
        Via::Remote => "use the token for changes (the router's --token-file)",
        _ => "run this as root, as the router's user, or as a member of its --socket-group",
    };
    ApiError::new(ErrorKind::Forbidden, format!("{who} is not allowed to do this"), hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_determine_access() {
        let groups = AccessGroups { full: Some(500), read: Some(600) };
        let peer = |uid, groups: &[u32]| Peer { uid, groups: groups.to_vec() };
        for (uid, own, expected) in [
            (0, &[0][..], Some(AccessLevel::Full)),
            (990, &[989], Some(AccessLevel::Full)),
            (1000, &[1000, 500], Some(AccessLevel::Full)),
            (1000, &[1000, 600], Some(AccessLevel::Read)),
            (1000, &[600, 500], Some(AccessLevel::Full)),
            (1000, &[1000], None),
        ] {
            assert_eq!(groups.allowed(990, &peer(uid, own)), expected, "{uid} {own:?}");
        }
        assert_eq!(AccessGroups::default().allowed(990, &peer(1000, &[0])), None);
    }

    #[test]
    fn read_access_error_hints_at_socket_group() {
        let caller = Caller::of_process(&Peer { uid: 77_777, groups: vec![] }, AccessLevel::Read);
        assert!(caller.require(AccessLevel::Read).is_ok());
        let said = caller.require(AccessLevel::Full).unwrap_err().to_string();
        assert!(said.contains("user 77777") && said.contains("--socket-group"), "{said}");
    }
}
