//! `[nat]`: how hosts inside reach the outside by the router's own addresses.

use crate::{Name, protocol_name, protocol_number};
use serde::{Serialize, Serializer};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::str::FromStr;
use units::{Nanos, UnitError};

/// Address and port translation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct NatPlan {
    /// The interfaces to the outside.
    pub outside: Vec<Name>,
    /// Connections there may be.
    pub connections: u32,
    /// Connections that one host inside may have begun at a time.
    pub per_host: u32,
    /// The ports that are given to the inside, first and last.
    pub ports: (u16, u16),
    /// Whether anybody may come in by a port that was given, or only whom the inside has spoken to.
    pub anybody: bool,
    /// How long connections are remembered after their last packet: TCP that opens, that is established, that closes; UDP;
    /// ICMP.
    #[serde(serialize_with = "nanoseconds")]
    pub timeouts: [Nanos; 5],
    /// Ports of ours that lead inside, sorted.
    pub forwards: Vec<ForwardPlan>,
}

fn nanoseconds<S: Serializer>(times: &[Nanos; 5], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(times.iter().map(|time| time.get()))
}

impl fmt::Display for NatPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.outside.iter().map(|name| &**name).collect();
        let [opening, tcp, closing, udp, icmp] = self.timeouts;
        write!(f, "outside {} connections {} per_host {}", names.join(" "), self.connections, self.per_host)?;
        write!(f, " ports {}-{} anybody {}", self.ports.0, self.ports.1, self.anybody)?;
        write!(f, " tcp_opening {opening} tcp {tcp} tcp_closing {closing} udp {udp} icmp {icmp}")?;
        self.forwards.iter().try_for_each(|forward| write!(f, " forward {forward}"))
    }
}

/// A port of ours that leads inside: `tcp 8080 to 10.0.0.2:80`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ForwardPlan {
    /// TCP or UDP.
    pub protocol: u8,
    /// Our port.
    pub port: u16,
    /// The host inside.
    pub address: Ipv4Addr,
    /// Its port.
    pub to: u16,
}

impl fmt::Display for ForwardPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} to {}:{}", protocol_name(self.protocol), self.port, self.address, self.to)
    }
}

impl Serialize for ForwardPlan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for ForwardPlan {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<ForwardPlan, UnitError> {
        let wrong = |reason: String| UnitError { reason, hint: "write it like 'tcp 8080 to 10.0.0.2:80'".to_string() };
        let words: Vec<&str> = text.split_whitespace().collect();
        let &[protocol, port, "to", target] = words.as_slice() else {
            return Err(wrong(format!("{} says not which port leads where", crate::quote(text))));
        };
        let number = |text: &str| text.parse().ok().filter(|&port: &u16| port > 0);
        let known = protocol_number(protocol).filter(|&number| number == 6 || number == 17);
        let protocol = known.ok_or_else(|| wrong(format!("{} is neither tcp nor udp", crate::quote(protocol))))?;
        let port = number(port).ok_or_else(|| wrong(format!("{} is no port", crate::quote(port))))?;
        // Without a port it is the same inside.
        let whole = if target.contains(':') { target.to_string() } else { format!("{target}:{port}") };
        let target: SocketAddrV4 =
            whole.parse().map_err(|_| wrong(format!("{} is no IPv4 address with a port", crate::quote(target))))?;
        if target.port() == 0 || target.ip().is_unspecified() || target.ip().is_multicast() || target.ip().is_loopback()
        {
            return Err(wrong(format!("{target} is no host's")));
        }
        Ok(ForwardPlan { protocol, port, address: *target.ip(), to: target.port() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwards_read_back_as_printed_and_wrong_ones_say_why() {
        for text in ["tcp 8080 to 10.0.0.2:80", "udp 53 to 192.168.1.1:53"] {
            assert_eq!(text.parse::<ForwardPlan>().unwrap().to_string(), text);
        }
        assert_eq!("tcp 22 to 10.0.0.2".parse::<ForwardPlan>().unwrap().to_string(), "tcp 22 to 10.0.0.2:22");
        for (text, reason) in [
            ("", "says not which port"),
            ("tcp 80 10.0.0.2", "says not which port"),
            ("gre 80 to 10.0.0.2", "neither tcp nor udp"),
            ("tcp 0 to 10.0.0.2", "is no port"),
            ("tcp 80 to ::1", "is no IPv4 address"),
            ("tcp 80 to 127.0.0.1", "is no host's"),
        ] {
            let error = text.parse::<ForwardPlan>().unwrap_err();
            assert!(error.reason.contains(reason), "{text}: {}", error.reason);
        }
    }
}
