//! The reader of set files on bytes that claim to be one: it returns elements that parse back, or errors with positions.
//! corpus: crates/plan/corpus/sets

#![no_main]

use libfuzzer_sys::Corpus;
use plan::{MOST_DIAGNOSTICS, SetEntry, SetKind, set_entries};

libfuzzer_sys::fuzz_target!(|file: &[u8]| -> Corpus {
    let Ok(text) = std::str::from_utf8(file) else { return Corpus::Reject };
    let lines = text.split('\n').count();
    for kind in [SetKind::Address, SetKind::Port] {
        match set_entries(text, "fuzzed", kind) {
            Ok(entries) => {
                let back = entries.iter().map(|entry| entry.to_string().parse::<SetEntry>().expect("it parses back"));
                assert!(back.eq(entries.iter().copied()));
                assert!(entries.iter().all(|entry| entry.value.kind() == kind));
            }
            Err(errors) => {
                assert!(errors.errors().next().is_some() && errors.list().len() <= MOST_DIAGNOSTICS);
                assert!(errors.list().iter().all(|error| (1..=lines).contains(&error.line) && error.column >= 1));
                assert!(!errors.render(false).contains('\u{1b}'), "no control sequence reaches a terminal");
            }
        }
    }
    Corpus::Keep
});
