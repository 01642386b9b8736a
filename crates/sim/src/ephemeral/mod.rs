//! Trials of ephemeral state in virtual time: what an experiment about it describes instead of a world.
//!
//! Stores, instructions, cleaner, stations and hosts are those of the crate `esp`, and whole routers where packets pass several places; what is a model is
//! who comes when, and in `engine` how long a processor of another time takes. adr/0047 says what is real in which.
//!
//! | `kind` | what is tried | of |
//! |---|---|---|
//! | `store` | packets that create state, at a rate, in a store of a size | `store` |
//! | `engine` | threads of a network processor that hide memory behind each other | `engine` |
//! | `touches` | what each instruction reads and writes | `touches` |
//! | `workers` | computations spread over workers, in any interleaving | `workers` |
//! | `cleaner` | a cleaner among workers that mean ill | `cleaner` |
//! | `subcast` | data along the marked branches of a tree of routers | `subcast`, `tree` |
//! | `group` | a group that is counted, over links that lose packets | `group` |
//! | `lifetime` | when exactly something is gone | `lifetime` |
//! | `cable` | the kernel's TCP over a bump in the wire, in a laboratory only | `cable` |

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

/// What is measured, by its name.
type Values = BTreeMap<String, f64>;

/// A trial that has been read.
#[derive(Deserialize, Debug)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Trial {
    /// Packets that create state in a store.
    Store(store::Plan),
    /// Threads of a network processor.
    Engine(Box<engine::Plan>),
    /// What instructions look up.
    Touches(touches::Plan),
    /// Computations spread over workers.
    Workers(workers::Plan),
    /// A cleaner among workers that mean ill.
    Cleaner(cleaner::Plan),
    /// Data along marked branches.
    Subcast(subcast::Plan),
    /// A group that is asked for something.
    Group(group::Plan),
    /// When something is gone.
    Lifetime(lifetime::Plan),
    /// TCP over a bump in the wire; not in virtual time.
    Cable(cable::Plan),
}

impl Trial {
    /// Reads the trial that `text`, of `file`, describes.
    ///
    /// # Errors
    ///
    /// What cannot be understood, with the file.
    pub fn read(text: &str, file: &str) -> Result<Trial, String> {
        toml::from_str(text).map_err(|error| format!("{file}: {error}"))
    }
}

/// Carries out the trial that `text`, of `file`, describes.
///
/// # Errors
///
/// What cannot be understood, with the file, or what a trial cannot be.
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

/// A quantity as configurations write it: `10s`, `100kpps`.
fn quantity<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(deserializer: D) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|error| D::Error::custom(format!("`{text}`: {error}")))
}
