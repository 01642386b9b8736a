//! What every discipline keeps ([`laws`]), what the exact WF2Q+ picks ([`exact`]), and how near each comes to its
//! share ([`fluid`]).

mod exact;
mod fluid;
mod laws;
mod load;

use super::*;

const NOW: Instant = Instant::START;

/// One way to schedule.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    make: fn() -> Box<dyn CpuScheduler>,
}

/// Every discipline, and WF2Q+ in each of its forms.
const WAYS: &[Way] = &[
    Way { name: "wf2q+", make: || build(Discipline::Wf2q) },
    Way { name: "wf2q+ in a tournament", make: || Box::new(Tasks::ordered(wf2q::Tags::in_tournament())) },
    Way { name: "wf2q+ in groups", make: || Box::new(Tasks::ordered(wf2q::Tags::in_groups())) },
    Way { name: "sfq", make: || build(Discipline::Sfq) },
    Way { name: "stride", make: || build(Discipline::Stride) },
    Way { name: "eevdf", make: || build(Discipline::Eevdf) },
    Way { name: "drr", make: || build(Discipline::Drr) },
    Way { name: "rr", make: || build(Discipline::RoundRobin) },
];

fn way(name: &str) -> Way {
    *WAYS.iter().find(|way| way.name == name).expect("there is such a way")
}

#[test]
fn every_discipline_is_declared_under_the_name_the_configuration_has_for_it() {
    let declared: Vec<_> =
        DISCIPLINES.iter().map(|(discipline, declaration)| (*discipline, declaration.name)).collect();
    let configured: Vec<_> = Discipline::ALL.iter().map(|discipline| (*discipline, discipline.name())).collect();
    assert_eq!(declared, configured);
    assert_eq!(DISCIPLINES[0].0, Discipline::default());
}
