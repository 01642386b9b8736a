//! Several frames in one run of bytes: what fuzzers make of the things that take more than one.

/// The frames of `bytes`: each has two bytes of its length before it and one that says how many tenths of a second pass
/// before it comes. Stops where there is no more.
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

/// The bytes that [`frames`] reads these from.
///
/// # Panics
/// Where a frame is longer than 65535 bytes.
pub fn bytes<'a>(frames: impl IntoIterator<Item = (u8, &'a [u8])>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (tenths, frame) in frames {
        let [high, low] = u16::try_from(frame.len()).expect("a frame is shorter").to_be_bytes();
        bytes.extend([high, low, tenths]);
        bytes.extend_from_slice(frame);
    }
    bytes
}
