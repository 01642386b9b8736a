//! The payload of the flows: bytes that depend on the flow and the offset, so that the receiver detects lost, repeated, reordered and changed bytes.

/// The period of the bytes: a prime, so that it is not a multiple of any segment size.
const PERIOD: usize = 4099;
/// The most bytes returned by one call.
pub const MOST: usize = 64 << 10;

/// The bytes of one flow.
pub struct PayloadPattern {
    /// The period, repeated.
    bytes: Vec<u8>,
}

impl PayloadPattern {
    /// The bytes of flow number `flow`.
    pub fn new(flow: usize) -> PayloadPattern {
        // xorshift64 (Marsaglia 2003), with a state that is never zero.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ (flow as u64 + 1);
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        let period: Vec<u8> = (0..PERIOD).map(|_| next()).collect();
        PayloadPattern { bytes: period.iter().copied().cycle().take(MOST + PERIOD).collect() }
    }

    /// The `length` bytes (at most [`MOST`]) of the flow from `offset`.
    pub fn at(&self, offset: u64, length: usize) -> &[u8] {
        let start = (offset % PERIOD as u64) as usize;
        &self.bytes[start..start + length]
    }

    /// How many of `bytes` equal the flow's bytes from `offset`, up to the first difference.
    pub fn agree(&self, offset: u64, bytes: &[u8]) -> usize {
        let mut right = 0;
        for part in bytes.chunks(MOST) {
            let wanted = self.at(offset + right as u64, part.len());
            if part != wanted {
                return right + part.iter().zip(wanted).take_while(|(a, b)| a == b).count();
            }
            right += part.len();
        }
        right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_or_missing_byte_is_detected() {
        let pattern = PayloadPattern::new(3);
        let mut bytes = [pattern.at(1000, MOST), pattern.at(1000 + MOST as u64, 5000)].concat();
        assert_eq!(pattern.agree(1000, &bytes), MOST + 5000);
        bytes[70_000] ^= 1;
        assert_eq!(pattern.agree(1000, &bytes), 70_000);
        bytes[70_000] ^= 1;
        bytes.drain(300..300 + 1448);
        assert!((300..310).contains(&pattern.agree(1000, &bytes)));
        assert!(PayloadPattern::new(4).agree(1000, &bytes) < 10);
    }
}
