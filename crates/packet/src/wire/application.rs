//! Names in the first bytes of a connection: the server name of a TLS client, the host of an HTTP request, the question of a DNS message. Each
//! function reads the payload of one segment or datagram. It returns nothing if it does not understand the payload, or if the name continues in the
//! next segment.

use super::transport;

/// The longest domain name as text, in bytes (RFC 1035 2.3.4).
pub const MOST_NAME: usize = 253;
/// The maximum number of HTTP headers that are read.
const MOST_HEADERS: usize = 64;
/// The maximum number of extensions of a TLS ClientHello that are read.
const MOST_EXTENSIONS: usize = 64;

/// The payload of a whole TCP or UDP packet, given from its upper layer to its end. `None` if the header is incomplete.
pub fn payload(protocol: u8, upper: &[u8]) -> Option<&[u8]> {
    match protocol {
        super::protocol::TCP => {
            let words = usize::from(*upper.get(12)? >> 4);
            upper.get(Some(4 * words).filter(|&length| length >= transport::TCP_HEADER)?..)
        }
        super::protocol::UDP => upper.get(transport::UDP_HEADER..),
        _ => None,
    }
}

/// Removes the first `count` bytes and returns them.
fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (first, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(first)
}

/// Reads a length field of `width` bytes and returns the bytes that it counts.
fn counted<'a>(bytes: &mut &'a [u8], width: usize) -> Option<&'a [u8]> {
    let length = take(bytes, width)?.iter().fold(0, |length, &byte| length << 8 | usize::from(byte));
    take(bytes, length)
}

/// The server name in a TLS ClientHello (RFC 8446 4.1.2; RFC 6066 3).
pub fn tls_server_name(payload: &[u8]) -> Option<&[u8]> {
    let mut record = payload;
    let &[kind, major, ..] = take(&mut record, 3)? else { return None };
    let length = take(&mut record, 2)?;
    // A handshake record of version 3.x. It may continue in the next segment: the name may be in this part.
    if (kind, major) != (22, 3) {
        return None;
    }
    let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
    let mut hello = &record[..record.len().min(length)];
    // A ClientHello: its length, version and random number.
    if take(&mut hello, 4)?[0] != 1 {
        return None;
    }
    take(&mut hello, 2 + 32)?;
    // Session, cipher suites and compression methods.
    counted(&mut hello, 1)?;
    counted(&mut hello, 2)?;
    counted(&mut hello, 1)?;
    take(&mut hello, 2)?;
    for _ in 0..MOST_EXTENSIONS {
        let name = take(&mut hello, 2)? == [0, 0];
        let mut extension = counted(&mut hello, 2)?;
        if name {
            let mut list = counted(&mut extension, 2)?;
            // The only defined type: a host name.
            return if take(&mut list, 1)? == [0] { counted(&mut list, 2).filter(|name| is_name(name)) } else { None };
        }
    }
    None
}

/// The host of an HTTP/1 request, without its port (RFC 9112 3.2).
pub fn http_host(payload: &[u8]) -> Option<&[u8]> {
    let mut lines = payload.split(|&byte| byte == b'\n');
    let request = lines.next()?.trim_ascii_end();
    if !request.first()?.is_ascii_uppercase() || !request.windows(8).next_back()?.starts_with(b"HTTP/1.") {
        return None;
    }
    for line in lines.take(MOST_HEADERS) {
        let (field, value) = line.split_at_checked(5)?;
        if field.eq_ignore_ascii_case(b"host:") {
            // A line cut off by the end of the segment may continue in the next.
            let whole = value.last() == Some(&b'\r');
            let value = value.trim_ascii();
            let end = if value.starts_with(b"[") { None } else { value.iter().position(|&byte| byte == b':') };
            return Some(&value[..end.unwrap_or(value.len())]).filter(|name| whole && is_name(name));
        }
    }
    None
}

/// The name in the first question of a DNS message, as text in `name` (RFC 1035 4.1). `payload` does not include the length prefix of DNS over TCP.
pub fn dns_question<'n>(payload: &[u8], name: &'n mut [u8; MOST_NAME]) -> Option<&'n [u8]> {
    let mut rest = payload;
    let header = take(&mut rest, 12)?;
    if header[4..6] == [0, 0] {
        return None;
    }
    let mut length = 0;
    loop {
        let label = counted(&mut rest, 1)?;
        if label.is_empty() {
            return Some(&name[..length]).filter(|name| is_name(name));
        }
        // At most 63 bytes: the first name of a message cannot contain a pointer.
        if label.len() > 63 {
            return None;
        }
        if length > 0 {
            *name.get_mut(length)? = b'.';
            length += 1;
        }
        name.get_mut(length..length + label.len())?.copy_from_slice(label);
        length += label.len();
    }
}

/// True if these can be the bytes of a name: valid length, and only characters that a name may have.
fn is_name(name: &[u8]) -> bool {
    let may_be = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'[' | b']' | b':');
    (1..=MOST_NAME).contains(&name.len()) && name.iter().all(may_be)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ClientHello with extensions of these types and contents.
    fn hello(extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let list: Vec<u8> = extensions
            .iter()
            .flat_map(|(kind, content)| {
                let length = content.len() as u16;
                [&kind.to_be_bytes()[..], &length.to_be_bytes(), content].concat()
            })
            .collect();
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend([2, 1, 1]);
        body.extend([0, 2, 0x13, 1]);
        body.extend([1, 0]);
        body.extend((list.len() as u16).to_be_bytes());
        body.extend(&list);
        let mut hello = vec![22, 3, 1];
        hello.extend((body.len() as u16 + 4).to_be_bytes());
        hello.push(1);
        hello.extend(&(body.len() as u32).to_be_bytes()[1..]);
        hello.extend(&body);
        hello
    }

    fn server(name: &str) -> (u16, Vec<u8>) {
        let name = [&[0][..], &(name.len() as u16).to_be_bytes(), name.as_bytes()].concat();
        (0, [&(name.len() as u16).to_be_bytes()[..], &name].concat())
    }

    #[test]
    fn tls_server_name_is_read_from_client_hello() {
        let whole = hello(&[(0x0a0a, vec![]), (43, vec![2, 3, 4]), server("www.example.org"), (51, vec![0; 900])]);
        assert_eq!(tls_server_name(&whole), Some(&b"www.example.org"[..]));
        // The bytes after the name may arrive in the next segment; the name may not.
        let cut = whole.len() - 800;
        assert_eq!(tls_server_name(&whole[..cut]), Some(&b"www.example.org"[..]));
        assert_eq!(tls_server_name(&whole[..60]), None);
        assert_eq!(tls_server_name(&hello(&[(43, vec![2, 3, 4])])), None);
        assert_eq!(tls_server_name(&hello(&[server("")])), None);
        assert_eq!(tls_server_name(&hello(&[server("a\0b")])), None);
        assert_eq!(tls_server_name(b"GET / HTTP/1.1\r\n"), None);
    }

    #[test]
    fn http_host_is_read_from_request() {
        for (request, host) in [
            ("GET / HTTP/1.1\r\nAccept: */*\r\nHost: example.org\r\n\r\n", Some("example.org")),
            ("POST /a HTTP/1.0\r\nhost:  example.org:8080 \r\n\r\nhost: no\r\n", Some("example.org")),
            ("GET / HTTP/1.1\r\nHost: [2001:db8::1]\r\n\r\n", Some("[2001:db8::1]")),
            ("GET / HTTP/1.1\r\n\r\nHost: example.org\r\n", None),
            ("GET / HTTP/1.1\r\nHost: example.o", None),
            ("GET / HTTP/2\r\nHost: example.org\r\n\r\n", None),
            ("\u{16}\u{3}\u{1}", None),
            ("", None),
        ] {
            assert_eq!(http_host(request.as_bytes()), host.map(str::as_bytes), "{request}");
        }
    }

    #[test]
    fn dns_question_is_read_from_message() {
        let ask = |questions: u8, labels: &[u8]| {
            let mut name = [0; MOST_NAME];
            let message = [&[0, 1, 1, 0, 0, questions, 0, 0, 0, 0, 0, 0][..], labels, &[0, 1, 0, 1]].concat();
            dns_question(&message, &mut name).map(<[u8]>::to_vec)
        };
        assert_eq!(ask(1, b"\x03www\x07example\x03org\0"), Some(b"www.example.org".to_vec()));
        assert_eq!(ask(0, b"\x03www\0"), None);
        assert_eq!(ask(1, b"\x03ww"), None);
        assert_eq!(ask(1, b"\xc0\x0c"), None, "a pointer");
        assert_eq!(ask(1, b"\0"), None, "the root");
        let long = [&b"\x3f"[..], &[b'a'; 63]].concat().repeat(4);
        assert_eq!(ask(1, &[&long[..], b"\0"].concat()), None, "longer than a name may be");
    }

    #[test]
    fn payload_begins_after_transport_options() {
        let mut tcp = [0; 40];
        for (words, length) in [(4, None), (5, Some(20)), (10, Some(0)), (15, None)] {
            tcp[12] = words << 4;
            assert_eq!(payload(super::super::protocol::TCP, &tcp).map(<[u8]>::len), length, "{words} words");
        }
        assert_eq!(payload(super::super::protocol::UDP, &tcp).map(<[u8]>::len), Some(32));
        assert_eq!((payload(super::super::protocol::UDP, &tcp[..7]), payload(1, &tcp)), (None, None));
    }
}
