//! Prevents the host's stack from processing packets that a port receives.
//!
//! An AF_PACKET socket only gets a copy: the kernel processes the packet as well. A kernel that forwards, or has an address there, would route or
//! answer it a second time. Packet sockets get their copy before the ingress hook, so a program there that drops everything stops the kernel but not
//! the port.
//!
//! There are two mechanisms. A tcx link (Linux 6.6, CAP_BPF) belongs to a descriptor and is removed with the process in any case. Otherwise a
//! `cls_bpf` filter at a clsact qdisc is used. It needs only CAP_NET_ADMIN, so it works in user namespaces too, but it survives kill -9. The next
//! start recognises it by preference and handle and reuses or removes it.

mod cls_bpf;
mod tcx;

pub use cls_bpf::sweep;

use crate::bpf::BpfAttachment;
use crate::netlink::{KernelError, Netlink};

/// As long as this value lives, the host's stack receives nothing from one link.
#[derive(Debug)]
pub struct IngressDrop {
    mechanism: Mechanism,
}

#[derive(Debug)]
enum Mechanism {
    /// Held only to be closed.
    Tcx {
        _link: BpfAttachment,
    },
    Filter {
        netlink: Netlink,
        index: u32,
    },
}

impl IngressDrop {
    /// Installs it on the link with this index, in the network namespace of the calling thread. Installing it twice is not an error.
    pub fn install(index: u32) -> Result<Self, KernelError> {
        if let Ok(link) = tcx::attach(index) {
            return Ok(IngressDrop { mechanism: Mechanism::Tcx { _link: link } });
        }
        Self::install_filter(index)
    }

    /// Like [`IngressDrop::install`], but always with the filter.
    pub fn install_filter(index: u32) -> Result<Self, KernelError> {
        let mut netlink = Netlink::open()?;
        cls_bpf::add(&mut netlink, index)?;
        Ok(IngressDrop { mechanism: Mechanism::Filter { netlink, index } })
    }

    /// The mechanism: `tcx` or `cls_bpf`.
    pub fn mechanism(&self) -> &'static str {
        match self.mechanism {
            Mechanism::Tcx { .. } => "tcx",
            Mechanism::Filter { .. } => "cls_bpf",
        }
    }
}

impl Drop for IngressDrop {
    fn drop(&mut self) {
        if let Mechanism::Filter { netlink, index } = &mut self.mechanism {
            // If the link is gone, so is its filter.
            let _ = cls_bpf::remove(netlink, *index);
        }
    }
}
