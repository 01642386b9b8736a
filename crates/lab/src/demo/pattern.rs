//! What the hosts send: bytes that depend on where in which flow they stand, so that whatever is lost, repeated, moved or
//! changed on the way is noticed by who receives it.

/// The period of the bytes: a prime, so that no number of whole segments is a period too.
const PERIOD: usize = 4099;
/// The most bytes that can be had at once.
pub const MOST: usize = 64 << 10;

/// The bytes of one flow.
pub struct Pattern {
    /// The period, repeated.
    bytes: Vec<u8>,
}

impl Pattern {
    /// The bytes of the flow of that number.
    pub fn new(flow: usize) -> Pattern {
        // xorshift64 (Marsaglia 2003), with a state that is never zero.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ (flow as u64 + 1);
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        let period: Vec<u8> = (0..PERIOD).map(|_| next()).collect();
        Pattern { bytes: period.iter().copied().cycle().take(MOST + PERIOD).collect() }
    }

    /// The `length` bytes (at most [`MOST`]) from `offset` of the flow on.
    pub fn at(&self, offset: u64, length: usize) -> &[u8] {
        let start = (offset % PERIOD as u64) as usize;
        &self.bytes[start..start + length]
    }

    /// How many of `bytes` are those from `offset` of the flow on, up to the first that is not.
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
    fn a_byte_that_is_changed_or_missing_is_noticed() {
        let pattern = Pattern::new(3);
        let mut bytes = [pattern.at(1000, MOST), pattern.at(1000 + MOST as u64, 5000)].concat();
        assert_eq!(pattern.agree(1000, &bytes), MOST + 5000);
        bytes[70_000] ^= 1;
        assert_eq!(pattern.agree(1000, &bytes), 70_000);
        bytes[70_000] ^= 1;
        bytes.drain(300..300 + 1448);
        assert!((300..310).contains(&pattern.agree(1000, &bytes)));
        assert!(Pattern::new(4).agree(1000, &bytes) < 10);
    }
}
