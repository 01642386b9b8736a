//! What a packet takes on the line behind a link: with the headers that are put around it there, no less than the smallest frame,
//! and in whole cells where the line has such (ITU-T I.363.5: 48 bytes of each 53; RFC 2684).

use crate::Bytes;

/// How packets are cut on the line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Cells {
    /// Not at all.
    #[default]
    None,
    /// ATM: as many cells of 53 bytes as it takes, which carry 48 each.
    Atm,
    /// VDSL2: one byte in 65 is not theirs (IEEE 802.3, 61.3.3: 64B/65B).
    Ptm,
}

/// What a packet takes on the line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Framing {
    /// Bytes around each packet.
    pub overhead: u32,
    /// The least that a packet takes, with those.
    pub minimum: u32,
    /// The cells of the line.
    pub cells: Cells,
}

impl Framing {
    /// Bytes that a packet of so many takes.
    #[inline]
    pub fn takes(self, length: u32) -> Bytes {
        let bytes = u64::from((length + self.overhead).max(self.minimum));
        Bytes::new(match self.cells {
            Cells::None => bytes,
            Cells::Atm => bytes.div_ceil(48) * 53,
            Cells::Ptm => bytes + bytes.div_ceil(64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_take_what_the_line_makes_of_them() {
        let atm = Framing { overhead: 8, minimum: 0, cells: Cells::Atm };
        assert_eq!([40, 41, 88, 1500].map(|length| atm.takes(length).get()), [53, 106, 106, 32 * 53]);
        let ptm = Framing { overhead: 0, minimum: 64, cells: Cells::Ptm };
        assert_eq!([1, 64, 65, 1280].map(|length| ptm.takes(length).get()), [65, 65, 67, 1300]);
    }
}
