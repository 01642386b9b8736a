//! Routing daemons of Debian's packages in network namespaces: FRR and BIRD.

use crate::rig::until;
use io::netns::Namespace;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

const FRR: &str = "/usr/lib/frr";

/// Programs of the packages `frr` and `bird2`.
pub const PROGRAMS: [&str; 2] = ["/usr/lib/frr/zebra", "/usr/sbin/bird"];

/// A running program that ends with this value.
pub struct Process {
    child: Child,
}

impl Process {
    pub fn start(namespace: &Namespace, command: &mut Command, log: &Path) -> Process {
        let log = File::create(log).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        Process { child: namespace.run(|| command.spawn()).unwrap().unwrap() }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// FRR on one router: zebra and protocol daemons, each with its configuration.
pub struct Frr {
    namespace: Arc<Namespace>,
    directory: PathBuf,
    daemons: Vec<(&'static str, Process)>,
}

impl Frr {
    /// Starts zebra and these daemons; zebra needs no configuration. The directory is new; the daemons own it, because they give up root's rights.
    pub fn start(namespace: Arc<Namespace>, directory: PathBuf, daemons: &[(&'static str, String)]) -> Frr {
        fs::create_dir(&directory).unwrap();
        let mut frr = Frr { namespace, directory, daemons: Vec::new() };
        for (daemon, configuration) in [("zebra", String::new())].iter().chain(daemons) {
            fs::write(frr.configuration(daemon), configuration).unwrap();
        }
        let owned = Command::new("chown").args(["-R", "frr:frr"]).arg(&frr.directory).status().unwrap();
        assert!(owned.success());
        frr.launch("zebra", &[]);
        for (daemon, _) in daemons.iter().filter(|(daemon, _)| *daemon != "zebra") {
            frr.launch(daemon, &[]);
        }
        frr
    }

    fn configuration(&self, daemon: &str) -> PathBuf {
        self.directory.join(format!("{daemon}.conf"))
    }

    /// Starts a daemon, and waits until it answers.
    pub fn launch(&mut self, daemon: &'static str, more: &[&str]) {
        let inside = |name: String| self.directory.join(name);
        let vty = inside(format!("{daemon}.vty"));
        let _ = fs::remove_file(&vty);
        let mut command = Command::new(Path::new(FRR).join(daemon));
        command.arg("-f").arg(self.configuration(daemon)).arg("-i").arg(inside(format!("{daemon}.pid")));
        command.arg("-z").arg(inside("zserv.api".into())).arg("--vty_socket").arg(&self.directory).args(["-P", "0"]);
        let log = inside(format!("{daemon}.log"));
        let process = Process::start(&self.namespace, command.args(["--log", "stdout"]).args(more), &log);
        self.daemons.push((daemon, process));
        until(|| vty.exists().then_some(()));
    }

    /// Kills a daemon without a warning.
    pub fn kill(&mut self, daemon: &str) {
        self.daemons.retain(|(name, _)| *name != daemon);
    }

    /// The output of a command of FRR's shell.
    pub fn ask(&self, command: &str) -> String {
        let output = Command::new("vtysh").arg("--vty_socket").arg(&self.directory).args(["-c", command]).output();
        String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
    }

    /// Everything that its daemons have logged, for messages of failed tests.
    pub fn logs(&self) -> String {
        let read = |(daemon, _): &(&'static str, Process)| {
            let text = fs::read_to_string(self.directory.join(format!("{daemon}.log"))).unwrap_or_default();
            format!("--- {daemon}\n{text}\n")
        };
        self.daemons.iter().map(read).collect()
    }
}

/// BIRD on one router.
pub struct Bird {
    socket: PathBuf,
    _process: Process,
}

impl Bird {
    pub fn start(namespace: &Namespace, directory: &Path, configuration: &str) -> Bird {
        let (file, socket) = (directory.join("bird.conf"), directory.join("bird.ctl"));
        fs::write(&file, configuration).unwrap();
        let _ = fs::remove_file(&socket);
        let mut command = Command::new("/usr/sbin/bird");
        command.arg("-f").arg("-c").arg(&file).arg("-s").arg(&socket);
        let log = directory.join("bird.log");
        let mut process = Process::start(namespace, &mut command, &log);
        until(|| {
            let ended = process.child.try_wait().unwrap();
            assert!(ended.is_none(), "{}", fs::read_to_string(&log).unwrap_or_default());
            socket.exists().then_some(())
        });
        Bird { socket, _process: process }
    }

    /// The output of a command of BIRD's shell.
    pub fn ask(&self, command: &str) -> String {
        let output = Command::new("/usr/sbin/birdc").arg("-s").arg(&self.socket).arg(command).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}
