//! Classification: which rule of a table a packet matches, among up to a million rules.
//!
//! A table is a value that never changes. A change makes a new table, which shares all but the changed parts with the old one, and publishes it whole.

#![forbid(unsafe_code)]
