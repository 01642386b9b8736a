//! Every built-in scheme in one guest. The first option is the number of the scheme: queue managements first, then orders. The
//! second is the number of the inner scheme, with its defaults. The others are the scheme's options. With the number 99 the other
//! options contain the text of any scheme, byte by byte.

#![no_std]

extern crate alloc;

mod described;

use alloc::format;
use alloc::vec::Vec;
use switchpath_guest::schemes::{DECLARATIONS, Layer, ORDERS, build};
use switchpath_guest::units::declare::{Declaration, Inside};
use switchpath_guest::{Box, Link, Options, Scheme, String, guest};

guest! {
    "summary A scheme that is built in.\n\
    option which count 0 0 99 Its number.\n\
    option inside count 0 0 99 The number of what it has inside.\n\
    option a count 0 0 - A value.\noption b count 0 0 - A value.\noption c count 0 0 - A value.\n\
    option d count 0 0 - A value.\noption e count 0 0 - A value.\noption f count 0 0 - A value.\n\
    option g count 0 0 - A value.\noption h count 0 0 - A value.\noption i count 0 0 - A value.\n\
    option j count 0 0 - A value.\noption k count 0 0 - A value.\noption l count 0 0 - A value.\n\
    option m count 0 0 - A value.\noption n count 0 0 - A value.",
    scheme
}

/// In place of a scheme number: the options contain a text.
const TEXT: u64 = 99;

fn scheme(options: &Options) -> Result<Box<dyn Scheme<Link>>, String> {
    if options.value(0) == TEXT {
        let bytes: Vec<u8> = (1..16).flat_map(|place| options.value(place).to_le_bytes()).collect();
        let text = core::str::from_utf8(&bytes).map_err(|_| "its text is not UTF-8")?;
        let described = described::Described::read(text.trim_end_matches('\0'))?;
        return build(&described.layer()).map_err(|error| format!("{error}"));
    }
    let (which, inside) = (options.value(0) as usize, options.value(1) as usize);
    let given = |declaration: &Declaration| -> Vec<(&'static str, u64)> {
        declaration.options.iter().enumerate().map(|(place, o)| (o.name, options.value(place + 2))).collect()
    };
    let usual = |declaration: &Declaration| -> Vec<(&'static str, u64)> {
        declaration.options.iter().map(|o| (o.name, o.unit.read(o.default).unwrap_or(o.least))).collect()
    };
    let manager = DECLARATIONS.get(inside).ok_or("there is no such scheme to have inside")?;
    let managed = usual(manager);
    let alone = Layer { name: manager.name, options: &managed, inside: Vec::new() };
    let built = if let Some(declaration) = DECLARATIONS.get(which) {
        build(&Layer { name: declaration.name, options: &given(declaration), inside: Vec::new() })
    } else {
        let order = ORDERS.get(which - DECLARATIONS.len()).ok_or("there is no such scheme")?;
        let values = given(&order.declaration);
        let branch;
        let inside = match order.inner {
            Inside::Manager | Inside::Any | Inside::Leaves | Inside::Flows => alone,
            Inside::Branches(of, _) => {
                branch = usual(&of.declaration);
                Layer { name: of.declaration.name, options: &branch, inside: Vec::from([alone]) }
            }
        };
        build(&Layer { name: order.declaration.name, options: &values, inside: Vec::from([inside]) })
    };
    built.map_err(|error| format!("{error}"))
}
