//! Reports the state of the router to systemd (sd_notify(3)), if systemd asked for it.

use io::{clock, service_manager};
use std::time::Duration;

/// Sends `state` to the socket in `$NOTIFY_SOCKET`; does nothing without one.
pub fn notify(state: &str) {
    if let Err(error) = service_manager::notify(state) {
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
}
