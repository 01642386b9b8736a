//! Something outside of a list that a rule uses, like a next hop.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Keeps something alive as long as its rule exists. Rules that differ only in their holds are equal: the result of a rule has the number of the thing.
#[derive(Clone, Default)]
pub struct RuleHold(Option<Arc<dyn Any + Send + Sync>>);

impl RuleHold {
    /// Holds `value`.
    pub fn new(value: impl Any + Send + Sync) -> RuleHold {
        RuleHold(Some(Arc::new(value)))
    }

    /// The value, if it is a `T`.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.as_deref()?.downcast_ref()
    }
}

impl PartialEq for RuleHold {
    fn eq(&self, _: &RuleHold) -> bool {
        true
    }
}

impl Eq for RuleHold {}

impl fmt::Debug for RuleHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "something" } else { "nothing" })
    }
}
