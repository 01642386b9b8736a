//! plane
