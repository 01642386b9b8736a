//! Packet functions that are not built into this program, as far as the plane knows them: how they are made, and what they report.
//!
//! A guest is one (`extension`), and so is any function of a program with an embedded router that provides it through [`plan::Guests`].

use super::{Context, Function};
use crate::snapshot::PathSpec;
use packet::{DropReason, Packet};
use plan::{Call, GuestCode};
use std::sync::Arc;

/// Makes functions of a kind.
pub trait FunctionMaker: Send + Sync {
    /// Makes one for a call of a path.
    ///
    /// # Errors
    ///
    /// Why it does not start.
    fn make(&self, call: &Call, path: &PathSpec) -> Result<Box<dyn Function>, String>;
}

/// Wraps a maker of functions for a configuration. `digest` identifies it.
pub fn function_code(digest: u64, maker: Arc<dyn FunctionMaker>) -> GuestCode {
    GuestCode { digest, maker: Arc::new(maker) }
}

/// The maker of functions in a configuration's code. `None` if the code is of another kind.
pub(super) fn function_maker(code: &GuestCode) -> Option<&dyn FunctionMaker> {
    code.maker.downcast_ref::<Arc<dyn FunctionMaker>>().map(|maker| &**maker)
}

/// A report of a function to the operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FunctionReport {
    /// It failed and is off until the next configuration.
    Failed {
        /// The function's name.
        function: &'static str,
        /// The failure.
        failure: String,
        /// True if its packets are dropped, false if they bypass it.
        drops: bool,
    },
    /// It logged this line.
    Logged(String),
}

/// Takes the place of the functions of a path that cannot be made again after a failure: drops all packets.
pub(super) struct Refusal;

impl Function for Refusal {
    fn process(&mut self, _: Context<'_>, packets: &mut [Packet]) -> bool {
        packets.iter_mut().for_each(|packet| packet.meta_mut().refused = DropReason::FunctionFailed.index() as u8 + 1);
        packets.is_empty()
    }
}
