//! The router's interface to the machine: network interfaces, capture files, the clock and sleep.
//!
//! All code that reads time, owns descriptors or calls the kernel is here, so that the plane stays pure. Unsafe code is confined to the modules that
//! map memory or make system calls without a safe wrapper.

pub mod accounts;
pub mod aside;
pub mod bpf;
mod claim;
pub mod clock;
mod closer;
pub mod cores;
pub mod devices;
pub mod ingress;
mod interfaces;
pub mod login;
pub mod memif;
pub mod memory;
pub mod netlink;
pub mod netns;
pub mod offload;
mod outbox;
pub mod packet_ring;
pub mod pcap;
pub mod peer;
pub mod precedence;
pub mod privilege;
pub mod quotes;
pub mod raw;
pub mod recorder;
pub mod remarks;
pub mod revive;
mod sys;
pub mod tap;
pub mod tcp;
pub mod traffic;
mod vnet;
pub mod wait;
pub mod xdp;
