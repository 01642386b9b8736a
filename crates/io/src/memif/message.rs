//! The messages that set up a shared-memory link: memif version 2.0, 128 bytes each over a Unix socket of type SOCK_SEQPACKET, with descriptors.
//!
//! The client offers memory and rings; the server accepts them or disconnects. Integers are in the machine's byte order.

/// Bytes of every message.
pub const LENGTH: usize = 128;
/// Protocol version 2.0.
pub const VERSION: u16 = 2 << 8;
/// The largest ring, as a power of two.
pub const MOST_LOG2_RING: u8 = 14;

/// A message between the two ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// The last message was accepted.
    Ack,
    /// The first message of the server: its capabilities.
    Hello {
        /// The first and the last supported version.
        versions: (u16, u16),
        /// The maximum index of memory regions, of rings to the client, and of rings to the server.
        last: (u16, u16, u16),
        /// The largest ring, as a power of two.
        log2_ring: u8,
    },
    /// The client's answer: the link that it asks for.
    Init {
        /// The selected version.
        version: u16,
        /// The number of the link on this socket.
        id: u32,
        /// The kind of packets: see [`ETHERNET`].
        mode: u8,
    },
    /// Memory to share; its descriptor is attached to the message.
    AddRegion {
        /// Its index.
        index: u16,
        /// Its length in bytes.
        size: u64,
    },
    /// A ring in shared memory; its event descriptor is attached to the message.
    AddRing {
        /// True for packets from the client to the server.
        to_server: bool,
        /// Its index among the rings of its direction.
        index: u16,
        /// The region it lies in.
        region: u16,
        /// Its offset in the region in bytes.
        offset: u32,
        /// Number of descriptors, as a power of two.
        log2_size: u8,
        /// Bytes of a private header before each packet.
        private_header: u16,
    },
    /// Everything was offered: the client is ready.
    Connect,
    /// The server is ready too.
    Connected,
    /// This end disconnects for this reason.
    Disconnect(String),
}

/// [`Message::Init`]: packets are Ethernet frames.
pub const ETHERNET: u8 = 0;

const KIND: [u16; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

impl Message {
    /// The encoded message. `name` is the sender's.
    pub fn encode(&self, name: &str) -> [u8; LENGTH] {
        let mut words = Writer { bytes: [0; LENGTH], at: 0 };
        match self {
            Message::Ack => words.put(&KIND[0].to_ne_bytes()),
            Message::Hello { versions, last, log2_ring } => {
                words.put(&KIND[1].to_ne_bytes());
                words.name(name, 32);
                for number in [versions.0, versions.1, last.0, last.1, last.2] {
                    words.put(&number.to_ne_bytes());
                }
                words.put(&[*log2_ring]);
            }
            Message::Init { version, id, mode } => {
                words.put(&KIND[2].to_ne_bytes());
                words.put(&version.to_ne_bytes());
                words.put(&id.to_ne_bytes());
                words.put(&[*mode]);
                // No secret: the permissions of the socket protect it.
                words.put(&[0; 24]);
                words.name(name, 32);
            }
            Message::AddRegion { index, size } => {
                words.put(&KIND[3].to_ne_bytes());
                words.put(&index.to_ne_bytes());
                words.put(&size.to_ne_bytes());
            }
            Message::AddRing { to_server, index, region, offset, log2_size, private_header } => {
                words.put(&KIND[4].to_ne_bytes());
                for number in [u16::from(*to_server), *index, *region] {
                    words.put(&number.to_ne_bytes());
                }
                words.put(&offset.to_ne_bytes());
                words.put(&[*log2_size]);
                words.put(&private_header.to_ne_bytes());
            }
            Message::Connect => {
                words.put(&KIND[5].to_ne_bytes());
                words.name(name, 32);
            }
            Message::Connected => {
                words.put(&KIND[6].to_ne_bytes());
                words.name(name, 32);
            }
            Message::Disconnect(reason) => {
                words.put(&KIND[7].to_ne_bytes());
                // No error code: the text is the reason.
                words.put(&0u32.to_ne_bytes());
                words.name(reason, 96);
            }
        }
        words.bytes
    }

    /// The decoded message, `None` if it is not a message of this protocol.
    pub fn decode(bytes: &[u8]) -> Option<Message> {
        let bytes: &[u8; LENGTH] = bytes.try_into().ok()?;
        let mut words = Reader { bytes, at: 0 };
        Some(match words.u16() {
            1 => Message::Ack,
            2 => {
                words.skip(32);
                let versions = (words.u16(), words.u16());
                Message::Hello { versions, last: (words.u16(), words.u16(), words.u16()), log2_ring: words.u8() }
            }
            3 => Message::Init { version: words.u16(), id: words.u32(), mode: words.u8() },
            4 => Message::AddRegion { index: words.u16(), size: words.u64() },
            5 => Message::AddRing {
                // MEMIF_MSG_ADD_RING_FLAG_S2M: from the client ("slave") to the server ("master").
                to_server: words.u16() & 1 != 0,
                index: words.u16(),
                region: words.u16(),
                offset: words.u32(),
                log2_size: words.u8(),
                private_header: words.u16(),
            },
            6 => Message::Connect,
            7 => Message::Connected,
            8 => {
                words.skip(4);
                let text = &bytes[words.at..words.at + 96];
                let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
                // Advisories print the reason: control characters of a peer must not reach the operator's terminal.
                Message::Disconnect(String::from_utf8_lossy(&text[..end]).chars().filter(|c| !c.is_control()).collect())
            }
            _ => return None,
        })
    }
}

struct Writer {
    bytes: [u8; LENGTH],
    at: usize,
}

impl Writer {
    fn put(&mut self, field: &[u8]) {
        self.bytes[self.at..self.at + field.len()].copy_from_slice(field);
        self.at += field.len();
    }

    /// Text in a field of `width` bytes, terminated by zero.
    fn name(&mut self, text: &str, width: usize) {
        let cut = text.floor_char_boundary(width - 1);
        let field = &mut self.bytes[self.at..self.at + width];
        field[..cut].copy_from_slice(&text.as_bytes()[..cut]);
        self.at += width;
    }
}

/// Reads fields in order. A message has at most [`LENGTH`] bytes of them.
struct Reader<'a> {
    bytes: &'a [u8; LENGTH],
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let field = self.bytes[self.at..].first_chunk().expect("the fields of each kind fit");
        self.at += N;
        *field
    }

    fn skip(&mut self, bytes: usize) {
        self.at += bytes;
    }

    fn u8(&mut self) -> u8 {
        self.take::<1>()[0]
    }

    fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_round_trip() {
        let ring = |to_server| Message::AddRing {
            to_server,
            index: 0,
            region: 0,
            offset: 0x1234_5678,
            log2_size: 11,
            private_header: 0,
        };
        for message in [
            Message::Ack,
            Message::Hello { versions: (VERSION, VERSION), last: (0, 1, 2), log2_ring: 14 },
            Message::Init { version: VERSION, id: 7, mode: ETHERNET },
            Message::AddRegion { index: 0, size: 1 << 33 },
            ring(true),
            ring(false),
            Message::Connect,
            Message::Connected,
            Message::Disconnect("no room".into()),
        ] {
            assert_eq!(
                Message::decode(&message.encode("a name that is far longer than its field takes")),
                Some(message)
            );
        }
    }

    #[test]
    fn field_offsets_match_the_protocol() {
        let hello = Message::Hello { versions: (1, 2), last: (3, 4, 5), log2_ring: 6 }.encode("x");
        assert_eq!((hello[0], hello[2], hello[34], hello[36], hello[38]), (2, b'x', 1, 2, 3));
        assert_eq!((hello[40], hello[42], hello[44]), (4, 5, 6));
        let init = Message::Init { version: 0x0200, id: 9, mode: 0 }.encode("y");
        assert_eq!((init[0], init[3], init[4], init[8], init[33]), (3, 2, 9, 0, b'y'));
        let region = Message::AddRegion { index: 1, size: 2 }.encode("");
        assert_eq!((region[0], region[2], region[4]), (4, 1, 2));
        let ring =
            Message::AddRing { to_server: true, index: 2, region: 3, offset: 4, log2_size: 5, private_header: 6 };
        let ring = ring.encode("");
        assert_eq!((ring[0], ring[2], ring[4], ring[6], ring[8], ring[12], ring[13]), (5, 1, 2, 3, 4, 5, 6));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic_the_decoder(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let message = Message::decode(&bytes);
            prop_assert!(message.is_none() || bytes.len() == LENGTH);
        }
    }
}
