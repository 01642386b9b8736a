//! @NAME@: forwards packets by labels, in the format of MPLS (RFC 3032).
//!
//! The key is the number of the meta-interface in byte 0, and the label in the first 20 bits behind it. The first byte of a filter's data is 0 for a new
//! label, which the next 20 bits have, and 1 to remove the label. The first word of the slice's memory counts packets that are sent.
//!
//! ```sh
//! switchpath guest build          # builds @NAME@.wasm and checks it
//! cargo test                      # tests it natively
//! ```

#![cfg_attr(not(test), no_std)]

use switchpath_guest::{
    Diversion, ExceptionCode, Formatted, InnerPacket, KEY_BYTES, Options, SliceCode, SliceNeeds, String, slice,
};

slice! {
    "summary Forwards packets by labels.\n\
    memory 8\n\
    option ttl count 2 2 255 The smallest time to live of a packet that is forwarded.",
    Labels
}

/// The options, in the order of the description.
const TTL: usize = 0;
/// The bytes of a label, with its time to live.
const LABEL: usize = 4;
/// The words of the slice's memory.
const SENT: u32 = 0;

struct Labels {
    ttl: u8,
}

impl SliceCode for Labels {
    const NEEDS: SliceNeeds = SliceNeeds { bytes: LABEL, edits: true, ..SliceNeeds::NOTHING };

    fn start(options: &Options) -> Result<Labels, String> {
        Ok(Labels { ttl: options.value(TTL) as u8 })
    }

    fn parse(&mut self, packet: &InnerPacket<'_>) -> Result<[u8; KEY_BYTES], Diversion> {
        let &[first, second, third, ttl] = packet.bytes() else { return Err(Diversion::Malformed) };
        if ttl < self.ttl {
            return Err(Diversion::Exception(ExceptionCode::Ttl));
        }
        let mut key = [0; KEY_BYTES];
        key[..LABEL].copy_from_slice(&[packet.interface() as u8, first, second, third & 0xf0]);
        Ok(key)
    }

    fn format(&mut self, packet: &mut InnerPacket<'_>) -> Result<Formatted, Diversion> {
        let [action, first, second, third, ..] = *packet.data();
        packet.add(SENT, 1);
        if action == 1 {
            packet.remove_front(LABEL);
        } else if let Some(label) = packet.bytes_mut().first_chunk_mut::<LABEL>() {
            // The traffic class and the mark of the last label stay.
            *label = [first, second, third & 0xf0 | label[2] & 0x0f, label[3] - 1];
        }
        Ok(Formatted::Send)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchpath_guest::TestInnerPacket;

    fn formatted(bytes: &[u8], data: &[u8]) -> Vec<u8> {
        let mut test = TestInnerPacket::new(bytes, data, Labels::NEEDS);
        let mut packet = test.packet();
        assert_eq!(Labels { ttl: 2 }.format(&mut packet), Ok(Formatted::Send));
        packet.bytes().to_vec()
    }

    #[test]
    fn the_label_is_the_key() {
        let key = |bytes: &[u8]| Labels { ttl: 2 }.parse(&TestInnerPacket::new(bytes, &[], Labels::NEEDS).packet());
        let expected = [0, 1, 2, 0x30, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(key(&[1, 2, 0x31, 64, 9, 9]), Ok(expected));
        assert_eq!(key(&[1, 2, 0x31, 1]), Err(Diversion::Exception(ExceptionCode::Ttl)));
        assert_eq!(key(&[1, 2, 0x31]), Err(Diversion::Malformed));
    }

    #[test]
    fn a_filter_swaps_or_removes_the_label() {
        assert_eq!(formatted(&[1, 2, 0x31, 64], &[0, 7, 8, 0x90]), [7, 8, 0x91, 63]);
        assert!(formatted(&[1, 2, 0x31, 64], &[1]).is_empty());
    }
}
