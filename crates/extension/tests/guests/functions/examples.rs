//! The shipped guests on packets with real bytes.
