//! What the texts of RFC 8289 and RFC 8290 say, worked out by hand for arrivals that make it visible from outside.

#[path = "../described/mod.rs"]
mod described;

mod codel;
mod fq;
