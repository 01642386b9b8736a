//! Builds a scheme from its declared name and options.

use crate::aqm::{self, Aqm, Head, Manage, managers};
use crate::options::{BuildError, Layer, Values};
use crate::sched::{
    BinKey, BinOrder, BinScheme, DrrOrder, ExactWf2q, GroupedWf2q, LasOrder, PriorityOrder, Weights, WfqOrder,
};
use crate::shape::Shaper;
use crate::sharing::Sharing;
use crate::single::Single;
use crate::stage::Stage;
use crate::tree::{self, Branch, Tree};
use crate::{Scheme, Wires, cake, dfq, fifo, share};
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;
use units::declare::Declaration;
use units::{QueueId, Rate};

macro_rules! declarations {
    ($($node:ident)*) => {
        &[fifo::DECLARATION, $(aqm::$node::DECLARATION),*]
    };
}

/// Every scheme that manages a single queue.
pub const DECLARATIONS: &[Declaration] = managers!(declarations);

/// With more bins than this the grouped form of WF2Q+ is faster.
const FEW: usize = 1024;

/// Builds the scheme of a configuration, without sharing.
///
/// # Errors
///
/// A [`BuildError`] if a name or option is unknown, or the queues are more than [`QueueId::MOST`].
pub fn build<W: Wires + 'static>(layer: &Layer<'_>) -> Result<Box<dyn Scheme<W>>, BuildError> {
    build_for(layer, &mut Sharing::alone())
}

/// Builds the scheme of a configuration for one of several workers.
///
/// # Errors
///
/// Like [`build`].
pub fn build_for<W: Wires + 'static>(
    layer: &Layer<'_>,
    sharing: &mut Sharing,
) -> Result<Box<dyn Scheme<W>>, BuildError> {
    let stage: Box<dyn Scheme<W>> = match (layer.name, &layer.inside[..]) {
        // Only as the whole scheme of a port: its shares belong to the port.
        ("share", [inside]) => share::build(&Values(layer.options), inside, managed_alone)?,
        ("dfq", [manager]) => dfq::build(&Values(layer.options), manager)?,
        _ => managed::<W>(layer, sharing)?,
    };
    // The options bound each order, but branches add up: sixteen with 2^17 queues each exceed the 2^20 of a link.
    if stage.queues() > QueueId::MOST {
        return Err(BuildError::TooManyQueues);
    }
    Ok(stage)
}

/// Builds a scheme for a leaf of a tree of shares.
pub(crate) fn managed_alone<W: Wires + 'static>(layer: &Layer<'_>) -> Result<Box<dyn Stage<W>>, BuildError> {
    managed(layer, &mut Sharing::alone())
}

/// Builds a scheme that may be placed inside another.
fn managed<W: Wires + 'static>(layer: &Layer<'_>, sharing: &mut Sharing) -> Result<Box<dyn Stage<W>>, BuildError> {
    // Only a scheme that manages a single queue has no other inside.
    if layer.inside.is_empty() { single_queue(layer.name, &Values(layer.options)) } else { composed(layer, sharing) }
}

/// Builds a scheme that manages a single queue.
fn single_queue<W: Wires>(name: &str, values: &Values<'_>) -> Result<Box<dyn Stage<W>>, BuildError> {
    fn single<W: Wires, M: Manage + 'static>(node: M) -> Box<dyn Stage<W>> {
        Box::new(Single::new(node))
    }
    macro_rules! named {
        ($($node:ident)*) => {
            match name {
                // Two types behind one name, so that tail drop tests for no head drop on the packet path.
                "fifo" => match values.choice("drop", fifo::DROPS)? {
                    fifo::Drop::Tail => single(fifo::bounds(values)?),
                    fifo::Drop::Head => single(Head(fifo::bounds(values)?)),
                },
                $(name if name == aqm::$node::DECLARATION.name => single(aqm::$node::of(values)?),)*
                other => return Err(BuildError::Unknown(other.to_string())),
            }
        };
    }
    Ok(managers!(named))
}

/// Builds a scheme that orders queues, each managed by `manager`.
fn multi_queue<W: Wires>(
    name: &str,
    options: &Values<'_>,
    manager: &Layer<'_>,
) -> Result<Box<dyn Stage<W>>, BuildError> {
    fn whole<W: Wires, O: BinOrder + 'static>(bins: BinScheme<O>) -> Box<dyn Stage<W>> {
        Box::new(bins)
    }
    // A configuration is checked against the declarations before; other callers may pass any layers.
    if !manager.inside.is_empty() {
        return Err(BuildError::Unknown(manager.name.to_string()));
    }
    let aqm = |queues: u32| Aqm::of(manager.name, &Values(manager.options), queues as usize);
    if name == "priority" {
        // The order is a bitmap of 64 bins. Only the manager bounds the packets of a class: there is no limit on all bins together.
        let levels = options.count("levels")?.min(PriorityOrder::MOST as u32);
        return Ok(whole(BinScheme::new(PriorityOrder::default(), aqm(levels)?, BinKey::Class, levels, u32::MAX)));
    }
    // Checked first, so that an unknown scheme is not reported as one that lacks the option `flows`.
    let flows = match name {
        "fq" | "drr" | "sfq" | "las" | "wfq" | "wf2q" => options.count("flows")?,
        other => return Err(BuildError::Unknown(other.to_string())),
    };
    let (bins, aqm, limit) = (flows as usize, aqm(flows)?, options.count("limit")?);
    let quantum = || options.bytes("quantum").map(|quantum| u32::try_from(quantum.get()).unwrap_or(u32::MAX));
    // Closures, because not every order has these options.
    let by = || options.choice("by", &[BinKey::Flow, BinKey::Class]);
    let weights = || options.value("weights").map(Weights::new);
    Ok(match name {
        "fq" => whole(BinScheme::new(DrrOrder::new(bins, quantum()?, true), aqm, BinKey::Flow, flows, limit)),
        "drr" => whole(
            BinScheme::new(DrrOrder::new(bins, quantum()?, false), aqm, by()?, flows, limit).with_weights(weights()?),
        ),
        // A quantum of zero makes each packet a turn (McKenney, INFOCOM 1990).
        "sfq" => whole(BinScheme::new(DrrOrder::new(bins, 0, false), aqm, BinKey::Flow, flows, limit)),
        "las" => whole(BinScheme::new(LasOrder::new(bins), aqm, BinKey::Flow, flows, limit)),
        "wfq" => whole(BinScheme::new(WfqOrder::new(bins), aqm, by()?, flows, limit).with_weights(weights()?)),
        _ if bins > FEW => {
            whole(BinScheme::new(GroupedWf2q::new(bins), aqm, by()?, flows, limit).with_weights(weights()?))
        }
        _ => whole(BinScheme::new(ExactWf2q::new(bins), aqm, by()?, flows, limit).with_weights(weights()?)),
    })
}

/// Builds a branch of a tree.
fn branch<W: Wires + 'static>(layer: &Layer<'_>, sharing: &mut Sharing) -> Result<Branch<W>, BuildError> {
    let ([inside], "branch") = (&layer.inside[..], layer.name) else {
        return Err(BuildError::Unknown(layer.name.to_string()));
    };
    let (inside, options) = (managed(inside, sharing)?, Values(layer.options));
    let (rate, burst) = (Rate::bits(options.value("ceiling")?), options.bytes("burst")?);
    // `0bit` is no ceiling. The meter is requested only then, at the same place for every worker (see `Sharing::meter`).
    let ceiling = (rate != Rate::ZERO).then(|| sharing.meter(rate, burst));
    let class = u8::try_from(options.count("class")?).unwrap_or(u8::MAX);
    Ok(Branch::new(inside, class, options.count("weight")?, ceiling))
}

/// Builds a scheme with others inside.
fn composed<W: Wires + 'static>(layer: &Layer<'_>, sharing: &mut Sharing) -> Result<Box<dyn Stage<W>>, BuildError> {
    let options = Values(layer.options);
    match (layer.name, &layer.inside[..]) {
        ("shape", [inside]) => Ok(Box::new(Shaper::of(&options, sharing, |sharing| managed(inside, sharing))?)),
        ("tree", [_, ..]) if layer.inside.len() <= tree::MOST => {
            let branches: Result<Vec<Branch<W>>, BuildError> =
                layer.inside.iter().map(|layer| branch(layer, sharing)).collect();
            Ok(Box::new(Tree::new(branches?)))
        }
        ("cake", [manager]) => cake::build(&options, manager, sharing),
        (name, [manager]) => multi_queue(name, &options, manager),
        (name, _) => Err(BuildError::Unknown(name.to_string())),
    }
}
