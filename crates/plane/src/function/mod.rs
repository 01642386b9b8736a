//! Packet functions: what a path does to its packets between classification and the link.
//!
//! A function works on packets in place and ends none itself: it sets `Meta::refused` (a drop reason plus one) or
//! `Meta::exception` (a code of [`crate::classify::Exception`]), and the forwarding task sees to the rest.

mod ip;
mod spin;

pub use ip::Ip;
pub use spin::Spin;

use crate::classify::Tables;
use crate::snapshot::Snapshot;
use packet::Packet;
use plan::Call;
use std::cell::Cell;
use units::declare::Declaration;
use units::{Instant, Nanos};

/// What a function may look at.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The time of this step.
    pub now: Instant,
    /// The configuration that runs.
    pub snapshot: &'a Snapshot,
    /// Routes and adjacencies.
    pub tables: &'a Tables,
    /// How long a packet may take before it is dropped; none: as long as it takes.
    pub limit: Option<Nanos>,
    /// Time a function wants spent besides what it does: whoever meters the worker sees to it, by the clock or by adding it.
    pub asked: &'a Cell<Nanos>,
}

/// A packet function of one path on one worker.
pub trait Function: Send {
    /// Does its work on each packet that is neither refused nor an exception yet. Answers whether every packet goes on:
    /// false where one is refused or an exception now.
    fn process(&mut self, context: Context<'_>, packets: &mut [Packet]) -> bool;
}

/// Every function there is.
pub const DECLARATIONS: &[Declaration] = &[Ip::DECLARATION, Spin::DECLARATION];

/// The functions of a path, in order.
pub fn build(calls: &[Call]) -> Result<Vec<Box<dyn Function>>, UnknownFunction> {
    calls
        .iter()
        .map(|call| -> Result<Box<dyn Function>, UnknownFunction> {
            match call.name {
                "ip" => Ok(Box::new(Ip)),
                "spin" => Ok(Box::new(Spin::of(call))),
                other => Err(UnknownFunction(other.to_string())),
            }
        })
        .collect()
}

/// A name no function has: the configuration was not checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownFunction(String);

impl std::fmt::Display for UnknownFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "there is no packet function '{}'", self.0)
    }
}

impl std::error::Error for UnknownFunction {}
