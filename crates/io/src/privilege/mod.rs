//! Drops the privileges that a running router does not need: its initial user, capabilities, files, system calls.
//!
//! This is done after the ports are open, and on every thread ([`threads`]), because these are attributes of a thread. If the kernel lacks one of the
//! restrictions, the others still apply, and an advisory says so. Dropping user and capabilities must succeed, or the router does not start.
//!
//! | restriction | since | prevents |
//! |---|---|---|
//! | user and capabilities | always | access to files and processes of others; everything but networking |
//! | no new privileges | 3.5 | set-user-id programs |
//! | Landlock | 5.13 | files that no port needs, and TCP connections (6.7) |
//! | seccomp | 3.5 (all threads at once: 3.17) | system calls that no port needs |

mod capabilities;
mod files;
mod filter;
mod ports;
mod threads;

pub use capabilities::{Capability, current_capabilities};
pub use ports::{PrivilegeLimits, directories, directory_of};

use crate::accounts::{self, User};
use rustix::process::{getegid, geteuid};
use std::fmt;
use std::fs;
use std::path::PathBuf;
use threads::Call;

/// The privileges to keep.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// The user to become; `None` to stay the same.
    pub user: Option<User>,
    /// Capabilities to keep, if present.
    pub keep: Vec<Capability>,
    /// Files and directories that may be read, in addition to those that every router reads.
    pub read: Vec<PathBuf>,
    /// Directories in which files may be created, written and removed.
    pub write: Vec<PathBuf>,
    /// True if memory may become executable, because guests are compiled.
    pub code: bool,
}

/// The remaining privileges of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Confined {
    /// Its user.
    pub user: String,
    /// Its capabilities.
    pub capabilities: Vec<Capability>,
    /// True if it can only open allowed files.
    pub landlock: bool,
    /// True if it can only make allowed system calls.
    pub seccomp: bool,
    /// Advisories about missing restrictions.
    pub advisories: Vec<String>,
}

/// The reason why privileges could not be dropped. The process must end, because it may have dropped some of them.
#[derive(Debug)]
pub struct ConfineError {
    reason: String,
}

impl fmt::Display for ConfineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot drop privileges: {}; --unconfined keeps them", self.reason)
    }
}

impl std::error::Error for ConfineError {}

/// Drops everything but the privileges in `policy`, on every thread. This cannot be undone.
pub fn confine(policy: &Policy) -> Result<Confined, ConfineError> {
    let failed = |reason: String| ConfineError { reason };
    let mut warnings = Vec::new();
    let mut calls = Vec::new();
    let own = capabilities::current_capabilities().map_err(|error| failed(error.to_string()))?;
    let user = policy.user.as_ref().filter(|user| (user.uid, user.gid) != (geteuid().as_raw(), getegid().as_raw()));
    // The order matters. The bounding set needs CAP_SETPCAP and the user CAP_SETUID, so both come before the capabilities are dropped. Landlock and
    // seccomp need "no new privileges".
    if own.contains(&Capability::SetPcap) {
        calls.extend(capabilities::drop_from_bounding_set(&policy.keep));
    }
    if let Some(user) = user {
        if let Some(why) = user_obstacle(user) {
            return Err(failed(why));
        }
        calls.extend(become_user(user));
    }
    let kept: Vec<Capability> = policy.keep.iter().copied().filter(|capability| own.contains(capability)).collect();
    calls.extend(capabilities::keep_only(&kept));
    calls.push(Call::new(
        "prctl(PR_SET_NO_NEW_PRIVS)",
        libc::SYS_prctl,
        [libc::PR_SET_NO_NEW_PRIVS as usize, 1, 0, 0, 0],
    ));
    // Kept open until every thread has used it.
    let files = files::ruleset(policy).unwrap_or_else(|error| {
        warnings.push(format!("file access is unrestricted: Landlock refuses ({error})"));
        None
    });
    match &files {
        Some(ruleset) => calls.push(files::restrict(ruleset)),
        None if warnings.is_empty() => {
            warnings.push(
                "file access is unrestricted: the kernel has no Landlock (Linux 5.13, CONFIG_SECURITY_LANDLOCK)".into(),
            );
        }
        None => {}
    }
    threads::every_thread(calls).map_err(failed)?;
    // Last, because it forbids several of the calls above.
    let seccomp = filter::install(policy.code).map_err(|error| {
        warnings.push(format!("system calls are unrestricted: seccomp refuses ({error})"));
    });
    let uid = geteuid().as_raw();
    Ok(Confined {
        user: policy
            .user
            .as_ref()
            .filter(|user| user.uid == uid)
            .map_or_else(|| uid.to_string(), |user| user.name.clone()),
        capabilities: kept,
        landlock: files.is_some(),
        seccomp: seccomp.is_ok(),
        advisories: warnings,
    })
}

/// The restrictions that the kernel supports: the version of its Landlock interface, and seccomp.
pub fn available() -> (Option<u32>, bool) {
    (files::version(), fs::exists("/proc/sys/kernel/seccomp").unwrap_or(false))
}

/// The reason why this process cannot become that user, if there is one.
fn user_obstacle(user: &User) -> Option<String> {
    if !geteuid().is_root() {
        return Some(format!("only root can become the user {}", user.name));
    }
    let mapped = |map: &str, id: u32| {
        let ranges = fs::read_to_string(format!("/proc/self/{map}")).unwrap_or_default();
        is_mapped(&ranges, id)
    };
    (!mapped("uid_map", user.uid) || !mapped("gid_map", user.gid))
        .then(|| format!("the user {} does not exist in this user namespace", user.name))
}

/// True if a map of user_namespaces(7) has an id: rows of first inside, first outside, count.
fn is_mapped(map: &str, id: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map(|word| word.parse::<u64>().unwrap_or(0));
        let (first, _, count) = (numbers.next(), numbers.next(), numbers.next());
        matches!((first, count), (Some(first), Some(count)) if (first..first + count).contains(&id.into()))
    })
}

/// The calls by which a thread changes its user and keeps its capabilities until they are set.
fn become_user(user: &User) -> Vec<Call> {
    let (uid, gid) = (user.uid as usize, user.gid as usize);
    let groups = accounts::supplementary_groups(user);
    let groups: &'static [u32] = Box::leak(groups.into_boxed_slice());
    vec![
        Call::new("prctl(PR_SET_KEEPCAPS)", libc::SYS_prctl, [libc::PR_SET_KEEPCAPS as usize, 1, 0, 0, 0]),
        // Groups before the user: changing the user clears the effective capabilities that this call needs.
        Call::new("setgroups", libc::SYS_setgroups, [groups.len(), groups.as_ptr().addr(), 0, 0, 0]),
        Call::new("setresgid", libc::SYS_setresgid, [gid, gid, gid, 0, 0]),
        Call::new("setresuid", libc::SYS_setresuid, [uid, uid, uid, 0, 0]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_namespace_has_the_users_of_its_map() {
        assert!(is_mapped("         0          0 4294967295\n", 990));
        assert!(!is_mapped("0 1000 1\n", 990) && is_mapped("0 1000 1\n", 0));
        assert!(is_mapped("0 1000 1\n1 100000 65536\n", 990));
        assert!(!is_mapped("", 0) && !is_mapped("x", 0));
    }
}
