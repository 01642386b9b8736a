//! The parser of API requests on bytes that claim to be a request line and a body.
//! corpus: crates/control/corpus/request

#![no_main]

libfuzzer_sys::fuzz_target!(|request: &[u8]| {
    control::request::exercise(request);
});
