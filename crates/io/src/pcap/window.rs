//! A bounded window on a byte stream: request the next `n` bytes, then move past them.

use super::{Fault, MAX_BLOCK, ReadError};
use std::io::{ErrorKind, Read};

/// Bytes of one read; several records of usual traffic.
const CHUNK: usize = 64 << 10;

/// See the module.
pub(super) struct Window<R> {
    source: R,
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset in the stream of `bytes[start]`.
    offset: u64,
    ended: bool,
}

impl<R: Read> Window<R> {
    pub(super) fn new(source: R) -> Self {
        Window { source, bytes: vec![0; CHUNK], start: 0, end: 0, offset: 0, ended: false }
    }

    /// The stream offset of the next byte.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn fail<T>(&self, fault: Fault) -> Result<T, ReadError> {
        Err(ReadError { offset: self.offset, fault })
    }

    /// The next `n` bytes, or fewer at the end of the stream. `n` is at most [`MAX_BLOCK`].
    pub(super) fn peek(&mut self, n: usize) -> Result<&[u8], ReadError> {
        assert!(n <= MAX_BLOCK, "the caller checks lengths against the limit");
        while self.end - self.start < n && !self.ended {
            self.fill(n)?;
        }
        Ok(&self.bytes[self.start..self.end.min(self.start + n)])
    }

    /// Exactly the next `n` bytes; [`Fault::Truncated`] if the stream ends earlier.
    pub(super) fn need(&mut self, n: usize) -> Result<&[u8], ReadError> {
        if self.peek(n)?.len() < n {
            return self.fail(Fault::Truncated);
        }
        Ok(&self.bytes[self.start..self.start + n])
    }

    /// Bytes already requested with [`Window::need`], counted from the next byte of the stream.
    pub(super) fn held(&self, range: std::ops::Range<usize>) -> &[u8] {
        &self.bytes[self.start..self.end][range]
    }

    /// Moves past `n` bytes, which need not have been requested; [`Fault::Truncated`] if the stream ends earlier.
    pub(super) fn skip(&mut self, n: u64) -> Result<(), ReadError> {
        let mut left = n;
        let begin = self.offset;
        loop {
            let step = (left.min((self.end - self.start) as u64)) as usize;
            self.start += step;
            self.offset += step as u64;
            left -= step as u64;
            if left == 0 {
                return Ok(());
            }
            if self.ended {
                // The error names the start of the truncated block, not the end of the file.
                return Err(ReadError { offset: begin, fault: Fault::Truncated });
            }
            // Skipped bytes are read in chunks, because a pipe cannot seek.
            self.fill(1)?;
        }
    }

    fn fill(&mut self, n: usize) -> Result<(), ReadError> {
        // The rest moves to the front only if `n` bytes do not fit after `start`. A move before each read would copy the same bytes often.
        if self.bytes.len() - self.start < n || self.start == self.end {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.bytes.len() < n {
            // At most MAX_BLOCK, the limit of `peek`: no file makes it grow further.
            self.bytes.resize(n.next_multiple_of(CHUNK), 0);
        }
        match self.source.read(&mut self.bytes[self.end..]) {
            Ok(0) => self.ended = true,
            Ok(got) => self.end += got,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return self.fail(Fault::Io(error)),
        }
        Ok(())
    }
}
