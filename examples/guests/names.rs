//! @NAME@: forwards packets by the name of the server that they are for: the server name of TLS (RFC 6066 3), or the host of HTTP/1 (RFC 9112 3.2).
//!
//! The rules are those of the path: `guest_rules = ["*.video.example video", "ads.example drop"]`. A name that begins with `*.` matches all names
//! below the rest of it; the first rule that matches applies. The name is in one packet of a connection. Later packets of the connection follow it by
//! a table, which survives a new build. A name that is split over two segments, or encrypted (ECH, QUIC), is not found.

#![cfg_attr(not(test), no_std)]

use switchpath_guest::{Needs, Options, Packet, PacketFunction, String, Vec, Verdict, count, function, rules};

function! {
    "summary Chooses the path of a connection by its server name (TLS) or host (HTTP).\n\
    counter TLS names\n\
    counter HTTP hosts",
    Names
}

/// The counters.
const TLS: u32 = 0;
const HTTP: u32 = 1;
/// Connections that are remembered, a power of two. A later one replaces an earlier one with the same place.
const FLOWS: usize = 8192;
const TCP: u8 = 6;
const SYN: u8 = 2;

struct Names {
    /// In lower case; those with a star begin with a dot.
    patterns: Vec<String>,
    /// A hash of the rules, to which the numbers in the state belong.
    digest: u32,
}

/// A connection and its rule, counted from 1. Zero: none.
#[derive(Clone, Copy)]
struct Flow {
    hash: u32,
    rule: u16,
}

#[derive(Clone, Copy)]
struct Table {
    digest: u32,
    flows: [Flow; FLOWS],
}

impl PacketFunction for Names {
    // A ClientHello has its name within the first segment, usually within 600 bytes.
    const NEEDS: Needs = Needs { bytes: 1500, packets: 32, flows: true, fields: true, ..Needs::NOTHING };
    type State = Table;
    const INITIAL: Table = Table { digest: 0, flows: [Flow { hash: 0, rule: 0 }; FLOWS] };

    fn start(_: &Options) -> Result<Names, String> {
        let mut patterns = rules();
        for pattern in &mut patterns {
            pattern.make_ascii_lowercase();
            if pattern.starts_with("*.") {
                pattern.remove(0);
            }
        }
        if patterns.is_empty() {
            return Err("write rules: guest_rules = [\"*.video.example video\"]".into());
        }
        // FNV-1a.
        let bytes = patterns.iter().flat_map(|pattern| pattern.bytes().chain([0]));
        let digest = bytes.fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        Ok(Names { patterns, digest })
    }

    fn process(&mut self, table: &mut Table, packet: &mut Packet<'_>) -> Verdict {
        if table.digest != self.digest {
            *table = Names::INITIAL;
            table.digest = self.digest;
        }
        let Some(transport) = packet.transport().filter(|_| packet.protocol() == TCP) else { return Verdict::Pass };
        let flags = packet.bytes().get(transport + 13).copied().unwrap_or(0);
        let flow = &mut table.flows[packet.flow() as usize % FLOWS];
        let is_known = flow.rule > 0 && flow.hash == packet.flow();
        if flags & SYN != 0 {
            // A new connection, whose rule is not known yet.
            if is_known {
                flow.rule = 0;
            }
            return Verdict::Pass;
        }
        if !is_known {
            let Some(payload) = packet.payload().filter(|payload| !payload.is_empty()) else { return Verdict::Pass };
            let Some(rule) = self.rule_of(payload) else { return Verdict::Pass };
            *flow = Flow { hash: packet.flow(), rule: rule as u16 + 1 };
        }
        Verdict::Rule(flow.rule - 1)
    }
}

impl Names {
    /// The rule that matches the name in a payload.
    fn rule_of(&self, payload: &[u8]) -> Option<usize> {
        let (name, counter) = match server_name(payload) {
            Some(name) => (name, TLS),
            None => (host(payload)?, HTTP),
        };
        count(counter, 1);
        self.patterns.iter().position(|pattern| matches(pattern.as_bytes(), name))
    }
}

/// True if a name matches a pattern, regardless of case and of a dot at its end.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let name = name.strip_suffix(b".").unwrap_or(name);
    let Some(rest) = name.len().checked_sub(pattern.len()) else { return false };
    let whole = !pattern.starts_with(b".");
    (if whole { rest == 0 } else { rest > 0 }) && name[rest..].eq_ignore_ascii_case(pattern)
}

/// Removes the first `count` bytes and returns them.
fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (first, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(first)
}

/// Removes a part whose length is in its first `width` bytes.
fn counted<'a>(bytes: &mut &'a [u8], width: usize) -> Option<&'a [u8]> {
    let length = take(bytes, width)?.iter().fold(0, |length, &byte| length << 8 | usize::from(byte));
    take(bytes, length)
}

/// The server name of a TLS ClientHello (RFC 8446 4.1.2).
fn server_name(mut record: &[u8]) -> Option<&[u8]> {
    let [22, 3, _, _, _] = *take(&mut record, 5)? else { return None };
    if take(&mut record, 4)?[0] != 1 {
        return None;
    }
    // The version and the random number, the session, the cipher suites, the compression methods, the length of the extensions.
    take(&mut record, 34)?;
    counted(&mut record, 1)?;
    counted(&mut record, 2)?;
    counted(&mut record, 1)?;
    take(&mut record, 2)?;
    // Each extension takes at least four bytes, so the loop ends with the packet.
    loop {
        let is_name = take(&mut record, 2)? == [0, 0];
        let mut extension = counted(&mut record, 2)?;
        if is_name {
            let mut list = counted(&mut extension, 2)?;
            return if take(&mut list, 1)? == [0] { counted(&mut list, 2) } else { None };
        }
    }
}

/// The host of an HTTP/1 request, without its port.
fn host(payload: &[u8]) -> Option<&[u8]> {
    let mut lines = payload.split(|&byte| byte == b'\n');
    let request = lines.next()?.trim_ascii_end();
    if !request.windows(8).next_back()?.starts_with(b"HTTP/1.") {
        return None;
    }
    for line in lines.take(64) {
        let Some((field, value)) = line.split_at_checked(5) else { continue };
        if field.eq_ignore_ascii_case(b"host:") {
            return value.trim_ascii().split(|&byte| byte == b':').next();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_matches_itself_and_with_a_star_all_names_below() {
        assert!(matches(b"a.example", b"A.Example.") && matches(b".example", b"a.example"));
        assert!(
            !matches(b".example", b"example") && !matches(b"a.example", b"ba.example") && !matches(b".example", b"")
        );
    }

    #[test]
    fn truncated_names_are_not_found() {
        let request = b"GET / HTTP/1.1\r\nHost: www.example:80\r\n\r\n";
        assert_eq!(host(request), Some(&b"www.example"[..]));
        (0..15).for_each(|end| assert_eq!(host(&request[..end]), None, "{end}"));
        (0..9).for_each(|end| assert_eq!(server_name(&[22, 3, 1, 0, 9, 1, 0, 0, 5][..end]), None, "{end}"));
    }
}
