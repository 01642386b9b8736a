//! The binary as users run it: processes, files, signals, sockets. No privileges, no devices.

mod captures;
mod chain;
mod configurations;
mod confinement;
mod confirm;
mod explain;
mod guests;
mod hostile;
mod interfaces;
mod json_errors;
mod laboratory;
mod lifecycle;
mod logins;
mod metrics;
mod nat;
mod remote;
mod replay;
mod reservations;
mod rig;
mod routes;
mod schemas;
mod sets;
mod show;
mod start;
mod state;
mod trace_and_top;
