//! The running router and its interfaces: the daemon that drives the plane, its HTTP API on a Unix socket, the client of that API, metrics, and live
//! captures.
//!
//! Remote access uses TLS ([`remote`]).
//!
//! [`Daemon`] owns the plane's `Router` and a thread for each worker. [`Server`] answers requests about it, which are
//! parsed by the pure [`request::parse`] and answered in the types of [`api`]; [`Client`] asks them.

#![forbid(unsafe_code)]

pub mod access;
mod advisories;
pub mod api;
mod arrivals;
pub mod capture;
mod client;
mod cpu_trace;
mod daemon;
mod events;
pub mod explain;
pub mod history;
pub mod memory;
mod metrics;
mod names;
mod observer;
pub mod remote;
pub mod replay;
pub mod request;
mod respond;
mod server;
pub mod socket;
mod stream;
mod subscriptions;
pub mod trace;

pub use client::{
    Answer, Body, Client, ClientError, ExceptionStream, RemoteRouter, SliceClient, SlowPathPacket, Target,
};
pub use daemon::{
    ApplyFailure, ApplyRequest, Daemon, DaemonOptions, FinalReport, InterfaceGuard, Notice, RollbackTarget, StartError,
};
pub use events::EventLog;
pub use server::{Listeners, Server};
