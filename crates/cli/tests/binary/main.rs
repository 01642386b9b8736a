//! The binary as users run it: processes, files, signals, sockets. No privileges, no devices.

mod captures;
mod chained;
mod configurations;
mod confined;
mod explained;
mod failing;
mod guests;
mod hostile;
mod interfaces;
mod laboratory;
mod lifecycle;
mod logins;
mod looking;
mod promised;
mod remote;
mod replayed;
mod rig;
mod routes;
mod schemas;
mod scraped;
mod shown;
mod start;
mod state;
mod translated;
mod trials;
