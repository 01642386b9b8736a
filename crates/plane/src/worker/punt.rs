//! Sends the frames of programs of the machine on their links.

use super::Worker;
use crate::punt::{INJECTED_AT_ONCE, describe};
use packet::DropReason;
use packet::wire::ethernet;
use stack::World;

impl Worker {
    /// Sends frames that the kernel has injected, at most [`INJECTED_AT_ONCE`]: they leave as the router's own packets do.
    #[cold]
    pub(super) fn send_injected(&mut self) {
        let (punt, control) = (self.snapshot.punt.clone(), self.paths.dispatch.control);
        self.with_host(control, |_, world| {
            for frame in std::iter::from_fn(|| punt.next_injected()).take(INJECTED_AT_ONCE) {
                // The interface is gone, or the pool is empty: the sender repeats what matters.
                let Some(vlan) = world.interface(frame.interface).map(|interface| interface.vlan) else { continue };
                let tag = ethernet::header_length(vlan) - ethernet::HEADER;
                let Some(mut packet) = world.generate(frame.bytes.len() + tag) else { continue };
                let filled = match (vlan, frame.bytes.split_at_checked(ethernet::HEADER - 2)) {
                    (Some(id), Some((addresses, rest))) => packet.fill(&[addresses, &ethernet::tag(id), rest].concat()),
                    _ => packet.fill(&frame.bytes),
                };
                if filled {
                    describe(&mut packet);
                    world.send(frame.interface, packet);
                } else {
                    world.drop(packet, DropReason::FrameTooLong);
                }
            }
        });
    }
}
