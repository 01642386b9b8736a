//! The Internet Indirection Infrastructure (I3; Stoica et al., SIGCOMM 2002): packets go to identifiers, and triggers of end systems say where from there.
//!
//! Routers form a Chord ring (Stoica et al., SIGCOMM 2001). Each has the triggers of its part of the identifiers.
//!
//! | file | contents |
//! |---|---|
//! | `id`, `header` | identifiers, keys of the ring, the header of packets |
//! | `ring` | a router's view of the ring, the next hop |
//! | `node` | a router without tables: the slow path, and the reference of tests |
//! | `tables`, `fast_path` | filters, and the code option: the path of most packets |
//! | `workload` | rings, triggers and traffic for tests and experiments |

mod fast_path;
mod header;
mod id;
mod node;
mod ring;
mod tables;
mod workload;

pub use fast_path::{BOUNDARY, REGISTRATION, STACK, STACK_TARGET};
pub use header::{HOP_LIMIT, I3Error, I3Packet, RingMark, SINGLE_ID_HEADER, fixed_header};
pub use id::{ChordKey, I3Id};
pub use node::{I3Drop, I3Fate, I3Node, I3Target, I3Trigger};
pub use ring::{RingHop, RingNode, RingRange, RingView};
pub use tables::filters;
pub use workload::I3Workload;
