//! A tree of routers between a root host and receivers: addresses, cables, and the configuration of each router.
//!
//! The first router is connected to the root. Below it is one router for each number in the list, with that many receivers.

use std::fmt::Write;
use std::net::Ipv4Addr;
use units::Mac;

/// The multicast group of the data.
pub const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
/// The port of every router that leads towards the root.
pub const UP: &str = "up";
/// The most routers below the first, and the most receivers of each. Their numbers are bytes of addresses.
const MOST: usize = 60;

/// The tree.
#[derive(Clone, Debug)]
pub struct Tree {
    /// The router at the root, and those below it.
    pub routers: Vec<TreeRouter>,
    /// The place of the root host.
    pub root: HostLocation,
    /// The places of the receivers, numbered across all routers.
    pub receivers: Vec<HostLocation>,
}

/// A router of the tree.
#[derive(Clone, Debug)]
pub struct TreeRouter {
    /// Its ports, the one towards the root first.
    pub ports: Vec<TreePort>,
    routes: String,
}

/// A port of a router.
#[derive(Clone, Debug)]
pub struct TreePort {
    /// Its name.
    pub name: String,
    /// Its own IP and MAC address.
    pub local: (Ipv4Addr, Mac),
    /// The addresses at the other end of its cable.
    pub remote: (Ipv4Addr, Mac),
    /// The router at the other end, and the port there; none for a host.
    pub router: Option<(usize, usize)>,
}

/// The place of a host: a port of a router, both by index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostLocation {
    /// The router.
    pub router: usize,
    /// Its port.
    pub port: usize,
}

/// The link address of a router's port.
fn mac(router: usize, port: usize) -> Mac {
    Mac([2, 0, 0, 1, router as u8, port as u8])
}

impl Tree {
    /// A tree whose routers of the last level have these numbers of receivers.
    ///
    /// # Errors
    ///
    /// The list is empty, or there are more hosts than the addresses allow.
    pub fn new(receivers: &[usize]) -> Result<Tree, String> {
        if receivers.is_empty() || receivers.len() > MOST || receivers.iter().any(|n| !(1..=MOST).contains(n)) {
            return Err(format!("a tree has 1 to {MOST} routers below the first, with 1 to {MOST} receivers each"));
        }
        let host = |router: usize, port: usize, name: String, network: [u8; 3]| {
            let [a, b, c] = network;
            let far = (Ipv4Addr::new(a, b, c, 9), Mac([2, 0, 0, 2, router as u8, port as u8]));
            TreePort { name, local: (Ipv4Addr::new(a, b, c, 1), mac(router, port)), remote: far, router: None }
        };
        let below = |n: usize| format!("below{}", n + 1);
        let mut first = TreeRouter { ports: vec![host(0, 0, UP.to_owned(), [10, 0, 0])], routes: String::new() };
        let (mut others, mut seats) = (Vec::new(), Vec::new());
        for (n, count) in receivers.iter().enumerate() {
            let (number, router) = (n as u8 + 1, n + 1);
            // The cable between the two routers.
            let up = (Ipv4Addr::new(10, 200, number, 1), mac(0, router));
            let down = (Ipv4Addr::new(10, 200, number, 2), mac(router, 0));
            first.ports.push(TreePort { name: below(n), local: up, remote: down, router: Some((router, 0)) });
            _ = write!(first.routes, "[[route]]\nto = \"10.{number}.0.0/16\"\nvia = \"{}\"\n", down.0);
            let mut ports = vec![TreePort { name: UP.to_owned(), local: down, remote: up, router: Some((0, router)) }];
            for host_number in 0..*count {
                ports.push(host(router, host_number + 1, below(host_number), [10, number, host_number as u8 + 1]));
                seats.push(HostLocation { router, port: host_number + 1 });
            }
            let routes = format!("[[route]]\nto = \"0.0.0.0/0\"\nvia = \"{}\"\n", up.0);
            others.push(TreeRouter { ports, routes });
        }
        let routers = [vec![first], others].concat();
        Ok(Tree { routers, root: HostLocation { router: 0, port: 0 }, receivers: seats })
    }

    /// The router port of a host.
    pub fn port(&self, seat: HostLocation) -> &TreePort {
        &self.routers[seat.router].ports[seat.port]
    }

    /// The address of a host.
    pub fn host(&self, seat: HostLocation) -> Ipv4Addr {
        self.port(seat).remote.0
    }
}

impl TreeRouter {
    /// Its configuration: ports on devices of this kind, with `keys` for each port by index, and `state` for its stores. It replicates packets to the
    /// group from the root to all ports below.
    pub fn configuration(&self, device: &str, keys: impl Fn(usize) -> String, state: &str) -> String {
        let mut text = format!("version = 1\n{state}\n");
        for (number, TreePort { name, local: own, remote: far, .. }) in self.ports.iter().enumerate() {
            _ = write!(
                text,
                "[port.{name}]\ndevice = \"{device}:{name}\"\naddress = [\"{}/24\"]\nmac = \"{}\"\n{keys}\n\
                 [[neighbour]]\naddress = \"{}\"\nmac = \"{}\"\nport = \"{name}\"\n",
                own.0,
                own.1,
                far.0,
                far.1,
                keys = keys(number),
            );
        }
        let below: Vec<String> = self.ports[1..].iter().map(|port| format!("\"{}\"", port.name)).collect();
        let to = below.join(", ");
        _ = write!(text, "{}[[multicast]]\ngroup = \"{GROUP}\"\nfrom = \"{UP}\"\nto = [{to}]\n", self.routes);
        text
    }
}
