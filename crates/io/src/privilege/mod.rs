//! Giving away what a running router does not need: the user it was started as, capabilities, files, system calls.
//!
//! It is done when the ports are open, and by every thread ([`threads`]): to the kernel these are matters of a thread.
//! Where the kernel lacks one of the fences the others hold, and a remark says so; what was there before (the user, the
//! capabilities) has to go, or the router does not start.
//!
//! | fence | since | what it keeps out |
//! |---|---|---|
//! | user and capabilities | always | files and processes of others; everything but networking |
//! | no new privileges | 3.5 | set-user-id programs |
//! | Landlock | 5.13 | files that no port needs, and TCP connections (6.7) |
//! | seccomp | 3.5 (all threads at once: 3.17) | system calls that no port needs |

mod capabilities;
mod files;
mod filter;
mod ports;
mod threads;

pub use capabilities::{Capability, held};
pub use ports::{Fence, directories, directory_of};

use crate::accounts::{self, User};
use rustix::process::{getegid, geteuid};
use std::fmt;
use std::fs;
use std::path::PathBuf;
use threads::Call;

/// What is kept.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// The user to be from now on; nothing to stay.
    pub user: Option<User>,
    /// Capabilities that are kept, where they are there.
    pub keep: Vec<Capability>,
    /// Files and directories that may be read, besides what every router reads.
    pub read: Vec<PathBuf>,
    /// Directories in which files may be made, written and removed.
    pub write: Vec<PathBuf>,
    /// Whether memory may become code: guests are compiled.
    pub code: bool,
}

/// What a process has given away.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Confined {
    /// The user it is.
    pub user: String,
    /// The capabilities it has left.
    pub capabilities: Vec<Capability>,
    /// Whether it can only open what was allowed.
    pub landlock: bool,
    /// Whether it can only make the system calls that were allowed.
    pub seccomp: bool,
    /// What could not be had.
    pub remarks: Vec<String>,
}

/// Why privileges could not be given away. The process is not to go on: it may have given away some of them.
#[derive(Debug)]
pub struct ConfineError {
    reason: String,
}

impl fmt::Display for ConfineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "privileges cannot be given away: {}; --unconfined keeps them", self.reason)
    }
}

impl std::error::Error for ConfineError {}

/// Gives away everything but what `policy` keeps, on every thread there is. It cannot be undone.
pub fn confine(policy: &Policy) -> Result<Confined, ConfineError> {
    let failed = |reason: String| ConfineError { reason };
    let mut remarks = Vec::new();
    let mut calls = Vec::new();
    let own = capabilities::held().map_err(|error| failed(error.to_string()))?;
    let user = policy.user.as_ref().filter(|user| (user.uid, user.gid) != (geteuid().as_raw(), getegid().as_raw()));
    if own.contains(&Capability::SetPcap) {
        calls.extend(capabilities::drop_from_bounding_set(&policy.keep));
    }
    if let Some(user) = user {
        if let Some(why) = impossible(user) {
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
        remarks.push(format!("files are not fenced in: Landlock refuses ({error})"));
        None
    });
    match &files {
        Some(ruleset) => calls.push(files::restrict(ruleset)),
        None if remarks.is_empty() => {
            remarks.push(
                "files are not fenced in: the kernel has no Landlock (Linux 5.13, CONFIG_SECURITY_LANDLOCK)".into(),
            );
        }
        None => {}
    }
    threads::every_thread(calls).map_err(failed)?;
    let seccomp = filter::install(policy.code).map_err(|error| {
        remarks.push(format!("system calls are not fenced in: seccomp refuses ({error})"));
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
        remarks,
    })
}

/// Whether the kernel has the fences: Landlock by its version of the interface, seccomp.
pub fn available() -> (Option<u32>, bool) {
    (files::version(), fs::exists("/proc/sys/kernel/seccomp").unwrap_or(false))
}

/// Why this process cannot become that user, if it cannot.
fn impossible(user: &User) -> Option<String> {
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

/// Whether a map of user_namespaces(7) has a number: rows of first inside, first outside, how many.
fn is_mapped(map: &str, id: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map(|word| word.parse::<u64>().unwrap_or(0));
        let (first, _, count) = (numbers.next(), numbers.next(), numbers.next());
        matches!((first, count), (Some(first), Some(count)) if (first..first + count).contains(&id.into()))
    })
}

/// The calls by which a thread becomes a user and keeps its capabilities, until they are set.
fn become_user(user: &User) -> Vec<Call> {
    let (uid, gid) = (user.uid as usize, user.gid as usize);
    let groups = accounts::supplementary_groups(user);
    let groups: &'static [u32] = Box::leak(groups.into_boxed_slice());
    vec![
        Call::new("prctl(PR_SET_KEEPCAPS)", libc::SYS_prctl, [libc::PR_SET_KEEPCAPS as usize, 1, 0, 0, 0]),
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
