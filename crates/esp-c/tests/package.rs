//! The installed package for programmers: header and libraries in the compiler's search path, the dissector in tshark's.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn good(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    output
}

/// Installs the libraries built here into a folder. Scripts replace the programs, which other crates build.
fn installed() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (root, built) = (folder.join("root"), folder.join("built"));
    for old in [&root, &built] {
        let _ = fs::remove_dir_all(old);
        fs::create_dir_all(old).unwrap();
    }
    let libraries = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    for library in ["libswitchpath_state.so", "libswitchpath_state.a"] {
        symlink(libraries.join(library), built.join(library)).unwrap();
    }
    for program in ["switchpath", "switchpath-lab"].map(|name| built.join(name)) {
        fs::write(&program, "#!/bin/sh\nfor last; do :; done\n[ \"$1\" != man ] || mkdir -p \"$last\"\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let install = || {
        let mut command = Command::new(format!("{ROOT}/packaging/install"));
        command.arg(&root).arg(&built);
        command
    };
    good(&mut install());
    assert!(!root.join("usr/bin/switchpath-lab").exists(), "the laboratory is a package of its own");
    good(install().arg("laboratory"));
    root
}

/// The path of `name` in one of the folders below another.
fn find(below: &Path, name: &str) -> PathBuf {
    let entries = fs::read_dir(below).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| path.join(name)).find(|path| path.exists()).unwrap_or_else(|| panic!("{name} below {below:?}"))
}

#[test]
fn installed_package_compiles_programs_and_tshark_loads_its_dissector() {
    let root = installed();
    for file in [
        "bin/switchpath",
        "bin/switchpath-lab",
        "lib/systemd/system/switchpath.service",
        "lib/sysusers.d/switchpath.conf",
    ] {
        assert!(root.join("usr").join(file).is_file(), "{file}");
    }
    let libraries = find(&root.join("usr/lib"), "libswitchpath_state.so").parent().unwrap().to_owned();
    let program = root.join("program");
    let mut compiler = Command::new("cc");
    compiler.arg("-I").arg(root.join("usr/include")).arg("-L").arg(&libraries);
    compiler.arg(format!("{ROOT}/crates/esp-c/tests/program.c")).arg("-o").arg(&program).arg("-lswitchpath_state");
    good(&mut compiler);
    good(Command::new(&program).env("LD_LIBRARY_PATH", &libraries));
    // A user's folder of dissectors has the same layout as the system's.
    let home = root.join("home/.local/lib/wireshark");
    fs::create_dir_all(&home).unwrap();
    symlink(libraries.join("wireshark/plugins"), home.join("plugins")).unwrap();
    let mut tshark = Command::new("tshark");
    tshark.env("HOME", root.join("home")).env_remove("XDG_CONFIG_HOME");
    tshark.args(["-n", "-r", &format!("{ROOT}/crates/esp/conformance/instructions.pcap")]);
    if let Ok(output) = tshark.output() {
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && told.contains("Ephemeral") && told.contains("COUNT"), "{told}");
    }
}
