//! Seeded randomness: that of links is that of everything else in a world.

pub(crate) use link::Chance;
