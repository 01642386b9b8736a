//! A bound of the memory of a link-sharing tree.

use crate::build::build;
use crate::model::Model;
use crate::options::{BuildError, Layer, Values};
use alloc::string::ToString;
use units::Bytes;

/// Bytes of a share: its node, its entries in the order of its parent, its counters, and on the control side its name, settings and circuit. The resident
/// memory of a router grew by 1130 bytes for each of 181,800 shares of subscribers.
const SHARE: usize = 1280;
/// Bytes of a queue of a leaf's scheme, and of its place in the link. With `fq(flows=64){codel}` in 7900 leaves it grew by about 62 bytes for each queue,
/// without the frames of the packets.
const QUEUE: usize = 96;

/// Bytes of a flow of `dfq`: its credit and grants, its bits in the slots of the timers, whose rows are a power of two words long, and its place.
const FLOW: usize = 64 + 2 * 24 + 72;

/// The most memory of a tree with so many shares and leaves, in the scheme `share` or `dfq` of this layer, without packets. A leaf of `share` needs a
/// scheme only while it has packets, and the option `leaves` bounds their number. `dfq` has all its queues from the start.
///
/// # Errors
///
/// A [`BuildError`] if the scheme of the leaves or an option is unknown.
pub fn share_memory(layer: &Layer<'_>, shares: usize, leaves: usize) -> Result<Bytes, BuildError> {
    let Some(inside) = layer.inside.first() else { return Err(BuildError::Unknown(layer.name.to_string())) };
    if let Ok(flows) = Values(layer.options).count("flows") {
        return Ok(Bytes::new((shares * (SHARE + FLOW) + flows as usize * QUEUE) as u64));
    }
    let stage = build::<Model>(inside)?;
    // A queue for a lone packet as well.
    let scheme = core::mem::size_of_val(&*stage) + (stage.queues() as usize + 1) * QUEUE;
    // The default leaf has one too.
    let active = (leaves + 1).min(Values(layer.options).count("leaves")? as usize);
    Ok(Bytes::new((shares * SHARE + active * scheme) as u64))
}
