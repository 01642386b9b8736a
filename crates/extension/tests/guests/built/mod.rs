//! The guest with the router's own schemes, made with the kit and built once.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

const TARGET: &str = "wasm32-unknown-unknown";

/// Its module. Without the Rust library for the target it is none, with a message; in CI that is a failure.
pub fn native() -> Option<Vec<u8>> {
    static BUILT: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    BUILT.get_or_init(build).clone()
}

fn build() -> Option<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().expect("there is a compiler");
    let sysroot = String::from_utf8(sysroot.stdout).expect("a path");
    if !Path::new(sysroot.trim()).join("lib/rustlib").join(TARGET).is_dir() {
        assert!(std::env::var_os("CI").is_none(), "{TARGET} is missing: rustup target add {TARGET}");
        println!("left out: {TARGET} is missing; rustup target add {TARGET}");
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
    Some(std::fs::read(target.join(TARGET).join("release/native.wasm")).expect("it was built"))
}
