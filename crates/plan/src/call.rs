//! A catalogue entry with its options, as the configuration writes it: `fifo(limit=1000)`.
//!
//! The syntax is `name` or `name(option=value, ...)`. Missing options take their declared default, so that texts with the same meaning give equal
//! calls.

use crate::cost::{Cost, CostEstimate, CostSource};
use crate::text::{TextError, did_you_mean, quote};
use serde::Serialize;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use units::Nanos;
use units::declare::{Declaration, DeclaredCost, OptionDeclaration, OrderDeclaration, Unit};

/// Everything that a configuration can name. Each record is declared beside the code it describes.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    /// The queueing schemes that manage a single queue.
    pub schemes: Vec<Declaration>,
    /// The schemes that order several queues, each managed by one of `schemes`.
    pub orders: Vec<OrderDeclaration>,
    /// The functions of a path.
    pub functions: Vec<Declaration>,
    /// The CPU schedulers of a worker.
    pub cpu_schedulers: Vec<CpuSchedulerDeclaration>,
    /// The kinds of device of a port.
    pub devices: Vec<Declaration>,
    /// The source of guests, if there is one.
    pub guests: Option<Arc<dyn Guests>>,
}

/// A CPU scheduler of the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct CpuSchedulerDeclaration {
    /// Its name and options.
    pub declaration: Declaration,
    /// How far a task may fall behind its share.
    pub lag: Lag,
}

/// How far a task may fall behind its share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lag {
    /// By a run of its own and the longest run of another task.
    OneRun,
    /// By a run of its own and a run of each other task.
    RunOfEach,
    /// By its turn in a round: shares hold only over many rounds.
    Rounds,
    /// Without bound: it gets turns regardless of its share.
    Unbounded,
}

/// The source of a configuration's guests: queueing schemes, packet functions, code options and instructions that are not built into this
/// program.
pub trait Guests: fmt::Debug + Send + Sync {
    /// The guest of that name, declared as `guest:NAME`, or a reason and a hint.
    fn find(&self, name: &str) -> Result<(Declaration, GuestCode), (String, String)>;
    /// The packet function of that name, declared as `guest:NAME`, or a reason and a hint.
    fn function(&self, name: &str) -> Result<(Declaration, GuestCode), (String, String)> {
        Err((format!("there is no packet function '{name}'"), "take it out".to_string()))
    }
    /// The code option of slices of that name, declared as `guest:NAME`, or a reason and a hint.
    fn code_option(&self, name: &str) -> Result<(Declaration, GuestCode), (String, String)> {
        Err((format!("there is no code option '{name}'"), "use another one".to_string()))
    }
    /// The ephemeral-state instruction of that name, or a reason and a hint.
    fn instruction(&self, name: &str) -> Result<(InstructionDeclaration, GuestCode), (String, String)> {
        Err((format!("there is no instruction '{name}'"), "take it out".to_string()))
    }
}

/// The declaration of an ephemeral-state instruction that is not built into this program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct InstructionDeclaration {
    /// Its name.
    pub name: &'static str,
    /// One sentence for the operator.
    pub summary: &'static str,
    /// Number of tags in its packets, at most four.
    pub tags: u8,
    /// The most entries that it creates.
    pub creates: u8,
}

/// The code of a guest. Only the module that builds schemes, functions or instructions from it can interpret it.
#[derive(Clone)]
pub struct GuestCode {
    /// Identifies the code.
    pub digest: u64,
    /// Builds schemes, functions or instructions from it.
    pub maker: Arc<dyn Any + Send + Sync>,
}

impl PartialEq for GuestCode {
    fn eq(&self, other: &GuestCode) -> bool {
        self.digest == other.digest
    }
}

impl Eq for GuestCode {}

impl fmt::Debug for GuestCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Code {:016x}", self.digest)
    }
}

/// A scheme or function of the catalogue with the values of all options.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Call {
    /// The declared name.
    pub name: &'static str,
    /// All declared options in order of declaration, in packets, bits per second, nanoseconds, bytes or millionths.
    #[serde(serialize_with = "as_map")]
    pub options: Vec<(&'static str, u64)>,
    /// The canonical text: every option with its unit. It parses back to an equal call.
    pub text: String,
    /// The same without options at their default. It parses back to an equal call, too.
    #[serde(skip)]
    pub(crate) brief: String,
    /// The calls in braces. For a scheme that orders queues, the scheme of each queue.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inner: Vec<Call>,
    /// Its declared cost.
    #[serde(skip)]
    pub cost: CostEstimate,
    /// The code of a guest. A rebuilt guest is a different call, although the text is the same.
    #[serde(skip)]
    pub code: Option<GuestCode>,
}

fn as_map<S: serde::Serializer>(options: &[(&'static str, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(options.iter().copied())
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Call {
    /// An empty call in place of one that could not be parsed.
    pub(crate) fn placeholder() -> Call {
        let cost = CostEstimate::flat(Nanos::ZERO, CostSource::Assumed);
        let (text, brief) = Default::default();
        Call { name: "", options: Vec::new(), text, brief, inner: Vec::new(), cost, code: None }
    }

    /// The same call with these in braces.
    pub(crate) fn around(self, inner: Vec<Call>) -> Call {
        let braced = |head: &str, of: fn(&Call) -> &str| {
            format!("{head}{{{}}}", inner.iter().map(of).collect::<Vec<_>>().join(", "))
        };
        let (text, brief) = (braced(&self.text, |call| &call.text), braced(&self.brief, |call| &call.brief));
        Call { text, brief, inner, ..self }
    }

    /// Parses a call of one of the `declarations`; `what` is their name in messages, like `scheme`.
    pub fn parse(text: &str, declarations: &[Declaration], what: &str) -> Result<Call, TextError> {
        let (name, arguments) = split(text)?;
        let Some(declaration) = declarations.iter().find(|d| d.name == name.text) else {
            let hint = did_you_mean(name.text, declarations.iter().map(|d| d.name));
            return Err(name.wrong(format!("no {what} is called {}", quote(name.text)), hint));
        };
        let mut given: Vec<Option<(u64, Part<'_>)>> = vec![None; declaration.options.len()];
        for argument in arguments {
            let (index, value) = option(argument, declaration)?;
            let slot = &mut given[index];
            if slot.is_some() {
                let reason = format!("the option '{}' is given twice", declaration.options[index].name);
                return Err(argument.wrong(reason, "remove one of the two"));
            }
            *slot = Some((value, argument));
        }
        let mut options = Vec::with_capacity(given.len());
        for (declared, given) in declaration.options.iter().zip(&given) {
            let value = match *given {
                Some((value, _)) => value,
                None => declared.unit.read(declared.default).map_err(|error| {
                    let reason = format!("the default of '{}' is wrong: {}", declared.name, error.reason);
                    name.wrong(reason, format!("give a value: {}({}=...)", declaration.name, declared.name))
                })?,
            };
            options.push((declared.name, value));
        }
        check_lower_bound(declaration, &options, &given, name)?;
        let cost = declared(declaration, &options);
        let text = canonical(declaration, &options, |_| true);
        let is_set =
            |index: usize| given[index].is_some() && !is_default(&declaration.options[index], options[index].1);
        let brief = canonical(declaration, &options, is_set);
        Ok(Call { name: declaration.name, text, brief, options, inner: Vec::new(), cost, code: None })
    }

    /// The text without options at their default.
    pub fn brief(&self) -> &str {
        &self.brief
    }

    /// The digest of a guest's code as text.
    pub(crate) fn guest_digest(&self) -> String {
        self.code.as_ref().map_or_else(|| "none".to_string(), |code| format!("{:016x}", code.digest))
    }

    /// The value of a declared option.
    pub fn option(&self, name: &str) -> Option<u64> {
        self.options.iter().find(|(option, _)| *option == name).map(|(_, value)| *value)
    }
}

impl CostEstimate {
    /// The declared cost of several functions in sequence. The sum counts as declared only if all parts are.
    pub fn sum(functions: &[Call]) -> CostEstimate {
        let nothing = CostEstimate::flat(Nanos::ZERO, CostSource::Declared);
        functions.iter().fold(nothing, |sum, call| CostEstimate {
            cost: Cost {
                packet: sum.cost.packet + call.cost.cost.packet,
                kilobyte: sum.cost.kilobyte + call.cost.cost.kilobyte,
            },
            source: sum.source.max(call.cost.source),
        })
    }
}

/// Refuses an option that has to be above another one and is not. The error marks the one that the text sets.
fn check_lower_bound(
    declaration: &Declaration,
    options: &[(&'static str, u64)],
    given: &[Option<(u64, Part<'_>)>],
    name: Part<'_>,
) -> Result<(), TextError> {
    for (index, declared) in declaration.options.iter().enumerate() {
        let Unit::CountAbove(below) = declared.unit else { continue };
        let Some(other) = options.iter().position(|(name, _)| *name == below) else { continue };
        let (value, least) = (options[index].1, options[other].1);
        if value <= least {
            let place = given[index].or(given[other]).map_or(name, |(_, argument)| argument);
            let reason = format!("{}={value} is not above {below}={least}", declared.name);
            return Err(place.wrong(reason, format!("raise '{}' or lower '{below}'", declared.name)));
        }
    }
    Ok(())
}

/// The declared cost of a call.
fn declared(declaration: &Declaration, options: &[(&'static str, u64)]) -> CostEstimate {
    let ((packet, kilobyte), source) = match declaration.cost {
        DeclaredCost::None => ((Nanos::ZERO, Nanos::ZERO), CostSource::Assumed),
        DeclaredCost::Measured { packet, kilobyte } => ((packet, kilobyte), CostSource::Assumed),
        DeclaredCost::Declared(of) => (of(options), CostSource::Declared),
    };
    CostEstimate { cost: Cost { packet, kilobyte }, source }
}

fn canonical(declaration: &Declaration, options: &[(&'static str, u64)], is_written: impl Fn(usize) -> bool) -> String {
    let pairs = declaration.options.iter().zip(options).enumerate().filter(|(index, _)| is_written(*index));
    let all: Vec<String> = pairs.map(|(_, (o, (name, value)))| format!("{name}={}", o.unit.write(*value))).collect();
    if all.is_empty() { declaration.name.to_string() } else { format!("{}({})", declaration.name, all.join(",")) }
}

fn is_default(declared: &OptionDeclaration, value: u64) -> bool {
    declared.unit.read(declared.default).is_ok_and(|default| default == value)
}

/// A part of the text with its offset.
#[derive(Clone, Copy)]
struct Part<'t> {
    offset: usize,
    text: &'t str,
}

impl<'t> Part<'t> {
    fn trimmed(self) -> Part<'t> {
        let start = self.text.trim_start();
        Part { offset: self.offset + (self.text.len() - start.len()), text: start.trim_end() }
    }

    fn wrong(self, reason: impl Into<String>, hint: impl Into<String>) -> TextError {
        TextError { offset: self.offset, length: self.text.len(), reason: reason.into(), hint: hint.into() }
    }
}

/// The name, and the arguments within the parentheses.
fn split(text: &str) -> Result<(Part<'_>, impl Iterator<Item = Part<'_>>), TextError> {
    let whole = Part { offset: 0, text }.trimmed();
    let (name, inner) = match whole.text.find('(') {
        None => (whole, None),
        Some(open) => {
            let name = Part { offset: whole.offset, text: &whole.text[..open] }.trimmed();
            let rest = Part { offset: whole.offset + open + 1, text: &whole.text[open + 1..] };
            let Some(close) = rest.text.find(')') else {
                let end = Part { offset: whole.offset + whole.text.len(), text: "" };
                return Err(end.wrong("the bracket is not closed", "add ')'"));
            };
            let after = Part { offset: rest.offset + close + 1, text: &rest.text[close + 1..] }.trimmed();
            if !after.text.is_empty() {
                return Err(
                    after.wrong(format!("unexpected {} after the closing bracket", quote(after.text)), "remove it")
                );
            }
            (name, Some(Part { offset: rest.offset, text: &rest.text[..close] }))
        }
    };
    if name.text.is_empty() {
        return Err(whole.wrong("a name is missing", "write a name, and options in brackets: 'fifo(limit=1000)'"));
    }
    let inner = inner.filter(|part| !part.text.trim().is_empty());
    let mut offset = inner.map_or(0, |part| part.offset);
    let arguments = inner.into_iter().flat_map(|part| part.text.split(',')).map(move |text| {
        let part = Part { offset, text };
        offset += text.len() + 1;
        part.trimmed()
    });
    Ok((name, arguments))
}

/// Parses one `option=value`: the option's index in the declaration, and the value.
fn option(argument: Part<'_>, declaration: &Declaration) -> Result<(usize, u64), TextError> {
    let Some(equals) = argument.text.find('=') else {
        let reason = if argument.text.is_empty() { "an option is missing" } else { "an option has no value" };
        return Err(argument.wrong(reason, "write 'option=value', separated by commas"));
    };
    let name = Part { offset: argument.offset, text: &argument.text[..equals] }.trimmed();
    let value = Part { offset: argument.offset + equals + 1, text: &argument.text[equals + 1..] }.trimmed();
    let Some(index) = declaration.options.iter().position(|o| o.name == name.text) else {
        let reason = format!("'{}' has no option {}", declaration.name, quote(name.text));
        let hint = match declaration.options {
            [] => format!("write '{}' without options", declaration.name),
            options => did_you_mean(name.text, options.iter().map(|o| o.name)),
        };
        return Err(name.wrong(reason, hint));
    };
    let declared = &declaration.options[index];
    let read = declared.unit.read(value.text).map_err(|error| value.wrong(error.reason, error.hint))?;
    within(declared, read).map_err(|(reason, hint)| value.wrong(reason, hint))?;
    Ok((index, read))
}

fn within(declared: &OptionDeclaration, value: u64) -> Result<(), (String, String)> {
    let show = |value| declared.unit.write(value);
    let (verb, bound) = match value {
        v if v < declared.least => ("below the minimum", declared.least),
        v if v > declared.most => ("above the maximum", declared.most),
        _ => return Ok(()),
    };
    let reason = format!("{}={} is {verb}, {}", declared.name, show(value), show(bound));
    let hint = match declared.most {
        u64::MAX => format!("give at least {}; the default is {}", show(declared.least), declared.default),
        most => format!("give {} to {}; the default is {}", show(declared.least), show(most), declared.default),
    };
    Err((reason, hint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    const SCHEMES: &[Declaration] = &[
        Declaration {
            name: "fifo",
            summary: "First in, first out.",
            cost: units::declare::DeclaredCost::None,
            source: "",
            options: &[OptionDeclaration {
                name: "limit",
                unit: Unit::Count,
                default: "1000",
                least: 1,
                most: 100_000,
                doc: "Packets.",
            }],
        },
        Declaration {
            name: "codel",
            summary: "Controlled delay.",
            cost: units::declare::DeclaredCost::None,
            source: "RFC 8289",
            options: &[
                OptionDeclaration {
                    name: "target",
                    unit: Unit::Time,
                    default: "5ms",
                    least: 1,
                    most: u64::MAX,
                    doc: "Sojourn.",
                },
                OptionDeclaration {
                    name: "rate",
                    unit: Unit::Rate,
                    default: "0bit",
                    least: 0,
                    most: u64::MAX,
                    doc: "Rate.",
                },
            ],
        },
        Declaration {
            name: "red",
            summary: "Random early detection.",
            cost: units::declare::DeclaredCost::None,
            source: "Floyd and Jacobson 1993",
            options: &[
                OptionDeclaration { name: "min", unit: Unit::Count, default: "5", least: 0, most: 99, doc: "Packets." },
                OptionDeclaration {
                    name: "max",
                    unit: Unit::CountAbove("min"),
                    default: "15",
                    least: 1,
                    most: 99,
                    doc: "Packets.",
                },
                OptionDeclaration {
                    name: "ecn",
                    unit: Unit::Choice(&["off", "on"]),
                    default: "off",
                    least: 0,
                    most: 1,
                    doc: "Whether it marks.",
                },
            ],
        },
        Declaration { name: "none", summary: "", cost: units::declare::DeclaredCost::None, source: "", options: &[] },
    ];

    fn read(text: &str) -> Result<Call, TextError> {
        Call::parse(text, SCHEMES, "scheme")
    }

    #[test]
    fn texts_with_the_same_meaning_are_equal_calls() {
        assert_eq!(read("fifo"), read(" fifo ( limit = 1000 ) "));
        assert_eq!(read("fifo()").unwrap().text, "fifo(limit=1000)");
        assert_eq!(read("codel(rate=1500kbit)").unwrap().text, "codel(target=5ms,rate=1500kbit)");
        assert_eq!(read("codel(target=0.5ms)").unwrap().option("target"), Some(500_000));
        assert_eq!(read("none").unwrap().text, "none");
        for text in ["fifo(limit=7)", "codel(target=9us,rate=2gbit)", "red(min=2,max=3,ecn=on)", "none"] {
            assert_eq!(read(text).unwrap().to_string(), text);
        }
    }

    fn check(expected: Expect, texts: &[&str]) {
        let lines: Vec<String> = texts
            .iter()
            .map(|text| {
                let e = read(text).unwrap_err();
                let marked = text.get(e.offset..e.offset + e.length).expect("on character boundaries");
                format!("{text:20} {}+{} {marked:8} {}; {}\n", e.offset, e.length, e.reason, e.hint)
            })
            .collect();
        expected.assert_eq(&lines.concat());
    }

    #[test]
    fn error_marks_the_wrong_part_of_the_text() {
        let texts = [
            "",
            " ",
            "(limit=1)",
            "fofi",
            "fifo(",
            "fifo)",
            "fifo(limit=1) x",
            "fifo(limit)",
            "fifo(limit=)",
            "fifo(limit=1,)",
            "fifo(limit=1,limit=2)",
            "fifo( limti=1)",
            "fifo(limit=0)",
            "fifo(limit=100001)",
            "codel(target=5)",
            "codel(target=0ns)",
            "codel(rate=10mbps)",
            "codel(rate=1ps)",
            "codel(rate=1éps)",
            "red(ecn=yes)",
            "red(min=20)",
            "red(min=7, max=7)",
            "none(x=1)",
            "fifo(limit=drr(x=1))",
            "é",
        ];
        check(
            expect![[r#"
                                 0+0          a name is missing; write a name, and options in brackets: 'fifo(limit=1000)'
                                 1+0          a name is missing; write a name, and options in brackets: 'fifo(limit=1000)'
            (limit=1)            0+9 (limit=1) a name is missing; write a name, and options in brackets: 'fifo(limit=1000)'
            fofi                 0+4 fofi     no scheme is called 'fofi'; use one of fifo, codel, red, none
            fifo(                5+0          the bracket is not closed; add ')'
            fifo)                0+5 fifo)    no scheme is called 'fifo)'; did you mean 'fifo'?
            fifo(limit=1) x      14+1 x        unexpected 'x' after the closing bracket; remove it
            fifo(limit)          5+5 limit    an option has no value; write 'option=value', separated by commas
            fifo(limit=)         11+0          '' is no whole number; write a number like '1000'
            fifo(limit=1,)       13+0          an option is missing; write 'option=value', separated by commas
            fifo(limit=1,limit=2) 13+7 limit=2  the option 'limit' is given twice; remove one of the two
            fifo( limti=1)       6+5 limti    'fifo' has no option 'limti'; did you mean 'limit'?
            fifo(limit=0)        11+1 0        limit=0 is below the minimum, 1; give 1 to 100000; the default is 1000
            fifo(limit=100001)   11+6 100001   limit=100001 is above the maximum, 100000; give 1 to 100000; the default is 1000
            codel(target=5)      13+1 5        '5' has no unit; use one of s, ms, us, ns, like '5ms'
            codel(target=0ns)    13+3 0ns      target=0ns is below the minimum, 1ns; give at least 1ns; the default is 5ms
            codel(rate=10mbps)   11+6 10mbps   'mbps' is no unit of rate; in tc 'bps' means bytes per second; say bits: '10mbit'
            codel(rate=1ps)      11+3 1ps      'ps' is no unit of rate; in tc 'bps' means bytes per second; say bits: '1bit'
            codel(rate=1éps)     11+5 1éps     'éps' is no unit of rate; in tc 'bps' means bytes per second; say bits: '1ébit'
            red(ecn=yes)         8+3 yes      'yes' is none of the choices; write one of off, on
            red(min=20)          4+6 min=20   max=15 is not above min=20; raise 'max' or lower 'min'
            red(min=7, max=7)    11+5 max=7    max=7 is not above min=7; raise 'max' or lower 'min'
            none(x=1)            5+1 x        'none' has no option 'x'; write 'none' without options
            fifo(limit=drr(x=1)) 19+1 )        unexpected ')' after the closing bracket; remove it
            é                    0+2 é        no scheme is called 'é'; use one of fifo, codel, red, none
            "#]],
            &texts,
        );
    }
}
