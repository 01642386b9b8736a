//! The shares of reserved flows in a tree, and the rates around them.

use super::{PORT, Place, Refused, ShareOrigin, ShareTree};
use crate::share::ShareName;
use units::Rate;

impl ShareTree {
    /// Refuses a change of the share of a reserved flow, unless the reservation itself makes it.
    pub(super) fn refuse_flow(&self, name: &ShareName, origin: ShareOrigin) -> Result<(), Refused> {
        let is_flow = |name: &ShareName| self.get(name.as_str()).is_some_and(|node| node.origin == ShareOrigin::Flow);
        if origin == ShareOrigin::Flow || !is_flow(name) {
            return Ok(());
        }
        let hint = "reserve it anew with other values: `switchpath reserve remove`, then `add`";
        Err((format!("the share '{}' belongs to a reserved flow", name.as_str()), hint.to_string()))
    }

    /// Reserved flows get shares although their rates do not fit, or only if they fit. The quanta of a scheme with cycles always have to fit a cycle.
    pub fn overbook(&mut self, overbooks: bool) {
        self.overbooks = overbooks && self.cycles.is_none();
    }

    /// True if reserved flows get shares although their rates do not fit.
    pub fn overbooks(&self) -> bool {
        self.overbooks
    }

    /// The rates of a share and of those above it, up to the port. A reserved flow below it needs all of them, because they bound its delay.
    ///
    /// # Errors
    /// There is no such share, or one of them has no rate of its own.
    pub fn rates_above(&self, parent: Option<&ShareName>) -> Result<Vec<Rate>, (String, String)> {
        let rate = |place: Place| {
            self.nodes[place as usize].settings.rate.ok_or_else(|| {
                let hint = match place {
                    PORT => "give the scheme of the port a rate, like share(rate=1gbit)".to_string(),
                    _ => format!("give it one: 'set {} rate 100mbit'", self.nodes[place as usize].name),
                };
                (format!("{} has no rate of its own", self.label(place)), hint)
            })
        };
        self.path_up(self.parent(parent)?).map(rate).collect()
    }

    /// The rate that shares below `parent` may still guarantee, if it has a rate of its own.
    pub fn rate_left(&self, parent: Option<&ShareName>) -> Option<Rate> {
        let node = &self.nodes[self.parent(parent).ok()? as usize];
        Some(Rate::bits(node.settings.rate?.get().saturating_sub(node.sum)))
    }
}
