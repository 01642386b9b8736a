//! The operations that a process without its privileges can and cannot do. Each scene is a process of its own, because it cannot be undone. There is
//! no test harness, because that starts threads.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use io::accounts;
use io::privilege::{self, Capability, Policy};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread;

/// The variable that names the scene for a copy of this program.
const SCENE: &str = "SWITCHPATH_TEST_SCENE";
const PLACE: &str = "SWITCHPATH_TEST_PLACE";

/// A scene, run in its directory.
type Play = fn(&Path);

fn main() {
    let scenes: [(&str, Play); 4] =
        [("root", as_root), ("user", as_another_user), ("nothing", with_nothing_left), ("nobody", without_rights)];
    if let Some(scene) = std::env::var_os(SCENE) {
        let place = PathBuf::from(std::env::var_os(PLACE).unwrap());
        let (_, play) = scenes.iter().find(|(name, _)| scene == *name).unwrap();
        return play(&place);
    }
    let root = rustix::process::getuid().is_root();
    for (name, _) in scenes {
        if !root && name != "nobody" {
            println!("skipped: the scene '{name}' needs root");
            continue;
        }
        let directory = tempfile::tempdir().unwrap();
        for part in ["write", "read", "elsewhere"] {
            fs::create_dir(directory.path().join(part)).unwrap();
            fs::write(directory.path().join(part).join("file"), "x").unwrap();
        }
        let output = Command::new(std::env::current_exe().unwrap())
            .env(SCENE, name)
            .env(PLACE, directory.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{name}: {}\n{said}", output.status);
        println!("{name}: ok");
    }
}

/// The privilege lines of every thread's status.
fn threads() -> Vec<String> {
    let wanted = ["Uid:", "CapEff:", "CapPrm:", "CapBnd:", "NoNewPrivs:", "Seccomp:"];
    let status = |entry: std::io::Result<fs::DirEntry>| {
        let text = fs::read_to_string(entry.unwrap().path().join("status")).unwrap();
        let lines = text.lines().filter(|line| wanted.iter().any(|name| line.starts_with(name)));
        lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join("; ")
    };
    fs::read_dir("/proc/self/task").unwrap().map(status).collect()
}

/// Confines this process, which has a second thread and a socket, and tries operations that are always forbidden.
fn confine(place: &Path, policy: Policy) -> privilege::Confined {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (sender, receiver) = channel::<()>();
    let other = thread::spawn(move || {
        receiver.recv().unwrap_err();
        // The second thread has the same restrictions.
        File::open("/etc/hostname").unwrap_err()
    });
    let policy = Policy { read: vec![place.join("read")], write: vec![place.join("write")], ..policy };
    let confined = privilege::confine(&policy).unwrap();
    let all = threads();
    assert!(all.len() >= 2 && all.iter().all(|thread| *thread == all[0]), "{all:?}");
    assert!(all[0].contains("NoNewPrivs: 1"), "{all:?}");
    if confined.seccomp {
        assert!(all[0].contains("Seccomp: 2"), "{all:?}");
        calls_are_refused();
    }
    if confined.landlock {
        files_are_fenced_in(place);
        let version = privilege::available().0.unwrap_or(0);
        if version >= 4 {
            let refused = TcpStream::connect(listener.local_addr().unwrap()).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
        }
        drop(sender);
        assert_eq!(other.join().unwrap().kind(), ErrorKind::PermissionDenied);
    }
    println!("{confined:?}");
    // Other operations still work.
    assert_eq!(thread::spawn(|| 6 * 7).join().unwrap(), 42);
    UdpSocket::bind("127.0.0.1:0").unwrap();
    fs::write(place.join("write/new"), "y").unwrap();
    fs::rename(place.join("write/new"), place.join("write/newer")).unwrap();
    fs::remove_file(place.join("write/newer")).unwrap();
    assert_eq!(fs::read(place.join("read/file")).unwrap(), b"x");
    confined
}

fn calls_are_refused() {
    assert_eq!(Command::new("/bin/true").status().unwrap_err().kind(), ErrorKind::PermissionDenied);
    // SAFETY: the call is refused, and would affect neither Rust's memory model nor the ownership of descriptors.
    let unshared = unsafe { unshare_unsafe(UnshareFlags::NEWUSER) };
    assert_eq!(unshared, Err(rustix::io::Errno::PERM));
    let socket = socket_with(AddressFamily::VSOCK, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    assert_eq!(socket.unwrap_err(), rustix::io::Errno::PERM);
}

fn files_are_fenced_in(place: &Path) {
    for path in ["/etc/hostname", "/etc/shadow", "/proc/1/status", "/"] {
        assert_eq!(File::open(path).unwrap_err().kind(), ErrorKind::PermissionDenied, "{path}");
    }
    for path in ["read/file", "elsewhere/file", "elsewhere/new"] {
        assert_eq!(File::create(place.join(path)).unwrap_err().kind(), ErrorKind::PermissionDenied, "{path}");
    }
    assert_eq!(File::open(place.join("elsewhere/file")).unwrap_err().kind(), ErrorKind::PermissionDenied);
    assert!(fs::rename(place.join("write/file"), place.join("elsewhere/moved")).is_err());
}

fn as_root(place: &Path) {
    let kept = Capability::PORTS;
    let confined = confine(place, Policy { keep: kept.to_vec(), ..Policy::default() });
    assert_eq!(confined.user, "0");
    let bits: u64 = kept.iter().fold(0, |set, capability| set | 1 << (*capability as u32));
    let all = threads();
    let held = u64::from_str_radix(all[0].split("CapEff: ").nth(1).unwrap().split(';').next().unwrap(), 16).unwrap();
    assert_eq!(held & !bits, 0, "{all:?}");
    // Root needs a capability for other users' files and no longer has it; ports still work.
    socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None).unwrap();
    assert!(socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None).is_ok());
}

fn as_another_user(place: &Path) {
    let Some(user) = accounts::user("nobody") else { return println!("skipped: there is no user 'nobody'") };
    std::os::unix::fs::chown(place.join("write"), Some(user.uid), Some(user.gid)).unwrap();
    std::os::unix::fs::chown(place, Some(user.uid), Some(user.gid)).unwrap();
    let keep = Capability::PORTS.to_vec();
    let confined = confine(place, Policy { user: Some(user.clone()), keep, ..Policy::default() });
    assert_eq!(confined.user, "nobody");
    let all = threads();
    assert!(all[0].contains(&format!("Uid: {0} {0} {0} {0}", user.uid)), "{all:?}");
    socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None).unwrap();
}

fn with_nothing_left(place: &Path) {
    confine(place, Policy::default());
    let all = threads();
    for set in ["CapEff", "CapPrm", "CapBnd"] {
        assert!(all[0].contains(&format!("{set}: 0000000000000000")), "{all:?}");
    }
    let refused = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None);
    assert_eq!(refused.unwrap_err(), rustix::io::Errno::PERM);
}

/// For an unprivileged user there is nothing to drop, but the restrictions apply.
fn without_rights(place: &Path) {
    let nobody = accounts::user("nobody").filter(|_| rustix::process::getuid().is_root());
    if let Some(user) = nobody {
        privilege::confine(&Policy {
            user: Some(user.clone()),
            read: vec![place.to_path_buf(), "/etc".into()],
            write: vec![place.to_path_buf()],
            ..Policy::default()
        })
        .unwrap();
        assert!(privilege::confine(&Policy { user: accounts::user("root"), ..Policy::default() }).is_err());
        return;
    }
    confine(place, Policy::default());
}
