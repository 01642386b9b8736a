//! What a packet asks to be done with two values: to combine or to compare them (spec E-24).

/// An operator of an instruction: the low half of its fourth byte.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum Operator {
    /// The sum; the most there is where it would be more.
    #[default]
    Add = 0,
    /// The lesser.
    Min = 1,
    /// The greater.
    Max = 2,
    /// Bits that both have.
    And = 3,
    /// Bits that one has.
    Or = 4,
    /// Bits that only one has.
    Xor = 5,
    /// What was there before.
    First = 6,
    /// What comes last.
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
    /// Every operator, in the order of their numbers.
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

    /// The operator of a number, 0 to 13.
    #[inline(always)]
    pub fn of(number: u8) -> Option<Operator> {
        // By name, and not by place in the list: of these the compiler sees that the operator is the number.
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

    /// Its number on the wire.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Its name on the command line.
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

    /// Whether it makes one value of two.
    #[inline(always)]
    pub const fn combines(self) -> bool {
        (self as u8) < Operator::Lt as u8
    }

    /// `there` and `comes` made one; a comparison is 0 or 1.
    #[inline(always)]
    pub fn combine(self, there: u64, comes: u64) -> u64 {
        match self {
            Operator::Add => there.saturating_add(comes),
            Operator::Min => there.min(comes),
            Operator::Max => there.max(comes),
            Operator::And => there & comes,
            Operator::Or => there | comes,
            Operator::Xor => there ^ comes,
            Operator::First => there,
            Operator::Last => comes,
            _ => u64::from(self.holds(there, comes)),
        }
    }

    /// Whether a comparison holds; what combines never does.
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

/// A name no operator has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownOperator(String);

impl std::fmt::Display for UnknownOperator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "there is no operator '{}': ", self.0)?;
        f.write_str(&Operator::ALL.map(Operator::name).join(", "))
    }
}

impl std::error::Error for UnknownOperator {}
