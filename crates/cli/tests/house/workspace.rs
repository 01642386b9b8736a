//! Reads the input of the rules: crates and dependencies from cargo, and files from the disk.

use crate::rust::Source;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A crate of the workspace.
#[derive(Debug, Default)]
pub struct Crate {
    pub name: String,
    /// The names of its dependencies, in the workspace and outside.
    pub needs: Vec<String>,
    /// The additional dependencies of its tests, benches and build script.
    pub tests_need: Vec<String>,
    /// The root file of its library and of each binary, from the workspace's root.
    pub roots: Vec<String>,
}

/// A dependency from outside the workspace.
#[derive(Debug)]
pub struct Dependency {
    pub name: String,
    /// An SPDX expression; none if the package has no licence.
    pub licence: Option<String>,
    /// The registry it comes from; none for a path.
    pub source: Option<String>,
}

/// The input of the rules. Paths are relative to the workspace's root, with `/`.
pub struct Workspace {
    pub crates: Vec<Crate>,
    pub dependencies: Vec<Dependency>,
    pub sources: Vec<Source>,
    /// Every text file: sources, documents, configuration, scripts.
    pub texts: BTreeMap<String, String>,
    /// Every file and directory.
    pub paths: BTreeSet<String>,
}

/// Directories of generated files.
const MADE: &[&str] = &["target", ".git", "results", "fuzz/target", "fuzz/artifacts"];
/// Files of these kinds, and files without an extension, are text.
const TEXT: &[&str] = &["rs", "toml", "md", "sh", "py", "json", "yml", "yaml", ""];

impl Workspace {
    /// Reads the workspace this test was compiled in.
    pub fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace's root");
        let mut paths = BTreeSet::new();
        walk(&root, &root, &mut paths);
        let texts: BTreeMap<_, _> = paths
            .iter()
            .filter(|path| TEXT.contains(&extension(path)))
            .filter_map(|path| Some((path.clone(), std::fs::read_to_string(root.join(path)).ok()?)))
            .collect();
        let own = metadata(&root, &["--no-deps", "--offline"]).expect("cargo metadata of the workspace");
        let crates: Vec<_> =
            own["packages"].as_array().expect("packages").iter().map(|p| read_crate(p, &root)).collect();
        let targets =
            own["packages"].as_array().into_iter().flatten().flat_map(|p| p["targets"].as_array().expect("targets"));
        let roots: Vec<_> = targets.map(|t| relative(t["src_path"].as_str().expect("src_path"), &root)).collect();
        let sources = Source::all(&texts, &roots);
        Workspace { crates, dependencies: dependencies(&root), sources, texts, paths }
    }
}

fn extension(path: &str) -> &str {
    Path::new(path).extension().and_then(|e| e.to_str()).unwrap_or("")
}

fn relative(path: &str, root: &Path) -> String {
    Path::new(path).strip_prefix(root).unwrap_or(Path::new(path)).to_string_lossy().into_owned()
}

fn walk(directory: &Path, root: &Path, paths: &mut BTreeSet<String>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = relative(&entry.path().to_string_lossy(), root);
        if MADE.contains(&path.as_str()) {
            continue;
        }
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            walk(&entry.path(), root, paths);
        }
        paths.insert(path);
    }
}

fn metadata(root: &PathBuf, arguments: &[&str]) -> Result<Value, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1"])
        .args(arguments)
        .current_dir(root)
        .output()
        .map_err(|e| format!("cannot run cargo: {e}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata: {e}"))
}

fn read_crate(package: &Value, root: &Path) -> Crate {
    let name = |v: &Value| v["name"].as_str().expect("a name").to_owned();
    let (needs, tests_need): (Vec<_>, Vec<_>) =
        package["dependencies"].as_array().expect("dependencies").iter().partition(|d| d["kind"].is_null());
    let builds = |t: &&Value| {
        let kinds = t["kind"].as_array().expect("kind");
        kinds.iter().any(|k| matches!(k.as_str(), Some("lib" | "bin" | "cdylib" | "staticlib" | "proc-macro")))
    };
    let targets = package["targets"].as_array().expect("targets").iter();
    Crate {
        name: name(package),
        needs: needs.into_iter().map(name).collect(),
        tests_need: tests_need.into_iter().map(name).collect(),
        roots: targets.filter(builds).map(|t| relative(t["src_path"].as_str().expect("src_path"), root)).collect(),
    }
}

/// Returns the dependencies in the lock file for this platform. It asks offline first: the build of this test has fetched them already, and a test
/// should not wait for a network.
fn dependencies(root: &PathBuf) -> Vec<Dependency> {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let for_this = ["--locked", "--filter-platform", &platform];
    let all = metadata(root, &[&for_this[..], &["--offline"]].concat())
        .or_else(|_| metadata(root, &for_this))
        .unwrap_or_else(|why| panic!("cargo metadata with the committed lock file: {why}\nIs Cargo.lock up to date?"));
    let used: BTreeSet<_> =
        all["resolve"]["nodes"].as_array().expect("nodes").iter().filter_map(|n| n["id"].as_str()).collect();
    let own: BTreeSet<_> =
        all["workspace_members"].as_array().expect("workspace_members").iter().filter_map(Value::as_str).collect();
    let packages = all["packages"].as_array().expect("packages").iter();
    let text = |v: &Value| v.as_str().map(str::to_owned);
    packages
        .filter(|p| p["id"].as_str().is_some_and(|id| used.contains(id) && !own.contains(id)))
        .map(|p| Dependency {
            name: format!("{} {}", p["name"].as_str().unwrap_or("?"), p["version"].as_str().unwrap_or("?")),
            licence: text(&p["license"]),
            source: text(&p["source"]),
        })
        .collect()
}
