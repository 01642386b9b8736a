//! The corpus of the fuzz target `netlink`: datagrams of a kernel, and damaged ones.

use io::netlink::KernelNotification;
use std::path::Path;

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
