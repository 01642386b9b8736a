//! Scans the head of a request as its bytes arrive: whether any have arrived, and whether the head gives a single length.
//!
//! The HTTP parser accepts a head with two lengths and uses one of them (RFC 9112 6.3 allows that with care). A proxy before the router may use the
//! other one, and then the two disagree about the end of the request. So the router refuses such a head: with more than one `Content-Length`, or with
//! one beside `Transfer-Encoding`.

use parking_lot::Mutex;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The bytes kept of a line, more than the length of the field names.
const NAME: usize = 20;

/// The scan of the head of a request.
#[derive(Clone, Default, Debug)]
pub(super) struct Head(Arc<Mutex<Scan>>);

#[derive(Default, Debug)]
struct Scan {
    /// The beginning of the current line, in lower case.
    line: Vec<u8>,
    /// True if the line contains more than a carriage return.
    has_text: bool,
    /// True if a line with text has ended.
    begun: bool,
    over: bool,
    lengths: u32,
    encoded: bool,
}

impl Scan {
    fn read(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if self.over {
                return;
            }
            match byte {
                b'\n' => {
                    self.lengths += u32::from(self.line.starts_with(b"content-length:"));
                    self.encoded |= self.line.starts_with(b"transfer-encoding:");
                    // An empty line ends the head, but only after the request line.
                    self.over = self.begun && !self.has_text;
                    self.begun |= self.has_text;
                    self.line.clear();
                    self.has_text = false;
                }
                _ => {
                    self.has_text |= byte != b'\r';
                    if self.line.len() < NAME {
                        self.line.push(byte.to_ascii_lowercase());
                    }
                }
            }
        }
    }
}

impl Head {
    /// Returns whether the head gives more than one length.
    pub fn is_ambiguous(&self) -> bool {
        let scan = self.0.lock();
        scan.lengths + u32::from(scan.encoded) > 1
    }
}

/// A connection whose head is scanned as it arrives.
pub(super) struct ScannedStream<S, F> {
    stream: S,
    /// None for an encrypted connection.
    head: Option<Head>,
    /// Called when the first bytes arrive, and when the first are sent.
    first: F,
    received: bool,
    sent: bool,
}

/// The direction of the first bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FirstBytes {
    /// From the client.
    Received,
    /// To the client.
    Sent,
}

impl<S, F: Fn(FirstBytes)> ScannedStream<S, F> {
    pub fn new(stream: S, head: Option<Head>, first: F) -> ScannedStream<S, F> {
        ScannedStream { stream, head, first, received: false, sent: false }
    }
}

impl<S: AsyncRead + Unpin, F: Fn(FirstBytes) + Unpin> AsyncRead for ScannedStream<S, F> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        let new = &buffer.filled()[before..];
        if !new.is_empty() {
            if let Some(head) = &self.head {
                head.0.lock().read(new);
            }
            if !self.received {
                self.received = true;
                (self.first)(FirstBytes::Received);
            }
        }
        polled
    }
}

impl<S, F: Fn(FirstBytes)> ScannedStream<S, F> {
    fn note_sent(&mut self) {
        if !self.sent {
            self.sent = true;
            (self.first)(FirstBytes::Sent);
        }
    }
}

impl<S: AsyncWrite + Unpin, F: Fn(FirstBytes) + Unpin> AsyncWrite for ScannedStream<S, F> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.note_sent();
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.note_sent();
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_ambiguous(pieces: &[&[u8]]) -> bool {
        let head = Head::default();
        pieces.iter().for_each(|piece| head.0.lock().read(piece));
        head.is_ambiguous()
    }

    #[test]
    fn a_head_with_two_lengths_is_ambiguous() {
        for (head, expected) in [
            ("GET / HTTP/1.1\r\nhost: x\r\n\r\n", false),
            ("POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc", false),
            ("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", false),
            ("POST / HTTP/1.1\r\ncontent-length: 3\r\nContent-Length: 3\r\n\r\nabc", true),
            ("POST / HTTP/1.1\r\ncontent-length: 3\r\nCONTENT-LENGTH: 4\r\n\r\nabc", true),
            ("POST / HTTP/1.1\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n", true),
            ("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n", true),
            ("POST / HTTP/1.1\ntransfer-encoding: chunked\ncontent-length: 3\n\n", true),
            // Empty lines before the request line do not end its head (RFC 9112 2.2).
            ("\r\n\r\nPOST / HTTP/1.1\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n", true),
            // Lines of a body do not count.
            ("POST / HTTP/1.1\r\ncontent-length: 60\r\n\r\ncontent-length: 3\r\ncontent-length: 4\r\n", false),
            ("GET / HTTP/1.1\r\nx-content-length: 3\r\nx: content-length:\r\ncontent-length: 0\r\n\r\n", false),
        ] {
            assert_eq!(is_ambiguous(&[head.as_bytes()]), expected, "{head:?}");
            let single: Vec<&[u8]> = head.as_bytes().chunks(1).collect();
            assert_eq!(is_ambiguous(&single), expected, "{head:?} byte by byte");
        }
    }

    proptest! {
        #[test]
        fn head_scan_is_independent_of_fragmentation(text in "(content-length: 3|transfer-encoding: x|a|\r|\n|\r\n){0,12}", at: usize) {
            let (left, right) = text.as_bytes().split_at(at % (text.len() + 1));
            prop_assert_eq!(is_ambiguous(&[text.as_bytes()]), is_ambiguous(&[left, right]));
        }
    }
}
