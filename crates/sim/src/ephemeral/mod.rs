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
mod carries;
mod cleaner;
mod engine;
mod group;
mod lifetime;
mod spot;
mod store;
mod subcast;
#[cfg(test)]
mod tests;
mod touches;
mod tree;
mod workers;

use crate::Measured;
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

pub use cable::Plan as CablePlan;
pub use carries::Carries;
pub use engine::{Cleans as EngineCleans, Plan as EnginePlan, Which as EngineTags};
pub use group::{Asked, By, Plan as GroupPlan};
pub use lifetime::Plan as LifetimePlan;
pub use store::{Plan as StorePlan, Who as StoreWho};
pub use subcast::{Plan as SubcastPlan, state as subcast_state, told as subcast_told};
pub use touches::Plan as TouchesPlan;
pub use tree::{GROUP, Seat, Tree, TreePort, TreeRouter, UP};

/// Measured values by name.
type Values = BTreeMap<String, f64>;

/// A parsed trial.
#[derive(Deserialize, Debug)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Trial {
    /// Packets that create state in a store.
    Store(store::Plan),
    /// Threads of a network processor.
    Engine(Box<engine::Plan>),
    /// The lookups of each instruction.
    Touches(touches::Plan),
    /// Computations spread over workers.
    Workers(workers::Plan),
    /// A cleaner among adversarial workers.
    Cleaner(cleaner::Plan),
    /// Data along marked branches.
    Subcast(subcast::Plan),
    /// A query to a group.
    Group(group::Plan),
    /// The exact expiry of an entry.
    Lifetime(lifetime::Plan),
    /// TCP over a pass-through port; not in virtual time.
    Cable(cable::Plan),
}

impl Trial {
    /// Parses the trial that `text`, of `file`, describes.
    ///
    /// # Errors
    ///
    /// The description is invalid; the message names the file.
    pub fn read(text: &str, file: &str) -> Result<Trial, String> {
        toml::from_str(text).map_err(|error| format!("{file}: {error}"))
    }
}

/// Runs the trial that `text`, of `file`, describes.
///
/// # Errors
///
/// The description is invalid, or the trial is impossible; the message names the file.
pub fn run(text: &str, file: &str) -> Result<Measured, String> {
    let values = match Trial::read(text, file)? {
        Trial::Store(plan) => Ok(store::run(&plan)),
        Trial::Engine(plan) => engine::run(&plan),
        Trial::Touches(plan) => Ok(touches::run(&plan)),
        Trial::Workers(plan) => Ok(workers::run(&plan)),
        Trial::Cleaner(plan) => Ok(cleaner::run(&plan)),
        Trial::Subcast(plan) => subcast::run(&plan),
        Trial::Group(plan) => Ok(group::run(&plan)),
        Trial::Lifetime(plan) => Ok(lifetime::run(&plan)),
        Trial::Cable(_) => Err("kernels have no virtual time: it is for a laboratory, with --real".to_owned()),
    };
    let values = values.map_err(|error| format!("{file}: {error}"))?;
    Ok(Measured { parameters: vec![("trial".to_owned(), text.trim().to_owned())], values, ..Measured::default() })
}

/// Parses a quantity as configurations write it: `10s`, `100kpps`.
fn quantity<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(deserializer: D) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|error| D::Error::custom(format!("`{text}`: {error}")))
}
