//! The guarantees of every CPU scheduler ([`laws`]), the exact picks of WF2Q+ ([`exact`]), and the deviation of each scheduler from the shares
//! ([`fluid`]).

mod exact;
mod fluid;
mod laws;
mod load;

use super::*;

const NOW: Instant = Instant::START;

/// One CPU scheduler under test.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    make: fn() -> Box<dyn CpuScheduler>,
}

/// Every CPU scheduler, and WF2Q+ in each of its forms.
const WAYS: &[Way] = &[
    Way { name: "wf2q+", make: wf2q::REGISTRATION.make },
    Way { name: "wf2q+ in a tournament", make: || Box::new(Tasks::ordered(wf2q::Tags::in_tournament())) },
    Way { name: "wf2q+ in groups", make: || Box::new(Tasks::ordered(wf2q::Tags::in_groups())) },
    Way { name: "sfq", make: sfq::REGISTRATION.make },
    Way { name: "stride", make: stride::REGISTRATION.make },
    Way { name: "eevdf", make: eevdf::REGISTRATION.make },
    Way { name: "drr", make: drr::REGISTRATION.make },
    Way { name: "rr", make: round_robin::REGISTRATION.make },
];

fn way(name: &str) -> Way {
    *WAYS.iter().find(|way| way.name == name).expect("there is such a way")
}

#[test]
fn a_plan_that_names_no_scheduler_means_the_first_one() {
    assert_eq!(SCHEDULERS[0].named(), plan::CpuScheduler::default());
}

#[test]
fn the_reference_lists_each_scheduler_as_it_is_declared() {
    let page = include_str!("../../../../docs/reference/configuration.md");
    for Registration { name, summary, source, .. } in SCHEDULERS {
        let row = format!("\n| `{name}` | {summary} | {source} |\n");
        assert!(page.contains(&row), "docs/reference/configuration.md lacks the row{row}");
    }
}

#[test]
#[should_panic(expected = "there is a CPU scheduler rr already")]
fn two_schedulers_of_one_name_cannot_be_registered() {
    let _ = Schedulers::default().with(round_robin::REGISTRATION);
}
