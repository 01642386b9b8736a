//! The delays of shares, and the admission of the scheme `dfq`.

use plan::{Call, Catalogue, ShareChange, ShareOrigin, ShareTree};
use units::declare::{Declaration, DeclaredCost, Inside, OptionDeclaration, OrderDeclaration, Unit};
use units::{Nanos, Rate};

/// The options that the admission reads, as the scheme declares them.
const OPTIONS: &[OptionDeclaration] = &[
    OptionDeclaration { name: "rate", unit: Unit::Rate, default: "0bit", least: 0, most: 1 << 40, doc: "" },
    OptionDeclaration { name: "cycle", unit: Unit::Time, default: "1ms", least: 1, most: 1 << 40, doc: "" },
    OptionDeclaration { name: "best_effort", unit: Unit::Part, default: "5%", least: 0, most: 1_000_000, doc: "" },
    OptionDeclaration { name: "flows", unit: Unit::Count, default: "4096", least: 2, most: 1 << 20, doc: "" },
];

fn scheme(text: &str) -> Call {
    let declared = |name, options| Declaration { name, summary: "", cost: DeclaredCost::None, source: "", options };
    let order = |name, inner| OrderDeclaration {
        declaration: declared(name, OPTIONS),
        inner,
        usual: "fifo",
        queues: Some("flows"),
    };
    let catalogue = Catalogue {
        schemes: vec![declared("fifo", &[])],
        orders: vec![order("dfq", Inside::Flows), order("share", Inside::Leaves)],
        functions: Vec::new(),
        cpu_schedulers: Vec::new(),
        devices: Vec::new(),
        guests: None,
    };
    Call::scheme(text, &catalogue).unwrap_or_else(|error| panic!("{text}: {}", error.reason))
}

fn apply(tree: &mut ShareTree, line: &str) -> Result<(), (String, String)> {
    let change = line.parse::<ShareChange>().unwrap_or_else(|error| panic!("{line}: {}", error.reason));
    tree.apply(&change, ShareOrigin::Api)
}

fn tree(text: &str, lines: &[&str]) -> ShareTree {
    let mut tree = ShareTree::of_scheme(&scheme(text));
    lines.iter().for_each(|line| apply(&mut tree, line).unwrap_or_else(|(reason, _)| panic!("{line}: {reason}")));
    tree
}

/// The reason and the hint of a line that is refused.
fn refusal(tree: &mut ShareTree, line: &str) -> String {
    let before: Vec<String> =
        tree.iter().map(|share| format!("{}{} {}", share.name, share.settings, share.guarantee)).collect();
    let (reason, hint) = apply(tree, line).expect_err(line);
    let after = tree.iter().map(|share| format!("{}{} {}", share.name, share.settings, share.guarantee));
    assert!(after.eq(before), "{line} changed the tree");
    format!("{reason}; {hint}")
}

fn guarantee(tree: &ShareTree, name: &str) -> Rate {
    tree.get(name).expect("it is in the tree").guarantee
}

#[test]
fn delay_raises_the_guarantee_of_a_share() {
    let mut tree = tree("share(rate=10mbit)", &["add voice rate 100kbit burst 436b delay 5ms"]);
    // 436 bytes in 5 ms.
    assert_eq!(guarantee(&tree, "voice"), Rate::bits(697_600));
    apply(&mut tree, "set voice delay 200ms").expect("it is allowed");
    assert_eq!(guarantee(&tree, "voice"), Rate::bits(100_000), "its rate is higher");
    apply(&mut tree, "set voice burst 1mb").expect_err("40 Mbit/s do not fit");
    apply(&mut tree, "set voice delay none").expect("it is allowed");
    assert_eq!(tree.get("voice").map(|share| share.settings.delay), Some(None));
    assert_eq!(
        refusal(&mut tree, "add a delay 5ms"),
        "the share 'a' has a delay and no rate; give it a 'rate' too: a delay is for its burst at its rate"
    );
    apply(&mut tree, "add a in voice rate 10kbit").expect("'voice' has no delay now");
    assert_eq!(
        refusal(&mut tree, "set voice delay 50ms"),
        "the share 'voice' has shares below it, so it cannot have a delay; give those the delay"
    );
    apply(&mut tree, "set a delay 500ms").expect("it is a leaf");
    let hint = "the share 'a' has a delay, so no share can be below it; write 'set a delay none' first";
    assert_eq!(refusal(&mut tree, "add b in a rate 1kbit"), hint);
    apply(&mut tree, "add c rate 1kbit").expect("there is room");
    assert_eq!(refusal(&mut tree, "move c in a"), hint);
}

#[test]
fn quanta_of_a_cycle_are_admitted_up_to_best_effort() {
    let mut tree =
        tree("dfq(rate=100mbit, cycle=1ms)", &["add video rate 40mbit", "add voice rate 100kbit burst 436b delay 5ms"]);
    // 87.2 bytes in a cycle are 88.
    assert_eq!(guarantee(&tree, "voice"), Rate::bits(88 * 8000));
    assert_eq!(tree.guaranteed(), Rate::bits(40_704_000));
    // 95 Mbit/s less 40.704.
    assert_eq!(
        refusal(&mut tree, "add bulk rate 60mbit"),
        "the share 'bulk' needs 7500 bytes in each cycle (60mbit), and the other shares and best effort leave 6787 (54296kbit); \
         give it a rate of at most 54296kbit, or others less"
    );
    // 30 kB in 4 ms are 7500 bytes in each cycle. In 4421 us they are 6786.
    let line = |delay: &str| format!("add bulk rate 10mbit burst 30000b delay {delay}");
    let refused = refusal(&mut tree, &line("4ms"));
    assert!(refused.ends_with("give it a delay of at least 4421us, or a smaller burst"), "{refused}");
    apply(&mut tree, &line("4421us")).expect("it is the least delay");
    assert_eq!(tree.guaranteed(), Rate::bits(40_704_000 + 6786 * 8000));
    apply(&mut tree, "remove bulk").expect("it is there");
    apply(&mut tree, "set video rate 94296kbit").expect("it is all that is left");
    refusal(&mut tree, "set video rate 94297kbit");
    tree.rollback();
    assert!(tree.is_empty());
    assert_eq!(tree.guaranteed(), Rate::ZERO);
}

#[test]
fn settings_that_cycles_cannot_keep_are_refused() {
    let mut tree = tree("dfq(rate=100mbit, cycle=2ms, flows=4)", &["add a rate 1mbit delay 5ms"]);
    let refusals = [
        (
            "add b rate 1mbit delay 4ms",
            "the delay 4ms of 'b' is not more than two cycles of 2ms, by which packets may be late; \
          give a delay of at least 4001us, or the scheme a shorter 'cycle'",
        ),
        (
            "add b delay 5ms",
            "the share 'b' has no rate, which a share of 'dfq' needs; write 'b rate 1mbit', or leave its packets to best effort",
        ),
        (
            "add b rate 1mbit ceiling 2mbit",
            "a share of 'dfq' has no ceiling; remove it, or give the port the scheme 'share'",
        ),
        ("set a weight 2", "a share of 'dfq' has no weight; remove it, or give the port the scheme 'share'"),
        (
            "add b in a rate 1kbit",
            "the share 'b' is below 'a', but shares of 'dfq' have no levels; remove 'in a', or give the port the scheme 'share'",
        ),
    ];
    for (line, wanted) in refusals {
        assert_eq!(refusal(&mut tree, line), wanted, "{line}");
    }
    apply(&mut tree, "add b rate 1mbit delay 4001us").expect("it is the least delay");
    apply(&mut tree, "add c rate 1mbit").expect("there are three queues for shares");
    assert_eq!(
        refusal(&mut tree, "add d rate 1mbit"),
        "the port has 3 shares, and its scheme has 4 queues; write dfq(flows=5)"
    );
    apply(&mut tree, "set a delay none").expect("it is allowed");
    assert_eq!(tree.get("a").map(|share| share.settings.delay), Some(None::<Nanos>));
}

#[test]
fn unknown_rate_of_a_port_admits_every_quantum() {
    let mut tree = tree("dfq", &["add a rate 1gbit"]);
    apply(&mut tree, "add b rate 1tbit").expect("the rate of the link is not known yet");
}
