//! Guests: queueing schemes that are not part of this program. A guest is compiled to WebAssembly, checked when it is loaded, and runs on a link like
//! a built-in scheme.
//!
//! A guest can also be a packet function of a path, an instruction of ephemeral state, or a code option of slices: see [`GuestFunction`],
//! [`GuestInstruction`] and [`GuestSlice`].
//!
//! A [`GuestProgram`] is the code of a guest, a [`Guest`] a running instance. It reads packet records in a block of its own memory, and writes verdicts
//! and commands there. The host checks them and applies them to the link's queues. So a guest cannot lose, forge or duplicate a packet. A failing
//! guest is replaced by FIFO, and no packet is lost: see [`Guest`].

#![forbid(unsafe_code)]

mod apply;
mod block;
mod description;
mod directory;
mod examine;
mod fallback;
mod function;
mod function_block;
mod function_check;
mod function_imports;
mod function_instance;
mod guest;
mod instance;
mod instruction;
mod instruction_check;
mod module;
mod module_instance;
mod program;
mod random_numbers;
mod runtime;
mod scheme_instance;
mod services;
mod slice_access;
mod slice_block;
mod slice_check;
mod slice_guest;
mod slice_imports;
mod slice_instance;
mod written;

pub use description::{GuestDescription, is_name};
pub use directory::Directory;
pub use examine::{Examination, LAWS, LawVerdict, LawViolation, examine};
pub use function::GuestFunction;
pub use function_check::{FUNCTION_LAWS, FunctionExamination, examine_function};
pub use guest::{FAULTS, Guest};
pub use instruction::{GuestInstruction, InstructionText};
pub use instruction_check::{INSTRUCTION_LAWS, InstructionExamination, examine_instruction};
pub use module::LoadError;
pub use program::GuestProgram;
pub use runtime::Runtime;
pub use slice_check::{SLICE_LAWS, SliceExamination, examine_slice};
pub use slice_guest::GuestSlice;
