//! `switchpath doctor`: reports what this machine can and cannot do, and how to fix it.

use crate::arguments::DoctorArguments;
use crate::output::{Rows, print_json};
use anyhow::Result;
use io::netns::{self, Permission};
use io::offload::{Ethtool, EthtoolOffload};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::process::{Resource, getrlimit};
use serde::Serialize;
use std::fs;
use std::io::{Write, stdout};
use std::process::ExitCode;

/// The state of one feature of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// It is available.
    Ok,
    /// It works, but could work better.
    Poor,
    /// It is missing.
    Missing,
}

/// The result of one check.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct Finding {
    /// The feature that was checked.
    what: String,
    state: State,
    /// The result in words.
    found: String,
    /// The remedy; empty if nothing needs to be done.
    mend: String,
}

fn finding(what: impl Into<String>, state: State, found: impl Into<String>, mend: impl Into<String>) -> Finding {
    let mend = if state == State::Ok { String::new() } else { mend.into() };
    Finding { what: what.into(), state, found: found.into(), mend }
}

fn either(good: bool, otherwise: State) -> State {
    if good { State::Ok } else { otherwise }
}

/// Checks the machine.
pub fn doctor(arguments: &DoctorArguments) -> Result<ExitCode> {
    let findings = run_checks();
    let mut out = stdout();
    if arguments.json {
        print_json(&mut out, &findings)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = Rows::new(&["", "what", "found"]);
    for Finding { what, state, found, .. } in &findings {
        let state = match state {
            State::Ok => "ok",
            State::Poor => "poor",
            State::Missing => "missing",
        };
        rows.add([state.into(), what.clone(), found.clone()]);
    }
    rows.print(&mut out)?;
    let mend: Vec<&Finding> = findings.iter().filter(|finding| !finding.mend.is_empty()).collect();
    if !mend.is_empty() {
        writeln!(out, "\nRemedies:")?;
        mend.iter().try_for_each(|finding| writeln!(out, "  {}: {}", finding.what, finding.mend))?;
    }
    writeln!(out, "\nMemory and pcap ports, and `switchpath demo` in memory, need none of this.")?;
    Ok(ExitCode::SUCCESS)
}

fn run_checks() -> Vec<Finding> {
    let mut findings = vec![kernel()];
    findings.extend(capabilities(&fs::read_to_string("/proc/self/status").unwrap_or_default()));
    findings.extend([
        packet_socket(),
        xdp_socket(),
        user_namespaces(),
        landlock(),
        seccomp(),
        service_user(),
        locked_memory(),
        huge_pages(&fs::read_to_string("/proc/meminfo").unwrap_or_default()),
        clock_source(),
        cores(),
    ]);
    findings.extend(offloads());
    findings.extend(running());
    findings
}

fn landlock() -> Finding {
    let found = |version| format!("version {version}: a running router can restrict the files that it opens");
    match io::privilege::available().0 {
        Some(version) if version >= 4 => finding("Landlock", State::Ok, found(version), ""),
        Some(version) => finding("Landlock", State::Poor, found(version), "use Linux 6.7 to restrict TCP as well"),
        None => {
            let mend =
                "use Linux 5.13 or newer with CONFIG_SECURITY_LANDLOCK, and `landlock` in the lsm= of its command line";
            finding("Landlock", State::Missing, "a running router can open any file its user can", mend)
        }
    }
}

fn seccomp() -> Finding {
    match io::privilege::available().1 {
        true => finding("seccomp", State::Ok, "a running router can restrict its system calls", ""),
        false => finding("seccomp", State::Missing, "missing", "use a kernel with CONFIG_SECCOMP_FILTER"),
    }
}

/// Checks the user that a router started by root becomes.
fn service_user() -> Finding {
    match io::accounts::user("switchpath") {
        Some(user) => finding(
            "user switchpath",
            State::Ok,
            format!("number {}: a router started by root becomes this user", user.uid),
            "",
        ),
        None => {
            let found = "missing: a router started by root stays root, without root's capabilities";
            finding("user switchpath", State::Poor, found, "`useradd --system --no-create-home switchpath`, or --user")
        }
    }
}

/// Reports the privileges dropped by the running router, if there is one.
fn running() -> Option<Finding> {
    let client = control::Client::new(&control::socket::default_path());
    let status: control::api::Status = client.get("/v1/status").ok()?;
    let what = format!("the router of process {}", status.pid);
    Some(match &status.confinement {
        Some(confinement) => {
            let whole = confinement.landlock && confinement.seccomp;
            let mend = "see Landlock and seccomp above";
            finding(what, either(whole, State::Poor), crate::show::confinement(confinement), mend)
        }
        None => finding(what, State::Poor, "has dropped no privileges", "start it without --unconfined"),
    })
}

fn kernel() -> Finding {
    let system = rustix::system::uname();
    let release = system.release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let found = format!("{} {release} on {}", system.sysname().to_string_lossy(), system.machine().to_string_lossy());
    // Linux 5.11 has busy polling for AF_XDP, and charges socket memory to control groups instead of a locked-memory limit.
    finding("kernel", either(version >= (5, 11), State::Poor), found, "use Linux 5.11 or newer for fast ports")
}

/// Capabilities by number (capability(7)), their purpose, and the effect of their absence.
const CAPABILITIES: &[(&str, u32, &str, &str)] = &[
    ("CAP_NET_RAW", 13, "`packet:` ports", "`packet:` ports cannot be opened"),
    ("CAP_NET_ADMIN", 12, "blocking the kernel's own stack on ports", "the kernel also answers packets of ports"),
    ("CAP_SYS_ADMIN", 21, "network namespaces", "network namespaces only inside a user namespace"),
    ("CAP_IPC_LOCK", 14, "locked memory without limit", "the limit on locked memory applies"),
    ("CAP_BPF", 39, "XDP programs", "XDP programs cannot be loaded"),
];

fn capabilities(status: &str) -> Vec<Finding> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap_or_default();
    let have = u64::from_str_radix(line.trim(), 16).unwrap_or(0);
    let mend = |name: &str, what: &str| {
        match name {
            // setcap replaces the previous capabilities, so the command sets both at once.
            "CAP_NET_RAW" | "CAP_NET_ADMIN" => {
                format!("for {what}: run as root, or `setcap cap_net_raw,cap_net_admin=ep $(command -v switchpath)`")
            }
            _ => format!("for {what}: run as root; no kind of port needs it"),
        }
    };
    CAPABILITIES
        .iter()
        .map(|&(name, bit, what, without)| {
            let has = have >> bit & 1 == 1;
            let found = if has { format!("allows {what}") } else { without.to_owned() };
            finding(name, either(has, State::Missing), found, mend(name, what))
        })
        .collect()
}

fn packet_socket() -> Finding {
    let opened = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None);
    let mend = match opened {
        Err(Errno::PERM | Errno::ACCESS) => {
            "needs CAP_NET_RAW: run as root, or `setcap cap_net_raw,cap_net_admin=ep` the program"
        }
        _ => "use a kernel with CONFIG_PACKET (modprobe af_packet)",
    };
    socket("AF_PACKET", opened.err(), "`packet:` ports can be opened", mend)
}

fn xdp_socket() -> Finding {
    let opened = socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None);
    let mend = match opened {
        Err(Errno::PERM | Errno::ACCESS) => "needs CAP_NET_RAW: run as root",
        _ => "use a kernel with CONFIG_XDP_SOCKETS",
    };
    socket("AF_XDP", opened.err(), "sockets can be opened", mend)
}

fn socket(what: &str, error: Option<Errno>, good: &str, mend: &str) -> Finding {
    match error {
        None => finding(what, State::Ok, good, ""),
        Some(error) => finding(what, State::Missing, std::io::Error::from(error).to_string(), mend),
    }
}

fn user_namespaces() -> Finding {
    match netns::probe() {
        Ok(Permission::Capability) => finding("namespaces", State::Ok, "this process may make network namespaces", ""),
        Ok(Permission::UserNamespace) => {
            finding("namespaces", State::Ok, "unprivileged user namespaces are allowed", "")
        }
        Err(why) => finding("namespaces", State::Missing, why.reason, why.hint),
    }
}

fn locked_memory() -> Finding {
    let limit = getrlimit(Resource::Memlock).current;
    let found = limit.map_or("unlimited".into(), |bytes| format!("{} KiB", bytes >> 10));
    let enough = limit.is_none_or(|bytes| bytes >= 64 << 20);
    let mend = "raise it with `ulimit -l unlimited`, or LimitMEMLOCK=infinity in the unit; CAP_IPC_LOCK lifts it";
    finding("memlock limit", either(enough, State::Poor), found, mend)
}

fn huge_pages(meminfo: &str) -> Finding {
    let field = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let transparent = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let mode = transparent.split(['[', ']']).nth(1).unwrap_or("unknown").to_owned();
    let free = field("HugePages_Free").unwrap_or(0);
    let found = format!("transparent: {mode}; reserved and free: {free}");
    let good = free > 0 || matches!(mode.as_str(), "always" | "madvise");
    let mend = "`echo madvise > /sys/kernel/mm/transparent_hugepage/enabled`; large route tables gain most";
    finding("huge pages", either(good, State::Poor), found, mend)
}

fn clock_source() -> Finding {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let source = fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let good = matches!(source.as_str(), "tsc" | "kvm-clock" | "arch_sys_counter");
    let found = if source.is_empty() { "unknown".into() } else { source };
    finding("clock source", either(good, State::Poor), found, format!("`echo tsc > {path}`, if the machine has it"))
}

fn cores() -> Finding {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let found = format!("{cores} usable");
    finding(
        "processor cores",
        either(cores >= 2, State::Poor),
        found,
        "use two cores: one forwards, the other runs everything else",
    )
}

/// Interfaces that aggregate received frames. A port switches the aggregation off, and this finding announces it.
fn offloads() -> Vec<Finding> {
    let Ok(ethtool) = Ethtool::open() else { return Vec::new() };
    let mut names: Vec<String> = fs::read_dir("/sys/class/net")
        .map(|entries| entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
        .unwrap_or_default();
    names.sort();
    let mut findings = Vec::new();
    for name in names.into_iter().filter(|name| name != "lo") {
        let on = |offload: &EthtoolOffload| ethtool.is_on(&name, *offload).unwrap_or(false);
        let all: Vec<&str> =
            EthtoolOffload::ALL.iter().filter(|offload| on(offload)).map(|offload| offload.name()).collect();
        let joins = [EthtoolOffload::GenericReceive, EthtoolOffload::LargeReceive].iter().any(on);
        let found = if all.is_empty() { "no offloads".into() } else { all.join(" ") };
        let mend = format!(
            "frames of 64 KB do not fit: `ethtool -K {name} gro off lro off` (a `packet:` port does so itself)"
        );
        findings.push(finding(format!("interface {name}"), either(!joins, State::Poor), found, mend));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_by_their_bits() {
        let states = |status: &str| capabilities(status).iter().map(|f| f.state).collect::<Vec<_>>();
        assert!(states("CapEff:\t000001ffffffffff\n").iter().all(|state| *state == State::Ok));
        assert!(states("").iter().all(|state| *state == State::Missing));
        let raw = capabilities("CapPrm:\t0\nCapEff:\t0000000000002000\n");
        let have: Vec<&str> = raw.iter().filter(|f| f.state == State::Ok).map(|f| f.what.as_str()).collect();
        assert_eq!(have, ["CAP_NET_RAW"]);
    }

    #[test]
    fn every_failed_check_has_a_remedy() {
        for finding in run_checks() {
            assert!(!finding.found.is_empty(), "{finding:?}");
            assert_eq!(finding.mend.is_empty(), finding.state == State::Ok, "{finding:?}");
        }
    }
}
