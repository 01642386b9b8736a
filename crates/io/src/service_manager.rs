//! Messages to the service manager (sd_notify(3)), and the descriptors that it keeps while the service restarts (its *descriptor store*).

use crate::sys;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::sync::{LazyLock, Mutex, PoisonError};

/// Sends a state such as `READY=1` to the socket in `$NOTIFY_SOCKET`. Does nothing without one.
pub fn notify(state: &str) -> io::Result<()> {
    send_to_manager(state, None)
}

/// Asks the manager to keep a copy of a descriptor under this name. After a restart [`take`] returns it. Does nothing without a manager.
pub fn keep(name: &str, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    send_to_manager(&format!("FDSTORE=1\nFDNAME={name}\nFDPOLL=0"), Some(descriptor))
}

/// Asks the manager to close its copies of the descriptors with this name.
pub fn forget(name: &str) -> io::Result<()> {
    drop(take(name));
    send_to_manager(&format!("FDSTOREREMOVE=1\nFDNAME={name}"), None)
}

/// The descriptor that an earlier process of the service has kept under this name. Each is returned once.
pub fn take(name: &str) -> Option<OwnedFd> {
    static INHERITED: LazyLock<Mutex<BTreeMap<String, OwnedFd>>> = LazyLock::new(|| Mutex::new(inherited()));
    INHERITED.lock().unwrap_or_else(PoisonError::into_inner).remove(name)
}

/// The descriptors that the manager has passed to this process (sd_listen_fds_with_names(3)), by name.
fn inherited() -> BTreeMap<String, OwnedFd> {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let own = variable("LISTEN_PID").parse() == Ok(std::process::id());
    let count = variable("LISTEN_FDS").parse().ok().filter(|_| own).unwrap_or(0);
    let names = variable("LISTEN_FDNAMES");
    let names = names.split(':').map(str::to_owned);
    names.zip(sys::inherited_descriptors(count)).collect()
}

fn send_to_manager(state: &str, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    send(&path, state, descriptor)
}

fn send(path: &OsStr, state: &str, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let address = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(Path::new(path))?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<BorrowedFd<'_>> = descriptor.into_iter().collect();
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    rustix::net::sendmsg(&socket, &[IoSlice::new(state.as_bytes())], &mut control, SendFlags::empty())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
    use std::fs::File;
    use std::io::{IoSliceMut, Read, Write};
    use std::os::fd::AsFd;

    #[test]
    fn state_arrives_at_both_kinds_of_address() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        send(path.as_os_str(), "READY=1", None).unwrap();
        let mut buffer = [0; 32];
        let length = socket.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"READY=1");
        let name = format!("switchpath-test-{}", std::process::id());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        send(OsStr::new(&format!("@{name}")), "STOPPING=1", None).unwrap();
        let length = socket.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"STOPPING=1");
    }

    #[test]
    fn descriptor_arrives_with_its_message() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        send(path.as_os_str(), "FDSTORE=1\nFDNAME=x", Some(writer.as_fd())).unwrap();
        drop(writer);
        let (mut buffer, mut space) = ([0; 64], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))]);
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let slices = &mut [IoSliceMut::new(&mut buffer)];
        let received = rustix::net::recvmsg(&socket, slices, &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
        let passed = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        assert_eq!(&buffer[..received.bytes], b"FDSTORE=1\nFDNAME=x");
        File::from(passed.unwrap()).write_all(b"hello").unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
    }
}
