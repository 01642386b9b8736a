//! An IPv6 router as a slice.

mod fast_path;
mod key;
mod route;

pub use fast_path::REGISTRATION;
pub use route::route6;
