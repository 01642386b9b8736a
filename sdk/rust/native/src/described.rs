//! A scheme from its text, as in a configuration: `fq(flows=64){codel(target=2ms)}`. The router's parser has already accepted the text.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use switchpath_guest::schemes::{DECLARATIONS, Layer, ORDERS};
use switchpath_guest::units::declare::{Declaration, Inside, OrderDeclaration};

/// A scheme with all its options and its inner scheme.
pub struct Described {
    name: &'static str,
    options: Vec<(&'static str, u64)>,
    inside: Vec<Described>,
}

impl Described {
    /// Reads the whole text.
    pub fn read(text: &str) -> Result<Described, String> {
        let mut rest = text;
        let described = Described::next(&mut rest, None)?;
        if rest.trim().is_empty() { Ok(described) } else { Err(format!("'{rest}' is left")) }
    }

    /// Converts it to the input of the schemes' `build`.
    pub fn layer(&self) -> Layer<'_> {
        Layer { name: self.name, options: &self.options, inside: self.inside.iter().map(Described::layer).collect() }
    }

    /// Parses a scheme at the beginning of `rest`, or one of the given declarations, which are allowed only inside others.
    fn next(rest: &mut &str, branch: Option<&'static OrderDeclaration>) -> Result<Described, String> {
        let (name, behind) = rest.split_at(rest.find(['(', '{', '}', ',']).unwrap_or(rest.len()));
        let name = name.trim();
        *rest = behind;
        let order = branch.into_iter().chain(ORDERS).find(|order| order.declaration.name == name);
        let managing = || DECLARATIONS.iter().find(|declaration| declaration.name == name);
        let declaration = order.map(|order| &order.declaration).or_else(managing);
        let declaration = declaration.ok_or_else(|| format!("there is no '{name}'"))?;
        let given = match rest.strip_prefix('(').and_then(|behind| behind.split_once(')')) {
            Some((given, behind)) => {
                *rest = behind.trim_start();
                given
            }
            None => "",
        };
        let options = options(declaration, given)?;
        let Some(order) = order else { return Ok(Described { name: declaration.name, options, inside: Vec::new() }) };
        let within = match order.inner {
            Inside::Branches(of, _) => Some(of),
            Inside::Manager | Inside::Any | Inside::Leaves | Inside::Flows => None,
        };
        let mut inside = Vec::new();
        match rest.strip_prefix('{') {
            Some(behind) => {
                *rest = behind;
                loop {
                    inside.push(Described::next(rest, within)?);
                    let (closed, behind) = (rest.starts_with('}'), rest.get(1..));
                    *rest = behind.ok_or("a brace is not closed")?.trim_start();
                    if closed {
                        break;
                    }
                }
            }
            None => inside.push(Described::next(&mut { order.usual }, within)?),
        }
        Ok(Described { name: declaration.name, options, inside })
    }
}

/// All options: the given value, or the default.
fn options(declaration: &Declaration, given: &str) -> Result<Vec<(&'static str, u64)>, String> {
    let mut options = Vec::new();
    for option in declaration.options {
        let of = |part: &'_ str| part.split_once('=').filter(|(name, _)| name.trim() == option.name).is_some();
        let part = given.split(',').find(|part| of(part)).and_then(|part| part.split_once('='));
        let text = part.map_or(option.default, |(_, text)| text.trim());
        options.push((option.name, option.unit.read(text).map_err(|error| error.reason)?));
    }
    Ok(options)
}
