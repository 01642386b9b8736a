//! A router between two hosts, with its interfaces in a namespace of the kernel.

use crate::network::{create_namespace, is_permitted, remove_namespace, run_in, wait};
use crate::rig::{Router, TestDirectory};
use io::netns::{Lab, LabHost, Namespace};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Both links with addresses of both families.
pub const TWO_LINKS: &str = "version = 1
[port.lan]
device = 'packet:to-lan'
address = ['10.0.1.1/24', '2001:db8:1::1/64']
[port.wan]
device = 'packet:to-wan'
address = ['10.0.2.1/24', '2001:db8:2::1/64']
[linux]
namespace = 'MIRROR'
";

/// A router between a client and its provider.
pub struct Home {
    pub place: TestDirectory,
    pub client: LabHost,
    pub provider: LabHost,
    pub router_host: LabHost,
    mirror: String,
}

impl Home {
    /// None if the machine does not permit it, or without these programs.
    pub fn new(test: &str, programs: &[&str], configuration: &str) -> Option<Home> {
        if !is_permitted(&programs.iter().map(Path::new).collect::<Vec<_>>()) {
            return None;
        }
        let mirror = create_namespace(test);
        let lab = Lab::new().ok()?;
        let [router_host, client, provider] = ["router", "client", "provider"].map(|name| lab.host(name).unwrap());
        router_host.silence_kernel().unwrap();
        lab.cable(&router_host.plug("to-lan"), &client.plug("eth0")).unwrap();
        lab.cable(&router_host.plug("to-wan"), &provider.plug("eth0")).unwrap();
        let place = TestDirectory::new(0);
        place.write("run.toml", &configuration.replace("MIRROR", &mirror));
        fs::set_permissions(place.path("."), fs::Permissions::from_mode(0o755)).unwrap();
        Some(Home { place, client, provider, router_host, mirror })
    }

    /// Starts Switchpath.
    pub fn start_router(&self) -> Router {
        let command = self.place.command(&["run", "run.toml"]);
        self.place.start_by(command, |command| self.router_host.spawn(command))
    }

    /// The namespace of the router's interfaces in the kernel.
    pub fn mirror(&self) -> Namespace {
        let namespace = Namespace::named(&self.mirror).unwrap();
        run_in(&namespace, "ip link set lo up");
        namespace
    }

    /// Everything that programs have logged, for messages of failed tests.
    pub fn logs(&self) -> String {
        let files = fs::read_dir(self.place.path(".")).unwrap().map(|entry| entry.unwrap().path());
        let logs = files.filter(|file| file.extension().is_some_and(|extension| extension == "log"));
        logs.map(|file| format!("--- {}\n{}", file.display(), fs::read_to_string(&file).unwrap_or_default())).collect()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        remove_namespace(&self.mirror);
    }
}

/// The output of a command in a namespace, whether it succeeds or not.
pub fn output(namespace: &Namespace, command: &[&str]) -> String {
    let run = || Command::new(command[0]).args(&command[1..]).output();
    let output = namespace.run(run).unwrap().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Waits until an interface has an address with this beginning.
pub fn await_address(home: &Home, namespace: &Namespace, interface: &str, beginning: &str) {
    let shown = || output(namespace, &["ip", "-br", "addr", "show", "dev", interface]);
    wait(beginning, || home.logs(), || shown().contains(beginning));
}
