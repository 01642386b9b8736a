//! The readers of files of subscribers on bytes that claim to be them: our table, the table of LibreQoS, and behind the line `--- network.json` its
//! network. Each plan is a tree of shares, and each error has a position.
//! corpus: crates/plan/corpus/subscribers

#![no_main]

use libfuzzer_sys::Corpus;

libfuzzer_sys::fuzz_target!(|file: &[u8]| -> Corpus {
    let Ok(text) = std::str::from_utf8(file) else { return Corpus::Reject };
    plan::subscribers::exercise(text);
    Corpus::Keep
});
