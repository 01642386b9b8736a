//! The parser of the kernel's notifications on bytes that claim to be a netlink datagram.
//! corpus: crates/io/corpus/netlink

#![no_main]

use io::netlink::{KernelNotification, KernelObject};

libfuzzer_sys::fuzz_target!(|datagram: &[u8]| {
    let mut count = 0;
    KernelNotification::parse_datagram(datagram, |notification| {
        count += 1;
        if let KernelObject::Route(route) = notification.object {
            // Each hop has a header of eight bytes.
            assert!(route.hops.own().len() <= 1 + datagram.len() / 8);
        }
    });
    assert!(count <= datagram.len() / 16, "each message has a header of 16 bytes");
});
