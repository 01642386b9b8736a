//! A running router, in this process and without privileges: threads, API, captures.

mod answering;
mod applying;
mod capturing;
mod clients;
mod confirmation;
mod explaining;
mod flows;
mod guests;
mod panics;
mod policies;
mod replaying;
mod rig;
mod rules;
mod shares;
mod slices;
mod tracing;
mod workers;
