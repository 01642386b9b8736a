//! Where the packets of a multicast group go.

use crate::Name;
use serde::Serialize;
use std::fmt;
use std::net::IpAddr;

/// A configured group: its packets come by one interface, and each of others gets a copy (RFC 1112, RFC 7761 4.2).
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct MulticastPlan {
    /// The VRF of its interfaces; none for the main one.
    pub vrf: Option<Name>,
    /// The group.
    pub group: IpAddr,
    /// Whose packets; none for those of every source that no other entry names.
    pub source: Option<IpAddr>,
    /// The interface they come by.
    pub from: Name,
    /// The interfaces that get a copy each, sorted; at least one, never that of `from`.
    pub to: Vec<Name>,
}

impl fmt::Display for MulticastPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.title(), self.way())
    }
}

impl MulticastPlan {
    /// `239.1.2.3`, or `239.1.2.3 source 192.0.2.7`, in a VRF other than the main one with its name before it.
    pub fn title(&self) -> String {
        let vrf = self.vrf.as_ref().map_or_else(String::new, |vrf| format!("vrf {vrf} "));
        let source = self.source.map_or_else(String::new, |source| format!(" source {source}"));
        format!("{vrf}{}{source}", self.group)
    }

    /// `from lan to wan wan.20`.
    pub fn way(&self) -> String {
        format!("from {} to {}", self.from, self.to.join(" "))
    }
}
