//! From a scheme's declared name and options to the scheme.

use crate::aqm::{Blue, Choke, CoDel, Head, Manage, Pie, Red, Threshold};
use crate::options::{Options, Unknown, Values};
use crate::single::Single;
use crate::{Scheme, Wires, fifo, orders};
use alloc::boxed::Box;
use alloc::string::{String, ToString};
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

/// A scheme by its name with its options; of two, the first orders queues that the second manages.
pub fn build<W: Wires>(layers: &[(&str, Options<'_>)]) -> Result<Box<dyn Scheme<W>>, Unknown> {
    match *layers {
        [] => Err(Unknown(String::new())),
        [(name, options)] => alone(name, &Values(options)),
        [(name, options), (inner, of_inner)] => orders::build(name, &Values(options), (inner, &Values(of_inner))),
        [.., (name, _)] => Err(Unknown(name.to_string())),
    }
}

/// A scheme that manages a queue by itself.
fn alone<W: Wires>(name: &str, values: &Values<'_>) -> Result<Box<dyn Scheme<W>>, Unknown> {
    fn single<W: Wires, M: Manage + 'static>(node: M) -> Box<dyn Scheme<W>> {
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
        other => return Err(Unknown(other.to_string())),
    })
}
