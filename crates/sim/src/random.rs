//! Seeded random numbers: the same generator for links and for the rest of a world.

pub(crate) use link::RandomStream;
