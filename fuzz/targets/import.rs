//! The importers of rules on bytes that claim to be the JSON of nftables or rules of ClassBench: each translated rule parses back, and each problem
//! has a place.
//! corpus: crates/plan/corpus/import

#![no_main]

use libfuzzer_sys::Corpus;

libfuzzer_sys::fuzz_target!(|file: &[u8]| -> Corpus {
    let Ok(text) = std::str::from_utf8(file) else { return Corpus::Reject };
    plan::import::exercise(text);
    Corpus::Keep
});
