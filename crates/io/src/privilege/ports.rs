//! The needs of ports and sets after privileges were dropped: files, and permission to open devices.

use crate::memif::MemifRole;
use plan::{Plan, PortPlan, SetPlan};
use plane::ApplyError;
use std::io;
use std::path::{Path, PathBuf};

/// A file that the router reads or writes, by its directory.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Need {
    path: PathBuf,
    write: bool,
}

fn needs(port: &PortPlan) -> Vec<Need> {
    let device = &port.device;
    let mut needs = Vec::new();
    let mut add = |path: &str, write| needs.push(Need { path: path.into(), write });
    match &*device.kind {
        "pcap" => {
            Some(&*device.target).filter(|path| !path.is_empty()).into_iter().for_each(|path| add(path, false));
            device.write.as_deref().into_iter().for_each(|path| add(path, true));
        }
        "memif" => {
            // Only the listening end creates a file. Landlock, up to the version in use, does not restrict connecting to it.
            if let Some(MemifRole::Listen(path)) = MemifRole::parse(&device.target) {
                add(&path.to_string_lossy(), true);
            }
        }
        _ => {}
    }
    port.capture.as_deref().into_iter().for_each(|path| add(path, true));
    // Read again with each configuration, and when the subscribers change.
    port.shares.file.as_deref().into_iter().for_each(|path| add(path, false));
    needs
}

/// The files of subscribers, which are read again when they change.
fn files_of_subscribers(plan: &Plan) -> Vec<Need> {
    let files = plan.subscribers.iter().flat_map(|section| section.source.files());
    files.map(|path| Need { path: path.into(), write: false }).collect()
}

/// The file of a set, which each apply reads again.
fn file_of(set: &SetPlan) -> Option<Need> {
    set.file.as_ref().map(|path| Need { path: path.into(), write: false })
}

/// The canonical directory of a file; `NotFound` if there is no such directory.
pub fn directory_of(path: &Path) -> io::Result<PathBuf> {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")).canonicalize()
}

/// The directories that a plan reads from and those it writes to.
pub fn directories(plan: &Plan) -> (Vec<PathBuf>, Vec<PathBuf>) {
    // The key of ephemeral state is read again with every change of its table.
    let key = plan.state.as_ref().and_then(|state| state.key.as_deref());
    let key = key.map(|path| Need { path: path.into(), write: false });
    let needs = plan.ports.iter().flat_map(needs).chain(key).chain(plan.sets.iter().filter_map(file_of));
    let needs = needs.chain(files_of_subscribers(plan));
    let (write, read): (Vec<Need>, Vec<Need>) = needs.partition(|need| need.write);
    let directories = |needs: Vec<Need>| needs.iter().filter_map(|need| directory_of(&need.path).ok()).collect();
    (directories(read), directories(write))
}

/// The limits of later configurations.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PrivilegeLimits {
    /// Directories whose files may be read, including writable ones. `None` if files are not restricted.
    pub read: Option<Vec<PathBuf>>,
    /// Directories whose files may be written. `None` if files are not restricted.
    pub write: Option<Vec<PathBuf>>,
    /// True if no device can be opened any more.
    pub no_new_ports: bool,
}

impl PrivilegeLimits {
    /// The ports and set files of `new` that can no longer be opened, given the running configuration.
    pub fn problems(&self, new: &Plan, running: Option<&Plan>) -> Vec<ApplyError> {
        let is_open = |port: &PortPlan| {
            running.is_some_and(|plan| plan.ports.iter().any(|old| old.name == port.name && old.device == port.device))
        };
        let ports = new.ports.iter().flat_map(|port| self.problems_of(port, is_open(port)));
        let files = new.sets.iter().flat_map(|set| self.outside(&format!("set {}", set.name), file_of(set)));
        let subscribers = self.outside("subscribers", files_of_subscribers(new));
        ports.chain(files).chain(subscribers).collect()
    }

    fn problems_of(&self, port: &PortPlan, is_open: bool) -> Vec<ApplyError> {
        let place = format!("port {}", port.name);
        if self.no_new_ports && !is_open && &*port.device.kind != "memory" {
            let reason = format!("'{}' cannot be opened: the router was started with --no-new-ports", port.device);
            return vec![ApplyError { place, reason, hint: "restart it with this configuration".into() }];
        }
        self.outside(&place, needs(port))
    }

    /// The needs that are outside of the directories that may be accessed.
    fn outside(&self, place: &str, needs: impl IntoIterator<Item = Need>) -> Vec<ApplyError> {
        let within = |allowed: &Option<Vec<PathBuf>>, path: &Path| {
            let Some(allowed) = allowed else { return true };
            // Every router may use it: see the module `files`.
            path == Path::new("/dev/null")
                || directory_of(path).is_ok_and(|directory| allowed.iter().any(|root| directory.starts_with(root)))
        };
        let allowed = |need: &Need| within(if need.write { &self.write } else { &self.read }, &need.path);
        let outside = needs.into_iter().filter(|need| !allowed(need)).map(|need| {
            let directory = directory_of(&need.path).unwrap_or_else(|_| need.path.clone());
            ApplyError {
                place: place.to_string(),
                reason: format!(
                    "'{}' is outside of the directories that the router may access since its start",
                    need.path.display()
                ),
                hint: format!("restart it with `--allow-dir {}`, or with this configuration", directory.display()),
            }
        });
        outside.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(ports: &[&str]) -> Plan {
        let port = |(i, device): (usize, &&str)| {
            format!("[port.p{i}]\n{device}\nmac = '02:00:00:00:00:0{i}'\naddress = ['10.0.{i}.1/24']\n")
        };
        let text: String = ports.iter().enumerate().map(port).collect();
        plan::check(&format!("version = 1\n{text}"), "t", &plane::catalogue())
            .unwrap_or_else(|errors| panic!("{errors}"))
    }

    #[test]
    fn port_files_outside_the_limits_are_reported_with_a_hint() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("sub")).unwrap();
        let fence = PrivilegeLimits {
            read: Some(vec![root.clone()]),
            write: Some(vec![root.join("sub")]),
            no_new_ports: false,
        };
        let inside = root.join("in.pcap");
        for (device, problem) in [
            (format!("device = 'pcap:{}'", inside.display()), None),
            (format!("device = 'pcap:'\nwrite = '{}/sub/o.pcapng'", root.display()), None),
            (format!("device = 'pcap:'\nwrite = '{}/o.pcapng'", root.display()), Some("--allow-dir ")),
            (format!("device = 'pcap:'\nwrite = '{}/sub/../o.pcapng'", root.display()), Some("outside")),
            ("device = 'pcap:/etc/in.pcap'".into(), Some("'/etc/in.pcap' is outside")),
            ("device = 'packet:eth0'\ncapture = '/etc/all.pcapng'".into(), Some("--allow-dir /etc`")),
            ("device = 'pcap:'\nwrite = '/dev/null'".into(), None),
            ("device = 'packet:eth0'".into(), None),
        ] {
            let found: Vec<String> = fence.problems(&plan(&[&device]), None).iter().map(ToString::to_string).collect();
            match problem {
                None => assert!(found.is_empty(), "{device}: {found:?}"),
                Some(word) => assert!(found.len() == 1 && found[0].contains(word), "{device}: {found:?}"),
            }
            assert!(PrivilegeLimits::default().problems(&plan(&[&device]), None).is_empty());
        }
    }

    #[test]
    fn no_new_ports_refuses_all_but_open_ports() {
        let fence = PrivilegeLimits { no_new_ports: true, ..PrivilegeLimits::default() };
        let running = plan(&["device = 'packet:eth0'"]);
        let more = plan(&["device = 'packet:eth0'", "device = 'packet:eth1'", "device = 'memory:m'"]);
        let found = fence.problems(&more, Some(&running));
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().contains("port p1: 'packet:eth1' cannot be opened"), "{}", found[0]);
        assert!(fence.problems(&running, Some(&running)).is_empty());
    }

    #[test]
    fn first_configuration_determines_allowed_directories() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let text = format!("device = 'pcap:{0}/in.pcap'\nwrite = '{0}/out.pcapng'", root.display());
        assert_eq!(directories(&plan(&[&text])), (vec![root.clone()], vec![root]));
    }
}
