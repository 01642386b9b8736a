//! Unmodified programs of the machine on the router's links, with real neighbours: routing daemons, DHCP and DNS.

#![allow(clippy::print_stdout)]

#[path = "../binary/rig.rs"]
#[expect(dead_code, reason = "these tests need a part of it")]
mod rig;

mod daemons;
mod groups;
mod home;
mod lan;
mod network;
mod overlay;
mod protocols;
mod routing;
mod servers;
mod service;
mod virtual_router;
