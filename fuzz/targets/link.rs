//! The file of a recorded link: a trace that the parser accepts is written and read back unchanged, and packets cross it in order, in every
//! mode.
//! corpus: crates/link/corpus/traces

#![no_main]

use link::medium::{Medium, Trace};
use plan::{LinkService, MediumPlan, TraceEnd, TraceMode, TracePlan, TraceSource};
use std::sync::Arc;
use units::{Instant, Nanos};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(trace) = Trace::parse(bytes) else { return };
    assert_eq!(Trace::parse(trace.to_text().as_bytes()).as_ref(), Ok(&trace));
    let trace = Arc::new(trace);
    for mode in [TraceMode::Packet, TraceMode::Bytes(1500), TraceMode::Bytes(1504)] {
        for end in [TraceEnd::Repeat, TraceEnd::Stop] {
            let source = TraceSource::File(String::new());
            let service = LinkService::Trace(TracePlan { source, mode, end });
            let plan = MediumPlan { service, ..MediumPlan::default() };
            let mut link = Medium::new(&plan, Some(trace.clone()), Instant::START, 1, "fuzz");
            let mut now = Instant::START;
            for size in 0..100 {
                let Some(ready) = link.ready(now) else { break };
                now = now.max(ready);
                let left = link.send(now, size * 40);
                assert!(left >= now);
                now += Nanos::micros(700);
            }
        }
    }
});
