//! A directory with captures and configurations, and routers running in it.

use io::pcap::{CaptureProgram, LinkType, PcapDirection, PcapInterface, PcapRecord, Reader, Writer};
use packet::wire::{Ipv4Spec, ethernet, ethertype};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;
use units::{Instant, Mac, Nanos};

/// The longest wait for anything before a test fails.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A temporary directory, removed at the end.
pub struct TestDirectory {
    directory: tempfile::TempDir,
}

/// A running router.
pub struct Router {
    child: Child,
    notify: UnixDatagram,
}

/// A configuration from `in.pcapng` to `out.pcapng`. `pace` is the speed; `more` is appended.
pub fn config(pace: &str, more: &str) -> String {
    format!(
        r#"
version = 1
[port.lan]
device = "pcap:in.pcapng"
pace = "{pace}"
mac = "02:00:00:00:00:01"
address = ["192.0.2.1/24"]
[port.wan]
device = "pcap:"
write = "out.pcapng"
mac = "02:00:00:00:00:02"
address = ["198.51.100.1/24"]
[[neighbour]]
address = "192.0.2.9"
mac = "02:00:00:00:00:09"
port = "lan"
[[neighbour]]
address = "198.51.100.9"
mac = "02:00:00:00:00:0a"
port = "wan"
[[route]]
to = "0.0.0.0/0"
via = "198.51.100.9"
{more}"#
    )
}

/// The configuration with this queueing scheme on its second port.
pub fn with_scheme(scheme: &str) -> String {
    let text = config("1000pps", "");
    let port = text.rfind("[port.").expect("it has ports");
    let line = port + text[port..].find('\n').expect("more than a header") + 1;
    format!("{}scheme = '{scheme}'\n{}", &text[..line], &text[line..])
}

/// The path of the program built together with this test, or of one beside it.
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().and_then(Path::parent).unwrap().join(name);
    assert!(built.is_file(), "{} is missing: `cargo build --bins` makes it", built.display());
    built
}

impl TestDirectory {
    /// Creates a directory with a capture `in.pcapng` of this many packets, numbered in their source ports. The time to live of every tenth has
    /// expired.
    pub fn new(packets: u16) -> TestDirectory {
        let directory = tempfile::tempdir().unwrap();
        let file = File::create(directory.path().join("in.pcapng")).unwrap();
        let mut writer = Writer::new(file, &CaptureProgram::default(), Nanos::ZERO).unwrap();
        let link = LinkType::ETHERNET;
        let interface =
            writer.add_interface(PcapInterface { name: "x".into(), link, snap_length: 0, mac: None }).unwrap();
        for i in 0..packets {
            let data = udp(i, if i % 10 == 9 { 1 } else { 64 });
            let time = Instant::new(u64::from(i) * 1000);
            let (original, direction) = (data.len() as u32, PcapDirection::In);
            writer
                .packet(&PcapRecord { time, interface, link, original, data: &data, direction, comment: "" })
                .unwrap();
        }
        writer.finish().unwrap();
        TestDirectory { directory }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> &TestDirectory {
        fs::write(self.path(name), text).unwrap();
        self
    }

    /// Returns a command of the binary that uses this directory and its socket.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program("switchpath"));
        self.prepare(&mut command);
        command.args(arguments);
        command
    }

    pub fn prepare(&self, command: &mut Command) {
        command.current_dir(self.directory.path()).env("SWITCHPATH_SOCKET", self.path("control.sock"));
        command.env("NO_COLOR", "1").env_remove("NOTIFY_SOCKET").env_remove("STATE_DIRECTORY").stdin(Stdio::null());
        // The user who runs the tests may have a remote login.
        command.env("SSH_CONNECTION", "127.0.0.1 1 127.0.0.1 22");
    }

    /// Runs a command to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs a command that has to succeed, and returns its output.
    pub fn run_ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        // With `-j` an error is on the standard output.
        let said = [&output.stderr[..], &output.stdout].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(output.status.success(), "{arguments:?}: {}\n{said}", output.status);
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command that has to fail with this code, and returns its error message.
    pub fn run_failing(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        said
    }

    /// Returns the output of a command with `-j`.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let printed = self.run_ok(&[arguments, &["-j"]].concat());
        serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{arguments:?}: {error}\n{printed}"))
    }

    /// Starts a router with the configuration `run.toml`, and waits until it forwards.
    pub fn start(&self) -> Router {
        self.start_as(self.command(&["run", "run.toml"]))
    }

    /// Starts a router by this command, and waits until it forwards.
    pub fn start_as(&self, command: Command) -> Router {
        self.start_by(command, |mut command| command.spawn())
    }

    /// Starts a router by this command, which `spawn` executes, and waits until it forwards.
    pub fn start_by(&self, mut command: Command, spawn: impl FnOnce(Command) -> std::io::Result<Child>) -> Router {
        let path = self.path("notify.sock");
        let _ = fs::remove_file(&path);
        let notify = UnixDatagram::bind(&path).unwrap();
        // As the socket of systemd: any user that the router becomes may write to it.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        notify.set_read_timeout(Some(PATIENCE)).unwrap();
        command.env("NOTIFY_SOCKET", &path).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = spawn(command).unwrap();
        let router = Router { child, notify };
        router.await_notice("READY=1");
        router
    }

    /// Returns source ports and comments of the UDP packets in a capture.
    pub fn read(&self, name: &str) -> Vec<(u16, String)> {
        packets(&self.path(name))
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        // After a failed test the router still runs.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Router {
    /// Waits until the router sends systemd this notification.
    pub fn await_notice(&self, wanted: &str) {
        let mut buffer = [0; 256];
        loop {
            let length = match self.notify.recv(&mut buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => panic!("no {wanted}: {error}"),
            };
            if buffer[..length].starts_with(wanted.as_bytes()) {
                return;
            }
        }
    }

    /// Returns the next notification to systemd, if it arrives within this time.
    pub fn notice_within(&self, patience: Duration) -> Option<String> {
        let mut buffer = [0; 256];
        self.notify.set_read_timeout(Some(patience)).unwrap();
        let received = self.notify.recv(&mut buffer);
        self.notify.set_read_timeout(Some(PATIENCE)).unwrap();
        received.ok().map(|length| String::from_utf8_lossy(&buffer[..length]).into_owned())
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, signal).unwrap();
    }

    /// Waits for the end of the router; returns its status and its output.
    pub fn end(mut self) -> (ExitStatus, String, String) {
        let (mut out, mut err) = (self.child.stdout.take().unwrap(), self.child.stderr.take().unwrap());
        let (sender, ended) = channel();
        thread::spawn(move || {
            let mut texts = [String::new(), String::new()];
            let reader = thread::spawn(move || {
                let mut text = String::new();
                err.read_to_string(&mut text).map(|_| text)
            });
            out.read_to_string(&mut texts[0]).unwrap();
            texts[1] = reader.join().unwrap().unwrap();
            sender.send(texts).unwrap();
        });
        let texts = ended.recv_timeout(PATIENCE).expect("the router did not end");
        let status = self.child.wait().unwrap();
        let [out, err] = texts;
        (status, out, err)
    }

    /// Ends the router regularly; returns its output.
    pub fn stop(self) -> (String, String) {
        self.signal(rustix::process::Signal::TERM);
        let (status, out, err) = self.end();
        assert!(status.success(), "{status}\n{err}");
        (out, err)
    }

    /// Kills the router.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Returns source ports and comments of the UDP packets in a capture.
pub fn packets(path: &Path) -> Vec<(u16, String)> {
    let mut reader = Reader::new(File::open(path).unwrap()).unwrap();
    let mut seen = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        let fields = packet::wire::PacketFields::of(record.data).filter(|fields| fields.protocol == 17);
        seen.extend(fields.and_then(|fields| Some((fields.sport?, record.comment.to_owned()))));
    }
    seen
}

fn udp(sport: u16, ttl: u8) -> Vec<u8> {
    let mut frame = vec![0; 14 + 20 + 8 + 20];
    let (to, from) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 9]));
    ethernet::write_header(&mut frame[..14], to, from, None, ethertype::IPV4).unwrap();
    let spec = Ipv4Spec {
        type_of_service: 0,
        identification: 0,
        dont_fragment: true,
        ttl,
        protocol: 17,
        source: Ipv4Addr::new(192, 0, 2, 9),
        destination: Ipv4Addr::new(203, 0, 113, 5),
    };
    spec.write(&mut frame[14..], 28).unwrap();
    frame[34..36].copy_from_slice(&sport.to_be_bytes());
    frame[36..38].copy_from_slice(&53u16.to_be_bytes());
    frame[38..40].copy_from_slice(&28u16.to_be_bytes());
    frame
}

/// Repeats `ask` until it returns something.
pub fn until<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let end = io::clock::now() + PATIENCE.into();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(io::clock::now() < end, "nothing came within {PATIENCE:?}");
        thread::park_timeout(Duration::from_millis(5));
    }
}
