//! The corpus of the fuzz target `netlink`: datagrams of a kernel, and damaged ones. Arbitrary messages beside it.

use io::netlink::KernelNotification;
use proptest::collection::vec;
use proptest::prelude::*;
use std::path::Path;

/// RTM_* of the objects that are followed: links, addresses, routes, neighbours, rules, next hops.
const KINDS: [u16; 12] = [16, 17, 20, 21, 24, 25, 28, 29, 32, 33, 104, 105];

fn datagram(kind: u16, body: &[u8]) -> Vec<u8> {
    let length = 16 + body.len() as u32;
    [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10], body].concat()
}

proptest! {
    #[test]
    fn arbitrary_messages_give_at_most_one_notification(
        kind in prop::sample::select(&KINDS[..]),
        family in prop::sample::select(&[0u8, 2, 10, 7][..]),
        fixed in vec(any::<u8>(), 0..20),
        attributes in vec((0u16..40, vec(any::<u8>(), 0..40), any::<bool>()), 0..12),
    ) {
        let mut body = [&[family][..], &fixed].concat();
        body.resize(body.len().next_multiple_of(4), 0);
        for (attribute, value, is_damaged) in attributes {
            let length = if is_damaged { value.len() as u16 } else { value.len() as u16 + 4 };
            body.extend([length.to_ne_bytes(), attribute.to_ne_bytes()].concat());
            body.extend(&value);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        let mut count = 0;
        KernelNotification::parse_datagram(&datagram(kind, &body), |_| count += 1);
        prop_assert!(count <= 1);
    }
}

#[test]
fn datagrams_of_the_kernel_are_parsed_and_damaged_ones_are_left_out() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/netlink");
    let mut files = 0;
    for file in std::fs::read_dir(folder).expect("a corpus") {
        let path = file.expect("a file").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let datagram = std::fs::read(&path).expect("a file");
        let mut parsed = Vec::new();
        KernelNotification::parse_datagram(&datagram, |notification| parsed.push(notification));
        assert_eq!(parsed.is_empty(), !name.starts_with("good-"), "{name}: {parsed:?}");
        assert_eq!(name.contains("-removed"), parsed.iter().any(|one| one.is_removed), "{name}: {parsed:?}");
        // Every cut and every changed byte: the parser ends, and finds no more messages than fit.
        for end in 0..datagram.len() {
            let mut count = 0;
            KernelNotification::parse_datagram(&datagram[..end], |_| count += 1);
            assert!(count <= end / 16, "{name} up to {end}");
            for byte in [0, 1, 3, 0x7f, 0xff] {
                let mut changed = datagram.clone();
                changed[end] = byte;
                KernelNotification::parse_datagram(&changed, |_| {});
            }
        }
        files += 1;
    }
    assert!(files >= 20, "{files} files");
}
