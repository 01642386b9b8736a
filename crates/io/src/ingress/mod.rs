//! Keeping the host's own stack from routing what a port of ours receives.
//!
//! An AF_PACKET socket only sees a copy: the kernel goes on with the packet and, where it forwards or has an address,
//! routes or answers it a second time. Packet sockets are served before the ingress hook, so a program there that drops
//! everything takes the packet from the kernel and not from us.
//!
//! Two ways are tried. A tcx link (Linux 6.6, CAP_BPF) belongs to a descriptor and is gone with the process, however that
//! ends. Else a `cls_bpf` filter at a clsact qdisc (CAP_NET_ADMIN is enough, so it works in user namespaces too) stays
//! after kill -9; it is known by its preference and handle and taken over or swept away by the next start.

mod bpf;
mod filter;

pub use filter::sweep;

use crate::bpf::Attached;
use crate::netlink::{KernelError, Netlink};

/// While it lives, the host's stack receives nothing from one link.
#[derive(Debug)]
pub struct IngressDrop {
    mechanism: Mechanism,
}

#[derive(Debug)]
enum Mechanism {
    /// Held only to be closed.
    Tcx {
        _link: Attached,
    },
    Filter {
        netlink: Netlink,
        index: u32,
    },
}

impl IngressDrop {
    /// Puts it on the link of that index, in the network namespace of the calling thread. Doing it twice is no error.
    pub fn install(index: u32) -> Result<Self, KernelError> {
        if let Ok(link) = bpf::attach(index) {
            return Ok(IngressDrop { mechanism: Mechanism::Tcx { _link: link } });
        }
        Self::install_filter(index)
    }

    /// As [`IngressDrop::install`], with the filter even where a tcx link would do.
    pub fn install_filter(index: u32) -> Result<Self, KernelError> {
        let mut netlink = Netlink::open()?;
        filter::add(&mut netlink, index)?;
        Ok(IngressDrop { mechanism: Mechanism::Filter { netlink, index } })
    }

    /// What does it: `tcx` or `cls_bpf`.
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
            // Where the link has gone, so has its filter.
            let _ = filter::remove(netlink, *index);
        }
    }
}
