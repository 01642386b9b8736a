//! Messages of ports for the operator: the reason why one could not be opened, and advisories about missing features and later failures.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The reason why a port or file could not be opened, and a remedy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenError {
    /// The reason.
    pub reason: String,
    /// The remedy.
    pub hint: String,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.reason, self.hint)
    }
}

impl std::error::Error for OpenError {}

/// Advisories kept for the operator. If they are not read, only the newest are kept. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Advisories {
    messages: Arc<Mutex<VecDeque<String>>>,
}

impl Advisories {
    /// The maximum number of advisories.
    pub const MOST: usize = 256;

    /// Adds an advisory, a sentence without its full stop. Not for the fast path: it takes a lock.
    pub fn add(&self, warning: String) {
        let mut kept = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == Self::MOST {
            kept.pop_front();
        }
        kept.push_back(warning);
    }

    /// Removes and returns all advisories, oldest first.
    pub fn take(&self) -> Vec<String> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_advisories_are_kept_and_taken_once() {
        let warnings = Advisories::default();
        for i in 0..Advisories::MOST + 3 {
            warnings.clone().add(i.to_string());
        }
        let taken = warnings.take();
        assert_eq!((taken.len(), taken[0].as_str()), (Advisories::MOST, "3"));
        assert!(warnings.take().is_empty());
    }
}
