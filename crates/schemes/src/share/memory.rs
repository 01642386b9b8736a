//! A bound of the memory of a link-sharing tree.

use super::leaves::OwnedLayer;
use crate::model::Model;
use crate::options::{BuildError, Layer, Values};
use alloc::string::ToString;
use units::Bytes;

/// Bytes of a share: its node, its entries in the order of its parent, its name and settings on the control side, and its counters.
const SHARE: usize = 1024;
/// Bytes of a queue of a leaf's scheme.
const QUEUE: usize = 64;

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
