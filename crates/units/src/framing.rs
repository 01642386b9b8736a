//! The size of a packet on the line behind a link. It includes the headers added there, is at least the minimum frame size, and is rounded up to
//! whole cells on cell-based lines (ITU-T I.363.5: 48 bytes of each 53; RFC 2684).

use crate::Bytes;

/// How the line divides packets into cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Cells {
    /// No cells.
    #[default]
    None,
    /// ATM: whole cells of 53 bytes, each with 48 bytes of payload.
    Atm,
    /// VDSL2: one byte in 65 is overhead (IEEE 802.3, 61.3.3: 64B/65B).
    Ptm,
}

/// The framing of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Framing {
    /// Bytes of headers around each packet.
    pub overhead: u32,
    /// The smallest size of a packet on the line, including the overhead.
    pub minimum: u32,
    /// The cell format of the line.
    pub cells: Cells,
}

impl Framing {
    /// The bytes on the line for a packet of `length` bytes.
    #[inline]
    pub fn line_bytes(self, length: u32) -> Bytes {
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
    fn packet_size_includes_cells_and_minimum() {
        let atm = Framing { overhead: 8, minimum: 0, cells: Cells::Atm };
        assert_eq!([40, 41, 88, 1500].map(|length| atm.line_bytes(length).get()), [53, 106, 106, 32 * 53]);
        let ptm = Framing { overhead: 0, minimum: 64, cells: Cells::Ptm };
        assert_eq!([1, 64, 65, 1280].map(|length| ptm.line_bytes(length).get()), [65, 65, 67, 1300]);
    }
}
