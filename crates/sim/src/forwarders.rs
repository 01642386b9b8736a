//! A fast path of slices, or a slow path in its place. Both are measured on real packets only: the model has no cost of system calls.

use serde::Deserialize;

/// A router of a slice's network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SliceForwarder {
    /// A slice with the code option `ipv4`.
    Fast,
    /// A program with UDP sockets of the kernel.
    Slow,
    /// The Click modular router, which reads and writes frames of the network devices.
    Click,
    /// The Click modular router with UDP sockets of the kernel.
    ClickSockets,
}

impl SliceForwarder {
    /// True if it needs the program `click`.
    pub fn is_click(self) -> bool {
        matches!(self, SliceForwarder::Click | SliceForwarder::ClickSockets)
    }
}

/// A measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForwardersPlan {
    /// The router that is measured.
    pub router: SliceForwarder,
    /// The bytes of a packet's payload: those in the UDP packet inside of it.
    pub payload: u16,
    /// The frames of the fast path's pool; by default as many as a router has.
    pub frames: Option<u32>,
}

/// The largest payload: both UDP packets then fit into a frame of 1500 bytes.
const MOST_PAYLOAD: u16 = 1444;

impl ForwardersPlan {
    /// Reads the measurement that `text`, of `file`, describes.
    ///
    /// # Errors
    ///
    /// The description is invalid.
    pub fn read(text: &str, file: &str) -> Result<ForwardersPlan, String> {
        let plan: ForwardersPlan = toml::from_str(text).map_err(|error| format!("{file}: {error}"))?;
        if plan.payload > MOST_PAYLOAD {
            return Err(format!("{file}: `payload` is {}, and a frame holds at most {MOST_PAYLOAD}", plan.payload));
        }
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_fits_into_a_frame() {
        let read = |payload| ForwardersPlan::read(&format!("router = \"slow\"\npayload = {payload}"), "x");
        assert_eq!(read(1444), Ok(ForwardersPlan { router: SliceForwarder::Slow, payload: 1444, frames: None }));
        assert!(read(1445).unwrap_err().contains("at most 1444"));
    }

    #[test]
    fn two_forwarders_need_click() {
        let read = |name| ForwardersPlan::read(&format!("router = \"{name}\"\npayload = 0"), "x").unwrap().router;
        let names = ["fast", "slow", "click", "click-sockets"];
        assert_eq!(names.map(|name| read(name).is_click()), [false, false, true, true]);
    }
}
