//! No file of a crate imports from a file that imports from it, directly or through others. Files in a circle can only be read and changed together.
//!
//! An import is a `use`, or a path in code, of a name that another file defines. If the path leads through re-exports, the file that defines the name
//! counts. A re-export itself is no import. A child module may use the definitions of its ancestors, because it sees the private parts of their
//! types. Test code is ignored.

use crate::rust::Source;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Crates that still have circles.
pub const EXEMPT: &[&str] = &[];

/// A path within a crate, segment by segment: a module, or a name in one.
type Path = Vec<String>;

/// The imported names of a file, by the file that defines them.
type Imports = BTreeMap<Path, BTreeSet<String>>;

/// The definitions and imports of one file.
struct Module {
    file: String,
    /// The names of its items.
    defines: BTreeSet<String>,
    /// Names that it imports or re-exports, and their targets.
    aliases: BTreeMap<String, Path>,
    /// Paths that it mentions, except re-exports.
    mentions: BTreeSet<Path>,
}

/// Returns circles of imports within the crates that are not exempt.
pub fn circles(sources: &[Source], exempt: &[&str]) -> Vec<String> {
    let mut crates: BTreeMap<&str, Vec<(Path, &Source)>> = BTreeMap::new();
    for source in sources {
        if let Some((name, module)) = module_of(&source.path).filter(|(name, _)| !exempt.contains(name)) {
            let is_test = source.tests.contains(&(0..source.text.len()));
            crates.entry(name).or_default().extend((!is_test).then_some((module, source)));
        }
    }
    crates.values().flat_map(|sources| circles_of(sources)).collect()
}

/// Returns the crate and the module of a source file; none for tests and benches.
fn module_of(path: &str) -> Option<(&str, Path)> {
    let (name, file) = path.strip_prefix("crates/")?.split_once("/src/")?;
    let mut module: Path = file.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        module.pop();
    }
    Some((name, module))
}

fn circles_of(sources: &[(Path, &Source)]) -> Vec<String> {
    let names: BTreeSet<&Path> = sources.iter().map(|(module, _)| module).collect();
    let mut modules: BTreeMap<Path, Module> = BTreeMap::new();
    for (at, source) in sources {
        // Only the first of `lib.rs` and `main.rs`: the other is a crate of its own, which uses the first by its name.
        modules.entry(at.clone()).or_insert_with(|| read(source, at, &names));
    }
    let imports: BTreeMap<Path, Imports> =
        modules.iter().map(|(at, module)| (at.clone(), imports_of(at, module, &modules))).collect();
    let file = |module: &Path| modules[module].file.as_str();
    let circles = imports.keys().filter_map(|start| shortest(start, &imports));
    circles
        .map(|circle| {
            let mut complaint = file(&circle[0]).to_owned();
            for (step, from) in circle.iter().enumerate() {
                let to = circle.get(step + 1);
                let names = &imports[from][to.unwrap_or(&circle[0])];
                let names = names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
                complaint += if step > 0 { ", which imports " } else { " imports " };
                complaint += &format!("{names} from {}", to.map_or("it", file));
            }
            match circle.len() {
                2 => complaint,
                _ => complaint.replace(" from it", &format!(" from {}", file(&circle[0]))),
            }
        })
        .collect()
}

/// Returns the shortest circle in which `start` is the first of all files, so that each circle is found from one file only.
fn shortest(start: &Path, imports: &BTreeMap<Path, Imports>) -> Option<Vec<Path>> {
    let mut before: BTreeMap<&Path, &Path> = BTreeMap::new();
    let mut open = VecDeque::from([start]);
    while let Some(at) = open.pop_front() {
        for to in imports[at].keys().filter(|to| *to >= start) {
            if to == start {
                let mut circle = vec![at.clone()];
                while let Some(earlier) = before.get(&circle[circle.len() - 1]) {
                    circle.push((*earlier).clone());
                }
                circle.reverse();
                return Some(circle);
            }
            if !before.contains_key(to) {
                before.insert(to, at);
                open.push_back(to);
            }
        }
    }
    None
}

/// Returns the files that a module imports from, and the imported names.
fn imports_of(at: &Path, module: &Module, modules: &BTreeMap<Path, Module>) -> Imports {
    let mut imports = Imports::new();
    for mention in &module.mentions {
        let found = resolve(mention, modules, 0).filter(|found| !at.starts_with(found));
        if let (Some(found), Some(name)) = (found, mention.last()) {
            imports.entry(found).or_default().insert(name.clone());
        }
    }
    imports
}

/// Returns the module that defines the target of a path.
fn resolve(path: &[String], modules: &BTreeMap<Path, Module>, depth: usize) -> Option<Path> {
    // Deeper than any chain of re-exports: such a chain does not end.
    if depth > 8 {
        return None;
    }
    let (at, module) = (0..=path.len()).rev().find_map(|end| modules.get_key_value(&path[..end]))?;
    let Some((name, rest)) = path[at.len()..].split_first() else { return Some(at.clone()) };
    match module.aliases.get(name) {
        Some(alias) if !module.defines.contains(name) && alias[..] != *path => {
            resolve(&[alias, rest].concat(), modules, depth + 1)
        }
        _ => Some(at.clone()),
    }
}

fn read(source: &Source, at: &Path, modules: &BTreeSet<&Path>) -> Module {
    let mut code = source.code.clone().into_bytes();
    source.tests.iter().for_each(|range| code[range.clone()].fill(b' '));
    let mut code = String::from_utf8(code).expect("code is blanked by whole items");
    let (mut aliases, mut mentions) = (BTreeMap::<String, Path>::new(), BTreeSet::new());
    let is_child = |name: &String| modules.contains(&[&at[..], std::slice::from_ref(name)].concat());
    for (range, is_export) in uses(&code) {
        for (path, name) in tree(&code[range.clone()], &[]) {
            let Some(path) = absolute(&path, at, is_child) else { continue };
            if !is_export {
                mentions.insert(path.clone());
            }
            aliases.insert(name, path);
        }
        code.replace_range(range.clone(), &" ".repeat(range.len()));
    }
    for path in paths(&code) {
        // An imported module is followed by the used name.
        let imported = aliases.get(&path[0]).filter(|module| modules.contains(module));
        let imported = imported.map(|module| [module, &path[1..]].concat());
        mentions.extend(imported.or_else(|| absolute(&path, at, is_child)));
    }
    let defines = code.lines().filter_map(defined).map(str::to_owned).collect();
    Module { file: source.path.clone(), defines, aliases, mentions }
}

/// Returns the path from the root of the crate; none for a path that leaves the crate.
fn absolute(path: &[String], at: &Path, is_child: impl Fn(&String) -> bool) -> Option<Path> {
    let first = path.first()?;
    match first.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some([&at[..], &path[1..]].concat()),
        "super" => {
            let up = path.iter().take_while(|segment| *segment == "super").count();
            Some([&at[..at.len().checked_sub(up)?], &path[up..]].concat())
        }
        _ => is_child(first).then(|| [&at[..], path].concat()),
    }
}

/// Returns the ranges between `use` and `;`, each with a flag for re-exports.
fn uses(code: &str) -> Vec<(std::ops::Range<usize>, bool)> {
    let mut found = Vec::new();
    for at in crate::lines::words(code, "use") {
        let line = code[..at].rfind('\n').map_or(0, |end| end + 1);
        let before = code[line..at].trim();
        let from = at + "use".len();
        if (before.is_empty() || before.starts_with("pub")) && code[from..].starts_with(' ') {
            let end = code[from..].find(';').map_or(code.len(), |length| from + length);
            found.push((from..end, before.starts_with("pub")));
        }
    }
    found
}

/// Returns the paths of a `use` with their local names.
fn tree(text: &str, above: &[String]) -> Vec<(Path, String)> {
    let text = text.trim();
    if let Some((before, inside)) = text.strip_suffix('}').and_then(|text| text.split_once('{')) {
        let above = [above, &segments(before)].concat();
        return split(inside).into_iter().flat_map(|part| tree(part, &above)).collect();
    }
    let (path, name) = text.split_once(" as ").map_or((text, None), |(path, name)| (path, Some(name.trim())));
    let mut path = [above, &segments(path)].concat();
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    let name = name.map(str::to_owned).or_else(|| path.last().cloned());
    name.map(|name| (path, name)).into_iter().collect()
}

/// Splits a list at its commas.
fn split(list: &str) -> Vec<&str> {
    let mut depth = 0;
    let is_end = |c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    };
    list.split(is_end).filter(|part| !part.trim().is_empty()).collect()
}

/// Splits a path. One that begins with `::` leaves the crate, and keeps its empty first segment.
fn segments(path: &str) -> Path {
    let path = path.trim();
    let path = path.strip_suffix("::").unwrap_or(path);
    path.split("::")
        .map(|segment| segment.trim().to_owned())
        .filter(|s| !s.is_empty() || path.starts_with("::"))
        .collect()
}

/// Returns every path of several segments in code, up to the first segment that is no name.
fn paths(code: &str) -> BTreeSet<Path> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut paths = BTreeSet::new();
    let mut rest = code;
    while let Some(start) = rest.find(is_name) {
        let before = &rest[..start];
        let is_first = !before.ends_with("::") && !before.ends_with('.');
        let mut path: Path = Vec::new();
        rest = &rest[start..];
        loop {
            let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            path.push(rest[..end].to_owned());
            rest = &rest[end..];
            match rest.strip_prefix("::").filter(|next| next.starts_with(is_name)) {
                Some(next) => rest = next,
                None => break,
            }
        }
        if is_first && path.len() > 1 {
            paths.insert(path);
        }
    }
    paths
}

/// Returns the name of the item that begins in a line, if it belongs to the file itself and not to another item.
fn defined(line: &str) -> Option<&str> {
    if line.starts_with(|c: char| !c.is_alphabetic()) {
        return None;
    }
    let words = line.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '!')).filter(|word| !word.is_empty());
    let mut words = words.skip_while(|word| {
        matches!(*word, "pub" | "crate" | "super" | "self" | "in" | "default" | "async" | "unsafe" | "extern")
    });
    let kind = words.next()?;
    let is_item =
        matches!(kind, "fn" | "struct" | "enum" | "trait" | "const" | "static" | "type" | "union" | "macro_rules!");
    let is_function = |word: &&str| matches!(*word, "fn" | "async" | "unsafe" | "extern");
    words.find(|word| !is_function(word) && *word != "mut").filter(|_| is_item)
}

#[cfg(test)]
fn complaints_about(files: &[(&str, &str)]) -> Vec<String> {
    let sources: Vec<_> =
        files.iter().map(|(file, text)| Source::new(&format!("crates/x/src/{file}.rs"), text)).collect();
    circles(&sources, &[])
}

#[test]
fn import_cycle_is_found_with_its_imported_names() {
    let found = complaints_about(&[
        ("lib", "mod a;\nmod b;\npub use a::A;\n"),
        ("a", "use crate::b::{B, inner::C};\npub struct A;\n"),
        ("b", "pub struct B;\npub mod inner { pub struct C; }\nfn b() -> super::A { todo() }\n"),
    ]);
    assert_eq!(found, ["crates/x/src/a.rs imports B, C from crates/x/src/b.rs, which imports A from it"]);
}

#[test]
fn import_cycle_through_several_files_is_found_once() {
    let found = complaints_about(&[
        ("lib", "mod a;\nmod b;\nmod c;\n"),
        ("a", "use crate::b::one as other;\npub(crate) const fn three() {}\n"),
        ("b", "pub fn one() { crate::c::TWO; }\n"),
        ("c", "use super::{a::{self}, d};\npub const TWO: u8 = 2;\n"),
    ]);
    let expected = "crates/x/src/a.rs imports one from crates/x/src/b.rs, which imports TWO from crates/x/src/c.rs, \
                    which imports a from crates/x/src/a.rs";
    assert_eq!(found, [expected]);
}

#[test]
fn names_are_followed_through_reexports_to_the_file_that_defines_them() {
    // Without following re-exports this would be no circle: `a` only re-exports a definition of `a/inner`.
    let found = complaints_about(&[
        ("lib", "mod a;\nmod b;\n"),
        ("a/mod", "mod inner;\npub use inner::run as start;\n"),
        ("a/inner", "use crate::b::B;\npub fn run() {}\n"),
        ("b", "use crate::a;\npub struct B;\nfn b() { a::start(); }\n"),
    ]);
    assert_eq!(found, ["crates/x/src/a/inner.rs imports B from crates/x/src/b.rs, which imports start from it"]);
}

#[test]
fn reexports_ancestors_tests_and_other_crates_form_no_cycle() {
    let found = complaints_about(&[
        ("lib", "mod a;\nmod b;\nmod io;\n"),
        ("a", "mod child;\npub use super::b::B;\npub struct A;\nfn a() { child::run(); }\n"),
        ("a/child", "use super::A;\npub fn run() {}\n"),
        ("b", "use crate::a::A;\npub struct B;\n#[cfg(test)]\nmod tests {\n    use crate::io::workspace;\n}\n"),
        (
            "io",
            "use crate::b::B;\nuse ::b::B as Other;\n// crate::a::A\npub fn read() { std::a::A; \"crate::a::A\"; }\n",
        ),
    ]);
    assert_eq!(found, Vec::<String>::new());
    let files = [
        ("crates/x/src/a.rs", "use super::b::B;\npub fn a() {}"),
        ("crates/x/src/b.rs", "use super::a::a;\npub struct B;"),
    ];
    let sources = files.map(|(path, text)| Source::new(path, text));
    assert_eq!((circles(&sources, &[]).len(), circles(&sources, &["x"]).len()), (1, 0));
}
