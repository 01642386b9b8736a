//! The messages of the wire that multiplexes quanta, as a receiver reads them: hellos, flow maps and batches in any order, each behind its length in
//! two octets. No message panics, and a receiver delivers at most the bytes that it got.
//! corpus: crates/link/corpus/dfq_wire

#![no_main]

libfuzzer_sys::fuzz_target!(|messages: &[u8]| link::dfq_wire::exercise(messages));
