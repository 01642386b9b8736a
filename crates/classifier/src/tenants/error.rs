//! Reasons to refuse a change of filters.

use super::{KEY_BITS, TenantId};
use std::fmt;

/// A reason to refuse a change. The table stays as it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TenantError {
    /// There is no such tenant.
    UnknownTenant {
        /// Its number.
        tenant: TenantId,
    },
    /// There is a tenant with this number already.
    TenantExists {
        /// Its number.
        tenant: TenantId,
    },
    /// The number of a tenant is too large.
    TenantTooLarge {
        /// The number.
        tenant: TenantId,
        /// The largest number.
        most: TenantId,
    },
    /// The quotas of all tenants would exceed the table.
    TableTooSmall {
        /// The quota asked for, in entries.
        quota: usize,
        /// The entries that no other tenant has in its quota.
        free: usize,
    },
    /// The filters of the tenant would exceed its quota.
    QuotaExceeded {
        /// The tenant.
        tenant: TenantId,
        /// The entries of all its filters after the change.
        entries: usize,
        /// Its quota in entries.
        quota: usize,
    },
    /// A filter has ranges of too many prefixes.
    TooManyEntries {
        /// The entries that it would need.
        entries: usize,
        /// The most that it may need.
        most: usize,
    },
    /// There is a filter at this position already.
    PositionTaken {
        /// The position.
        position: u32,
    },
    /// There is no filter at this position.
    NoFilter {
        /// The position.
        position: u32,
    },
    /// The position is too large.
    PositionTooLarge,
    /// A range is for bits that a key does not have.
    NoField {
        /// The first bit of the field.
        first_bit: u16,
        /// The number of its bits.
        width: u16,
    },
    /// A range ends before it begins, or behind the largest number of its field.
    NoRange {
        /// The lowest number.
        low: u64,
        /// The highest number.
        high: u64,
        /// The bits of the field.
        width: u16,
    },
    /// The ranges and the mask of a filter contradict each other.
    NoKeyMatches,
    /// A worker still uses an old table, which has the counters of deleted filters.
    CountersInUse,
}

impl fmt::Display for TenantError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TenantError::UnknownTenant { tenant } => write!(f, "there is no tenant {tenant}"),
            TenantError::TenantExists { tenant } => write!(f, "there is a tenant {tenant} already"),
            TenantError::TenantTooLarge { tenant, most } => {
                write!(f, "the number of a tenant is at most {most}, not {tenant}")
            }
            TenantError::TableTooSmall { quota, free } => write!(
                f,
                "a quota of {quota} filter entries exceeds the {free} that other tenants leave; lower it, or the quota of another tenant"
            ),
            TenantError::QuotaExceeded { tenant, entries, quota } => write!(
                f,
                "the filters of tenant {tenant} would need {entries} entries, more than its quota of {quota}; delete some, or raise the quota"
            ),
            TenantError::TooManyEntries { entries, most } => write!(
                f,
                "the ranges of the filter need {entries} entries, more than {most}; use fewer ranges, or ranges that are prefixes"
            ),
            TenantError::PositionTaken { position } => {
                write!(
                    f,
                    "there is a filter at position {position} already; delete or replace it, or use another position"
                )
            }
            TenantError::NoFilter { position } => write!(f, "there is no filter at position {position}"),
            TenantError::PositionTooLarge => write!(f, "a position is at most {}", u32::MAX - 1),
            TenantError::NoField { first_bit, width } => write!(
                f,
                "a key has no field of {width} bits from bit {first_bit} on: a field has 1 to 64 bits, and a key {KEY_BITS}"
            ),
            TenantError::NoRange { low, high, width } => {
                write!(f, "{low} to {high} is no range of numbers of {width} bits, the lowest first")
            }
            TenantError::NoKeyMatches => write!(f, "no key can match: the ranges and the mask contradict each other"),
            TenantError::CountersInUse => {
                write!(
                    f,
                    "a worker still uses the counters of deleted filters; try again when it has handled its packets"
                )
            }
        }
    }
}

impl std::error::Error for TenantError {}

/// A reason to refuse several changes together. None of them was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RefusedChanges {
    /// The position of the wrong change in the list; `None` if only all changes together are wrong.
    pub change: Option<usize>,
    /// The reason.
    pub error: TenantError,
}

impl From<TenantError> for RefusedChanges {
    fn from(error: TenantError) -> Self {
        RefusedChanges { change: None, error }
    }
}

impl fmt::Display for RefusedChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.change {
            Some(change) => write!(f, "change {}: {}", change + 1, self.error),
            None => self.error.fmt(f),
        }
    }
}

impl std::error::Error for RefusedChanges {}
