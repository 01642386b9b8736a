//! From a scheme's declared name and options to the scheme.

use crate::aqm::{Blue, Choke, CoDel, Head, Manage, Pie, Red, Tail, Threshold};
use crate::options::{Options, Unknown, Values};
use crate::single::Single;
use crate::{Priority, Scheme, Wires, fifo};
use alloc::boxed::Box;
use alloc::string::ToString;
use units::declare::Declaration;

/// Every scheme there is.
pub const DECLARATIONS: &[Declaration] = &[
    fifo::DECLARATION,
    Priority::DECLARATION,
    Red::DECLARATION,
    CoDel::DECLARATION,
    Pie::DECLARATION,
    Blue::DECLARATION,
    Choke::DECLARATION,
    Threshold::DECLARATION,
];

/// The scheme called `name`, with `options`.
pub fn build<W: Wires>(name: &str, options: Options<'_>) -> Result<Box<dyn Scheme<W>>, Unknown> {
    fn single<W: Wires, M: Manage + Send + 'static>(node: M) -> Box<dyn Scheme<W>> {
        Box::new(Single::new(node))
    }
    let values = Values(options);
    Ok(match name {
        "fifo" => {
            let tail = fifo::bounds(&values)?;
            if values.choice("drop", fifo::DROPS)? == fifo::Drop::Head {
                single(Head(tail))
            } else {
                single::<W, Tail>(tail)
            }
        }
        "priority" => Box::new(Priority::of(&values)?),
        "red" => single(Red::of(&values)?),
        "codel" => single(CoDel::of(&values)?),
        "pie" => single(Pie::of(&values)?),
        "blue" => single(Blue::of(&values)?),
        "choke" => single(Choke::of(&values)?),
        "threshold" => single(Threshold::of(&values)?),
        other => return Err(Unknown(other.to_string())),
    })
}
