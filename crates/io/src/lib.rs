//! The router's interface to the machine: network interfaces, capture files, the clock and sleep.
//!
//! All code that reads time, owns descriptors or calls the kernel is here, so that the plane stays pure. Unsafe code is confined to the modules that
//! map memory or make system calls without a safe wrapper.

pub mod accounts;
pub mod advisories;
pub mod bpf;
pub mod clock;
mod closer;
pub mod cores;
pub mod devices;
pub mod hotplug;
pub mod icmp_errors;
pub mod ingress;
mod interface_lock;
mod interfaces;
pub mod kernel_interface;
pub mod login;
pub mod memif;
pub mod memory;
pub mod netlink;
pub mod netns;
pub mod offload;
pub mod packet_ring;
pub mod pcap;
pub mod peer;
pub mod preempt;
pub mod privilege;
pub mod raw;
pub mod recorder;
mod sendmmsg;
pub mod service_manager;
mod sys;
pub mod tap;
pub mod tcp;
pub mod thread_priority;
pub mod traffic;
pub mod udp;
mod vnet;
pub mod wait;
pub mod xdp;
