//! Random batches of changes applied to a running router: an error is reported with its line and changes nothing, and a
//! valid batch is applied as written. The corpus of the fuzz target `batch` replays here.

use fib::{Origin, Outcome, RouteQuery, TableLimits};
use packet::event::Silent;
use plan::batch::batch;
use plane::EditError;
use plane::rig::Rig;
use plane::rig::edits::{BatchVerdict, exercise};
use plane::snapshot::Layout;
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::path::Path;
use units::VrfId;

const CONFIG: &str = include_str!("../batches.toml");
const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/batches");

/// A router whose tables hold `routes` routes, including the twenty or so that it installs itself.
fn rig(routes: usize) -> Rig {
    let limits = TableLimits { routes, ..TableLimits::default() };
    let mut rig = Rig::with_limits(64, Layout::Three, limits, Box::new(Silent));
    rig.apply(CONFIG).unwrap_or_else(|errors| panic!("{errors:?}"));
    rig.settle();
    rig
}

/// The batches of the corpus, with their names.
fn corpus() -> Vec<(String, String)> {
    let mut files: Vec<_> =
        std::fs::read_dir(Path::new(DIRECTORY)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 10, "the corpus is there");
    let name = |file: &Path| file.file_name().unwrap().to_string_lossy().into_owned();
    files.iter().map(|file| (name(file), std::fs::read_to_string(file).unwrap())).collect()
}

fn refused(rig: &Rig, text: &str) -> Vec<EditError> {
    let plan = rig.router.plan().unwrap().clone();
    let lines = batch(text, "changes", &plan).unwrap_or_else(|found| panic!("{found}")).lines;
    let refused = rig.router.prepare_edits(&lines, 1000).err();
    refused.expect("it cannot be made")
}

fn make(rig: &mut Rig, text: &str) {
    let plan = rig.router.plan().unwrap().clone();
    let lines = batch(text, "changes", &plan).unwrap_or_else(|found| panic!("{found}")).lines;
    let edits = rig.router.prepare_edits(&lines, 1).unwrap_or_else(|errors| panic!("{errors:?}"));
    rig.router.apply_edits(edits, |_| {});
    rig.settle();
}

#[test]
fn corpus_batches_are_accepted_or_refused_as_named() {
    let mut rig = rig(64);
    for (name, text) in corpus() {
        let expected = match name.split_once('-').map(|(kind, _)| kind) {
            Some("good") => BatchVerdict::Applied,
            Some("refused") => BatchVerdict::Refused,
            Some("bad") => BatchVerdict::Unparsable,
            _ => panic!("{name} says nothing"),
        };
        assert_eq!(exercise(&mut rig, &text), expected, "{name}");
    }
}

/// Words of the batch syntax, to be inserted in wrong places.
const PIECES: &[&str] = &[
    "add ",
    "del ",
    "flush\n",
    "vrf red ",
    "via ",
    "weight 2 ",
    "port wan ",
    "leak",
    "#",
    "\n",
    "\r\n",
    "\t",
    "\u{1b}[2J",
    "0.0.0.0/0 ",
    "::/0 ",
    "192.0.2.9 ",
    "198.51.100.9 ",
    "10.0.0.0/8 ",
    "blackhole\n",
    "neighbour ",
    "/",
    "é",
    "\0",
];

fn mutated() -> impl Strategy<Value = String> {
    let edit = (any::<prop::sample::Index>(), 0usize..40, prop::sample::select(PIECES), 0u8..4);
    (prop::sample::select(corpus()), prop::collection::vec(edit, 1..6)).prop_map(|((_, mut text), edits)| {
        for (place, length, piece, kind) in edits {
            let at = text.floor_char_boundary(place.index(text.len() + 1));
            let end = text.floor_char_boundary((at + length).min(text.len())).max(at);
            match kind {
                0 => text.replace_range(at..end, ""),
                1 => text.insert_str(at, piece),
                2 => text.replace_range(at..end, piece),
                _ => {
                    let copy = text[at..end].to_owned();
                    text.insert_str(at, &copy);
                }
            }
        }
        text
    })
}

#[test]
fn mutated_batches_are_applied_completely_or_not_at_all() {
    let (rig, made) = (RefCell::new(rig(64)), Cell::new(0));
    proptest!(ProptestConfig::with_cases(3000), |(text in mutated())| {
        let verdict = exercise(&mut rig.borrow_mut(), &text);
        made.set(made.get() + usize::from(verdict == BatchVerdict::Applied));
    });
    assert!(made.get() > 100, "{} of them could be made", made.get());
}

#[test]
fn full_table_is_reported_at_the_line_that_overflows() {
    let mut rig = rig(64);
    let room = rig.router.tables().room();
    let line = |n: usize| format!("add 10.0.{n}.0/24 blackhole\n");
    make(&mut rig, &(0..room).map(line).collect::<String>());
    assert_eq!(rig.router.tables().room(), 0);
    let errors = refused(&rig, &(room - 1..room + 2).map(line).collect::<String>());
    assert_eq!(errors.iter().map(|error| error.line).collect::<Vec<_>>(), [2, 3], "what is there may be said again");
    assert_eq!(
        (&*errors[0].reason, &*errors[0].hint),
        ("the table is full: the limit is 64 routes", "remove others first")
    );
    // Adding and removing neighbours needs no room in the table of routes.
    make(
        &mut rig,
        "neighbour add 192.0.2.77 mac 02:00:00:00:00:77 port lan\nneighbour add fe80::7 mac 02:00:00:00:00:77 port lan\n",
    );
    make(&mut rig, "neighbour del fe80::7 port lan\nneighbour del 192.0.2.77 port lan\ndel 10.0.0.0/24\n");
    assert_eq!(rig.router.tables().room(), 1);
    make(&mut rig, &line(room));
    // A configuration whose routes do not fit beside them is refused and changes nothing.
    let more = format!("{CONFIG}[[route]]\nto = '172.16.0.0/12'\nblackhole = true\n");
    let errors = rig.apply(&more).unwrap_err();
    let error = &errors[0];
    assert!(error.reason.contains(&format!("and {room} added by the API; 64 fit")), "{error:?}");
    assert!(error.hint.contains("switchpath route flush"), "{error:?}");
    make(&mut rig, "flush\n");
    rig.apply(&more).unwrap();
    assert_eq!(rig.router.tables().room(), room - 1);
}

#[test]
fn too_many_groups_are_refused_at_their_line() {
    let rig = rig(1 << 20);
    // 255 next hops have more pairs than there can be groups.
    let pairs = (1..=254u32).flat_map(|a| (a + 1..=254).map(move |b| (a, b))).filter(|(a, b)| *a != 1 && *b != 1);
    let line = |(n, (a, b)): (usize, (u32, u32))| {
        format!("add 10.{}.{}.0/24 via 198.51.100.{a} via 198.51.100.{b}\n", n >> 8, n & 255)
    };
    let text: String = pairs.take(4098).enumerate().map(line).collect();
    let errors = refused(&rig, &text);
    assert_eq!(errors.iter().map(|error| error.line).collect::<Vec<_>>(), [4097, 4098]);
    assert!(errors[0].reason.contains("4096 different groups") && !errors[0].hint.is_empty(), "{errors:?}");
    assert_eq!((rig.router.tables().groups_in_use(), rig.router.tables().api_routes()), (0, 0));
}

#[test]
fn too_many_neighbours_are_refused_at_their_line() {
    let mut rig = rig(64);
    let mac = "mac 02:00:00:00:00:09 port wide";
    let neighbour = |n: u32| format!("neighbour add 172.20.{}.{} {mac}\n", n >> 8, n & 255);
    let errors = refused(&rig, &(2..4099).map(neighbour).collect::<String>());
    assert_eq!(errors.iter().map(|error| error.line).collect::<Vec<_>>(), [4097]);
    assert_eq!(errors[0].reason, "wide has the maximum of 4096 static neighbours");
    // Neighbours that the same batch adds and removes do not count.
    let gone = (2..4099).map(|n| neighbour(n) + &format!("neighbour del 172.20.{}.{} port wide\n", n >> 8, n & 255));
    make(&mut rig, &gone.collect::<String>());
    make(&mut rig, &(2..4098).map(neighbour).collect::<String>());
    let found = format!("{CONFIG}[[neighbour]]\naddress = '172.20.255.1'\nmac = '02:00:00:00:00:0a'\nport = 'wide'\n");
    let errors = rig.apply(&found).unwrap_err();
    assert!(errors[0].to_string().contains("4097 are static"), "{errors:?}");
}

#[test]
fn million_line_batch_is_atomic() {
    const LINES: usize = 1_000_000;
    let mut rig = rig(1 << 21);
    let line =
        |n: usize| format!("add {}.{}.{}.0/24 via 198.51.100.{}\n", 16 + (n >> 16), n >> 8 & 255, n & 255, 2 + n % 200);
    let mut text: String = (0..LINES).map(line).collect();
    let (good, groups) = (text.len(), rig.router.tables().fib4().groups());
    text += "del 9.0.0.0/8\n";
    let errors = refused(&rig, &text);
    assert_eq!(errors.iter().map(|error| error.line).collect::<Vec<_>>(), [LINES + 1]);
    assert_eq!(rig.router.tables().api_routes(), 0, "nothing has changed");
    text.truncate(good);
    make(&mut rig, &text);
    assert_eq!(rig.router.tables().api_routes(), LINES);
    for n in (0..LINES).step_by(9973) {
        let prefix = format!("{}.{}.{}.0/24", 16 + (n >> 16), n >> 8 & 255, n & 255).parse().unwrap();
        assert!(matches!(rig.router.tables().route(VrfId::MAIN, prefix, Origin::Api), Outcome::Via(_)), "{prefix}");
    }
    make(&mut rig, "flush\n");
    let left = rig.router.tables().routes(&RouteQuery { origin: Some(Origin::Api), ..RouteQuery::default() }, 1);
    assert_eq!((left.len(), rig.router.tables().fib4().groups()), (0, groups));
}
