//! Restricts the files that the router may open (landlock(7)). Open files stay open.

use super::Policy;
use super::threads::Call;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError,
};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

/// The newest Landlock version whose rights are handled, if the kernel supports it: the one with device ioctls.
const VERSION: ABI = ABI::V5;

/// The files that every router reads, and the reason.
const READ: &[(&str, &str)] = &[
    ("/proc/self", "its own threads and capabilities"),
    ("/proc/sys", "limits of the kernel"),
    ("/proc/net", "interfaces"),
    ("/proc/meminfo", "huge pages"),
    ("/sys/class/net", "queues and features of interfaces"),
    ("/sys/devices", "what links in /sys/class lead to; processors and their memory"),
    ("/etc/passwd", "names of users in the history"),
    ("/etc/group", "names of groups"),
    ("/etc/localtime", "times in logs"),
    ("/dev/urandom", "random numbers"),
];

/// The devices that every router may use, and the reason.
const DEVICES: &[(&str, &str)] = &[("/dev/null", "captures to nowhere"), ("/dev/net/tun", "`tap:` ports")];

fn read() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::ReadDir
}

fn write() -> BitFlags<AccessFs> {
    let make = AccessFs::MakeReg | AccessFs::MakeDir | AccessFs::MakeSock;
    read() | make | AccessFs::WriteFile | AccessFs::RemoveFile | AccessFs::Truncate | AccessFs::Refer
}

fn device() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev
}

/// The rules. `None` if the kernel has no Landlock.
pub(super) fn ruleset(policy: &Policy) -> Result<Option<OwnedFd>, RulesetError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(VERSION))?
        .handle_access(AccessNet::from_all(VERSION))?
        .create()?;
    let always = READ.iter().map(|(path, _)| (Path::new(path), read()));
    let devices = DEVICES.iter().map(|(path, _)| (Path::new(path), device()));
    let given = policy.read.iter().map(|path| (path.as_path(), read()));
    let written = policy.write.iter().map(|path| (path.as_path(), write()));
    for (path, access) in always.chain(devices).chain(given).chain(written) {
        // Absent files cannot be allowed, and need not be.
        let Ok(opened) = PathFd::new(path) else { continue };
        // Landlock refuses the rights of directories for a file.
        let access = if path.is_dir() { access } else { access & AccessFs::from_file(VERSION) };
        rules = rules.add_rule(PathBeneath::new(opened, access))?;
    }
    Ok(rules.into())
}

/// The call by which a thread restricts itself to the rules.
pub(super) fn restrict(ruleset: &OwnedFd) -> Call {
    let descriptor = ruleset.as_raw_fd() as usize;
    Call::new("landlock_restrict_self", libc::SYS_landlock_restrict_self, [descriptor, 0, 0, 0, 0])
}

/// The version of the kernel's Landlock interface.
pub(super) fn version() -> Option<u32> {
    const VERSION_PLEASE: usize = 1;
    // SAFETY: with this flag the call takes no structure and only returns a number.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0usize, 0usize, VERSION_PLEASE) };
    u32::try_from(version).ok().filter(|&version| version > 0)
}
