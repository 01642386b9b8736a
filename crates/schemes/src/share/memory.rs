//! A bound of the memory of a link-sharing tree.

use super::leaves::OwnedLayer;
use crate::model::Model;
use crate::options::{BuildError, Layer, Values};
use alloc::string::ToString;
use units::Bytes;

/// Bytes of a share: its node, its entries in the order of its parent and its counters, about 500; its name, settings and circuit on the control side.
/// A router with 200,000 shares of subscribers used 1130 bytes for each.
const SHARE: usize = 1280;
/// Bytes of a queue of a leaf's scheme, and of its place in the link. A leaf with `fq(flows=64){codel}` used 62 bytes for each of its queues.
const QUEUE: usize = 96;

/// The most memory of a tree with so many shares and leaves, in the scheme `share` of this layer, without packets. A leaf needs a scheme only while it
/// has packets, and the option `leaves` bounds their number.
///
/// # Errors
///
/// A [`BuildError`] if the scheme of the leaves or an option is unknown.
pub fn share_memory(layer: &Layer<'_>, shares: usize, leaves: usize) -> Result<Bytes, BuildError> {
    let Some(inside) = layer.inside.first() else { return Err(BuildError::Unknown(layer.name.to_string())) };
    let stage = OwnedLayer::of(inside).build::<Model>()?;
    let scheme = core::mem::size_of_val(&*stage) + stage.queues() as usize * QUEUE;
    // The default leaf has one too.
    let active = (leaves + 1).min(Values(layer.options).count("leaves")? as usize);
    Ok(Bytes::new((shares * SHARE + active * scheme) as u64))
}
