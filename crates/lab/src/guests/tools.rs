//! The build tools of each guest language: how to find them, install them and call them.

use super::kit::is_c;
use anyhow::{Context, Result, bail};
use cli::arguments::Language;
use serde_json::Value;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TARGET: &str = "wasm32-unknown-unknown";

/// A missing tool.
#[derive(Debug)]
pub struct Missing {
    /// Its name.
    pub what: &'static str,
    /// How to install it.
    pub how: String,
}

/// The missing tools to build the guest of a folder, in the order in which to install them.
pub fn missing(language: Language, folder: &Path) -> Vec<Missing> {
    let mut missing = Vec::new();
    let mut need = |there: bool, what: &'static str, how: &str| {
        if !there {
            missing.push(Missing { what, how: how.to_owned() });
        }
    };
    match language {
        Language::Rust => {
            let rust = is_installed("cargo") && is_installed("rustc");
            need(rust, "Rust is not installed", "get it from https://rustup.rs");
            let how = format!("rustup target add {TARGET}");
            need(!rust || has_target(), "Rust's library for WebAssembly is not installed", &how);
        }
        Language::C => {
            need(
                is_installed("clang"),
                "clang is not installed (gcc makes no WebAssembly)",
                "sudo apt-get install clang",
            );
            need(linker(), "lld, clang's linker for WebAssembly, is not installed", "sudo apt-get install lld");
        }
        Language::AssemblyScript => {
            let node = is_installed("node") && is_installed("npm");
            need(node, "Node.js and npm are not installed", "sudo apt-get install npm, or see https://nodejs.org");
            let how = format!("npm --prefix {} install", shell(folder));
            need(!node || asc(folder).is_some(), "the compiler of AssemblyScript is not in the folder yet", &how);
        }
    }
    missing
}

/// A path quoted for a shell.
pub fn shell(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

fn is_installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// The output of a command that succeeds.
fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn has_target() -> bool {
    output_of("rustc", &["--print", "target-libdir", "--target", TARGET]).is_some_and(|path| Path::new(&path).is_dir())
}

/// True if a linker for WebAssembly is installed. Clang also uses the one in its own directory.
fn linker() -> bool {
    let beside =
        || output_of("clang", &["--print-prog-name=wasm-ld"]).is_some_and(|path| Path::new(&path).is_absolute());
    is_installed("wasm-ld") || is_installed("clang") && beside()
}

/// The AssemblyScript compiler, installed in the folder or in a parent.
fn asc(folder: &Path) -> Option<PathBuf> {
    let folder = folder.canonicalize().ok()?;
    folder.ancestors().map(|above| above.join("node_modules/.bin/asc")).find(|asc| asc.exists())
}

/// Builds the guest of a folder into a file. The tools print their own messages.
pub fn build(language: Language, folder: &Path, out: &Path) -> Result<()> {
    match language {
        Language::Rust => rust(folder, out),
        Language::C => run(Command::new("clang").current_dir(folder).args(C).arg("-o").arg(out).args(sources(folder)?)),
        Language::AssemblyScript => {
            let asc = asc(folder).context("the compiler of AssemblyScript is missing")?;
            run(Command::new(asc).current_dir(folder).args(["--config", "asconfig.json", "--outFile"]).arg(out))
        }
    }
}

/// Freestanding, because there is no library. A small stack, because a guest has one megabyte in all.
const C: &[&str] = &[
    "--target=wasm32",
    "-std=c17",
    "-O3",
    "-flto",
    "-Wall",
    "-Wextra",
    "-ffreestanding",
    "-nostdlib",
    "-mbulk-memory",
    "-I.",
    "-Wl,--no-entry,-zstack-size=65536,--strip-all",
];

fn sources(folder: &Path) -> Result<Vec<OsString>> {
    let files = fs::read_dir(folder)?.flatten().map(|file| file.path()).filter(|path| is_c(path));
    let mut names: Vec<OsString> = files.filter_map(|path| path.file_name().map(OsString::from)).collect();
    names.sort();
    Ok(names)
}

fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_owned();
    let status = command.stdin(Stdio::null()).status().with_context(|| program.display().to_string())?;
    if !status.success() {
        bail!("the build failed: see above");
    }
    Ok(())
}

fn rust(folder: &Path, out: &Path) -> Result<()> {
    let target = folder.join("target");
    let mut command = Command::new("cargo");
    command.current_dir(folder).args(["build", "--release", "--target", TARGET, "--target-dir"]).arg(&target);
    command.args(["--message-format", "json-render-diagnostics"]).stdin(Stdio::null()).stderr(Stdio::inherit());
    // RUSTFLAGS in the environment would override those of the folder, which the linker needs.
    command.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    let output = command.output().context("cargo")?;
    if !output.status.success() {
        bail!("the build failed: see above");
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let mut made = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).filter_map(|message| {
        let files = message["filenames"].as_array()?.iter().filter_map(Value::as_str).map(PathBuf::from);
        files.into_iter().find(|file| file.extension().is_some_and(|extension| extension == "wasm"))
    });
    let made = made
        .next_back()
        .context("cargo has built no .wasm file; write crate-type = [\"cdylib\"] under [lib] in Cargo.toml")?;
    fs::copy(&made, out).with_context(|| format!("{} to {}", made.display(), out.display()))?;
    Ok(())
}
