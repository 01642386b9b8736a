//! Names of public types are unique in the workspace, so that a reader who searches for one finds one.

use crate::rust::Source;
use std::collections::BTreeMap;

/// Returns the public types that share their name with another one.
pub fn shared(sources: &[Source]) -> Vec<String> {
    let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.path.starts_with("crates/") && source.path.contains("/src/")) {
        let mut at = 0;
        for (number, line) in source.code.split_inclusive('\n').enumerate() {
            let begins = at;
            at += line.len();
            if let Some(name) = public_type(line).filter(|_| !source.is_test(begins)) {
                places.entry(name).or_default().push(format!("{}:{}", source.path, number + 1));
            }
        }
    }
    let shared = places.into_iter().filter(|(_, places)| places.len() > 1);
    shared.map(|(name, places)| format!("`{name}` is declared at {}", places.join(" and "))).collect()
}

/// The name of the type that a line outside of all blocks declares, if the type is public.
fn public_type(line: &str) -> Option<&str> {
    let declaration = line.strip_prefix("pub ")?;
    let kinds = ["struct ", "enum ", "trait ", "type ", "union "];
    let rest = kinds.iter().find_map(|kind| declaration.strip_prefix(kind))?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().filter(|name| !name.is_empty())
}

#[test]
fn type_with_the_name_of_another_is_found() {
    let source = |path: &str, text: &str| Source::new(path, text);
    let sources = [
        source("crates/a/src/lib.rs", "pub struct Port<T> {}\nstruct Queue;\npub enum Route {}\n"),
        source("crates/b/src/lib.rs", "pub trait Port {}\npub struct Queue;\nmod m {\n    pub struct Route;\n}\n"),
    ];
    assert_eq!(shared(&sources), ["`Port` is declared at crates/a/src/lib.rs:1 and crates/b/src/lib.rs:1"]);
}
