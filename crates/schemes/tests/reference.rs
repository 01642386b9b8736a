//! The page of queueing schemes is generated from the code.

use schemes::{DECLARATIONS, ORDERS};
use std::fmt::Write;
use units::declare::{Declaration, Inside, OptionDeclaration, OrderDeclaration, Unit};

const ABOUT: &str = "# Queueing schemes

The queueing scheme of a port decides which packets are queued before its link, which are dropped, and which leaves next. Example:

```toml
scheme = \"codel(target=5ms, interval=100ms)\"
```

The options are in brackets. Options that you leave out have their defaults.

## Change a scheme while packets flow

You may apply another scheme or other options at any time. A scheme of the same kind continues with the new options and keeps its state:
a CoDel in its dropping state continues with the new target, and a shaper keeps its debt. The average of `red` and `choke` is limited to the length of the queue.

Two changes replace the scheme by a new one of the same kind:

- an option that determines the queues: `flows`, `levels`, `by`, `tins` or `class`;
- a `limit` above the number of packets the queues were made for.

`scheme_change` of the port determines the fate of the packets that are queued at a replacement:

| `scheme_change` | queued packets |
|---|---|
| `migrate` (default) | go to the new scheme, in the order in which they arrived at the router |
| `drain` | leave through the old scheme, before any later packet |
| `flush` | are dropped, counted as `scheme_flush` |

None of them reorders a flow. `switchpath show events` reports the method, the number of queued packets and the number of packets dropped.

## How drops and marks are counted

| counter | meaning |
|---|---|
| `scheme_arrival` | the scheme refused an arriving packet |
| `scheme_front`, `scheme_tail` | the scheme dropped a queued packet at the front or at the tail of a queue |
| `buffer_full` | the scheme accepted a packet, but the port had no memory for it |
| `marked_packets` | the scheme marked a packet instead of dropping it (ECN, RFC 3168); in `switchpath show -j ports` and in the metrics |

## After an overload

A queue that has been empty for a second accepts the next packet after any overload. This holds for a scheme alone and inside any other scheme.
The average of `red` and `choke` falls as long as the queue is empty, and is zero after a second. `blue` accepts every packet that finds the queue empty.
Its probability falls once each `hold`.

# Schemes

";

const ORDERING: &str = "# Schemes with others inside

Write the inner scheme in braces:

```toml
scheme = \"fq(quantum=1514b){codel(target=5ms)}\"
scheme = \"tree{branch(class=1, weight=3, ceiling=50mbit){fq}, branch{shape(rate=10mbit){codel}}}\"
```

- A scheme that schedules several queues has one of the schemes above inside, which manages each queue. CoDel takes the packets of all queues into account.
- `shape` may have any scheme inside.
- A `tree` has branches. A branch has any scheme inside, or another tree.
- A port has at most 1048576 queues.

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
    text += "| option | takes | default | meaning |\n|---|---|---|---|\n";
    for option in declaration.options {
        let doc = option.doc;
        writeln!(text, "| `{}` | {} | `{}` | {doc} |", option.name, takes(option), option.default)
            .expect("it is a string");
    }
    text
}

fn order(order: &OrderDeclaration) -> String {
    let (what, part) = match order.inner {
        Inside::Manager | Inside::Flows => ("what manages each queue".to_string(), None),
        Inside::Any => ("any scheme".to_string(), None),
        Inside::Leaves => ("any scheme, one for each leaf".to_string(), None),
        Inside::Branches(branch, most) => (format!("1 to {most} of `{}`", branch.declaration.name), Some(branch)),
    };
    let usual = format!("\nIn braces: {what}; unless said, `{}`.\n", order.usual);
    let part = part.map(|branch| "\n".to_string() + &self::order(branch)).unwrap_or_default();
    section(&order.declaration) + &usual + &part
}

#[test]
fn scheme_reference_matches_declarations() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/schemes.md");
    let alone: Vec<String> = DECLARATIONS.iter().map(section).collect();
    let orders: Vec<String> = ORDERS.iter().map(order).collect();
    let page = [ABOUT, &alone.join("\n"), "\n", ORDERING, &orders.join("\n")].concat();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(path, &page).expect("the page can be written");
    }
    let written = std::fs::read_to_string(path).expect("docs/reference/schemes.md is there");
    assert!(written == page, "docs/reference/schemes.md is not what the code says: run the test with UPDATE_EXPECT=1");
}
