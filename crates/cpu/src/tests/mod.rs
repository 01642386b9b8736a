//! The guarantees of every CPU scheduler ([`laws`]), the exact picks of WF2Q+ ([`exact`]), and the deviation of each scheduler from the shares
//! ([`fluid`]).

mod fluid_model;
mod invariants;
mod load;
mod wf2q_exact;

use super::*;

const NOW: Instant = Instant::START;

/// One CPU scheduler under test.
#[derive(Clone, Copy)]
struct SchedulerCase {
    name: &'static str,
    make: fn() -> Box<dyn CpuScheduler>,
}

/// Every CPU scheduler, and WF2Q+ in each of its forms.
const SCHEDULER_CASES: &[SchedulerCase] = &[
    SchedulerCase { name: "wf2q+", make: wf2q::REGISTRATION.make },
    SchedulerCase {
        name: "wf2q+ in a tournament",
        make: || Box::new(ShareScheduler::ordered(wf2q::Wf2qTasks::in_tournament())),
    },
    SchedulerCase { name: "wf2q+ in groups", make: || Box::new(ShareScheduler::ordered(wf2q::Wf2qTasks::in_groups())) },
    SchedulerCase { name: "sfq", make: sfq::REGISTRATION.make },
    SchedulerCase { name: "stride", make: stride::REGISTRATION.make },
    SchedulerCase { name: "eevdf", make: eevdf::REGISTRATION.make },
    SchedulerCase { name: "drr", make: drr::REGISTRATION.make },
    SchedulerCase { name: "spfq", make: potential::SPFQ.make },
    SchedulerCase { name: "potential", make: potential::LITERAL.make },
    SchedulerCase { name: "rr", make: round_robin::REGISTRATION.make },
];

fn scheduler_case(name: &str) -> SchedulerCase {
    *SCHEDULER_CASES.iter().find(|way| way.name == name).expect("there is such a way")
}

#[test]
fn default_scheduler_is_the_first_one() {
    assert_eq!(SCHEDULERS[0].named(), plan::CpuSchedulerChoice::default());
}

#[test]
fn the_reference_lists_each_scheduler_as_it_is_declared() {
    let page = include_str!("../../../../docs/reference/configuration.md");
    for SchedulerRegistration { name, summary, source, .. } in SCHEDULERS {
        let row = format!("\n| `{name}` | {summary} | {source} |\n");
        assert!(page.contains(&row), "docs/reference/configuration.md lacks the row{row}");
    }
}

#[test]
#[should_panic(expected = "there is a CPU scheduler rr already")]
fn two_schedulers_of_one_name_cannot_be_registered() {
    let _ = Schedulers::default().with(round_robin::REGISTRATION);
}
