//! Tests if network namespaces can be created here; if not, gives the reason and a remedy.

use super::Namespace;
use rustix::process::{getgid, getuid};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The permission by which network namespaces can be created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Permission {
    /// This process may create them directly (CAP_SYS_ADMIN).
    Capability,
    /// It may after entering a user namespace: see [`enter`].
    UserNamespace,
}

/// The reason why no network namespace can be created here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamespaceError {
    /// The obstacle.
    pub reason: String,
    /// The remedy.
    pub hint: String,
}

impl fmt::Display for NamespaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.reason, self.hint)
    }
}

impl std::error::Error for NamespaceError {}

/// Tests it in child processes that end at once. Changes nothing, and starts no thread.
pub fn probe() -> Result<Permission, NamespaceError> {
    if attempt(unshare_network).is_ok() {
        return Ok(Permission::Capability);
    }
    match attempt(unshare_user_then_network) {
        Ok(()) => Ok(Permission::UserNamespace),
        Err(error) => Err(explain(&error)),
    }
}

/// Tests if a child process can do it. The program that it would execute deliberately does not exist: if exec is the step that fails, `unshare`
/// succeeded.
fn attempt(unshare: fn() -> io::Result<()>) -> io::Result<()> {
    let mut command = Command::new("/proc/self/no such program");
    // SAFETY: between fork and exec only system calls are made; no memory is allocated and no lock taken.
    unsafe { command.pre_exec(unshare) };
    match command.spawn() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(_) => unreachable!("there is no such program"),
    }
}

fn unshare_network() -> io::Result<()> {
    // SAFETY: it affects neither Rust's memory model nor the ownership of descriptors.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
    Ok(())
}

/// Two steps: if a security module allows user namespaces but grants nothing in them, the second fails.
fn unshare_user_then_network() -> io::Result<()> {
    // SAFETY: as above.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }?;
    unshare_network()
}

/// Enables this process to create network namespaces. Does nothing if it already can. Otherwise it becomes root of a new user namespace, in which its
/// files keep their owner. Must be called before there is a second thread.
pub fn enter() -> Result<Permission, NamespaceError> {
    let permission = probe()?;
    if permission == Permission::Capability {
        return Ok(permission);
    }
    if let Some(threads) = threads().filter(|&threads| threads > 1) {
        return Err(NamespaceError {
            reason: format!("a process can enter a user namespace only with one thread, and this one has {threads}"),
            hint: "run it as root, or inside `unshare --user --map-root-user`".into(),
        });
    }
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    // SAFETY: a user namespace affects neither Rust's memory model nor the ownership of descriptors.
    let entered = unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }.map_err(io::Error::from).and_then(|()| {
        // First: without privileges the kernel accepts a gid_map only after this (user_namespaces(7)).
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
        fs::write("/proc/self/gid_map", format!("0 {group} 1"))
    });
    entered.map(|()| permission).map_err(|error| explain(&error))
}

/// The check for a process that should be able to by now.
pub(super) fn check_new_namespace() -> Result<(), NamespaceError> {
    let Err(error) = Namespace::new() else { return Ok(()) };
    match probe() {
        Ok(_) => Err(NamespaceError {
            reason: format!("making a network namespace needs CAP_SYS_ADMIN ({error})"),
            hint: "run it as root, or inside `unshare --user --map-root-user`".into(),
        }),
        Err(forbidden) => Err(forbidden),
    }
}

fn threads() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("Threads:"))?.trim().parse().ok()
}

/// The kernel setting that prevents it.
fn explain(error: &io::Error) -> NamespaceError {
    let setting =
        |name: &str| fs::read_to_string(format!("/proc/sys/{name}")).map(|value| value.trim().to_owned()).ok();
    let switches = [
        ("kernel/unprivileged_userns_clone", "0", "1"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
        ("user/max_user_namespaces", "0", "10000"),
        ("user/max_net_namespaces", "0", "10000"),
    ];
    for (name, closed, open) in switches {
        if setting(name).as_deref() == Some(closed) {
            let name = name.replace('/', ".");
            return NamespaceError {
                reason: format!("user namespaces are forbidden here: {name} is {closed}"),
                hint: format!("allow them with `sysctl -w {name}={open}`, or run this as root"),
            };
        }
    }
    NamespaceError {
        reason: format!("user namespaces are forbidden here, as in most containers: {error}"),
        hint: "run this as root, or in a container with CAP_SYS_ADMIN".into(),
    }
}
