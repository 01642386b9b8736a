//! A slice as its owner's programs use it: changes, statistics, memory, and the packets of its slow path.
//!
//! This program drops each packet that the filters send to the slow path as `local`, and returns the others by queue 2:
//!
//! ```
//! use control::{Client, ClientError, SliceClient};
//! use slice::code::ExceptionCode;
//!
//! fn slow_path(router: &std::path::Path) -> Result<(), ClientError> {
//!     let slice = SliceClient::new(Client::new(router), "overlay");
//!     for received in slice.exceptions()? {
//!         let exception = received?;
//!         if exception.code != ExceptionCode::Local {
//!             let packet = exception.packet.clone();
//!             slice.reinject(&[slice::Reinjection { queue: Some(2), ..exception.answer(packet) }])?;
//!         }
//!     }
//!     Ok(())
//! }
//! ```

use super::{Body, Client, ClientError, broken};
use crate::api;
use slice::code::{ExceptionCode, LookupKey};
use slice::{FilterSpec, Reinjection, SliceCommand};
use std::io::{BufRead, BufReader};

/// Filters that are read at once.
const FILTERS_AT_ONCE: usize = 10_000;

/// A client of one slice.
#[derive(Clone, Debug)]
pub struct SliceClient {
    client: Client,
    name: String,
}

/// A packet for the slow path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlowPathPacket {
    /// Why it left the fast path.
    pub code: ExceptionCode,
    /// The meta-interface by which it arrived.
    pub interface: u16,
    /// Its key; zero if the code option made none.
    pub key: LookupKey,
    /// The MTU of its next hop, if it exceeds that.
    pub mtu: Option<u16>,
    /// How often the slow path has returned it before.
    pub rounds: u8,
    /// The packet without outer headers.
    pub packet: Vec<u8>,
}

impl SlowPathPacket {
    /// A packet that returns to the fast path because of this one: itself, or an answer to its sender. It counts as received by the same meta-interface.
    pub fn answer(&self, packet: Vec<u8>) -> Reinjection {
        Reinjection { interface: self.interface, key: None, queue: None, rounds: self.rounds, packet }
    }
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    hex.as_bytes().chunks(2).map(pair).collect()
}

impl TryFrom<api::SliceExceptionReply> for SlowPathPacket {
    type Error = ClientError;

    fn try_from(reply: api::SliceExceptionReply) -> Result<SlowPathPacket, ClientError> {
        let unreadable = || broken("a packet for the slow path is unreadable");
        Ok(SlowPathPacket {
            code: ExceptionCode::from_name(&reply.code).ok_or_else(unreadable)?,
            interface: reply.interface,
            key: LookupKey::new(&bytes(&reply.key).ok_or_else(unreadable)?),
            mtu: reply.mtu,
            rounds: reply.rounds,
            packet: bytes(&reply.packet).ok_or_else(unreadable)?,
        })
    }
}

impl SliceClient {
    /// A client of the slice with this name.
    pub fn new(client: Client, name: impl Into<String>) -> SliceClient {
        SliceClient { client, name: name.into() }
    }

    fn parameters(&self, more: &[(&'static str, String)]) -> Vec<(&'static str, String)> {
        let mut parameters = vec![("slice", self.name.clone())];
        parameters.extend_from_slice(more);
        parameters
    }

    /// The name of the slice.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The state of the slice: quotas, counters, meta-interfaces, queues.
    pub fn state(&self) -> Result<api::SliceReply, ClientError> {
        let reply: api::SlicesReply = self.client.get_with("/v1/slices", &[("only", self.name.clone())])?;
        reply.slices.into_iter().next().ok_or_else(|| broken("the answer has no slice"))
    }

    /// All filters from a position on, in ascending order.
    pub fn filters(&self, from: u32) -> Result<Vec<(u32, FilterSpec)>, ClientError> {
        let (mut filters, mut next) = (Vec::new(), Some(from));
        while let Some(from) = next {
            let parameters = self.parameters(&[("from", from.to_string()), ("limit", FILTERS_AT_ONCE.to_string())]);
            let reply: api::SliceFiltersReply = self.client.get_with("/v1/slices/filters", &parameters)?;
            next = (reply.filters.len() == FILTERS_AT_ONCE)
                .then(|| reply.filters.last()?.position.checked_add(1))
                .flatten();
            for filter in reply.filters {
                filters.push((filter.position, filter.text.parse().map_err(broken)?));
            }
        }
        Ok(filters)
    }

    /// Makes changes in their order. Neighbouring changes of filters are one change: a packet sees the filters before or after all of them.
    pub fn change(&self, changes: &[SliceCommand]) -> Result<api::SlicesEdited, ClientError> {
        let lines: String = changes.iter().map(|change| format!("{change}\n")).collect();
        self.client.post("/v1/slices/batch", &self.name, &lines)
    }

    /// The statistics indices that have counted packets.
    pub fn stats(&self) -> Result<Vec<api::SliceIndexReply>, ClientError> {
        let reply: api::SliceStatsReply = self.client.get_with("/v1/slices/stats", &self.parameters(&[]))?;
        Ok(reply.indices)
    }

    /// A part of the memory of the code option.
    pub fn memory(&self, offset: usize, length: usize) -> Result<Vec<u8>, ClientError> {
        let parameters = self.parameters(&[("offset", offset.to_string()), ("length", length.to_string())]);
        let reply: api::SliceMemoryReply = self.client.get_with("/v1/slices/memory", &parameters)?;
        bytes(&reply.bytes).ok_or_else(|| broken("the memory is unreadable"))
    }

    /// Opens the packets of the slow path. They arrive as long as the stream is open; only one stream of a slice can be open.
    pub fn exceptions(&self) -> Result<ExceptionStream, ClientError> {
        let body = self.client.open_stream("/v1/slices/slow-path", &self.parameters(&[]))?;
        Ok(ExceptionStream { lines: BufReader::new(body), line: Vec::new() })
    }

    /// Returns packets to the fast path, at most 256.
    pub fn reinject(&self, packets: &[Reinjection]) -> Result<api::SliceReinjected, ClientError> {
        let lines: String = packets.iter().map(|packet| format!("{packet}\n")).collect();
        self.client.post_with("/v1/slices/reinject", &self.parameters(&[("name", self.name.clone())]), &lines)
    }
}

/// The packets of a slow path as they arrive. It ends with the slice, or with the router.
#[derive(Debug)]
pub struct ExceptionStream {
    lines: BufReader<Body>,
    line: Vec<u8>,
}

impl ExceptionStream {
    /// A function that ends the stream from any thread.
    pub fn stopper(&self) -> impl Fn() + Send + Sync + 'static {
        self.lines.get_ref().stopper()
    }

    /// True if the next packet has arrived already.
    pub fn has_next(&self) -> bool {
        self.lines.buffer().contains(&b'\n')
    }
}

impl Iterator for ExceptionStream {
    type Item = Result<SlowPathPacket, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.line.clear();
        match self.lines.read_until(b'\n', &mut self.line) {
            Ok(0) => None,
            Ok(_) => {
                let reply: Result<api::SliceExceptionReply, _> = serde_json::from_slice(&self.line).map_err(broken);
                Some(reply.and_then(SlowPathPacket::try_from))
            }
            Err(error) => Some(Err(broken(error))),
        }
    }
}
