//! What ports tell the operator: why one could not be opened, and what they could not have or found out later.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Why something could not be opened: what is wrong, and what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenError {
    /// What is wrong.
    pub reason: String,
    /// What to do about it.
    pub hint: String,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.reason, self.hint)
    }
}

impl std::error::Error for OpenError {}

/// Remarks kept for the operator: the newest ones, where nobody takes them. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Remarks {
    kept: Arc<Mutex<VecDeque<String>>>,
}

impl Remarks {
    /// The most that are kept.
    pub const MOST: usize = 256;

    /// Adds one, a sentence without its full stop. Never on the way of a packet: it takes a lock.
    pub fn add(&self, remark: String) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == Self::MOST {
            kept.pop_front();
        }
        kept.push_back(remark);
    }

    /// Takes what there is, oldest first.
    pub fn take(&self) -> Vec<String> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_remarks_are_kept_and_taken_once() {
        let remarks = Remarks::default();
        for i in 0..Remarks::MOST + 3 {
            remarks.clone().add(i.to_string());
        }
        let taken = remarks.take();
        assert_eq!((taken.len(), taken[0].as_str()), (Remarks::MOST, "3"));
        assert!(remarks.take().is_empty());
    }
}
