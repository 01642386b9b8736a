//! Operators, which combine or compare two values (spec E-24).

/// The operator of an instruction: the low nibble of the part's fourth byte.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum Operator {
    /// The sum, saturating.
    #[default]
    Add = 0,
    /// The lesser value.
    Min = 1,
    /// The greater value.
    Max = 2,
    /// Bitwise and.
    And = 3,
    /// Bitwise or.
    Or = 4,
    /// Bitwise exclusive or.
    Xor = 5,
    /// The stored value.
    First = 6,
    /// The packet's value.
    Last = 7,
    /// Less than.
    Lt = 8,
    /// Less than or equal.
    Le = 9,
    /// Equal.
    Eq = 10,
    /// Not equal.
    Ne = 11,
    /// Greater than or equal.
    Ge = 12,
    /// Greater than.
    Gt = 13,
}

impl Operator {
    /// All operators, by number.
    pub const ALL: [Operator; 14] = [
        Operator::Add,
        Operator::Min,
        Operator::Max,
        Operator::And,
        Operator::Or,
        Operator::Xor,
        Operator::First,
        Operator::Last,
        Operator::Lt,
        Operator::Le,
        Operator::Eq,
        Operator::Ne,
        Operator::Ge,
        Operator::Gt,
    ];

    /// The operator with this number, 0 to 13.
    #[inline(always)]
    pub fn of(number: u8) -> Option<Operator> {
        // A match instead of an index into `ALL`: the compiler sees that operator and number are equal.
        Some(match number {
            0 => Operator::Add,
            1 => Operator::Min,
            2 => Operator::Max,
            3 => Operator::And,
            4 => Operator::Or,
            5 => Operator::Xor,
            6 => Operator::First,
            7 => Operator::Last,
            8 => Operator::Lt,
            9 => Operator::Le,
            10 => Operator::Eq,
            11 => Operator::Ne,
            12 => Operator::Ge,
            13 => Operator::Gt,
            _ => return None,
        })
    }

    /// The number on the wire.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Operator::Add => "add",
            Operator::Min => "min",
            Operator::Max => "max",
            Operator::And => "and",
            Operator::Or => "or",
            Operator::Xor => "xor",
            Operator::First => "first",
            Operator::Last => "last",
            Operator::Lt => "lt",
            Operator::Le => "le",
            Operator::Eq => "eq",
            Operator::Ne => "ne",
            Operator::Ge => "ge",
            Operator::Gt => "gt",
        }
    }

    /// True for operators that combine, false for comparisons.
    #[inline(always)]
    pub const fn combines(self) -> bool {
        (self as u8) < Operator::Lt as u8
    }

    /// Combines the stored value `there` with the packet's value `comes`. A comparison gives 0 or 1.
    #[inline(always)]
    pub fn combine(self, stored: u64, value: u64) -> u64 {
        match self {
            Operator::Add => stored.saturating_add(value),
            Operator::Min => stored.min(value),
            Operator::Max => stored.max(value),
            Operator::And => stored & value,
            Operator::Or => stored | value,
            Operator::Xor => stored ^ value,
            Operator::First => stored,
            Operator::Last => value,
            _ => u64::from(self.holds(stored, value)),
        }
    }

    /// True if the comparison holds. Always false for combining operators.
    #[inline(always)]
    pub fn holds(self, left: u64, right: u64) -> bool {
        match self {
            Operator::Lt => left < right,
            Operator::Le => left <= right,
            Operator::Eq => left == right,
            Operator::Ne => left != right,
            Operator::Ge => left >= right,
            Operator::Gt => left > right,
            _ => false,
        }
    }
}

impl std::fmt::Display for Operator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Operator {
    type Err = UnknownOperator;

    fn from_str(text: &str) -> Result<Operator, UnknownOperator> {
        Operator::ALL.into_iter().find(|o| o.name() == text).ok_or_else(|| UnknownOperator(text.to_owned()))
    }
}

/// An unknown operator name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownOperator(String);

impl std::fmt::Display for UnknownOperator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "unknown operator '{}': ", self.0)?;
        f.write_str(&Operator::ALL.map(Operator::name).join(", "))
    }
}

impl std::error::Error for UnknownOperator {}
