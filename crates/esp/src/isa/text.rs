//! The text form of instructions.

use super::{Operator, StateInstruction};
use std::fmt;
use std::str::FromStr;

impl fmt::Display for StateInstruction {
    /// One line that parses back to the same instruction: `count 0x2a below 3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.opcode())?;
        match *self {
            StateInstruction::Nop => Ok(()),
            StateInstruction::Count { counter, threshold, inclusive } => {
                write!(f, " {counter:#x} {} {threshold}", if inclusive { "upto" } else { "below" })
            }
            StateInstruction::Compare { tag, value, relation } => write!(f, " {tag:#x} {relation} {value}"),
            StateInstruction::Collect { counter, result, value, operator } => {
                write!(f, " {counter:#x} {result:#x} {operator} {value}")
            }
            StateInstruction::Rcollect { counter, result, child, value, operator } => {
                write!(f, " {counter:#x} {result:#x} {child:#x} {operator} {value}")
            }
            StateInstruction::Rchld { counter, child } => write!(f, " {counter:#x} {child:#x}"),
            StateInstruction::Mark { tag, value } | StateInstruction::Put { tag, value } => {
                write!(f, " {tag:#x} {value}")
            }
            StateInstruction::Test { tag } => write!(f, " {tag:#x}"),
            StateInstruction::Get { tag, value } => write!(f, " {tag:#x} {value}"),
            StateInstruction::Setfwd { tag, value, relation } => write!(f, " {tag:#x} {relation} {value}"),
        }
    }
}

/// A text that is no instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidInstruction;

impl fmt::Display for InvalidInstruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "write one of: nop, count TAG below|upto N, compare TAG OPERATOR N, collect COUNTER RESULT OPERATOR N, rcollect \
             COUNTER RESULT CHILD OPERATOR N, rchld COUNTER CHILD, mark TAG N, test TAG, get TAG, put TAG N, setfwd TAG \
             OPERATOR N",
        )
    }
}

impl std::error::Error for InvalidInstruction {}

/// A number, decimal or hexadecimal as `0x2a`.
fn number(text: &str) -> Result<u64, InvalidInstruction> {
    let read = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    read.map_err(|_| InvalidInstruction)
}

fn operator(text: &str, combines: bool) -> Result<Operator, InvalidInstruction> {
    let named = |operator: &Operator| operator.name() == text && operator.combines() == combines;
    Operator::ALL.into_iter().find(named).ok_or(InvalidInstruction)
}

impl FromStr for StateInstruction {
    type Err = InvalidInstruction;

    fn from_str(text: &str) -> Result<StateInstruction, InvalidInstruction> {
        let words: Vec<&str> = text.split_whitespace().collect();
        Ok(match words.as_slice() {
            ["nop"] => StateInstruction::Nop,
            &["count", counter, how @ ("below" | "upto"), threshold] => StateInstruction::Count {
                counter: number(counter)?,
                threshold: u32::try_from(number(threshold)?).map_err(|_| InvalidInstruction)?,
                inclusive: how == "upto",
            },
            &["compare", tag, relation, value] => StateInstruction::Compare {
                tag: number(tag)?,
                value: number(value)?,
                relation: operator(relation, false)?,
            },
            &["collect", counter, result, combine, value] => StateInstruction::Collect {
                counter: number(counter)?,
                result: number(result)?,
                value: number(value)?,
                operator: operator(combine, true)?,
            },
            &["rcollect", counter, result, child, combine, value] => StateInstruction::Rcollect {
                counter: number(counter)?,
                result: number(result)?,
                child: number(child)?,
                value: number(value)?,
                operator: operator(combine, true)?,
            },
            &["rchld", counter, child] => StateInstruction::Rchld { counter: number(counter)?, child: number(child)? },
            &["mark", tag, value] => StateInstruction::Mark { tag: number(tag)?, value: number(value)? },
            &["test", tag] => StateInstruction::Test { tag: number(tag)? },
            &["get", tag] => StateInstruction::Get { tag: number(tag)?, value: 0 },
            &["get", tag, value] => StateInstruction::Get { tag: number(tag)?, value: number(value)? },
            &["put", tag, value] => StateInstruction::Put { tag: number(tag)?, value: number(value)? },
            &["setfwd", tag, relation, value] => StateInstruction::Setfwd {
                tag: number(tag)?,
                value: number(value)?,
                relation: operator(relation, false)?,
            },
            _ => return Err(InvalidInstruction),
        })
    }
}
