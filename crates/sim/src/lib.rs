//! A deterministic world in which the plane runs in virtual time. A world has routers with their configurations and costs, cards with rings, links,
//! sources and sinks, and checkers that watch every run.
//!
//! [`WorldPlan::parse`] parses a description in TOML. [`run()`] runs it to its end and returns [`Measurements`]: named values, time series, and all inputs.
//! Nothing reads a clock and all random numbers are seeded. So the same world gives the same result, byte for byte. [`real`] runs a world on ports of
//! the machine, with time from its caller.
//!
//! ```
//! let world = sim::WorldPlan::parse(r#"
//! duration = "10ms"
//! [router.r]
//! config = '''
//! version = 1
//! [port.in]
//! device = "sim:in"
//! address = ["192.0.2.1/24"]
//! [port.out]
//! device = "sim:out"
//! address = ["198.51.100.1/24"]
//! [[neighbour]]
//! address = "198.51.100.9"
//! mac = "02:00:00:00:00:09"
//! port = "out"
//! '''
//! [router.r.cost]
//! switch = "1us"
//! input = "1.6us"
//! forwarding = "300ns"
//! output = "1.4us"
//! [[source]]
//! name = "a"
//! card = "in"
//! kind = "constant"
//! rate = "50kpps"
//! destination = "198.51.100.9"
//! [[sink]]
//! name = "s"
//! card = "out"
//! "#, "world.toml").unwrap_or_else(|wrong| panic!("{wrong}"));
//! let measured = sim::run(&world, &mut sim::NoCaptures, &mut |_| {}).unwrap();
//! assert_eq!(measured.get("source.a.received"), Some(500.0));
//! ```

#![forbid(unsafe_code)]

mod card_link;
mod check;
mod cost;
mod describe;
mod digest;
pub mod effort;
pub mod ephemeral;
pub mod experiment;
pub mod filters;
pub mod fluid;
pub mod forwarders;
mod frame;
mod histogram;
mod hosts;
mod inner;
mod net;
mod port;
pub mod quantum;
mod random;
pub mod real;
pub mod reservation_set;
pub mod routes;
mod run;
mod source;
pub mod tcp;

pub use check::{Violation, WorldInvariant};
pub use cost::{CoreTime, CostDistribution, CostModel, PacketCost};
pub use describe::{
    CardPlan, FlowFields, FlowPlan, HostLink, HostsPlan, LinkEnd, RouterPlan, SourcePlan, WorldEvent, WorldPlan,
    catalogue,
};
pub use hosts::{HostNetwork, KernelTcpInfo, NetworkDirection, RealFlow, SchemeReplacement};
pub use inner::{InnerIpv4, InnerPackets};
pub use run::{Measurements, ProgressCallback, RunError, run, run_traced};
pub use source::{CapturedPacket, Captures, NoCaptures, Pattern};
