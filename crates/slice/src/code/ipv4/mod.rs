//! An IPv4 router as a slice: routes are filters in the order of their prefix lengths, and other filters decide before them.

mod fast_path;
mod key;
mod node;
mod route;
mod slow_path;

pub use fast_path::REGISTRATION;
pub use key::lookup_key;
pub use node::{Ipv4Hop, Ipv4Node};
pub use route::route4;
pub use slow_path::{Ipv4SlowPath, KeyedPacket};
