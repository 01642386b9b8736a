//! The quantum-multiplexed wire between two Switchpaths (Pradhan and Chiueh 2002, section 4; spec P-36 to P-39).
//!
//! A [`DfqWire`] is a port around another port. If the other end of the cable has one too, packets to it leave in batches: an Ethernet frame has
//! quanta of several flows, each a piece of the flow's stream of packets. Otherwise, and until both ends agree, all frames leave plain.
//!
//! | file | contents |
//! |---|---|
//! | `header.rs` | the header of all messages |
//! | `message.rs` | the messages: hello, flow map, batch |
//! | `batch.rs` | a batch of quanta: its bytes |
//! | `session.rs` | the agreement of both ends, keep-alive and fallback |
//! | `flow_map.rs` | the flow numbers of shares |
//! | `sender.rs` | cuts packets into quanta |
//! | `receiver.rs` | puts packets together, resynchronises after a loss |
//! | `port.rs` | the port |
//!
//! The reasons are in [adr/0073](../../../../adr/0073-dfq-wire.md).

mod batch;
mod flow_map;
mod header;
mod message;
mod port;
mod receiver;
mod sender;
mod session;
#[cfg(test)]
mod tests;

pub use port::{DfqWire, DfqWireOptions};

use message::{Message, parse};
use receiver::WireReceiver;
use units::Instant;

/// Feeds bytes to the parsers and the receiver of the wire, for the fuzz target and the corpus: frames behind their Ethernet headers, each with its
/// length in two octets before it.
///
/// # Panics
///
/// If a packet is delivered that the frames cannot have.
#[doc(hidden)]
pub fn exercise(mut frames: &[u8]) {
    let mut receiver = WireReceiver::new(64);
    receiver.restart(64, &mut |_| ());
    let (whole, mut delivered) = (frames.len(), 0);
    let mut now = Instant::START;
    while let Some((length, rest)) = frames.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length)).min(rest.len());
        let (frame, rest) = rest.split_at(length);
        frames = rest;
        now += units::Nanos::millis(50);
        let mut deliver = |delivery: receiver::Delivery<'_>| {
            let (receiver::Delivery::Packet(bytes) | receiver::Delivery::Incomplete(bytes)) = delivery;
            delivered += bytes.len();
        };
        match parse(frame, &|flow| receiver.quantum(flow)) {
            Ok((_, Message::Batch(batch))) => {
                receiver.receive(now, &batch, &mut deliver);
            }
            Ok((_, Message::Map(entries))) => {
                entries.iter().for_each(|entry| {
                    receiver.map(&entry, &mut deliver);
                });
            }
            Ok((_, Message::Hello(hello))) => receiver.restart(hello.terms.quantum, &mut deliver),
            Ok((_, Message::MapAnswer(_))) | Err(_) => {}
        }
        receiver.expire(now, &mut deliver);
    }
    assert!(delivered <= whole, "{delivered} bytes of {whole}");
}
