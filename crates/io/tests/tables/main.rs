//! The kernel's tables in memory, compared with the kernel: routes, next-hop objects, addresses, neighbours, rules and links of a namespace, changed by
//! ip(8) and by our own requests.

mod objects;
mod random;
mod requests;
mod rig;
mod routes;
mod scale;
