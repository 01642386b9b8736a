//! `memif:` ports: a link between two processes of one machine over shared memory.
//!
//! Rings and packets lie in memory that both map, so no packet costs a system call; a Unix socket carries the agreement
//! before. It is memif version 2, as VPP and DPDK speak it, with one ring of Ethernet frames each way. One end listens,
//! the other connects; whichever ends first is waited for by the other.
//!
//! | file | what |
//! |---|---|
//! | `message` | what is said on the socket |
//! | `ring` | shared memory and the rings in it: nothing in there is believed |
//! | `session` | how two ends come together |
//! | `port` | the port, and the thread that keeps it connected |

pub mod message;
mod port;
mod ring;
mod session;

pub use port::MemifPort;

use std::path::{Path, PathBuf};

/// Which end of a link a port is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// It listens at this path (memif's server).
    Listen(PathBuf),
    /// It connects to whoever listens at this path (memif's client).
    Connect(PathBuf),
}

impl End {
    /// From the target of a device: `listen:PATH` or `connect:PATH`.
    pub fn parse(target: &str) -> Option<End> {
        let (role, path) = target.split_once(':')?;
        match role {
            _ if path.is_empty() => None,
            "listen" => Some(End::Listen(path.into())),
            "connect" => Some(End::Connect(path.into())),
            _ => None,
        }
    }

    /// Where the socket is.
    pub fn path(&self) -> &Path {
        match self {
            End::Listen(path) | End::Connect(path) => path,
        }
    }
}
