//! Capabilities (capabilities(7)): those that a router may need, those that a process has, and how a thread drops them.

use super::threads::Call;
use std::fmt;
use std::fs;
use std::io;

/// The capabilities that a router may need, and those needed to drop the others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u32)]
pub enum Capability {
    /// Change the user.
    SetUid = 7,
    /// Remove capabilities from the bounding set.
    SetPcap = 8,
    /// Receive at ports below 1024: DHCP relay agents.
    NetBindService = 10,
    /// Stop the host's stack on interfaces, create tap devices.
    NetAdmin = 12,
    /// Open packet sockets.
    NetRaw = 13,
    /// Register memory with the kernel beyond the limit on locked memory.
    IpcLock = 14,
    /// Load XDP programs.
    Bpf = 39,
}

impl Capability {
    /// The capabilities for opening any port, and the sockets of DHCP relay agents.
    pub const PORTS: [Capability; 5] =
        [Capability::NetBindService, Capability::NetAdmin, Capability::NetRaw, Capability::IpcLock, Capability::Bpf];
    const ALL: [Capability; 7] = [
        Capability::SetUid,
        Capability::SetPcap,
        Capability::NetBindService,
        Capability::NetAdmin,
        Capability::NetRaw,
        Capability::IpcLock,
        Capability::Bpf,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Capability::SetUid => "CAP_SETUID",
            Capability::SetPcap => "CAP_SETPCAP",
            Capability::NetBindService => "CAP_NET_BIND_SERVICE",
            Capability::NetAdmin => "CAP_NET_ADMIN",
            Capability::NetRaw => "CAP_NET_RAW",
            Capability::IpcLock => "CAP_IPC_LOCK",
            Capability::Bpf => "CAP_BPF",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The capabilities of the calling thread that are named here.
pub fn current_capabilities() -> io::Result<Vec<Capability>> {
    let status = fs::read_to_string("/proc/thread-self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap_or_default();
    let set = u64::from_str_radix(line.trim(), 16).unwrap_or(0);
    Ok(Capability::ALL.into_iter().filter(|capability| set >> (*capability as u32) & 1 == 1).collect())
}

fn bits(of: &[Capability]) -> u64 {
    of.iter().fold(0, |set, capability| set | 1 << (*capability as u32))
}

/// Removes all but some from the bounding set, which limits what a thread can ever get.
pub(super) fn drop_from_bounding_set(but: &[Capability]) -> Vec<Call> {
    let kept = bits(but);
    let gone = (0..64).filter(|bit| kept >> bit & 1 == 0);
    let call =
        |bit| Call::new("prctl(PR_CAPBSET_DROP)", libc::SYS_prctl, [libc::PR_CAPBSET_DROP as usize, bit, 0, 0, 0]);
    // The kernel has fewer than 64.
    gone.map(|bit| call(bit).tolerating(libc::EINVAL)).collect()
}

/// `struct __user_cap_header_struct` and twice `struct __user_cap_data_struct` (capset(2), version 3).
#[repr(C)]
struct CapabilitySets {
    header: [u32; 2],
    /// Effective, permitted, inheritable: the low halves, then the high ones.
    data: [[u32; 3]; 2],
}

/// Drops all but some permanently: programs that it starts inherit none either.
pub(super) fn keep_only(kept: &[Capability]) -> Vec<Call> {
    const VERSION_3: u32 = 0x2008_0522;
    let set = bits(kept);
    let (low, high) = (set as u32, (set >> 32) as u32);
    // Leaked, because a thread that is interrupted late may still pass it to the kernel.
    let sets: &'static CapabilitySets =
        Box::leak(Box::new(CapabilitySets { header: [VERSION_3, 0], data: [[low, low, 0], [high, high, 0]] }));
    let (header, data) = (sets.header.as_ptr().addr(), sets.data.as_ptr().addr());
    let ambient = [libc::PR_CAP_AMBIENT as usize, libc::PR_CAP_AMBIENT_CLEAR_ALL as usize, 0, 0, 0];
    vec![
        // EINVAL: Linux before 4.3 has no ambient set.
        Call::new("prctl(PR_CAP_AMBIENT)", libc::SYS_prctl, ambient).tolerating(libc::EINVAL),
        Call::new("capset", libc::SYS_capset, [header, data, 0, 0, 0]),
        // EPERM: the flag is locked (SECBIT_KEEP_CAPS_LOCKED).
        Call::new("prctl(PR_SET_KEEPCAPS)", libc::SYS_prctl, [libc::PR_SET_KEEPCAPS as usize, 0, 0, 0, 0])
            .tolerating(libc::EPERM),
    ]
}
