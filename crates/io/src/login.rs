//! Finds the interfaces that carry the operator's login. A router that takes over one of them disconnects its operator.
//!
//! A login is recognised by the environment variables that sshd(8) sets in its sessions. sudo(8) and su(1) remove them, so the environments of the
//! parent processes are read too (proc_pid_environ(5)).

use crate::netlink::{KernelError, KernelLink, Netlink};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::net::IpAddr;

/// The maximum number of ancestor processes to examine.
const MOST_ANCESTORS: usize = 64;

/// A remote login.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Login {
    /// The client's address, if known.
    pub peer: Option<IpAddr>,
    /// The address of this machine that it uses, if known.
    pub local: Option<IpAddr>,
}

/// An interface that carries a login.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Carrier {
    /// Its name.
    pub interface: String,
    /// The reason: `it has 192.0.2.1, the address you are logged in to`.
    pub reason: String,
}

impl Login {
    /// The login in the variables of an environment: `SSH_CONNECTION` has both addresses with their ports, `SSH_CLIENT` (older) the client's, and
    /// `SSH_TTY` only shows that there is a login.
    fn of_environment<'a>(value: impl Fn(&str) -> Option<&'a str>) -> Option<Login> {
        let address = |text: Option<&str>| {
            // A link-local address has its zone: `fe80::1%eth0`.
            let text = text?.split('%').next()?;
            text.parse::<IpAddr>().ok().map(|address| address.to_canonical())
        };
        if let Some(connection) = value("SSH_CONNECTION") {
            let mut words = connection.split_whitespace();
            return Some(Login { peer: address(words.next()), local: address(words.nth(1)) });
        }
        if let Some(client) = value("SSH_CLIENT") {
            return Some(Login { peer: address(client.split_whitespace().next()), local: None });
        }
        value("SSH_TTY").map(|_| Login::default())
    }

    /// The login that started this process, if any.
    pub fn current() -> Option<Login> {
        let own: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Login::of_environment(|name| own.get(name).map(String::as_str)).or_else(Login::of_ancestors)
    }

    fn of_ancestors() -> Option<Login> {
        let mut process = parent("self")?;
        for _ in 0..MOST_ANCESTORS {
            if process <= 1 {
                return None;
            }
            // Unreadable for another user's process without privileges: root finds the login further up.
            let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
            let environment = String::from_utf8_lossy(&environment).into_owned();
            let value = |name: &str| {
                environment.split('\0').find_map(|variable| variable.strip_prefix(name)?.strip_prefix('='))
            };
            if let Some(login) = Login::of_environment(value) {
                return Some(login);
            }
            process = parent(&process.to_string())?;
        }
        None
    }

    /// True if it has any address.
    pub fn is_known(&self) -> bool {
        self.peer.is_some() || self.local.is_some()
    }

    /// The interfaces that carry it, in the network namespace of the calling thread. These are the one with the local address and the one that the
    /// route to the peer uses. If neither address is known, they are those with a default route. The interfaces below each are included: a VLAN's
    /// parent, a bridge's or bond's members.
    pub fn carriers(&self) -> Result<Vec<Carrier>, KernelError> {
        let mut netlink = Netlink::open()?;
        let mut found: BTreeMap<u32, String> = BTreeMap::new();
        // The loopback cannot be a port of the router.
        if let Some(local) = self.local.filter(|local| !local.is_loopback())
            && let Some(index) = netlink.link_with_address(local)?
        {
            found.insert(index, format!("it has {local}, the local address of your login"));
        }
        if let Some(peer) = self.peer.filter(|peer| !peer.is_loopback())
            && let Some(index) = netlink.link_towards(peer)?
        {
            found
                .entry(index)
                .or_insert_with(|| format!("it has the route to {peer}, the remote address of your login"));
        }
        if !self.is_known() {
            for index in netlink.default_route_links()? {
                found.insert(index, "it has the default route, and there is a remote login".to_owned());
            }
        }
        let links = netlink.links()?;
        Ok(with_lower_links(found, &links))
    }
}

/// Interfaces with those below them.
fn with_lower_links(mut found: BTreeMap<u32, String>, links: &[KernelLink]) -> Vec<Carrier> {
    let name = |index: u32| links.iter().find(|link| link.index == index).map(|link| link.name.clone());
    let mut open: Vec<u32> = found.keys().copied().collect();
    while let Some(index) = open.pop() {
        let lower = links.iter().find(|link| link.index == index).and_then(|link| link.lower);
        let members = links.iter().filter(|link| link.master == Some(index)).map(|link| link.index);
        for part in lower.into_iter().chain(members) {
            // Each link once: the two ends of a veth name each other as the link below.
            if let std::collections::btree_map::Entry::Vacant(place) = found.entry(part) {
                let whole = name(index).unwrap_or_else(|| index.to_string());
                place.insert(format!("it is a part of {whole}, which carries the login"));
                open.push(part);
            }
        }
    }
    found
        .into_iter()
        .filter_map(|(index, because)| Some(Carrier { interface: name(index)?, reason: because }))
        .collect()
}

fn parent(process: &str) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

impl fmt::Display for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |address: Option<IpAddr>| address.map_or_else(|| "-".into(), |address| address.to_string());
        write!(f, "{},{}", word(self.peer), word(self.local))
    }
}

impl std::str::FromStr for Login {
    type Err = String;

    /// The format of its `Display`: `PEER,LOCAL`, with a dash for an unknown address.
    fn from_str(text: &str) -> Result<Login, String> {
        let wrong =
            || format!("'{text}' is no login: write PEER,LOCAL as two addresses, with a dash for an unknown one");
        let (peer, local) = text.split_once(',').ok_or_else(wrong)?;
        let address = |word: &str| match word {
            "-" => Ok(None),
            word => word.parse().map(Some).map_err(|_| wrong()),
        };
        Ok(Login { peer: address(peer)?, local: address(local)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_read_from_the_environment_of_its_session() {
        let of = |name: &'static str, text: &'static str| {
            Login::of_environment(move |wanted| (wanted == name).then_some(text)).map(|login| login.to_string())
        };
        for (name, text, expected) in [
            ("SSH_CONNECTION", "192.0.2.7 50000 192.0.2.1 22", Some("192.0.2.7,192.0.2.1")),
            ("SSH_CONNECTION", "fe80::7%eth0 50000 fe80::1%eth0 22", Some("fe80::7,fe80::1")),
            ("SSH_CONNECTION", "::ffff:192.0.2.7 1 ::ffff:192.0.2.1 22", Some("192.0.2.7,192.0.2.1")),
            ("SSH_CONNECTION", "", Some("-,-")),
            ("SSH_CLIENT", "2001:db8::7 50000 22", Some("2001:db8::7,-")),
            ("SSH_TTY", "/dev/pts/0", Some("-,-")),
            ("HOME", "/", None),
        ] {
            assert_eq!(of(name, text).as_deref(), expected, "{name}={text}");
        }
    }

    #[test]
    fn login_text_round_trips() {
        for text in ["192.0.2.7,192.0.2.1", "-,2001:db8::1", "-,-"] {
            assert_eq!(text.parse::<Login>().unwrap().to_string(), text);
        }
        assert!("192.0.2.7".parse::<Login>().is_err() && "a,b".parse::<Login>().is_err());
    }

    #[test]
    fn lower_links_of_an_interface_carry_its_login() {
        let link = |index: u32, name: &str, lower: Option<u32>, master: Option<u32>| KernelLink {
            index,
            name: name.into(),
            lower,
            master,
            ..KernelLink::default()
        };
        // A VLAN on a bridge of two ports, and an unrelated link.
        let links = [
            link(1, "vlan", Some(2), None),
            link(2, "bridge", None, None),
            link(3, "eth0", None, Some(2)),
            link(4, "eth1", None, Some(2)),
            link(5, "eth2", None, None),
        ];
        let names = |found: &[(u32, &str)]| {
            let found = found.iter().map(|&(index, why)| (index, why.to_owned())).collect();
            with_lower_links(found, &links).into_iter().map(|carrier| carrier.interface).collect::<Vec<_>>()
        };
        assert_eq!(names(&[(1, "x")]), ["vlan", "bridge", "eth0", "eth1"]);
        assert_eq!(names(&[(3, "x")]), ["eth0"]);
        assert!(names(&[]).is_empty());
    }
}
