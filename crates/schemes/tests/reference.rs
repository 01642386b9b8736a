//! The page of queueing schemes is generated from the code.

use schemes::{DECLARATIONS, ORDERS};
use std::fmt::Write;
use units::declare::{Declaration, Inside, OptionDeclaration, OrderDeclaration, Unit};

const ABOUT: &str = "# Queueing schemes

`scheme` of a port decides what waits before its link, what is dropped and what leaves next: a name, with options in brackets, as in
`scheme = \"codel(target=5ms, interval=100ms)\"`. Options left out have their defaults.

Another scheme, or other options, may be applied while packets flow. A scheme of the same kind goes on with the other options and remembers what it has
seen: a CoDel that drops goes on dropping by its new target, what a shaper owes stays owed. The average of `red` and `choke` then is at most the length of the queue.
Options that say which queues there are (`flows`, `levels`, `by`, `tins`, `class`), and a `limit` for more packets than the queues were made for, take another scheme. Of the packets that wait then, `scheme_change`
of the port says what becomes: `migrate`, the default, hands them to the new scheme in the order in which they came to the router; `drain` lets the old
one send them before anything that comes later; `flush` drops them, counted as `scheme_flush`. No flow is reordered by any of them, and
`switchpath show events` says how it was done, how many packets waited and how many of them were dropped for it.

What a scheme drops is counted as `scheme_arrival` (it was not let in), `scheme_front` or `scheme_tail` (it waited already); where more is let in
than there is memory for, as `buffer_full`. What it marks instead (ECN, RFC 3168) is counted too: `marked_packets` of `switchpath show -j ports`, and in the metrics.

After any overload a queue that has been empty for a second lets a packet in, alone or inside of any other scheme. The average of `red` and `choke` falls for
all the time the queue is empty. After a second it is zero. `blue` lets in each packet that finds the queue empty; its probability falls once each `hold`.

";

const ORDERING: &str = "# Schemes with others inside

What is inside is written in braces. A scheme that orders queues has one of the above there, which manages each of them:
`scheme = \"fq(quantum=1514b){codel(target=5ms)}\"`; CoDel reckons with what waits in all of them. `shape` may have any scheme inside, a tree
branches, and a branch any scheme, or another tree: `tree{branch(class=1, weight=3, ceiling=50mbit){fq}, branch{shape(rate=10mbit){codel}}}`.
A port has 1048576 queues at most.

";

/// The allowed values of an option.
fn takes(option: &OptionDeclaration) -> String {
    let (least, most) = (option.unit.write(option.least), option.unit.write(option.most));
    match option.unit {
        Unit::Choice(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or "),
        Unit::Weights => "up to eight numbers from 1 to 255, as `1:2:4`".to_string(),
        Unit::CountAbove(below) => format!("{least} to {most}, above `{below}`"),
        _ => format!("{least} to {most}"),
    }
}

fn section(declaration: &Declaration) -> String {
    let Declaration { name, summary, source, .. } = declaration;
    let mut text = format!("## `{name}`\n\n{}{}.\n\nSource: {source}.\n\n", summary[..1].to_uppercase(), &summary[1..]);
    if declaration.options.is_empty() {
        return text + "It has no options.\n";
    }
    text += "| option | takes | default | what it is |\n|---|---|---|---|\n";
    for option in declaration.options {
        let doc = option.doc;
        writeln!(text, "| `{}` | {} | `{}` | {doc} |", option.name, takes(option), option.default)
            .expect("it is a string");
    }
    text
}

fn order(order: &OrderDeclaration) -> String {
    let (what, part) = match order.inside {
        Inside::Manager => ("what manages each queue".to_string(), None),
        Inside::Any => ("any scheme".to_string(), None),
        Inside::Branches(branch, most) => (format!("1 to {most} of `{}`", branch.declaration.name), Some(branch)),
    };
    let usual = format!("\nIn braces: {what}; unless said, `{}`.\n", order.usual);
    let part = part.map(|branch| "\n".to_string() + &self::order(branch)).unwrap_or_default();
    section(&order.declaration) + &usual + &part
}

#[test]
fn the_page_of_queueing_schemes_is_that_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schemes.md");
    let alone: Vec<String> = DECLARATIONS.iter().map(section).collect();
    let orders: Vec<String> = ORDERS.iter().map(order).collect();
    let page = [ABOUT, &alone.join("\n"), "\n", ORDERING, &orders.join("\n")].concat();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(path, &page).expect("the page can be written");
    }
    let written = std::fs::read_to_string(path).expect("docs/schemes.md is there");
    assert!(written == page, "docs/schemes.md is not what the code says: run the test with UPDATE_EXPECT=1");
}
