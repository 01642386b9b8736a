//! Tests of `wire` against etherparse, naive recomputation, real captures, and mutated bytes.

mod captures;
mod corpus;
mod fields;
mod frames;
mod icmp;
mod icmp_errors;
mod ipv4;
mod ipv4_options;
mod ipv6;
mod ipv6_extensions;
mod mld;
mod mutation;
mod ndp;
mod offload;
mod summary;
mod transport;
