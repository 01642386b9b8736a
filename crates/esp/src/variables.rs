//! Router variables: an instruction reads them under reserved tags, so a computation can query a path (spec 4). A port must permit each variable.
//! They are never written.

use plan::state::Variable;
use plane::hook::PortVariables;
use units::Instant;

/// The first reserved tag, 2^64 - 16. Variable number `n` has tag `FIRST + n`.
pub const FIRST_VARIABLE: u64 = u64::MAX << 4;

/// The tag of a variable.
pub const fn tag(variable: Variable) -> u64 {
    FIRST_VARIABLE | variable as u64
}

/// The variables that a port permits, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PermittedVariables(u8);

impl PermittedVariables {
    /// Permits these.
    pub fn of(variables: &[Variable]) -> PermittedVariables {
        PermittedVariables(variables.iter().fold(0, |all, one| all | 1 << *one as u8))
    }

    /// True if any is permitted.
    pub const fn any(self) -> bool {
        self.0 != 0
    }

    const fn has(self, number: u64) -> bool {
        number < 8 && self.0 >> number & 1 != 0
    }
}

/// The values of the variables at a place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Readings {
    pub permitted: PermittedVariables,
    pub of_port: PortVariables,
    pub node: u64,
    pub now: Instant,
}

/// The meaning of a tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reading {
    /// An ordinary tag: a value of the store.
    Ordinary,
    /// A variable that the port does not permit.
    NotPermitted,
    /// A variable with this value.
    Value(u64),
}

impl Readings {
    /// The meaning of a tag in a packet.
    #[inline]
    pub fn of(&self, tag: u64) -> Reading {
        if tag < FIRST_VARIABLE {
            return Reading::Ordinary;
        }
        let number = tag - FIRST_VARIABLE;
        let which = Variable::ALL.get(number as usize).filter(|_| self.permitted.has(number));
        match which {
            None => Reading::NotPermitted,
            Some(Variable::Queue) => Reading::Value(self.of_port.queue),
            Some(Variable::Drops) => Reading::Value(self.of_port.drops),
            Some(Variable::Rate) => Reading::Value(self.of_port.rate.get()),
            Some(Variable::Node) => Reading::Value(self.node),
            Some(Variable::Time) => Reading::Value(self.now.get()),
        }
    }
}
