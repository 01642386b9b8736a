//! Same arrivals, same decisions: schemes run as guests make the recorded decisions. Over many packets a guest also decides on each as the built-in
//! scheme does, called once for a batch or once for each packet.

use crate::built;
use crate::described::described;
use extension::{Guest, GuestProgram, Runtime};
use schemes::conformance::{Load, Round, Rounds, Trial};
use schemes::model::{Model, ModelFate};
use schemes::recordings::{Arrivals, Recording};
use schemes::{Progress, Scheme};
use std::path::PathBuf;
use units::Nanos;

/// The first option's value that makes the guest of all schemes read a scheme's text from the other options.
const TEXT: u64 = 99;
/// The most bytes of a text: those of the other options.
const LONGEST: usize = 15 * 8;

fn path(of: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../schemes/tests/conformance").join(of)
}

/// All recordings, by name.
fn recordings() -> Vec<(String, Recording)> {
    let files = std::fs::read_dir(path("decisions")).expect("they are there").map(|file| file.expect("it is").path());
    let read = |file: PathBuf| {
        let text = std::fs::read_to_string(&file).expect("it can be read");
        let recording = Recording::read(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        (file.file_stem().expect("it has a name").to_string_lossy().into_owned(), recording)
    };
    let mut all: Vec<_> = files.map(read).collect();
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    all
}

fn program() -> Option<GuestProgram> {
    let runtime = Runtime::counted().expect("it runs here");
    built::native().map(|native| GuestProgram::load(&native, &runtime).expect("it is a guest"))
}

/// The scheme of this text as a guest.
fn guest(program: &GuestProgram, scheme: &str) -> Guest {
    assert!(scheme.len() <= LONGEST, "{scheme} is too long");
    let mut bytes = [0; LONGEST];
    bytes[..scheme.len()].copy_from_slice(scheme.as_bytes());
    let words = bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight of them")));
    let values: Vec<u64> = [TEXT].into_iter().chain(words).collect();
    program.guest(&values).unwrap_or_else(|error| panic!("{scheme}: {error}"))
}

#[test]
fn guests_decide_as_recorded() {
    let Some(program) = program() else { return };
    let all = recordings();
    assert!(all.len() > 20);
    for (name, recording) in all {
        let arrivals = std::fs::read_to_string(path("arrivals").join(recording.arrivals.clone() + ".txt"));
        let arrivals = Arrivals::read(&arrivals.expect("they are there")).expect("they are arrivals");
        let found = arrivals.play(&mut guest(&program, &recording.scheme));
        if let Err(difference) = arrivals.compare(&recording.decisions, &found) {
            panic!("{} as a guest does not decide as decisions/{name}.txt: {difference}", recording.scheme);
        }
    }
}

/// Each queue management with state, in each scheme of many queues, and those inside others. (A guest has memory for a hundred packets of each CHOKe,
/// not for a thousand.)
#[test]
fn overloaded_nested_guests_admit_packets_to_an_empty_queue() {
    let Some(program) = program() else { return };
    for manager in ["red", "choke(limit=100)", "blue", "pie", "codel"] {
        let few =
            ["fq", "drr", "sfq", "las", "wfq", "wf2q", "cake"].map(|order| format!("{order}(flows=16){{{manager}}}"));
        let inside: Vec<String> =
            few.into_iter().chain([manager.to_string(), format!("priority{{{manager}}}")]).collect();
        let around = |inside: &String| {
            [format!("shape{{{inside}}}"), format!("tree{{branch{{{inside}}},branch(class=2){{{inside}}}}}")]
        };
        for scheme in inside.iter().cloned().chain(inside.iter().flat_map(around)) {
            for (load, millis) in [(1_500, 300), (20_000, 100)] {
                let mut trial = Trial::new(Box::new(guest(&program, &scheme)));
                let recovered = trial.try_overload(Load(load), Nanos::millis(millis));
                recovered.and_then(|()| trial.try_end()).unwrap_or_else(|how| panic!("{scheme}: {how}"));
            }
        }
    }
}

/// A scheme on its link, and how it is called.
struct SchemeRun<'s> {
    scheme: &'s mut dyn Scheme<Model>,
    model: Model,
    /// Once for each packet, not once for all.
    singly: bool,
}

impl<'s> SchemeRun<'s> {
    fn new(scheme: &'s mut dyn Scheme<Model>, singly: bool) -> SchemeRun<'s> {
        let model = Model::with_queues(scheme.queues() as usize);
        SchemeRun { scheme, model, singly }
    }

    /// The decisions of a round: fates, and the marked packets.
    fn round(&mut self, Round { packets, pause, room }: &Round) -> (Vec<ModelFate>, Vec<usize>) {
        let SchemeRun { scheme, model, singly } = self;
        match singly {
            true => packets.iter().for_each(|packet| model.arrive_all(&mut **scheme, [*packet].into_iter())),
            false => model.arrive_all(&mut **scheme, packets.iter().copied()),
        }
        model.now += *pause;
        model.room = *room;
        match singly {
            true => while model.room > 0 && scheme.link_ready(model) == Progress::Made {},
            false => scheme.serve(model),
        }
        (std::mem::take(&mut model.fates), std::mem::take(&mut model.marked))
    }
}

/// Fates in an order that batches keep: a packet that is not admitted is reported when the next one arrives.
fn sorted(mut fates: Vec<ModelFate>) -> Vec<ModelFate> {
    fates.sort_by_key(|fate| match fate {
        ModelFate::Sent(_) => (true, 0),
        ModelFate::Refused(number) | ModelFate::Dropped(number) => (false, *number),
    });
    fates
}

/// Packets for each scheme: `SWITCHPATH_PACKETS`, or a tenth of the soak's.
fn wanted() -> usize {
    std::env::var("SWITCHPATH_PACKETS").map_or(100_000, |text| text.parse().expect("SWITCHPATH_PACKETS is a number"))
}

#[test]
fn guests_decide_as_native_schemes_for_every_packet() {
    let Some(program) = program() else { return };
    let mut lost = 0;
    for (seed, (_, Recording { scheme, .. })) in recordings().into_iter().enumerate() {
        let (mut many, mut single, mut guest) = (described(&scheme), described(&scheme), guest(&program, &scheme));
        let mut many = SchemeRun::new(&mut *many, false);
        let mut single = SchemeRun::new(&mut *single, true);
        let mut guest = SchemeRun::new(&mut guest, false);
        let mut ended = 0;
        for (number, round) in Rounds::seeded(1917 + seed as u64, usize::MAX).enumerate() {
            let expected = many.round(&round);
            let found = guest.round(&round);
            assert!(found == expected, "{scheme}, round {number}: as a guest {found:?}, at home {expected:?}");
            let (fates, marked) = single.round(&round);
            let same = sorted(fates.clone()) == sorted(expected.0.clone()) && marked == expected.1;
            assert!(same, "{scheme}, round {number}: one by one {fates:?} {marked:?}, at once {expected:?}");
            ended += expected.0.len();
            lost += expected.0.iter().filter(|fate| !matches!(fate, ModelFate::Sent(_))).count();
            if many.model.offered() >= wanted() {
                break;
            }
        }
        assert!(ended > wanted() / 10 * 9, "{scheme}: {ended} packets have a fate");
        assert!(Scheme::<Model>::next_fault(guest.scheme).is_none());
    }
    assert!(lost > wanted(), "only {lost} packets are lost in all schemes");
}
