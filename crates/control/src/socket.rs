//! The Unix socket of the API, for its owner and the groups that the owner names.
//!
//! A file has only one group. If a second group has read access, everybody can connect, and the server checks the caller (`crate::access`).

use crate::access::AccessGroups;
use rustix::fs::{Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The accept backlog.
const BACKLOG: i32 = 1024;

/// Returns the default path of the socket: `/run/switchpath/control.sock` for root; otherwise in the user's runtime directory, or in the user's own
/// directory under the one for temporary files.
pub fn default_path() -> PathBuf {
    let user = rustix::process::geteuid();
    let directory = if user.is_root() {
        PathBuf::from("/run/switchpath")
    } else if let Some(runtime) = std::env::var_os("XDG_RUNTIME_DIR").filter(|value| !value.is_empty()) {
        Path::new(&runtime).join("switchpath")
    } else {
        std::env::temp_dir().join(format!("switchpath-{}", user.as_raw()))
    };
    directory.join("control.sock")
}

/// Why there is no socket.
#[derive(Debug)]
pub enum SocketError {
    /// A router already answers there.
    InUse(PathBuf),
    /// The path is taken by another kind of file.
    NoSocket(PathBuf),
    /// A system error.
    System(PathBuf, io::Error),
}

impl fmt::Display for SocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SocketError::InUse(path) => write!(
                f,
                "a router uses the socket {} already; stop it, or give this one another socket with --socket",
                path.display()
            ),
            SocketError::NoSocket(path) => {
                write!(f, "{} exists and is not a socket; give another one with --socket", path.display())
            }
            SocketError::System(path, error) => write!(f, "cannot create the socket {}: {error}", path.display()),
        }
    }
}

impl std::error::Error for SocketError {}

/// Access to the socket, besides its owner and root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SocketAccess {
    /// The groups.
    pub groups: AccessGroups,
    /// The mode of the socket's file; by default it follows from the groups.
    pub mode: Option<u32>,
}

impl SocketAccess {
    /// No access for others.
    pub const NONE: SocketAccess = SocketAccess { groups: AccessGroups { full: None, read: None }, mode: None };

    fn mode(&self) -> u32 {
        self.mode.unwrap_or(match self.groups {
            AccessGroups { read: Some(_), .. } => 0o666,
            AccessGroups { full: Some(_), .. } => 0o660,
            _ => 0o600,
        })
    }

    /// Returns the mode of a directory created for the socket. Every user who may connect has to pass through it.
    fn directory_mode(&self) -> u32 {
        match self.mode() {
            mode if mode & 0o006 != 0 => 0o711,
            mode if mode & 0o060 != 0 => 0o710,
            _ => 0o700,
        }
    }
}

/// A listening socket; its file is removed with it.
#[derive(Debug)]
pub struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
    groups: AccessGroups,
    /// Device and inode: the file is removed only if it is still this socket's.
    identity: (u64, u64),
}

impl ControlSocket {
    /// Same as [`ControlSocket::shared`], without other users.
    pub fn new(path: &Path) -> Result<ControlSocket, SocketError> {
        ControlSocket::shared(path, &SocketAccess::NONE)
    }

    /// Listens at `path`. The socket never has more permissions than it should. A stale socket of a killed router is replaced; one that answers is
    /// kept. Creates the directory if necessary.
    pub fn shared(path: &Path, sharing: &SocketAccess) -> Result<ControlSocket, SocketError> {
        let failed = |error: io::Error| SocketError::System(path.to_owned(), error);
        let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
        if let Some(directory) = directory.filter(|directory| !directory.exists()) {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true).mode(sharing.directory_mode()).create(directory).map_err(failed)?;
            chown(directory, None, sharing.groups.full).map_err(failed)?;
        }
        check_directory(path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new(".")))
            .map_err(failed)?;
        remove_stale(path)?;
        let listener = bind_private(path).map_err(|error| match error.kind() {
            // Another router was faster.
            ErrorKind::AddrInUse => SocketError::InUse(path.to_owned()),
            _ => failed(error),
        })?;
        let metadata = fs::symlink_metadata(path).map_err(failed)?;
        let bound = ControlSocket {
            listener,
            path: path.to_owned(),
            groups: sharing.groups,
            identity: (metadata.dev(), metadata.ino()),
        };
        // The group first: with the mode first, the socket would be open to the owner's group for a moment. Only the owner can change files in this
        // directory.
        chown(path, None, sharing.groups.full).map_err(failed)?;
        fs::set_permissions(path, fs::Permissions::from_mode(sharing.mode())).map_err(failed)?;
        Ok(bound)
    }

    /// Returns the groups with access.
    pub(crate) fn groups(&self) -> AccessGroups {
        self.groups
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a handle that accepts connections.
    pub(crate) fn listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path).is_ok_and(|m| (m.dev(), m.ino()) == self.identity);
        if ours {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Refuses a directory in which others could replace the socket. A directory with the sticky bit, such as /tmp, is allowed, because only the owner of
/// a file can remove it there.
fn check_directory(directory: &Path) -> io::Result<()> {
    let metadata = fs::metadata(directory)?;
    let owner = metadata.uid();
    let shared = metadata.mode() & 0o022 != 0 && metadata.mode() & 0o1000 == 0;
    if shared || (owner != 0 && owner != rustix::process::geteuid().as_raw()) {
        let reason = format!("other users may change the directory {}; use one of your own", directory.display());
        return Err(io::Error::new(ErrorKind::PermissionDenied, reason));
    }
    Ok(())
}

/// Binds a private socket. The socket's file gets the mode that the socket has when it is bound (unix(7): fchmod before bind), so that no other user
/// can connect in between.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

fn remove_stale(path: &Path) -> Result<(), SocketError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(SocketError::System(path.to_owned(), error)),
        Ok(metadata) if !metadata.file_type().is_socket() => return Err(SocketError::NoSocket(path.to_owned())),
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        // A socket without a listener was left by a killed router.
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|error| SocketError::System(path.to_owned(), error))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Ok(_) => Err(SocketError::InUse(path.to_owned())),
        Err(error) => Err(SocketError::System(path.to_owned(), error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_is_private_and_removed_with_owner() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/er/control.sock");
        let bound = ControlSocket::new(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(matches!(ControlSocket::new(&path), Err(SocketError::InUse(_))));
        drop(bound);
        assert!(!path.exists());
    }

    #[test]
    fn a_shared_socket_is_open_to_its_groups_only() {
        let directory = tempfile::tempdir().unwrap();
        let own = rustix::process::getegid().as_raw();
        for (groups, mode, expected) in [
            (AccessGroups { full: Some(own), read: None }, None, (0o660, 0o710)),
            (AccessGroups { full: Some(own), read: Some(own) }, None, (0o666, 0o711)),
            (AccessGroups { full: None, read: None }, Some(0o640), (0o640, 0o710)),
        ] {
            let path = directory.path().join(format!("{:o}/control.sock", expected.0));
            let _bound = ControlSocket::shared(&path, &SocketAccess { groups, mode }).unwrap();
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&path), mode(path.parent().unwrap())), expected);
            assert_eq!(fs::metadata(&path).unwrap().gid(), own);
        }
    }

    #[test]
    fn world_writable_directory_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        for (mode, trusted) in [(0o777, false), (0o770, false), (0o1777, true), (0o755, true)] {
            fs::set_permissions(directory.path(), fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(ControlSocket::new(&directory.path().join("control.sock")).is_ok(), trusted, "{mode:o}");
        }
    }

    #[test]
    fn a_stale_socket_is_replaced_and_no_other_file_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let first = ControlSocket::new(&path).unwrap();
        // The file was replaced by another socket, which the first one must not remove.
        fs::remove_file(&path).unwrap();
        let second = ControlSocket::new(&path).unwrap();
        drop(first);
        assert!(path.exists());
        drop(second);
        fs::write(&path, "precious").unwrap();
        assert!(matches!(ControlSocket::new(&path), Err(SocketError::NoSocket(_))));
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }
}
