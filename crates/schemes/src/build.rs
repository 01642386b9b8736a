//! From a scheme's declared name and options to the scheme.

use crate::aqm::{Blue, Choke, CoDel, Head, Manage, Pie, Red, Threshold};
use crate::options::{BuildError, Options, Values};
use crate::sharing::Sharing;
use crate::single::Single;
use crate::stage::Stage;
use crate::{Scheme, Wires, fifo, orders};
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;
use units::QueueId;
use units::declare::Declaration;

/// Every scheme that manages a queue.
pub const DECLARATIONS: &[Declaration] = &[
    fifo::DECLARATION,
    Red::DECLARATION,
    CoDel::DECLARATION,
    Pie::DECLARATION,
    Blue::DECLARATION,
    Choke::DECLARATION,
    Threshold::DECLARATION,
];

/// A scheme by its name with its options, and what is inside of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Layer<'a> {
    /// As declared.
    pub name: &'a str,
    /// All of them.
    pub options: Options<'a>,
    /// What it orders; nothing for one that manages a queue by itself.
    pub inside: Vec<Layer<'a>>,
}

/// The scheme that a configuration describes, which shares with nobody.
pub fn build<W: Wires + 'static>(layer: &Layer<'_>) -> Result<Box<dyn Scheme<W>>, BuildError> {
    build_for(layer, &mut Sharing::alone())
}

/// The scheme that a configuration describes, for a worker of several.
pub fn build_for<W: Wires + 'static>(
    layer: &Layer<'_>,
    sharing: &mut Sharing,
) -> Result<Box<dyn Scheme<W>>, BuildError> {
    let stage = managed::<W>(layer, sharing)?;
    if stage.queues() > QueueId::MOST {
        return Err(BuildError::TooManyQueues);
    }
    Ok(stage)
}

/// The same, to be put inside of another.
pub(crate) fn managed<W: Wires + 'static>(
    layer: &Layer<'_>,
    sharing: &mut Sharing,
) -> Result<Box<dyn Stage<W>>, BuildError> {
    if layer.inside.is_empty() { alone(layer.name, &Values(layer.options)) } else { orders::build(layer, sharing) }
}

/// A scheme that manages a queue by itself.
fn alone<W: Wires>(name: &str, values: &Values<'_>) -> Result<Box<dyn Stage<W>>, BuildError> {
    fn single<W: Wires, M: Manage + 'static>(node: M) -> Box<dyn Stage<W>> {
        Box::new(Single::new(node))
    }
    Ok(match name {
        "fifo" => match values.choice("drop", fifo::DROPS)? {
            fifo::Drop::Tail => single(fifo::bounds(values)?),
            fifo::Drop::Head => single(Head(fifo::bounds(values)?)),
        },
        "red" => single(Red::of(values)?),
        "codel" => single(CoDel::of(values)?),
        "pie" => single(Pie::of(values)?),
        "blue" => single(Blue::of(values)?),
        "choke" => single(Choke::of(values)?),
        "threshold" => single(Threshold::of(values)?),
        other => return Err(BuildError::Unknown(other.to_string())),
    })
}
