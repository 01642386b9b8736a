//! Drops privileges when the ports are open, and decides who may use the control socket.

use crate::arguments::{RunArguments, SocketSharing};
use anyhow::{Context, Result, anyhow, bail};
use control::Daemon;
use control::access::AccessGroups;
use control::socket::{ControlSocket, SocketAccess};
use io::accounts::{self, User};
use io::privilege::{self, Capability, Confined, Policy, PrivilegeLimits};
use plan::Plan;
use std::fs;
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};

/// The user that the router becomes by default.
const USER: &str = "switchpath";

/// Returns who may use the socket.
pub fn sharing(arguments: &SocketSharing) -> Result<SocketAccess> {
    let group = |name: &Option<String>| {
        let find = |name: &String| accounts::group_id(name).ok_or_else(|| no_such("group", name));
        name.as_ref().map(find).transpose()
    };
    let groups = AccessGroups { full: group(&arguments.socket_group)?, read: group(&arguments.read_group)? };
    Ok(SocketAccess { groups, mode: arguments.socket_mode })
}

fn no_such(what: &str, name: &str) -> anyhow::Error {
    anyhow!("there is no {what} '{name}'; check with `getent {} {name}`", if what == "user" { "passwd" } else { what })
}

/// Drops the privileges that the running router does not need.
pub fn confine(
    daemon: &Daemon,
    arguments: &RunArguments,
    plan: &Plan,
    state: Option<&Path>,
    socket: Option<&ControlSocket>,
) -> Result<()> {
    if arguments.confinement.unconfined {
        return Ok(());
    }
    let (mut read, mut write) = privilege::directories(plan);
    // SIGHUP reads the file again.
    read.extend(privilege::directory_of(&arguments.config));
    write.extend(state.map(Path::to_path_buf));
    // The socket is removed at the end.
    write.extend(socket.and_then(|socket| privilege::directory_of(socket.path()).ok()));
    for directory in &arguments.confinement.allow_dir {
        let found = directory.canonicalize().with_context(|| format!("--allow-dir {}", directory.display()))?;
        write.push(found);
    }
    // An apply reads the guests.
    let guests = &arguments.guests.guests;
    read.extend(guests.iter().filter_map(|directory| directory.canonicalize().ok()));
    let user = user(arguments)?;
    if let (Some(user), Some(state)) = (&user, state) {
        chown_history(state, user)
            .with_context(|| format!("cannot change the owner of {} to {}", state.display(), user.name))?;
    }
    let no_new_ports = arguments.confinement.no_new_ports;
    let keep = if no_new_ports { Vec::new() } else { Capability::PORTS.to_vec() };
    read.extend(write.clone());
    let policy = Policy { user, keep, read: read.clone(), write: write.clone(), code: guests.is_some() };
    let confined = privilege::confine(&policy)?;
    tracing::info!("{}", describe_confinement(&confined));
    if let Err(error) = fs::File::open(&arguments.config) {
        let config = arguments.config.display();
        tracing::warn!(
            "{config} is unreadable after the drop of privileges ({error}), so SIGHUP cannot apply it; allow user {} to read it",
            confined.user
        );
    }
    let fenced = |directories: Vec<PathBuf>| confined.landlock.then_some(directories);
    daemon.record_confinement(&confined, PrivilegeLimits { read: fenced(read), write: fenced(write), no_new_ports });
    Ok(())
}

fn describe_confinement(confined: &Confined) -> String {
    let names: Vec<&str> = confined.capabilities.iter().map(|capability| capability.name()).collect();
    let kept = if names.is_empty() { "no capability".into() } else { names.join(" ") };
    let fence = |is: bool| if is { "restricted" } else { "NOT restricted" };
    format!(
        "running as user {} with {kept}; files {}, system calls {}",
        confined.user,
        fence(confined.landlock),
        fence(confined.seccomp)
    )
}

/// Returns the user to become; none to keep the present user.
fn user(arguments: &RunArguments) -> Result<Option<User>> {
    let is_root = rustix::process::geteuid().is_root();
    let mut user = match &arguments.confinement.user {
        Some(name) => accounts::user(name).ok_or_else(|| no_such("user", name))?,
        None if !is_root => return Ok(None),
        None => match accounts::user(USER) {
            Some(user) => user,
            None => {
                tracing::info!(
                    "there is no user '{USER}', so the router stays root, without root's capabilities; `useradd --system \
                     {USER}` creates it"
                );
                return no_group(arguments);
            }
        },
    };
    if let Some(group) = &arguments.confinement.group {
        user.gid = accounts::group_id(group).ok_or_else(|| no_such("group", group))?;
    }
    Ok(Some(user))
}

fn no_group(arguments: &RunArguments) -> Result<Option<User>> {
    match &arguments.confinement.group {
        Some(_) => bail!("--group needs --user: there is no user '{USER}' to become"),
        None => Ok(None),
    }
}

/// Gives the directory of the history and its files to the user who will write there.
fn chown_history(history: &Path, user: &User) -> std::io::Result<()> {
    let mut paths = vec![history.to_path_buf()];
    paths.extend(fs::read_dir(history)?.flatten().map(|entry| entry.path()));
    paths.iter().try_for_each(|path| lchown(path, Some(user.uid), Some(user.gid)))
}
