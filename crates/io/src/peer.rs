//! The peer's credentials on a Unix socket, as the kernel recorded them when it connected (unix(7), SO_PEERCRED and SO_PEERGROUPS).

use rustix::net::sockopt;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// SO_PEERGROUPS of <asm-generic/socket.h>.
const SO_PEERGROUPS: libc::c_int = 59;
/// NGROUPS_MAX: the maximum number of groups of a process.
const MOST_GROUPS: usize = 65536;

/// The user and the groups of the peer process.
pub fn credentials(socket: impl AsFd) -> io::Result<(u32, Vec<u32>)> {
    let peer = sockopt::socket_peercred(&socket)?;
    let mut groups = vec![peer.gid.as_raw()];
    groups.extend(supplementary_groups(socket)?);
    Ok((peer.uid.as_raw(), groups))
}

fn supplementary_groups(socket: impl AsFd) -> io::Result<Vec<u32>> {
    let fd = socket.as_fd().as_raw_fd();
    let mut groups = vec![0u32; 64];
    loop {
        let mut length = (groups.len() * size_of::<u32>()) as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes to `groups`, which has as many, and any bytes are numbers.
        let result = unsafe {
            libc::getsockopt(fd, libc::SOL_SOCKET, SO_PEERGROUPS, groups.as_mut_ptr().cast(), &raw mut length)
        };
        if result == 0 {
            groups.truncate(length as usize / size_of::<u32>());
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // There are more groups: the kernel has stored their number.
            Some(libc::ERANGE) if groups.len() < MOST_GROUPS => groups.resize(MOST_GROUPS, 0),
            // Linux before 4.13 does not support this option.
            Some(libc::ENOPROTOOPT) => return Ok(Vec::new()),
            _ => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_other_end_is_this_process() {
        let (one, _other) = UnixStream::pair().unwrap();
        let (uid, groups) = credentials(&one).unwrap();
        assert_eq!(uid, rustix::process::geteuid().as_raw());
        assert_eq!(groups[0], rustix::process::getegid().as_raw());
        let own: Vec<u32> = rustix::process::getgroups().unwrap().into_iter().map(|group| group.as_raw()).collect();
        assert!(own.iter().all(|group| groups.contains(group)), "{own:?} {groups:?}");
    }
}
