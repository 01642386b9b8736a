//! Guests: queueing schemes that are no part of this program. One is compiled to WebAssembly, checked when it is loaded, and runs
//! on a link like a scheme that is built in.
//!
//! Or instructions of ephemeral state: see [`Instruction`].
//!
//! A [`Program`] is a guest's code, a [`Guest`] one of it at work. It sees records of packets in a block of its own memory and
//! answers there with verdicts and commands, which are looked at and carried out on the link's queues: so it can lose, forge or
//! double no packet. What it does wrong costs it its place, and the link nothing: see [`Guest`].

#![forbid(unsafe_code)]

mod block;
mod carry;
mod declared;
mod directory;
mod examine;
mod fallback;
mod guest;
mod instance;
mod instruction;
mod module;
mod program;
mod runtime;
mod tried;

pub use declared::{Declared, is_name};
pub use directory::Directory;
pub use examine::{Case, Examination, LAWS, Verdict, examine};
pub use guest::{FAULTS, Guest};
pub use instruction::{Instruction, InstructionText};
pub use module::LoadError;
pub use program::Program;
pub use runtime::Runtime;
pub use tried::{INSTRUCTION_LAWS, Tried, try_instruction};
