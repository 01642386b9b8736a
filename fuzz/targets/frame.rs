//! Every header parser, Ethernet to ICMPv6, on bytes that claim to be a frame.
//! corpus: crates/packet/corpus/frames

#![no_main]

libfuzzer_sys::fuzz_target!(|frame: &[u8]| {
    packet::wire::exercise(frame);
});
