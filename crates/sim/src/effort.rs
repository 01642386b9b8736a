//! The lines of the code options, as a measure of the work that one takes.

use crate::Measurements;
use serde::Deserialize;

/// A code option, and its sources.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CountedCode {
    /// Internet Indirection Infrastructure.
    I3,
    /// The IPv4 router.
    Ipv4,
    /// The IPv6 router.
    Ipv6,
}

/// A count.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EffortPlan {
    /// The code option.
    pub code: CountedCode,
}

macro_rules! sources {
    ($($file:literal)*) => { &[$(include_str!(concat!("../../slice/src/code/", $file))),*] };
}

impl CountedCode {
    /// The sources of the fast path, and of the programs around it: what makes its filters, and the slow path.
    fn sources(self) -> [&'static [&'static str]; 2] {
        match self {
            CountedCode::I3 => [
                sources!("i3/fast_path.rs" "i3/header.rs" "i3/id.rs"),
                sources!("i3/tables.rs" "i3/ring.rs" "i3/node.rs"),
            ],
            CountedCode::Ipv4 => [
                sources!("ipv4/fast_path.rs" "ipv4/key.rs"),
                sources!("ipv4/route.rs" "ipv4/node.rs" "ipv4/slow_path.rs"),
            ],
            CountedCode::Ipv6 => [sources!("ipv6/fast_path.rs" "ipv6/key.rs"), sources!("ipv6/route.rs")],
        }
    }
}

/// The lines with code: not empty, no comment, and before the tests.
fn lines(source: &str) -> usize {
    let code = source.split("#[cfg(test)]").next().unwrap_or("");
    code.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

/// Counts the lines of the code option that `text`, of `file`, names.
///
/// # Errors
///
/// The description is invalid.
pub fn run(text: &str, file: &str) -> Result<Measurements, String> {
    let plan: EffortPlan = toml::from_str(text).map_err(|error| format!("{file}: {error}"))?;
    let counts = plan.code.sources().map(|sources| sources.iter().map(|source| lines(source)).sum::<usize>() as f64);
    let values = [("fast_path".to_owned(), counts[0]), ("around".to_owned(), counts[1])];
    Ok(Measurements { values: values.into(), ..Measurements::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_without_comments_and_tests_are_counted() {
        assert_eq!(lines("//! A file.\n\nfn f() {\n    // Why.\n    g();\n}\n\n#[cfg(test)]\nmod tests {}\n"), 3);
        assert!(run("code = \"i3\"", "x").unwrap().get("fast_path").is_some_and(|lines| lines > 100.0));
        assert!(run("code = \"i4\"", "x").unwrap_err().contains("i4"));
    }
}
