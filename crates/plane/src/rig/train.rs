//! Several frames in one byte string: for fuzz targets that need more than one frame.

/// The frames of `bytes`. Before each frame are two bytes with its length and one with the time before its arrival, in tenths of a second. Stops
/// at the end of the bytes.
pub fn frames(bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (&[high, low, tenths], behind) = rest.split_first_chunk()?;
        let length = usize::from(u16::from_be_bytes([high, low]));
        let (frame, behind) = behind.split_at_checked(length)?;
        rest = behind;
        Some((tenths, frame))
    })
}

/// The byte string from which [`frames`] reads these frames.
///
/// # Panics
/// If a frame is longer than 65535 bytes.
pub fn bytes<'a>(frames: impl IntoIterator<Item = (u8, &'a [u8])>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (tenths, frame) in frames {
        let [high, low] = u16::try_from(frame.len()).expect("a frame is shorter").to_be_bytes();
        bytes.extend([high, low, tenths]);
        bytes.extend_from_slice(frame);
    }
    bytes
}
