//! Trials of ephemeral state in virtual time. An experiment about it describes a trial in place of a world.
//!
//! Stores, instructions, cleaner, sites and hosts are those of the crate `esp`. Trials in which packets pass several places use whole routers.
//! Arrivals are a model, and in `engine` also the speed of an old processor. adr/0047 lists the real and the modelled parts of each trial.
//!
//! | `kind` | subject | module |
//! |---|---|---|
//! | `store` | packets that create state at a rate, in a store of limited size | `store` |
//! | `engine` | threads of a network processor that overlap memory accesses | `engine` |
//! | `touches` | reads and writes of each instruction | `touches` |
//! | `workers` | computations spread over workers, in any interleaving | `workers` |
//! | `cleaner` | a cleaner among adversarial workers | `cleaner` |
//! | `subcast` | data along the marked branches of a tree of routers | `subcast`, `tree` |
//! | `group` | a group that is counted, over links that lose packets | `group` |
//! | `lifetime` | the exact expiry of an entry | `lifetime` |
//! | `cable` | kernel TCP over a pass-through port, in a laboratory only | `cable` |

mod cable;
mod carried_instruction;
mod cleaner;
mod engine;
mod group;
mod lifetime;
mod packet_executor;
mod store;
mod subcast;
#[cfg(test)]
mod tests;
mod touches;
mod tree;
mod workers;

use crate::Measurements;
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

pub use cable::CablePlan;
pub use carried_instruction::CarriedInstruction;
pub use engine::{CleanerRole as EngineCleans, EnginePlan, TagChoice as EngineTags};
pub use group::{GroupPlan, GroupProtocol, GroupQuery};
pub use lifetime::LifetimePlan;
pub use store::{CleaningMode as StoreWho, StorePlan};
pub use subcast::{SubcastPlan, report_copies as subcast_told, state as subcast_state};
pub use touches::TouchesPlan;
pub use tree::{GROUP, HostLocation, Tree, TreePort, TreeRouter, UP};

/// Measured values by name.
type Values = BTreeMap<String, f64>;

/// A parsed trial.
#[derive(Deserialize, Debug)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum StateTrial {
    /// Packets that create state in a store.
    Store(store::StorePlan),
    /// Threads of a network processor.
    Engine(Box<engine::EnginePlan>),
    /// The lookups of each instruction.
    Touches(touches::TouchesPlan),
    /// Computations spread over workers.
    Workers(workers::WorkersPlan),
    /// A cleaner among adversarial workers.
    Cleaner(cleaner::CleanerPlan),
    /// Data along marked branches.
    Subcast(subcast::SubcastPlan),
    /// A query to a group.
    Group(group::GroupPlan),
    /// The exact expiry of an entry.
    Lifetime(lifetime::LifetimePlan),
    /// TCP over a pass-through port; not in virtual time.
    Cable(cable::CablePlan),
}

impl StateTrial {
    /// Parses the trial that `text`, of `file`, describes.
    ///
    /// # Errors
    ///
    /// The description is invalid; the message names the file.
    pub fn read(text: &str, file: &str) -> Result<StateTrial, String> {
        toml::from_str(text).map_err(|error| format!("{file}: {error}"))
    }
}

/// Runs the trial that `text`, of `file`, describes.
///
/// # Errors
///
/// The description is invalid, or the trial is impossible; the message names the file.
pub fn run(text: &str, file: &str) -> Result<Measurements, String> {
    let values = match StateTrial::read(text, file)? {
        StateTrial::Store(plan) => Ok(store::run(&plan)),
        StateTrial::Engine(plan) => engine::run(&plan),
        StateTrial::Touches(plan) => Ok(touches::run(&plan)),
        StateTrial::Workers(plan) => Ok(workers::run(&plan)),
        StateTrial::Cleaner(plan) => Ok(cleaner::run(&plan)),
        StateTrial::Subcast(plan) => subcast::run(&plan),
        StateTrial::Group(plan) => Ok(group::run(&plan)),
        StateTrial::Lifetime(plan) => Ok(lifetime::run(&plan)),
        StateTrial::Cable(_) => Err("kernels have no virtual time: run it with --real".to_owned()),
    };
    let values = values.map_err(|error| format!("{file}: {error}"))?;
    Ok(Measurements {
        parameters: vec![("trial".to_owned(), text.trim().to_owned())],
        values,
        ..Measurements::default()
    })
}

/// Parses a quantity as configurations write it: `10s`, `100kpps`.
fn quantity<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(deserializer: D) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|error| D::Error::custom(format!("`{text}`: {error}")))
}
