//! Reports the state of the router to systemd (sd_notify(3)), if systemd asked for it.

use io::clock;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Sends `state` to the socket in `$NOTIFY_SOCKET`; does nothing without one.
pub fn notify(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(path.as_encoded_bytes(), state) {
        tracing::warn!("cannot notify systemd of '{}': {error}", state.lines().next().unwrap_or_default());
    }
}

/// Reports the start of a reload; `READY=1` ends it.
pub fn reloading() {
    notify(&format!("RELOADING=1\nMONOTONIC_USEC={}", clock::now().get() / 1000));
}

/// The interval of watchdog notifications, if systemd wants them: half of its timeout (sd_watchdog_enabled(3)).
pub fn watchdog() -> Option<Duration> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    interval(number("WATCHDOG_USEC"), number("WATCHDOG_PID"), std::process::id())
}

fn interval(micros: Option<u64>, wanted: Option<u64>, own: u32) -> Option<Duration> {
    let micros = micros.filter(|&micros| micros > 0 && wanted.is_none_or(|wanted| wanted == u64::from(own)))?;
    Some(Duration::from_micros(micros.div_ceil(2)))
}

fn send(path: &[u8], state: &str) -> std::io::Result<()> {
    let address = match path.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(std::path::Path::new(std::str::from_utf8(path).unwrap_or_default()))?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_watched_process_notifies_the_watchdog() {
        let half = Some(Duration::from_secs(15));
        for (micros, wanted, expected) in [
            (Some(30_000_000), None, half),
            (Some(30_000_000), Some(7), half),
            (Some(30_000_000), Some(8), None),
            (Some(0), None, None),
            (None, Some(7), None),
        ] {
            assert_eq!(interval(micros, wanted, 7), expected, "{micros:?} {wanted:?}");
        }
    }

    #[test]
    fn the_state_arrives_at_both_kinds_of_address() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        send(path.as_os_str().as_encoded_bytes(), "READY=1").unwrap();
        let mut buffer = [0; 32];
        let length = socket.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"READY=1");
        let name = format!("switchpath-test-{}", std::process::id());
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        send(format!("@{name}").as_bytes(), "STOPPING=1").unwrap();
        let length = socket.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"STOPPING=1");
    }
}
