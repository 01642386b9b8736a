//! The text form of instructions.

use super::{Instruction, Operator};
use std::fmt;
use std::str::FromStr;

impl fmt::Display for Instruction {
    /// One line that parses back to the same instruction: `count 0x2a below 3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.opcode())?;
        match *self {
            Instruction::Nop => Ok(()),
            Instruction::Count { counter, threshold, inclusive } => {
                write!(f, " {counter:#x} {} {threshold}", if inclusive { "upto" } else { "below" })
            }
            Instruction::Compare { tag, value, relation } => write!(f, " {tag:#x} {relation} {value}"),
            Instruction::Collect { counter, result, value, operator } => {
                write!(f, " {counter:#x} {result:#x} {operator} {value}")
            }
            Instruction::Rcollect { counter, result, child, value, operator } => {
                write!(f, " {counter:#x} {result:#x} {child:#x} {operator} {value}")
            }
            Instruction::Rchld { counter, child } => write!(f, " {counter:#x} {child:#x}"),
            Instruction::Mark { tag, value } | Instruction::Put { tag, value } => write!(f, " {tag:#x} {value}"),
            Instruction::Test { tag } => write!(f, " {tag:#x}"),
            Instruction::Get { tag, value } => write!(f, " {tag:#x} {value}"),
            Instruction::Setfwd { tag, value, relation } => write!(f, " {tag:#x} {relation} {value}"),
        }
    }
}

/// A text that is no instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoInstruction;

impl fmt::Display for NoInstruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "write one of: nop, count TAG below|upto N, compare TAG OPERATOR N, collect COUNTER RESULT OPERATOR N, rcollect \
             COUNTER RESULT CHILD OPERATOR N, rchld COUNTER CHILD, mark TAG N, test TAG, get TAG, put TAG N, setfwd TAG \
             OPERATOR N",
        )
    }
}

impl std::error::Error for NoInstruction {}

/// A number, decimal or hexadecimal as `0x2a`.
fn number(text: &str) -> Result<u64, NoInstruction> {
    let read = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    read.map_err(|_| NoInstruction)
}

fn operator(text: &str, combines: bool) -> Result<Operator, NoInstruction> {
    let named = |operator: &Operator| operator.name() == text && operator.combines() == combines;
    Operator::ALL.into_iter().find(named).ok_or(NoInstruction)
}

impl FromStr for Instruction {
    type Err = NoInstruction;

    fn from_str(text: &str) -> Result<Instruction, NoInstruction> {
        let words: Vec<&str> = text.split_whitespace().collect();
        Ok(match words.as_slice() {
            ["nop"] => Instruction::Nop,
            &["count", counter, how @ ("below" | "upto"), threshold] => Instruction::Count {
                counter: number(counter)?,
                threshold: u32::try_from(number(threshold)?).map_err(|_| NoInstruction)?,
                inclusive: how == "upto",
            },
            &["compare", tag, relation, value] => {
                Instruction::Compare { tag: number(tag)?, value: number(value)?, relation: operator(relation, false)? }
            }
            &["collect", counter, result, combine, value] => Instruction::Collect {
                counter: number(counter)?,
                result: number(result)?,
                value: number(value)?,
                operator: operator(combine, true)?,
            },
            &["rcollect", counter, result, child, combine, value] => Instruction::Rcollect {
                counter: number(counter)?,
                result: number(result)?,
                child: number(child)?,
                value: number(value)?,
                operator: operator(combine, true)?,
            },
            &["rchld", counter, child] => Instruction::Rchld { counter: number(counter)?, child: number(child)? },
            &["mark", tag, value] => Instruction::Mark { tag: number(tag)?, value: number(value)? },
            &["test", tag] => Instruction::Test { tag: number(tag)? },
            &["get", tag] => Instruction::Get { tag: number(tag)?, value: 0 },
            &["get", tag, value] => Instruction::Get { tag: number(tag)?, value: number(value)? },
            &["put", tag, value] => Instruction::Put { tag: number(tag)?, value: number(value)? },
            &["setfwd", tag, relation, value] => {
                Instruction::Setfwd { tag: number(tag)?, value: number(value)?, relation: operator(relation, false)? }
            }
            _ => return Err(NoInstruction),
        })
    }
}
