//! The licence of every compiled crate has to permit distribution under Apache-2.0 OR MIT.

use crate::workspace::Dependency;

/// The permitted licences; the same list as in `deny.toml`.
const PERMITTED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Returns dependencies without a permitted licence, or from outside a registry.
pub fn refused(dependencies: &[Dependency]) -> Vec<String> {
    let mut complaints = Vec::new();
    for Dependency { name, licence, source } in dependencies {
        match licence {
            None => complaints.push(format!("{name}: names no licence")),
            Some(expression) if !is_permitted(expression) => complaints.push(format!("{name}: {expression}")),
            Some(_) => {}
        }
        if !source.as_ref().is_some_and(|source| source.starts_with("registry+")) {
            complaints.push(format!("{name}: comes from {source:?}, not from a registry"));
        }
    }
    complaints
}

/// Returns whether an SPDX expression leaves a permitted choice: `OR` offers, `AND` requires both, and `/` is an old `OR`.
fn is_permitted(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut tokens = spaced.split_whitespace().peekable();
    let taken = alternatives(&mut tokens);
    taken && tokens.next().is_none()
}

type Tokens<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn alternatives(tokens: &mut Tokens) -> bool {
    let mut taken = conjunction(tokens);
    while tokens.next_if_eq(&"OR").is_some() {
        taken |= conjunction(tokens);
    }
    taken
}

fn conjunction(tokens: &mut Tokens) -> bool {
    let mut taken = licence(tokens);
    while tokens.next_if_eq(&"AND").is_some() {
        taken &= licence(tokens);
    }
    taken
}

fn licence(tokens: &mut Tokens) -> bool {
    match tokens.next() {
        Some("(") => {
            let taken = alternatives(tokens);
            taken & tokens.next_if_eq(&")").is_some()
        }
        Some(name) if tokens.next_if_eq(&"WITH").is_some() => {
            let exception = tokens.next().unwrap_or("");
            PERMITTED.contains(&format!("{name} WITH {exception}").as_str())
        }
        Some(name) => PERMITTED.contains(&name),
        None => false,
    }
}

#[test]
fn licence_expressions_are_understood() {
    for good in [
        "MIT",
        "MIT/Apache-2.0",
        "GPL-3.0-only OR MIT",
        "(MIT OR GPL-2.0-only) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception OR GPL-2.0-only",
    ] {
        assert!(is_permitted(good), "{good}");
    }
    for bad in [
        "",
        "GPL-3.0-only",
        "MIT AND GPL-3.0-only",
        "(MIT",
        "MIT Apache-2.0",
        "GPL-2.0-only WITH Classpath-exception-2.0",
    ] {
        assert!(!is_permitted(bad), "{bad}");
    }
}

#[test]
fn dependency_without_permitted_licence_is_found() {
    let from = |name: &str, licence: Option<&str>, source: Option<&str>| Dependency {
        name: name.into(),
        licence: licence.map(str::to_owned),
        source: source.map(str::to_owned),
    };
    let registry = Some("registry+somewhere");
    let dependencies = [
        from("fine 1.0.0", Some("MIT"), registry),
        from("viral 1.0.0", Some("AGPL-3.0-only"), registry),
        from("silent 1.0.0", None, registry),
        from("forked 1.0.0", Some("MIT"), Some("git+somewhere")),
    ];
    assert_eq!(
        refused(&dependencies),
        [
            "viral 1.0.0: AGPL-3.0-only",
            "silent 1.0.0: names no licence",
            "forked 1.0.0: comes from Some(\"git+somewhere\"), not from a registry",
        ]
    );
}

#[test]
fn deny_toml_lists_the_same_licences() {
    let deny = &crate::WORKSPACE.texts["deny.toml"];
    let list = deny.split("allow = [").nth(1).and_then(|rest| rest.split(']').next()).expect("a list of licences");
    let theirs: Vec<_> = list.split('"').skip(1).step_by(2).collect();
    assert_eq!(theirs, PERMITTED, "deny.toml and tests/house/licences.rs");
}
