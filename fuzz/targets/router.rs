//! A whole router in memory on bytes that claim to be a frame: every packet has one fate, for any contents.
//! corpus: crates/packet/corpus/frames

#![no_main]

use plane::rig::Rig;
use plane::snapshot::Layout;
use std::cell::RefCell;
use units::Nanos;

const CONFIG: &str = r#"
version = 1
[port.lan]
device = "memory:lan"
mac = "02:00:00:00:00:01"
address = ["192.0.2.1/24", "2001:db8:1::1/64"]
[port.lan.vlan.100]
address = ["203.0.113.1/24", "2001:db8:3::1/64"]
[port.wan]
device = "memory:wan"
mac = "02:00:00:00:00:02"
address = ["198.51.100.1/24", "2001:db8:2::1/64"]
[[route]]
to = "0.0.0.0/0"
via = "198.51.100.9"
[[route]]
to = "::/0"
via = "2001:db8:2::9"
"#;

/// The MAC address of the port. Random frames rarely contain it.
const LAN: [u8; 6] = [2, 0, 0, 0, 0, 1];

// One router for all inputs, because building its tables costs more than a thousand frames. After each input enough time
// passes for every neighbour and every timer to expire, so that inputs do not depend on each other.
thread_local! {
    static RIG: RefCell<Rig> = RefCell::new(Rig::running(1024, Layout::Three, CONFIG));
}

libfuzzer_sys::fuzz_target!(|frame: &[u8]| {
    let mut frame = frame[..frame.len().min(packet::pool::FRAME)].to_vec();
    RIG.with_borrow_mut(|rig| {
        rig.send("lan", &frame);
        if let Some(destination) = frame.get_mut(..6) {
            destination.copy_from_slice(&LAN);
            rig.send("lan", &frame);
        }
        rig.settle();
        rig.report();
        rig.advance(Nanos::secs(10));
        rig.report();
        rig.received("lan");
        rig.received("wan");
    });
});
