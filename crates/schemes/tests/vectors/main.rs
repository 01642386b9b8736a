//! The texts of RFC 8289 and RFC 8290, worked out by hand for arrivals that make each rule visible from outside.

#[path = "../described/mod.rs"]
mod described;

mod codel;
mod fq;
