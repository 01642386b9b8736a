//! Guests made with the kits: the one with the router's own schemes, and the shipped packet functions. Each is built once.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

const TARGET: &str = "wasm32-unknown-unknown";

/// Its module. Without the Rust library for the target it is none, with a message; in CI that is a failure.
pub fn native() -> Option<Vec<u8>> {
    static BUILT: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    BUILT.get_or_init(build).clone()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("it is there")
}

/// True if the tools are installed. In CI it is a failure if they are not, and otherwise a message.
fn is_there(there: bool, what: &str, how: &str) -> bool {
    assert!(there || std::env::var_os("CI").is_none(), "{what} is missing: {how}");
    if !there {
        println!("left out: {what} is missing; {how}");
    }
    there
}

fn has_target() -> bool {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().expect("there is a compiler");
    let sysroot = String::from_utf8(sysroot.stdout).expect("a path");
    let there = Path::new(sysroot.trim()).join("lib/rustlib").join(TARGET).is_dir();
    is_there(there, TARGET, &format!("rustup target add {TARGET}"))
}

/// The module of a shipped packet function. Without the tools of its language it is none, with a message.
pub fn example(file: &str) -> Option<Vec<u8>> {
    static BUILT: Mutex<BTreeMap<String, Option<Vec<u8>>>> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    built.entry(file.to_string()).or_insert_with(|| build_example(file)).clone()
}

/// The module of the code option with which `switchpath guest new --kind slice` begins. Without the tools of its language it is none, with a message.
pub fn slice_template(file: &str) -> Option<Vec<u8>> {
    let folder = match file.rsplit_once('.')?.1 {
        "rs" => "sdk/rust/start",
        "c" => "sdk/c",
        _ => "sdk/assemblyscript",
    };
    let kit = KitFiles { header: "switchpath_slice.h", module: "slice.ts", exports: "slice_exports.ts" };
    build_with(&root().join(folder).join(file), &kit)
}

/// The files of the kits in C and AssemblyScript.
struct KitFiles {
    header: &'static str,
    module: &'static str,
    exports: &'static str,
}

fn build_example(file: &str) -> Option<Vec<u8>> {
    let kit = KitFiles { header: "switchpath_function.h", module: "function.ts", exports: "function_exports.ts" };
    build_with(&root().join("examples/guests").join(file), &kit)
}

fn build_with(source: &Path, kit: &KitFiles) -> Option<Vec<u8>> {
    let file = source.file_name().and_then(|file| file.to_str()).expect("it has a name");
    let (name, language) = file.split_once('.').expect("it has an ending");
    let root = root();
    let folder = root.join("target/guest-examples").join(name);
    let put = |place: &str, text: &str| {
        let path = folder.join(place);
        fs::create_dir_all(path.parent().expect("it is in the folder")).expect("it can be made");
        fs::write(path, text).expect("it can be written");
    };
    let read = |place: &str| fs::read_to_string(root.join(place)).expect("it is there");
    let text = fs::read_to_string(source).expect("it is there");
    let out = folder.join(name).with_extension("wasm");
    let mut command = match language {
        "rs" => {
            if !has_target() {
                return None;
            }
            let path = format!("path = \"{}\"", root.join("sdk/rust").display());
            put(
                "Cargo.toml",
                &read("sdk/rust/start/Cargo.toml").replace("@NAME@", name).replace("path = \"kit\"", &path),
            );
            put(".cargo/config.toml", &read("sdk/rust/start/config.toml"));
            put("src/lib.rs", &text);
            let mut command = Command::new(env!("CARGO"));
            command.args(["build", "--quiet", "--offline", "--release", "--target", TARGET, "--target-dir"]);
            command.arg(root.join("target/guests"));
            command
        }
        "c" => {
            let there = ["clang", "wasm-ld"].iter().all(|tool| Command::new(tool).arg("--version").output().is_ok());
            if !is_there(there, "clang or lld", "apt-get install clang lld") {
                return None;
            }
            put("function.c", &text);
            put(kit.header, &read(&format!("sdk/c/{}", kit.header)));
            let mut command = Command::new("clang");
            command.args([
                "--target=wasm32",
                "-std=c17",
                "-O3",
                "-flto",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-ffreestanding",
            ]);
            command.args(["-nostdlib", "-mbulk-memory", "-Wl,--no-entry,-zstack-size=65536,--strip-all", "function.c"]);
            command.arg("-o").arg(&out);
            command
        }
        _ => {
            let modules = root.join("target/assemblyscript/node_modules");
            if !is_there(modules.is_dir(), "the compiler of AssemblyScript", ".ci/setup test") {
                return None;
            }
            put("asconfig.json", &read("sdk/assemblyscript/asconfig.json"));
            put("assembly/tsconfig.json", &read("sdk/assemblyscript/tsconfig.json"));
            put("assembly/switchpath.ts", &read(&format!("sdk/assemblyscript/{}", kit.module)));
            put("assembly/exports.ts", &read(&format!("sdk/assemblyscript/{}", kit.exports)));
            put("assembly/index.ts", &text);
            let mut command = Command::new(modules.join(".bin/asc"));
            command.args(["--config", "asconfig.json", "--outFile"]).arg(&out);
            command
        }
    };
    // The flags of the kit, regardless of the flags of the tests.
    for variable in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET"] {
        command.env_remove(variable);
    }
    let status = command.current_dir(&folder).status().expect("the compiler runs");
    assert!(status.success(), "{file} is not built");
    let built = root.join("target/guests").join(TARGET).join("release").join(name).with_extension("wasm");
    Some(fs::read(if language == "rs" { built } else { out }).expect("it was built"))
}

fn build() -> Option<Vec<u8>> {
    let root = root();
    if !has_target() {
        return None;
    }
    let target = root.join("target/guests");
    // The flags of the kit, regardless of the flags of the tests.
    let built = Command::new(env!("CARGO"))
        .current_dir(root.join("sdk/rust"))
        .args(["build", "--quiet", "--offline", "--release", "--package", "native", "--target-dir"])
        .arg(&target)
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET")
        .status()
        .expect("cargo runs");
    assert!(built.success(), "the guest is not built");
    Some(fs::read(target.join(TARGET).join("release/native.wasm")).expect("it was built"))
}
