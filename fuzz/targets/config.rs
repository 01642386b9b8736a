//! The configuration reader on bytes that claim to be TOML: it returns a plan or printable errors.
//! corpus: crates/plan/corpus

#![no_main]

use libfuzzer_sys::Corpus;
use plan::admission::{Costs, admit};
use plan::{Catalogue, MOST_DIAGNOSTICS, diff, examine};
use std::sync::LazyLock;
use units::Parts;

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(plane::catalogue);

libfuzzer_sys::fuzz_target!(|file: &[u8]| -> Corpus {
    let Ok(source) = std::str::from_utf8(file) else { return Corpus::Reject };
    let checked = examine(source, "fuzzed", &CATALOGUE);
    let errors = checked.diagnostics.errors().count();
    assert_eq!(checked.plan.is_some(), errors == 0, "a plan just where there is no error");
    assert!(checked.diagnostics.list().len() <= MOST_DIAGNOSTICS);
    assert!(!checked.diagnostics.render(false).contains('\u{1b}'), "no control sequence reaches a terminal");
    if let Some(plan) = checked.plan {
        assert!(diff(&plan, &plan).is_empty(), "nothing differs from itself");
        if let Ok(allotment) = admit(&plan, &Costs::assumed(&plan)) {
            assert!(allotment.demand <= Parts::ONE, "no more is promised than there is");
        }
    }
    Corpus::Keep
});
