//! Queues from one thread to another, with one producer and one consumer each (spec P-60). If several threads meet, each pair has a queue, and the
//! thread at the common end serves them in turns.
//!
//! Two queues share one interface, [`Producer`] and [`Consumer`]:
//!
//! | queue | bound | memory | use it where |
//! |---|---|---|---|
//! | [`ring()`] | its slots | all slots from the start | the capacity of the queue is its meaning: packets, which must be dropped when a worker falls behind |
//! | [`void_list()`] | a number of items | the longest backlog so far | something else bounds the items, and the bound is rarely reached: requests, replies |
//!
//! Neither takes a lock, and neither allocates once it has held its longest backlog. `make loom` checks both in every interleaving that the memory
//! model allows. adr/0072 has the reasons.

mod ends;
mod list;
mod ring;
mod sync;

pub use ends::{Consumer, Producer};
pub use list::{ListConsumer, ListProducer, void_list};
pub use ring::{RingConsumer, RingProducer, ring};

#[cfg(test)]
mod tests;
