//! Every built-in scheme also runs as a guest, makes the same decisions, and keeps the laws of schemes.

use crate::built;
use extension::{GuestProgram, Runtime};
use schemes::conformance::{Rounds, Trial};
use schemes::model::{Model, ModelFate};
use schemes::{DECLARATIONS, Layer, ORDERS, Scheme, build};
use units::declare::{Declaration, Inside, OptionDeclaration, Unit};

type Options = Vec<(&'static str, u64)>;

fn defaults(declaration: &Declaration) -> Options {
    let default = |o: &OptionDeclaration| match o.name {
        // A guest has fewer queues than a link.
        "leaves" => (o.name, 64),
        _ => (o.name, o.unit.read(o.default).expect("defaults are checked")),
    };
    declaration.options.iter().map(default).collect()
}

/// The default options, and a variant for each other value of each choice and switch.
fn varied(declaration: &Declaration) -> Vec<Options> {
    let mut all = vec![defaults(declaration)];
    for (place, option) in declaration.options.iter().enumerate() {
        let Unit::Choice(words) = option.unit else { continue };
        let usual = all[0].clone();
        for value in (0..words.len() as u64).filter(|value| *value != usual[place].1) {
            let mut options = usual.clone();
            options[place].1 = value;
            all.push(options);
        }
    }
    all
}

/// The fates of the packets, and the marked ones.
fn outcome(scheme: Box<dyn Scheme<Model>>, seed: u64) -> (Vec<ModelFate>, Vec<usize>) {
    let mut trial = Trial::new(scheme);
    Rounds::seeded(seed, 120).for_each(|round| trial.round(&round));
    let model = trial.end();
    (model.fates, model.marked)
}

fn agree(program: &GuestProgram, which: usize, inside: usize, options: &Options, native: &Layer<'_>) {
    let values: Vec<u64> =
        [which as u64, inside as u64].into_iter().chain(options.iter().map(|(_, value)| *value)).collect();
    for seed in [3, 1917] {
        let guest = program.guest(&values).unwrap_or_else(|error| panic!("{native:?}: {error}"));
        let native_scheme = build::<Model>(native).expect("it is declared");
        assert_eq!(
            (Scheme::<Model>::queues(&guest), Scheme::<Model>::passes_when_idle(&guest)),
            (native_scheme.queues(), native_scheme.passes_when_idle())
        );
        let (guest, native_outcome) = (outcome(Box::new(guest), seed), outcome(native_scheme, seed));
        assert!(!native_outcome.0.is_empty());
        assert!(guest == native_outcome, "{native:?} decides otherwise as a guest");
    }
}

#[test]
fn every_scheme_makes_the_same_decisions_as_a_guest() {
    let Some(native) = built::native() else { return };
    let program = GuestProgram::load(&native, &Runtime::counted().expect("it runs here")).expect("it is a guest");
    for (which, declaration) in DECLARATIONS.iter().enumerate() {
        for options in varied(declaration) {
            let layer = Layer { name: declaration.name, options: &options, inside: Vec::new() };
            agree(&program, which, 0, &options, &layer);
        }
    }
    for (place, order) in ORDERS.iter().enumerate() {
        for (inside, manager) in DECLARATIONS.iter().enumerate().take(3) {
            let managed = defaults(manager);
            let alone = Layer { name: manager.name, options: &managed, inside: Vec::new() };
            let branch = match order.inner {
                Inside::Branches(of, _) => defaults(&of.declaration),
                _ => Vec::new(),
            };
            let inner = match order.inner {
                Inside::Branches(of, _) => Layer { name: of.declaration.name, options: &branch, inside: vec![alone] },
                _ => alone,
            };
            let options = defaults(&order.declaration);
            let layer = Layer { name: order.declaration.name, options: &options, inside: vec![inner] };
            agree(&program, DECLARATIONS.len() + place, inside, &options, &layer);
        }
    }
}

#[test]
fn guest_with_refused_options_gives_the_reason() {
    let Some(native) = built::native() else { return };
    let program = GuestProgram::load(&native, &Runtime::counted().expect("it runs here")).expect("it is a guest");
    let error = program.guest(&[98]).expect_err("there is none of that number");
    assert_eq!(error.reason, "it refuses to start: there is no such scheme");
    assert_eq!(program.declared().summary, "A scheme that is built in.");
}
