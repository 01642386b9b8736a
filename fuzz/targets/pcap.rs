//! The capture reader on bytes that claim to be a pcap or pcapng file, and the search for the packet in each frame.
//! corpus: crates/io/corpus/pcap

#![no_main]

libfuzzer_sys::fuzz_target!(|file: &[u8]| {
    let Ok(mut reader) = io::pcap::Reader::new(file) else { return };
    while let Ok(Some(record)) = reader.next_record() {
        assert!(record.data.len() <= io::pcap::MAX_BLOCK);
        let packet = record.link.packet(record.data);
        assert!(packet.is_none_or(|packet| packet.len() <= record.data.len()));
        assert!((record.interface as usize) < reader.interfaces().len());
    }
});
