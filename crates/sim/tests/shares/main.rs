//! Shares of a link under TCP that behaves like Linux, in virtual time: every rate is exact, and no host can stall.

mod accuracy;
mod network;
mod safety;
