//! Lines of changes of shares, and the tree that checks them.

use plan::{
    MOST_DIAGNOSTICS, ShareBatch, ShareChange, ShareName, ShareOrigin, ShareSettings, ShareTree, share_batch,
    share_file,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Write;
use units::{Bytes, Nanos, Rate};

fn batch(text: &str) -> ShareBatch<'_> {
    share_batch(text, "x").unwrap_or_else(|errors| panic!("{errors}"))
}

fn name(text: &str) -> ShareName {
    ShareName::new(text).expect("it is a name")
}

#[test]
fn changes_are_read() {
    let text = "add north rate 300mbit ceiling 1gbit # the tower\n\n# a comment\r\n\
                add \"Doe, Jane #1\" priority 0 weight 10000 in north burst 64kb lease 60s\r\n  set a ceiling none lease none\n\
                set a rate 1kbit lease 2h\nmove a in root\nmove \"in\" in in#\nremove \"a b\"\nremove rate all";
    let changes = batch(text).changes;
    let settings = ShareSettings::default;
    let wanted = [
        (
            1,
            ShareChange::Add {
                name: name("north"),
                parent: None,
                settings: ShareSettings { rate: Some(Rate::mbit(300)), ceiling: Some(Rate::gbit(1)), ..settings() },
                lease: None,
            },
        ),
        (
            4,
            ShareChange::Add {
                name: name("Doe, Jane #1"),
                parent: Some(name("north")),
                settings: ShareSettings {
                    weight: Some(10_000),
                    burst: Some(Bytes::new(65_536)),
                    priority: Some(0),
                    ..settings()
                },
                lease: Some(Nanos::secs(60)),
            },
        ),
        (5, ShareChange::Set { name: name("a"), settings: settings(), no_ceiling: true, lease: Some(None) }),
        (
            6,
            ShareChange::Set {
                name: name("a"),
                settings: ShareSettings { rate: Some(Rate::bits(1000)), ..settings() },
                no_ceiling: false,
                lease: Some(Some(Nanos::secs(7200))),
            },
        ),
        (7, ShareChange::Move { name: name("a"), parent: None }),
        (8, ShareChange::Move { name: name("in"), parent: Some(name("in")) }),
        (9, ShareChange::Remove { name: name("a b"), all: false }),
        (10, ShareChange::Remove { name: name("rate"), all: true }),
    ];
    assert_eq!(changes, wanted);
    let refused = batch(text).refuse(2, "no".into(), "why".into());
    assert_eq!(refused.to_string().trim_end(), "x:5:1: error: no; why");
}

#[test]
fn errors_have_lines_columns_and_hints() {
    let long = format!("add {}", "x".repeat(64));
    for (text, wanted) in [
        ("ad x", "x:1:1: error: 'ad' is no change of shares; did you mean 'add'?"),
        ("\n add", "x:2:5: error: the name of the share is missing; write it, as in 'add gold in north"),
        (
            "add a rate 10mbps",
            "x:1:12: error: 'mbps' is no unit of rate; in tc 'bps' means bytes per second; say bits: '10mbit'",
        ),
        ("add a rate 999bit", "x:1:12: error: 999bit is out of range; give 1kbit to 1tbit"),
        ("add a ceiling 1001gbit", "x:1:15: error: 1001gbit is out of range"),
        ("add a rate", "x:1:11: error: the value of 'rate' is missing"),
        ("add a weight 0", "x:1:14: error: 0 is out of range; give 1 to 10000"),
        ("add a weight +1", "x:1:14: error: '+1' is no weight; write a number from 1 to 10000"),
        ("add a priority 8", "x:1:16: error: 8 is out of range; give 0 to 7"),
        ("add a priority high", "x:1:16: error: 'high' is no priority"),
        ("add a burst 1b", "x:1:13: error: 1b is out of range; give 64b to 1gb"),
        ("add a lease 0s", "x:1:13: error: 0ns is out of range; write a time from 1s to 365d"),
        ("add a lease none", "x:1:13: error: 'none' is no time"),
        ("add a ceiling none", "x:1:15: error: 'none' is no rate"),
        ("add a rate 1mbit rate 2mbit", "x:1:18: error: 'rate' is given twice; keep one of them"),
        ("add a in b in c", "x:1:12: error: 'in' is given twice"),
        ("set a ceiling none ceiling 1mbit", "x:1:20: error: 'ceiling' is given twice"),
        ("set a in b", "x:1:7: error: a share has no option 'in' here; write 'move NAME in PARENT'"),
        ("set a", "x:1:1: error: the line changes nothing"),
        ("add a ceil 1mbit", "x:1:7: error: a share has no option 'ceil' here; write 'ceiling'"),
        ("add a wieght 1", "x:1:7: error: a share has no option 'wieght' here; did you mean 'weight'?"),
        ("add a \"rate\" 1mbit", "x:1:7: error: a share has no option 'rate' here"),
        (
            "add a,b",
            "x:1:5: error: the name 'a,b' has a character that separates names elsewhere; write it in quotes: \"a,b\"",
        ),
        ("add \"a", "x:1:5: error: the quote is not closed"),
        ("add \"a\"b", "x:1:5: error: a quote ends in the middle of a word"),
        ("add a\"b", "x:1:5: error: the name 'a\"b' has a quote or a control character; remove it"),
        ("add \"\"", "x:1:5: error: the name is empty"),
        ("add \"a\u{1b}b\"", "x:1:5: error: the name 'a\u{fffd}b' has a quote or a control character"),
        ("add root", "x:1:5: error: 'root' is the port itself, and no share"),
        (&long, "has 64 bytes; use at most 63 bytes"),
        ("move a", "x:1:7: error: 'in' with the new parent is missing"),
        ("move a to b", "x:1:8: error: unexpected 'to'; write 'move gold in north'"),
        ("move a in b c", "x:1:13: error: unexpected 'c'; remove it"),
        ("remove a b", "x:1:10: error: 'b' follows the name"),
        ("\"add\" a", "x:1:1: error: the line begins with a name"),
    ] {
        let found = share_batch(text, "x").expect_err(text).to_string();
        assert!(found.contains(wanted), "{text:?}: {found}");
        assert_eq!(found.lines().count(), 1, "{found}");
    }
    let both = share_batch("add\nremove a\nad\n", "x").expect_err("two are wrong");
    assert_eq!(both.errors().count(), 2);
}

#[test]
fn file_has_new_shares_without_the_word_and_without_leases() {
    let read = share_file("# north\nnorth rate 10mbit\n\"a b\" in north\n", "lan.shares").unwrap();
    let lines: Vec<String> = read.changes.iter().map(|(line, change)| format!("{line} {change}")).collect();
    assert_eq!(lines, ["2 add north rate 10mbit", "3 add \"a b\" in north"]);
    for (text, wanted) in [
        ("add north", "lan.shares:1:5: error: a share has no option 'north' here"),
        (
            "north lease 5s",
            "lan.shares:1:7: error: a share has no option 'lease' here; remove it: a share of the configuration stays",
        ),
    ] {
        let found = share_file(text, "lan.shares").expect_err(text).to_string();
        assert!(found.starts_with(wanted), "{found}");
    }
}

fn any_name() -> impl Strategy<Value = ShareName> {
    prop_oneof!["[a-d]", "[ -~é]{1,12}"].prop_filter_map("a name", |text| ShareName::new(&text).ok())
}

fn any_settings() -> impl Strategy<Value = ShareSettings> {
    let rate = || prop::option::of((1_000u64..=1_000_000_000_000).prop_map(Rate::bits));
    let bytes = prop::option::of((64u64..=1 << 30).prop_map(Bytes::new));
    let delay = prop::option::of((100_000u64..=10_000_000_000).prop_map(Nanos::new));
    (rate(), rate(), prop::option::of(1u32..=10_000), bytes, delay, prop::option::of(0u8..=7)).prop_map(
        |(rate, ceiling, weight, burst, delay, priority)| ShareSettings {
            rate,
            ceiling,
            weight,
            burst,
            delay,
            priority,
            queue: burst.filter(|burst| burst.get() % 2 == 0),
            turn: None,
        },
    )
}

fn any_change() -> impl Strategy<Value = ShareChange> {
    let parent = || prop::option::of(any_name());
    let lease = || prop::option::of((1u64..=31_536_000).prop_map(Nanos::secs));
    prop_oneof![
        (any_name(), parent(), any_settings(), lease()).prop_map(|(name, parent, settings, lease)| ShareChange::Add {
            name,
            parent,
            settings,
            lease
        }),
        (any_name(), any_settings(), any::<bool>(), prop::option::of(lease())).prop_filter_map(
            "it changes something",
            |(name, settings, no_ceiling, lease)| {
                let settings = if no_ceiling { ShareSettings { ceiling: None, ..settings } } else { settings };
                let nothing = settings == ShareSettings::default() && !no_ceiling && lease.is_none();
                (!nothing).then_some(ShareChange::Set { name, settings, no_ceiling, lease })
            }
        ),
        (any_name(), parent()).prop_map(|(name, parent)| ShareChange::Move { name, parent }),
        (any_name(), any::<bool>()).prop_map(|(name, all)| ShareChange::Remove { name, all }),
    ]
}

proptest! {
    #[test]
    fn change_parses_back_as_printed(change in any_change()) {
        let line = change.to_string();
        prop_assert_eq!(line.parse::<ShareChange>().map_err(|error| TestCaseError::fail(format!("{line}: {error}")))?, change);
    }

    #[test]
    fn any_text_is_a_batch_or_errors_with_positions(
        text in "(add|set|move|remove|in|rate|1mbit|ceiling|none|lease|5s|a|\"|#|,| |\n|é){0,30}|.{0,40}"
    ) {
        let lines = text.split('\n').count();
        for read in [share_batch(&text, "f"), share_file(&text, "f")] {
            match read {
                Ok(batch) => for (line, change) in &batch.changes {
                    prop_assert!((1..=lines).contains(line));
                    prop_assert_eq!(&change.to_string().parse::<ShareChange>().unwrap(), change);
                },
                Err(errors) => for error in errors.list() {
                    prop_assert!((1..=lines).contains(&error.line) && error.column >= 1 && !error.hint.is_empty(), "{}", error);
                },
            }
        }
    }
}

fn change(line: &str) -> ShareChange {
    line.parse().unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn tree(lines: &[&str]) -> ShareTree {
    let mut tree = ShareTree::new(None);
    for line in lines {
        tree.apply(&change(line), ShareOrigin::Api).unwrap_or_else(|(reason, _)| panic!("{line}: {reason}"));
    }
    tree.commit();
    tree
}

/// Each share with its parent, guarantee and settings, in order.
fn picture(tree: &ShareTree) -> String {
    let mut out = String::new();
    for share in tree.iter() {
        let parent = share.parent.map_or("-", ShareName::as_str);
        let _ = write!(out, "{} in {parent} = {}{};", share.name, share.guarantee, share.settings);
    }
    out
}

#[test]
fn share_without_rate_guarantees_the_sum_of_its_children() {
    let mut tree = tree(&[
        "add site ceiling 100mbit",
        "add ap in site",
        "add a in ap rate 10mbit",
        "add b in ap rate 20mbit",
        "add fixed in site rate 50mbit",
        "add c in fixed rate 5mbit",
    ]);
    let guarantee = |tree: &ShareTree, name: &str| tree.get(name).map(|share| share.guarantee);
    assert_eq!(guarantee(&tree, "site"), Some(Rate::mbit(80)));
    assert_eq!(tree.guaranteed(), Rate::mbit(80));
    let order: Vec<String> = tree.iter().map(|share| share.name.to_string()).collect();
    assert_eq!(order, ["site", "ap", "a", "b", "fixed", "c"]);
    assert_eq!(tree.subtree("ap").map(|share| share.level).collect::<Vec<_>>(), [3, 4, 4]);
    for (line, site) in
        [("set a rate 30mbit", 100), ("move b in fixed", 80), ("set c rate 30mbit", 80), ("remove a", 50)]
    {
        tree.apply(&change(line), ShareOrigin::Api).unwrap_or_else(|(reason, _)| panic!("{line}: {reason}"));
        assert_eq!(guarantee(&tree, "site"), Some(Rate::mbit(site)), "{line}");
    }
    assert!(tree.set_port_rate(Some(Rate::mbit(49))).is_err());
    tree.set_port_rate(Some(Rate::mbit(50))).expect("it is the sum");
    let (reason, _) = tree.apply(&change("add d rate 1kbit"), ShareOrigin::Api).unwrap_err();
    assert_eq!(reason, "the rates below the port add up to 50001kbit, more than its rate of 50mbit");
}

#[test]
fn changes_that_break_the_tree_are_refused() {
    let lines = [
        "add a rate 10mbit ceiling 20mbit",
        "add b in a rate 6mbit",
        "add c in b rate 3mbit",
        "add open ceiling 5mbit",
        "add d in open rate 4mbit",
        "add l2",
        "add l3 in l2",
        "add l4 in l3",
        "add l5 in l4",
        "add l6 in l5",
        "add l7 in l6",
        "add l8 in l7",
    ];
    let mut tree = tree(&lines);
    let before = picture(&tree);
    for (line, wanted) in [
        ("add a", "there is a share 'a' already; use another name, or change it with 'set a'"),
        ("add x in y", "there is no share 'y'; add the share y before it"),
        ("set x rate 1mbit", "there is no share 'x'"),
        (
            "add x rate 2mbit ceiling 1mbit",
            "the ceiling 1mbit of 'x' is below its rate of 2mbit; give a ceiling of at least 2mbit",
        ),
        ("set a ceiling 9mbit", "the ceiling 9mbit of 'a' is below its rate of 10mbit"),
        (
            "set a rate 5mbit",
            "the rates below 'a' add up to 6mbit, more than its rate of 5mbit; give lower rates below it, or 'a' at least 6mbit",
        ),
        ("add x in a rate 4001kbit", "the rates below 'a' add up to 10001kbit, more than its rate of 10mbit"),
        ("set b rate 11mbit", "the rates below 'a' add up to 11mbit"),
        ("set d rate 6mbit", "the rates below 'open' would add up to 6mbit, more than its ceiling of 5mbit"),
        ("move d in a", "the rates below 'a' add up to 10mbit"),
        ("move a in c", "'c' is below 'a'; move that one first"),
        ("move a in a", "the share 'a' cannot be below itself"),
        ("remove a", "the share 'a' has 2 shares below it; remove them first, or write 'remove a all'"),
        ("add l9 in l8", "with 'l9' below 'l8' the tree has 9 levels, the port included; use at most 8"),
        ("move l2 in d", "with 'l2' below 'd' the tree has 10 levels"),
        ("move a in l7", "with 'a' below 'l7' the tree has 10 levels"),
    ] {
        let refused = tree.apply(&change(line), ShareOrigin::Api);
        if line == "move d in a" {
            assert_eq!(refused, Ok(()), "4mbit and 6mbit are 10mbit");
            tree.rollback();
        } else {
            let (reason, hint) = refused.expect_err(line);
            assert!(format!("{reason}; {hint}").contains(wanted), "{line}: {reason}; {hint}");
        }
        assert_eq!(picture(&tree), before, "{line}");
    }
}

#[test]
fn api_removes_only_its_own_shares() {
    let mut tree = ShareTree::new(None);
    for (line, origin) in [
        ("add a", ShareOrigin::Configuration),
        ("add s", ShareOrigin::Subscribers),
        ("add x", ShareOrigin::Api),
        ("move a in x", ShareOrigin::Api),
        ("set a rate 1mbit", ShareOrigin::Api),
    ] {
        tree.apply(&change(line), origin).expect(line);
    }
    for (line, wanted) in [
        ("remove a", "the share 'a' belongs to the configuration; remove it there, and apply the configuration"),
        ("remove s", "the share 's' belongs to the files of [subscribers]; remove it there, and apply them again"),
        ("remove x all", "the share 'a' belongs to the configuration"),
    ] {
        let (reason, hint) = tree.apply(&change(line), ShareOrigin::Api).expect_err(line);
        assert!(format!("{reason}; {hint}").starts_with(wanted), "{reason}; {hint}");
    }
    tree.apply(&change("remove a"), ShareOrigin::Configuration).expect("it is its own");
    tree.apply(&change("remove x"), ShareOrigin::Api).expect("it is empty now");
    assert_eq!(tree.iter().map(|share| share.origin).collect::<Vec<_>>(), [ShareOrigin::Subscribers]);
}

#[test]
fn failed_batch_changes_nothing_and_names_its_line() {
    let mut tree = tree(&["add a rate 10mbit", "add b in a rate 5mbit", "add c in b", "add d in a"]);
    let before = picture(&tree);
    let text = "add e in d rate 1mbit\n# then\nmove b in root\nremove a all\nadd a in b\nset c rate 2mbit\nremove z\n";
    let batch = batch(text);
    let (position, reason, hint) =
        tree.apply_all(batch.changes.iter().map(|(_, change)| change), ShareOrigin::Api).unwrap_err();
    assert_eq!(batch.refuse(position, reason, hint).errors().next().map(|error| error.line), Some(7));
    assert_eq!(picture(&tree), before);
    assert_eq!(tree.len(), 4);
}

/// The shares by name with parent and settings, checked as a whole: slow, and plainly right.
#[derive(Clone, Default)]
struct Naive(BTreeMap<ShareName, (Option<ShareName>, ShareSettings)>);

impl Naive {
    fn guarantee(&self, name: &ShareName) -> u64 {
        self.0[name].1.rate.map_or_else(|| self.sum(Some(name)), Rate::get)
    }

    fn sum(&self, of: Option<&ShareName>) -> u64 {
        self.0.iter().filter(|(_, (parent, _))| parent.as_ref() == of).map(|(name, _)| self.guarantee(name)).sum()
    }

    fn is_below(&self, name: &ShareName, above: &ShareName) -> bool {
        let mut at = Some(name.clone());
        while let Some(one) = at {
            if one == *above {
                return true;
            }
            at = self.0[&one].0.clone();
        }
        false
    }

    fn level(&self, name: &ShareName) -> usize {
        2 + self.0.keys().filter(|above| *above != name && self.is_below(name, above)).count()
    }

    fn is_valid(&self, port: Rate) -> bool {
        self.sum(None) <= port.get()
            && self.0.iter().all(|(name, (_, settings))| {
                let guarantee = self.guarantee(name);
                self.level(name) <= 8
                    && guarantee >= self.sum(Some(name))
                    && settings.ceiling.is_none_or(|ceiling| guarantee <= ceiling.get())
            })
    }

    /// The tree after a change; `None` if it is refused.
    fn after(&self, change: &ShareChange, port: Rate) -> Option<Naive> {
        let mut next = self.clone();
        let known = |name: &Option<ShareName>| name.as_ref().is_none_or(|name| self.0.contains_key(name));
        match change {
            ShareChange::Add { name, parent, settings, .. } => {
                if !known(parent) || self.0.contains_key(name) {
                    return None;
                }
                next.0.insert(name.clone(), (parent.clone(), *settings));
            }
            ShareChange::Set { name, settings, no_ceiling, .. } => {
                let own = &mut next.0.get_mut(name)?.1;
                *own = own.updated(*settings);
                own.ceiling = own.ceiling.filter(|_| !no_ceiling);
            }
            ShareChange::Move { name, parent } => {
                if !self.0.contains_key(name) || !known(parent) {
                    return None;
                }
                if parent.as_ref().is_some_and(|parent| self.is_below(parent, name)) {
                    return None;
                }
                next.0.get_mut(name)?.0 = parent.clone();
            }
            ShareChange::Remove { name, all } => {
                let below: Vec<_> = self
                    .0
                    .keys()
                    .filter(|one| self.0.contains_key(name) && self.is_below(one, name))
                    .cloned()
                    .collect();
                if below.is_empty() || (below.len() > 1 && !all) {
                    return None;
                }
                below.iter().for_each(|one| drop(next.0.remove(one)));
            }
        }
        next.is_valid(port).then_some(next)
    }
}

/// Changes of a few shares with small rates, so that many succeed and many do not.
fn small_change() -> impl Strategy<Value = ShareChange> {
    let name = || prop::sample::select(vec!["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]).prop_map(name);
    let rate = || prop::option::weighted(0.4, (1u64..12).prop_map(Rate::mbit));
    let settings =
        (rate(), rate()).prop_map(|(rate, ceiling)| ShareSettings { rate, ceiling, ..ShareSettings::default() });
    prop_oneof![
        5 => (name(), prop::option::weighted(0.9, name()), settings.clone())
            .prop_map(|(name, parent, settings)| ShareChange::Add { name, parent, settings, lease: None }),
        2 => (name(), settings, any::<bool>())
            .prop_map(|(name, settings, no_ceiling)| ShareChange::Set { name, settings, no_ceiling, lease: None }),
        3 => (name(), prop::option::weighted(0.9, name())).prop_map(|(name, parent)| ShareChange::Move { name, parent }),
        1 => (name(), any::<bool>()).prop_map(|(name, all)| ShareChange::Remove { name, all }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn tree_agrees_with_a_check_of_the_whole(
        batches in prop::collection::vec((prop::collection::vec(small_change(), 1..25), any::<bool>()), 1..6),
    ) {
        let port = Rate::mbit(30);
        let (mut tree, mut naive) = (ShareTree::new(Some(port)), Naive::default());
        for (changes, keep) in batches {
            let (before, mut next) = (picture(&tree), naive.clone());
            for change in &changes {
                let after = next.after(change, port);
                let made = tree.apply(change, ShareOrigin::Api);
                prop_assert_eq!(made.is_ok(), after.is_some(), "{}: {:?} in {}", change, made, picture(&tree));
                next = after.unwrap_or(next);
                prop_assert_eq!(tree.len(), next.0.len());
                let mut shown = Vec::new();
                for share in tree.iter() {
                    let (parent, settings) = &next.0[share.name];
                    prop_assert_eq!((share.parent, share.settings), (parent.as_ref(), settings));
                    prop_assert_eq!(share.guarantee.get(), next.guarantee(share.name));
                    prop_assert_eq!(share.level, next.level(share.name));
                    prop_assert!(share.parent.is_none_or(|parent| shown.contains(parent)), "a parent comes first");
                    shown.push(share.name.clone());
                }
                prop_assert_eq!(shown.len(), next.0.len());
            }
            if keep {
                tree.commit();
                naive = next;
            } else {
                tree.rollback();
                prop_assert_eq!(picture(&tree), before);
            }
        }
    }
}

#[test]
fn port_with_many_shares_is_read_checked_and_emptied() {
    let count = std::env::var("SWITCHPATH_FRAMES").map_or(100_000, |n| n.parse().expect("a number of frames"));
    let count = (count / 5u32).clamp(20_000, 200_000);
    let mut text = String::new();
    for site in 0..count / 100 {
        let _ = writeln!(text, "add site{site} ceiling 1gbit");
    }
    for share in 0..count {
        let _ = writeln!(
            text,
            "add c{share} in site{} rate 1mbit ceiling 100mbit weight 2 burst 64kb",
            share % (count / 100)
        );
    }
    let read = batch(&text);
    let mut tree = ShareTree::new(None);
    tree.apply_all(read.changes.iter().map(|(_, change)| change), ShareOrigin::Api).expect("all are right");
    tree.commit();
    assert_eq!(tree.len() as u32, count + count / 100);
    assert_eq!(tree.guaranteed(), Rate::mbit(u64::from(count)));
    for site in 0..count / 100 {
        tree.apply(&change(&format!("remove site{site} all")), ShareOrigin::Api).expect("it is there");
    }
    assert!(tree.is_empty() && tree.guaranteed() == Rate::ZERO);
    tree.rollback();
    assert_eq!(tree.len() as u32, count + count / 100);
    let wrong = text.replace("1mbit", "1mbps");
    let errors = share_batch(&wrong, "x").expect_err("every line is wrong");
    assert!(errors.list().len() == MOST_DIAGNOSTICS && errors.omitted() > 0);
}
