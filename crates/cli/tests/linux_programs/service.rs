//! A service manager, as far as the router uses one: it waits until the service is ready, and keeps its descriptors over a restart.

use crate::network::Network;
use crate::rig::{PATIENCE, program};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command};

/// Runs the router of a network.
pub struct ServiceManager {
    socket: UnixDatagram,
    kept: BTreeMap<String, OwnedFd>,
    router: Option<Child>,
}

impl ServiceManager {
    pub fn new(network: &Network) -> ServiceManager {
        let socket = UnixDatagram::bind(network.place.path("manager.sock")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        ServiceManager { socket, kept: BTreeMap::new(), router: None }
    }

    /// Starts the router, and waits until it is ready.
    pub fn start(&mut self, network: &Network) {
        let mut script = String::new();
        for (descriptor, number) in self.kept.values().zip(3..) {
            fcntl_setfd(descriptor, FdFlags::empty()).unwrap();
            script += &format!("exec {number}<&{}; ", descriptor.as_raw_fd());
        }
        script += "export LISTEN_PID=$$; exec \"$0\" run run.toml";
        let mut command = Command::new("bash");
        network.place.prepare(&mut command);
        command.arg("-c").arg(script).arg(program("switchpath"));
        command.env("NOTIFY_SOCKET", network.place.path("manager.sock"));
        command.env("LISTEN_FDS", self.kept.len().to_string());
        command.env("LISTEN_FDNAMES", self.kept.keys().cloned().collect::<Vec<_>>().join(":"));
        let log = File::create(network.place.path("router.log")).unwrap();
        command.stdout(log.try_clone().unwrap()).stderr(log);
        self.router = Some(network.router.spawn(command).unwrap());
        while !self.receive().starts_with("READY=1") {}
    }

    /// Kills the router without a warning.
    pub fn kill(&mut self) {
        if let Some(mut router) = self.router.take() {
            router.kill().unwrap();
            router.wait().unwrap();
        }
    }

    /// The number of descriptors that it keeps.
    pub fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Receives a message, and the descriptor that it brings.
    fn receive(&mut self) -> String {
        let (mut buffer, mut space) = ([0; 512], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))]);
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let slices = &mut [IoSliceMut::new(&mut buffer)];
        let received = recvmsg(&self.socket, slices, &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
        let descriptors = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        let descriptor = descriptors.last();
        let text = String::from_utf8_lossy(&buffer[..received.bytes]).into_owned();
        let name = text.lines().find_map(|line| line.strip_prefix("FDNAME="));
        if let (Some(name), Some(descriptor)) = (name, descriptor) {
            self.kept.insert(name.to_owned(), descriptor);
        }
        text
    }
}

impl Drop for ServiceManager {
    fn drop(&mut self) {
        self.kill();
    }
}
