//! DHCP messages as a relay agent changes them: DHCPv4 (RFC 2131, RFC 1542 4, RFC 3046) and DHCPv6 (RFC 8415 19).

use std::net::{Ipv4Addr, Ipv6Addr};
use std::{error, fmt};
use units::Mac;

/// UDP port of servers and relay agents, IPv4.
pub const SERVER4: u16 = 67;
/// UDP port of clients, IPv4.
pub const CLIENT4: u16 = 68;
/// UDP port of servers and relay agents, IPv6.
pub const SERVER6: u16 = 547;
/// UDP port of clients, IPv6.
pub const CLIENT6: u16 = 546;
/// The group of all relay agents and servers on a link, IPv6.
pub const ALL_AGENTS6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);

/// Relay agents that a request may pass: RFC 1542 4.1.1.
const MOST_HOPS4: u8 = 16;
/// Relay agents that a request may pass: HOP_COUNT_LIMIT of RFC 8415 7.6.
const MOST_HOPS6: u8 = 8;
/// A message up to its options: the fixed fields and the magic cookie.
const FIXED4: usize = 240;
const COOKIE: [u8; 4] = [99, 130, 83, 99];
/// The least length of a BOOTP message (RFC 1542 2.1).
const LEAST4: usize = 300;
/// The relay agent's information (RFC 3046).
const OPTION_AGENT: u8 = 82;
const OPTION_PAD: u8 = 0;
const OPTION_END: u8 = 255;
/// The sub-option that names the interface of the client.
const CIRCUIT_ID: u8 = 1;
/// The flag of clients that cannot receive unicast yet.
const BROADCAST: u16 = 0x8000;
/// An Ethernet address (ARP's hardware type and the length).
const ETHERNET: [u8; 2] = [1, 6];

const RELAY_FORWARD: u8 = 12;
const RELAY_REPLY: u8 = 13;
/// Type, hop count and two addresses of a message between relay agents and servers.
const FIXED6: usize = 34;
const OPTION_RELAY_MESSAGE: u16 = 9;
const OPTION_INTERFACE_ID: u16 = 18;

/// A message that a relay agent does not pass on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RelayError {
    /// It ends within a field or an option.
    Truncated,
    /// It is no request, or no reply.
    WrongDirection,
    /// It has passed too many relay agents.
    TooManyHops,
    /// A client has sent the information of a relay agent (RFC 3046 2.1.1).
    Untrusted,
    /// A reply for another relay agent.
    OtherAgent,
}

impl fmt::Display for RelayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RelayError::Truncated => "the message is truncated",
            RelayError::WrongDirection => "the message is for the other direction",
            RelayError::TooManyHops => "the message has passed too many relay agents",
            RelayError::Untrusted => "a client has sent the information of a relay agent",
            RelayError::OtherAgent => "the reply is for another relay agent",
        })
    }
}

impl error::Error for RelayError {}

/// The receiver of a reply of DHCPv4, on the link of the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recipient4 {
    /// All hosts: the client cannot receive unicast yet, or its addresses are unknown.
    Broadcast,
    /// A client with this new address, which does not answer ARP for it yet.
    New(Ipv4Addr, Mac),
    /// A client that has its address already.
    Known(Ipv4Addr),
}

/// The receiver of a reply of DHCPv6.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recipient6 {
    /// Its address, on the link of the client.
    pub address: Ipv6Addr,
    /// [`CLIENT6`], or [`SERVER6`] for another relay agent.
    pub port: u16,
}

/// Converts a request of DHCPv4 for the server. `agent` is the relay agent's address on the link of the client, and `circuit` names this link. A request that
/// another relay agent has passed on already keeps its information.
pub fn relay_request4(message: &[u8], agent: Ipv4Addr, circuit: &[u8]) -> Result<Vec<u8>, RelayError> {
    const REQUEST: u8 = 1;
    let (fixed, options) = message.split_at_checked(FIXED4).ok_or(RelayError::Truncated)?;
    if fixed[0] != REQUEST {
        return Err(RelayError::WrongDirection);
    }
    let hops = fixed[3];
    if hops >= MOST_HOPS4 {
        return Err(RelayError::TooManyHops);
    }
    let mut relayed = message.to_vec();
    relayed[3] = hops + 1;
    if relayed[24..28] != [0; 4] {
        return Ok(relayed);
    }
    relayed[24..28].copy_from_slice(&agent.octets());
    if fixed[236..] != COOKIE {
        // BOOTP without options.
        return Ok(relayed);
    }
    let end =
        FIXED4 + options_end(options, |kind| if kind == OPTION_AGENT { Err(RelayError::Untrusted) } else { Ok(()) })?;
    relayed.truncate(end);
    let circuit = &circuit[..circuit.len().min(253)];
    relayed.extend([OPTION_AGENT, circuit.len() as u8 + 2, CIRCUIT_ID, circuit.len() as u8]);
    relayed.extend(circuit);
    relayed.push(OPTION_END);
    relayed.resize(relayed.len().max(LEAST4), OPTION_PAD);
    Ok(relayed)
}

/// Converts a reply of DHCPv4 for the client: without the relay agent's information.
pub fn relay_reply4(message: &[u8], agent: Ipv4Addr) -> Result<(Vec<u8>, Recipient4), RelayError> {
    const REPLY: u8 = 2;
    let (fixed, options) = message.split_at_checked(FIXED4).ok_or(RelayError::Truncated)?;
    if fixed[0] != REPLY {
        return Err(RelayError::WrongDirection);
    }
    if fixed[24..28] != agent.octets() {
        return Err(RelayError::OtherAgent);
    }
    let mut relayed = message.to_vec();
    if fixed[236..] == COOKIE {
        let mut at = 0;
        // The kinds are checked before: each option lies within the message.
        let end = options_end(options, |_| Ok(()))?;
        relayed.truncate(FIXED4);
        while at < end {
            let length = if options[at] == OPTION_PAD { 1 } else { usize::from(options[at + 1]) + 2 };
            if options[at] != OPTION_AGENT {
                relayed.extend(&options[at..at + length]);
            }
            at += length;
        }
        relayed.push(OPTION_END);
        relayed.resize(relayed.len().max(LEAST4), OPTION_PAD);
    }
    let address = |at: usize| Ipv4Addr::new(fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]);
    let (client, new) = (address(12), address(16));
    let broadcast = u16::from_be_bytes([fixed[10], fixed[11]]) & BROADCAST != 0;
    let recipient = if !client.is_unspecified() {
        Recipient4::Known(client)
    } else if broadcast || new.is_unspecified() || fixed[1..3] != ETHERNET {
        Recipient4::Broadcast
    } else {
        Recipient4::New(new, Mac([fixed[28], fixed[29], fixed[30], fixed[31], fixed[32], fixed[33]]))
    };
    Ok((relayed, recipient))
}

/// The length of the options up to the end option, or all of them. Passes the kind of each to `check`.
fn options_end(options: &[u8], mut check: impl FnMut(u8) -> Result<(), RelayError>) -> Result<usize, RelayError> {
    let mut at = 0;
    while let Some(&kind) = options.get(at) {
        at += match kind {
            OPTION_PAD => 1,
            OPTION_END => break,
            kind => {
                check(kind)?;
                usize::from(*options.get(at + 1).ok_or(RelayError::Truncated)?) + 2
            }
        };
    }
    if at <= options.len() { Ok(at) } else { Err(RelayError::Truncated) }
}

/// Wraps a message of DHCPv6 for the server. `sender` is its source: a client, or another relay agent. `agent` is the relay agent's address on that link, and
/// `circuit` names the link.
pub fn relay_request6(
    message: &[u8],
    sender: Ipv6Addr,
    agent: Ipv6Addr,
    circuit: &[u8],
) -> Result<Vec<u8>, RelayError> {
    let hops = match message {
        [] => return Err(RelayError::Truncated),
        [RELAY_REPLY, ..] => return Err(RelayError::WrongDirection),
        [RELAY_FORWARD, hops, ..] if message.len() >= FIXED6 => hops.checked_add(1).ok_or(RelayError::TooManyHops)?,
        [RELAY_FORWARD, ..] => return Err(RelayError::Truncated),
        _ => 0,
    };
    if hops > MOST_HOPS6 {
        return Err(RelayError::TooManyHops);
    }
    // The link of a relay agent with a routable address is known from that address (RFC 8415 19.1.2).
    let link = if hops > 0 && !sender.is_unicast_link_local() { Ipv6Addr::UNSPECIFIED } else { agent };
    let mut relayed = vec![RELAY_FORWARD, hops];
    relayed.extend(link.octets());
    relayed.extend(sender.octets());
    for (kind, value) in [(OPTION_INTERFACE_ID, circuit), (OPTION_RELAY_MESSAGE, message)] {
        let length = u16::try_from(value.len()).map_err(|_| RelayError::Truncated)?;
        relayed.extend(kind.to_be_bytes());
        relayed.extend(length.to_be_bytes());
        relayed.extend(value);
    }
    Ok(relayed)
}

/// Unwraps a reply of a DHCPv6 server. Returns the message, and its receiver on the link that `circuit` names.
pub fn relay_reply6<'a>(message: &'a [u8], circuit: &[u8]) -> Result<(&'a [u8], Recipient6), RelayError> {
    let (fixed, mut options) = message.split_at_checked(FIXED6).ok_or(RelayError::Truncated)?;
    if fixed[0] != RELAY_REPLY {
        return Err(RelayError::WrongDirection);
    }
    let mut inner = None;
    while let Some((head, rest)) = options.split_first_chunk::<4>() {
        let (kind, length) = (u16::from_be_bytes([head[0], head[1]]), u16::from_be_bytes([head[2], head[3]]));
        let (value, rest) = rest.split_at_checked(length.into()).ok_or(RelayError::Truncated)?;
        match kind {
            OPTION_INTERFACE_ID if value != circuit => return Err(RelayError::OtherAgent),
            OPTION_RELAY_MESSAGE => inner = Some(value),
            _ => {}
        }
        options = rest;
    }
    let inner = inner.filter(|inner| !inner.is_empty()).ok_or(RelayError::Truncated)?;
    let octets: [u8; 16] = fixed[18..].try_into().map_err(|_| RelayError::Truncated)?;
    let port = if inner[0] == RELAY_REPLY { SERVER6 } else { CLIENT6 };
    Ok((inner, Recipient6 { address: octets.into(), port }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AGENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
    const AGENT6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    const CLIENT: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);

    /// A message with these options, without the end option.
    fn message(operation: u8, options: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; FIXED4];
        bytes[..4].copy_from_slice(&[operation, 1, 6, 0]);
        bytes[28..34].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
        bytes[236..].copy_from_slice(&COOKIE);
        bytes.extend(options);
        bytes.push(OPTION_END);
        bytes
    }

    #[test]
    fn request_gets_address_hop_and_circuit_of_the_agent() {
        let discover = message(1, &[53, 1, 1, 0, 12, 2, b'h', b'i']);
        let relayed = relay_request4(&discover, AGENT, b"lan.20").unwrap();
        assert_eq!((relayed[3], &relayed[24..28], relayed.len()), (1, &AGENT.octets()[..], LEAST4));
        let options = [&[53, 1, 1, 0, 12, 2, b'h', b'i', 82, 8, 1, 6][..], b"lan.20", &[255]].concat();
        assert_eq!(&relayed[FIXED4..][..options.len()], options);
        // The next agent changes nothing but the hops.
        let again = relay_request4(&relayed, Ipv4Addr::new(10, 0, 0, 1), b"x").unwrap();
        assert_eq!((again[3], &again[4..]), (2, &relayed[4..]));
    }

    #[test]
    fn hostile_requests_are_refused() {
        let forged = message(1, &[53, 1, 1, 82, 2, 1, 0]);
        assert_eq!(relay_request4(&forged, AGENT, b"lan"), Err(RelayError::Untrusted));
        let mut looping = message(1, &[]);
        looping[3] = 16;
        assert_eq!(relay_request4(&looping, AGENT, b"lan"), Err(RelayError::TooManyHops));
        assert_eq!(relay_request4(&message(2, &[]), AGENT, b"lan"), Err(RelayError::WrongDirection));
        let mut cut = message(1, &[53, 200, 1]);
        cut.truncate(FIXED4 + 3);
        assert_eq!(relay_request4(&cut, AGENT, b"lan"), Err(RelayError::Truncated));
        assert_eq!(relay_request4(&cut[..100], AGENT, b"lan"), Err(RelayError::Truncated));
    }

    #[test]
    fn reply_loses_the_agents_information_and_finds_the_client() {
        let mut offer = message(2, &[53, 1, 2, 82, 5, 1, 3, b'l', b'a', b'n', 51, 4, 0, 0, 1, 0]);
        offer[24..28].copy_from_slice(&AGENT.octets());
        offer[16..20].copy_from_slice(&[192, 0, 2, 50]);
        let (relayed, to) = relay_reply4(&offer, AGENT).unwrap();
        assert_eq!(to, Recipient4::New(Ipv4Addr::new(192, 0, 2, 50), Mac([2, 0, 0, 0, 0, 9])));
        assert_eq!(&relayed[FIXED4..][..10], [53, 1, 2, 51, 4, 0, 0, 1, 0, 255]);
        offer[10] = 0x80;
        assert_eq!(relay_reply4(&offer, AGENT).unwrap().1, Recipient4::Broadcast);
        offer[12..16].copy_from_slice(&[192, 0, 2, 50]);
        assert_eq!(relay_reply4(&offer, AGENT).unwrap().1, Recipient4::Known(Ipv4Addr::new(192, 0, 2, 50)));
        assert_eq!(relay_reply4(&offer, Ipv4Addr::new(192, 0, 2, 2)), Err(RelayError::OtherAgent));
    }

    #[test]
    fn message_of_dhcpv6_is_wrapped_and_its_reply_unwrapped() {
        let solicit = [1, 0xa, 0xb, 0xc, 0, 1, 0, 2, 7, 7];
        let wrapped = relay_request6(&solicit, CLIENT, AGENT6, b"lan").unwrap();
        assert_eq!((wrapped[0], wrapped[1]), (RELAY_FORWARD, 0));
        assert_eq!((&wrapped[2..18], &wrapped[18..34]), (&AGENT6.octets()[..], &CLIENT.octets()[..]));
        assert_eq!(wrapped[34..], [&[0, 18, 0, 3][..], b"lan", &[0, 9, 0, 10], &solicit].concat());
        // Another agent wraps it again, for a sender with a routable address.
        let twice = relay_request6(&wrapped, AGENT6, AGENT6, b"x").unwrap();
        assert_eq!((twice[1], &twice[2..18]), (1, &[0; 16][..]));
        // The server sends the same wrapping back.
        let mut reply = wrapped.clone();
        reply[0] = RELAY_REPLY;
        let (inner, to) = relay_reply6(&reply, b"lan").unwrap();
        assert_eq!((inner, to), (&solicit[..], Recipient6 { address: CLIENT, port: CLIENT6 }));
        assert_eq!(relay_reply6(&reply, b"wan"), Err(RelayError::OtherAgent));
        assert_eq!(relay_reply6(&wrapped, b"lan"), Err(RelayError::WrongDirection));
        let mut far = wrapped;
        far[1] = 8;
        assert_eq!(relay_request6(&far, CLIENT, AGENT6, b"x"), Err(RelayError::TooManyHops));
        assert_eq!(relay_reply6(&reply[..40], b"lan"), Err(RelayError::Truncated));
    }

    proptest! {
        #[test]
        fn any_bytes_are_relayed_or_refused(head in 0u8..14, tail in prop::collection::vec(any::<u8>(), 0..400), cookie: bool) {
            let mut bytes = [&[head][..], &tail].concat();
            if cookie && bytes.len() >= FIXED4 {
                bytes[236..FIXED4].copy_from_slice(&COOKIE);
            }
            if let Ok(relayed) = relay_request4(&bytes, AGENT, b"lan") {
                prop_assert!(relayed.len() >= FIXED4 && relayed.len() <= bytes.len().max(LEAST4) + 10);
            }
            let _ = relay_reply4(&bytes, AGENT);
            if let Ok(wrapped) = relay_request6(&bytes, CLIENT, AGENT6, b"lan") {
                let mut reply = wrapped;
                reply[0] = RELAY_REPLY;
                prop_assert_eq!(relay_reply6(&reply, b"lan").unwrap().0, &bytes[..]);
            }
            let _ = relay_reply6(&bytes, b"lan");
        }
    }
}
