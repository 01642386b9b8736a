//! The parser of packets with instructions, and the instructions, on bytes that claim to be an IP packet.
//! corpus: crates/esp/corpus/packets

#![no_main]

libfuzzer_sys::fuzz_target!(|packet: &[u8]| {
    esp::wire::exercise(packet);
});
