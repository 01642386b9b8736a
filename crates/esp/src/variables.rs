//! Something of the router that instructions may read, as if it were a value under a tag: so a computation can ask a path
//! what it looks like (spec 4). Off unless a port permits it; nothing is ever written there.

use plan::state::Variable;
use plane::hook::Variables;
use units::Instant;

/// The first of the tags that stand for something of the router: 2^64 - 16, and from there on by number.
pub const FIRST: u64 = u64::MAX << 4;

/// The tag of a variable.
pub const fn tag(variable: Variable) -> u64 {
    FIRST | variable as u64
}

/// Which of them a port lets packets read, a bit for each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Permitted(u8);

impl Permitted {
    /// These.
    pub fn of(variables: &[Variable]) -> Permitted {
        Permitted(variables.iter().fold(0, |all, one| all | 1 << *one as u8))
    }

    /// Whether there are any.
    pub const fn any(self) -> bool {
        self.0 != 0
    }

    const fn has(self, number: u64) -> bool {
        number < 8 && self.0 >> number & 1 != 0
    }
}

/// What they are at a place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Readings {
    pub permitted: Permitted,
    pub of_port: Variables,
    pub node: u64,
    pub now: Instant,
}

/// What a tag stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reading {
    /// A value of the store.
    Ordinary,
    /// Something that may not be read here.
    Closed,
    /// This.
    Value(u64),
}

impl Readings {
    /// What a tag stands for, as a packet names it.
    #[inline]
    pub fn of(&self, tag: u64) -> Reading {
        if tag < FIRST {
            return Reading::Ordinary;
        }
        let number = tag - FIRST;
        let which = Variable::ALL.get(number as usize).filter(|_| self.permitted.has(number));
        match which {
            None => Reading::Closed,
            Some(Variable::Queue) => Reading::Value(self.of_port.queue),
            Some(Variable::Drops) => Reading::Value(self.of_port.drops),
            Some(Variable::Rate) => Reading::Value(self.of_port.rate.get()),
            Some(Variable::Node) => Reading::Value(self.node),
            Some(Variable::Time) => Reading::Value(self.now.get()),
        }
    }
}
