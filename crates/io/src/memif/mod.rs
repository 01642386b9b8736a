//! `memif:` ports: a link between two processes of one machine over shared memory.
//!
//! Both processes map the rings and packets, so packets need no system call; a Unix socket carries the setup. The protocol is memif version 2, like
//! that of VPP and DPDK, with one ring of Ethernet frames for each direction. One end listens and the other connects. If one end terminates, the
//! other waits for it.
//!
//! | file | contents |
//! |---|---|
//! | `message` | messages on the socket |
//! | `ring` | shared memory and its rings, all of whose contents are untrusted |
//! | `session` | connection setup |
//! | `port` | the port, and the thread that keeps it connected |

pub mod message;
mod port;
mod ring;
mod session;

pub use port::MemifPort;

use std::path::{Path, PathBuf};

/// The role of a port on a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MemifRole {
    /// It listens at this path (memif's server).
    Listen(PathBuf),
    /// It connects to the listener at this path (memif's client).
    Connect(PathBuf),
}

impl MemifRole {
    /// Parses the target of a device: `listen:PATH` or `connect:PATH`.
    pub fn parse(target: &str) -> Option<MemifRole> {
        let (role, path) = target.split_once(':')?;
        match role {
            _ if path.is_empty() => None,
            "listen" => Some(MemifRole::Listen(path.into())),
            "connect" => Some(MemifRole::Connect(path.into())),
            _ => None,
        }
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        match self {
            MemifRole::Listen(path) | MemifRole::Connect(path) => path,
        }
    }
}
