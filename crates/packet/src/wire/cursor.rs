//! Writing to a buffer that may be too small.

/// A write position in a buffer. Every write reports if it fitted.
pub(super) struct Cursor<'a> {
    buffer: &'a mut [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Starts at `at`. If that is beyond the buffer, nothing fits.
    pub(super) fn new(buffer: &'a mut [u8], at: usize) -> Self {
        Self { buffer, at }
    }

    /// Appends `bytes`. Returns `None` and writes nothing if they do not fit.
    pub(super) fn put(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.at.checked_add(bytes.len())?;
        self.buffer.get_mut(self.at..end)?.copy_from_slice(bytes);
        self.at = end;
        Some(())
    }

    /// The write position, from the start of the buffer.
    pub(super) fn position(&self) -> usize {
        self.at
    }
}
