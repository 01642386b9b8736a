//! Lists of ClassBench against the same lists tried from their beginning: those in the directory `rules` of `SWITCHPATH_DATA`, or of `shared/data` beside
//! the repository. Without them the test tries generated lists only.

mod random;

use classifier::{Key, Published, PublishedReader, RuleResult, RuleSet, TernaryRule};
use plan::import::classbench::ClassbenchRule;
use random::Random;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Keys that are tried for each list. `make soak` tries more.
fn keys_per_list() -> usize {
    std::env::var("SWITCHPATH_KEYS").ok().and_then(|keys| keys.parse().ok()).unwrap_or(4_000)
}

fn bits(address: IpAddr) -> u64 {
    let IpAddr::V4(address) = address else { panic!("the lists are of IPv4") };
    address.to_bits().into()
}

/// Source and destination, then protocol and flags.
fn rule(rank: usize, rule: &ClassbenchRule) -> TernaryRule<4> {
    let mask = |length: u8| u64::from(u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0));
    let (source, destination) = (rule.source, rule.destination);
    let (protocol, flags) = (rule.protocol, rule.flags);
    TernaryRule::any(rank as u32, RuleResult::default())
        .bits(
            0,
            bits(source.address) << 32 | bits(destination.address),
            mask(source.length) << 32 | mask(destination.length),
        )
        .bits(
            1,
            u64::from(protocol.0) << 56 | u64::from(flags.0) << 40,
            u64::from(protocol.1) << 56 | u64::from(flags.1) << 40,
        )
        .lane(0, rule.sport.clone())
        .lane(1, rule.dport.clone())
}

/// A random ternary rule: any bits of the first two words.
fn random_rule(rank: usize, random: &mut Random) -> TernaryRule<4> {
    let (few, more) = (random.next() & random.next() & random.next(), random.next());
    let port = random.next() as u16;
    let rule = TernaryRule::any(rank as u32, RuleResult::default()).bits(0, more, few).bits(1, more >> 9, few << 3);
    if port.is_multiple_of(3) { rule.lane(1, port..=port.saturating_add(100)) } else { rule }
}

/// The lists, each with its name.
#[expect(clippy::print_stderr, reason = "a test without the given lists says so")]
fn lists() -> Vec<(String, Vec<TernaryRule<4>>)> {
    let mut random = Random(11);
    let generated = (0..2_000).map(|rank| random_rule(rank, &mut random)).collect();
    let mut lists = vec![("random".to_string(), generated)];
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let data = std::env::var_os("SWITCHPATH_DATA").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let Ok(files) = std::fs::read_dir(data.join("rules")) else {
        eprintln!("only generated lists are tried: {} has no directory 'rules'", data.display());
        return lists;
    };
    let mut files: Vec<PathBuf> = files.filter_map(|file| Some(file.ok()?.path())).collect();
    files.sort();
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "gz")) {
        let unpacked = Command::new("gzip").arg("-dc").arg(file).output().expect("there is gzip");
        assert!(unpacked.status.success(), "{}", file.display());
        let text = String::from_utf8(unpacked.stdout).expect("it is text");
        let parsed = text.lines().map(|line| ClassbenchRule::parse(line).unwrap_or_else(|error| panic!("{error}")));
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned());
        lists.push((name.unwrap_or_default(), parsed.enumerate().map(|(i, parsed)| rule(i, &parsed)).collect()));
    }
    lists
}

/// A key in a random rule of the list, or near one.
fn key(list: &[TernaryRule<4>], random: &mut Random) -> Key<4> {
    let rule = &list[random.next() as usize % list.len()];
    let free = [random.next(), random.next(), 0, random.next()];
    let key = rule.key_with(free);
    let change = if random.next().is_multiple_of(8) { 1 << (random.next() % 64) } else { 0 };
    Key([key.0[0] ^ change, key.0[1], key.0[2], key.0[3]])
}

fn first(list: &[TernaryRule<4>], key: &Key<4>) -> Option<u32> {
    list.iter().find(|rule| rule.matches(key)).map(|rule| rule.rank)
}

#[test]
fn lists_are_looked_up_as_if_tried_from_their_beginning() {
    let mut random = Random(3);
    for (name, list) in lists() {
        // Long lists take long from their beginning.
        let keys = (keys_per_list() * 10_000 / list.len().max(10_000)).max(256);
        let set = RuleSet::build(list.clone());
        assert_eq!(set.len(), list.len(), "{name}");
        for _ in 0..keys / 256 {
            let keys: Vec<Key<4>> = (0..256).map(|_| key(&list, &mut random)).collect();
            let mut found = [None; 256];
            set.look_up(&keys, &mut found);
            for (key, found) in keys.iter().zip(found) {
                assert_eq!(found.map(|rule| rule.rank), first(&list, key), "{name}: {key:x?}");
            }
        }
    }
}

/// A set, and the list of the same rules.
type Both = (RuleSet<4>, Vec<TernaryRule<4>>);

#[test]
fn reader_sees_the_list_before_or_after_a_change_and_never_a_mixture() {
    for (name, list) in lists().into_iter().filter(|(_, list)| list.len() <= 2_000) {
        let kept: Vec<_> = list.iter().copied().step_by(2).collect();
        let published: Arc<Published<Both>> = Arc::new(Published::new((RuleSet::build(kept.clone()), kept)));
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let (mut reader, mut random, mut versions) = (PublishedReader::new(&published), Random(5), 0u64);
                while !done.load(Ordering::Relaxed) || versions < 2 {
                    let (set, tried) = reader.refresh();
                    let keys: Vec<Key<4>> = (0..64).map(|_| key(&list, &mut random)).collect();
                    let mut found = [None; 64];
                    set.look_up(&keys, &mut found);
                    for (key, found) in keys.iter().zip(found) {
                        assert_eq!(found.map(|rule| rule.rank), first(tried, key), "{name}: {key:x?}");
                    }
                    versions += 1;
                }
                versions
            });
            let mut random = Random(9);
            for _ in 0..400 {
                let (mut set, mut tried) = Both::clone(&published.latest());
                let rule = list[random.next() as usize % list.len()];
                match tried.binary_search_by_key(&rule.rank, |rule| rule.rank) {
                    Ok(at) => {
                        assert!(set.remove(&rule));
                        tried.remove(at);
                    }
                    Err(at) => {
                        assert!(set.insert(rule));
                        tried.insert(at, rule);
                    }
                }
                published.publish((set, tried));
            }
            done.store(true, Ordering::Relaxed);
            reader.join().expect("the reader finds no difference");
        });
        published.free_retired();
    }
}
