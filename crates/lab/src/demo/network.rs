//! The network of the demonstration: two clients and a server, each on a subnet of its own, and the router between them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use units::Mac;

/// IPv4 or IPv6.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IpFamily {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl IpFamily {
    /// Both.
    pub const BOTH: [IpFamily; 2] = [IpFamily::V4, IpFamily::V6];

    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            IpFamily::V4 => "IPv4",
            IpFamily::V6 => "IPv6",
        }
    }
}

/// A host. Its addresses are from the documentation blocks of RFC 5737 and RFC 3849.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DemoHost {
    /// A client.
    Alice,
    /// Another client.
    Bob,
    /// The server.
    Server,
}

impl DemoHost {
    /// All of them.
    pub const ALL: [DemoHost; 3] = [DemoHost::Alice, DemoHost::Bob, DemoHost::Server];

    /// Its name, and the name of the router's port to it.
    pub fn name(self) -> &'static str {
        match self {
            DemoHost::Alice => "alice",
            DemoHost::Bob => "bob",
            DemoHost::Server => "server",
        }
    }

    /// Its address.
    pub fn address(self, family: IpFamily) -> IpAddr {
        self.on_subnet(family, 10)
    }

    /// Its address with a port.
    pub fn at(self, family: IpFamily, port: u16) -> SocketAddr {
        SocketAddr::new(self.address(family), port)
    }

    /// The router's address on its subnet.
    pub fn gateway(self, family: IpFamily) -> IpAddr {
        self.on_subnet(family, 1)
    }

    /// The length of its subnet's prefix.
    pub fn prefix(family: IpFamily) -> u8 {
        match family {
            IpFamily::V4 => 24,
            IpFamily::V6 => 64,
        }
    }

    /// Its MAC address, for hosts in memory. The kernel chooses its own.
    pub fn mac(self) -> Mac {
        Mac([2, 0, 0, 0, self as u8 + 1, 10])
    }

    /// The MAC address of the router's port to it, likewise.
    pub fn gateway_mac(self) -> Mac {
        Mac([2, 0, 0, 0, self as u8 + 1, 1])
    }

    fn on_subnet(self, family: IpFamily, host: u8) -> IpAddr {
        let [a, b, c] = match self {
            DemoHost::Alice => [192, 0, 2],
            DemoHost::Bob => [198, 51, 100],
            DemoHost::Server => [203, 0, 113],
        };
        match family {
            IpFamily::V4 => Ipv4Addr::new(a, b, c, host).into(),
            IpFamily::V6 => Ipv6Addr::new(0x2001, 0xdb8, self as u16 + 1, 0, 0, 0, 0, u16::from(host)).into(),
        }
    }
}

/// A destination of a blackhole route.
pub const BLACKHOLE: Ipv4Addr = Ipv4Addr::new(10, 66, 0, 1);
/// A destination without a route.
pub const NOWHERE: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
/// The destination port of the voice packets, which get a path of their own at half time.
pub const VOICE: u16 = 5060;

/// The router's configuration with a port of this kind (`packet`, `memory`) to each host.
pub fn configuration(kind: &str) -> String {
    let mut text = String::from("version = 1\n\n[router]\nname = \"demo\"\n");
    for station in DemoHost::ALL {
        let name = station.name();
        text += &format!("\n[port.{name}]\ndevice = \"{kind}:{name}\"\n");
        if kind == "memory" {
            text += &format!("mac = \"{}\"\n", station.gateway_mac());
        }
        let own = IpFamily::BOTH.map(|family| format!("\"{}/{}\"", station.gateway(family), DemoHost::prefix(family)));
        text += &format!("address = [{}]\n", own.join(", "));
    }
    text + "\n[[route]]\nto = \"10.66.0.0/16\"\nblackhole = true\n"
}

/// The text added to the configuration at half time.
pub const VOICE_PATH: &str = "\n[[path]]\nname = \"voice\"\nmatch = \"udp dport 5060\"\nqueue = 256\nclass = 1\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_valid_and_differ_by_one_path() {
        for kind in ["packet", "memory"] {
            let text = configuration(kind);
            let check =
                |text: &str| plan::check(text, "demo.toml", &plane::catalogue()).unwrap_or_else(|e| panic!("{e}"));
            let changes = plan::diff(&check(&text), &check(&(text.clone() + VOICE_PATH)));
            let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
            assert!(changes.len() == 1 && changes[0].contains("voice"), "{changes:?}");
            assert!(VOICE_PATH.contains(&format!("dport {VOICE}\"")));
        }
    }
}
