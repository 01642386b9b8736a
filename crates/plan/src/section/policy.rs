//! `[policy.NAME]`: the scheme for each objective at a port, and the rules for changing between them.
//!
//! No scheme is best for all objectives (Sivaraman, Winstein, Subramanian, Balakrishnan, HotNets 2013). So a port may have a policy, which maps
//! objectives to schemes and decides when to change.

use crate::diagnostic::{Report, more_than};
use crate::diff::{PropertyChange, Step, edit, or_none, steps};
use crate::document::{Node, Path, Section};
use crate::key::{Form, Key, Kind, PART, TIME, key};
use crate::named::{as_text, nanoseconds};
use crate::names::{self, Name, PORT_PATTERN};
use crate::scheme::scheme;
use crate::section::objectives::Objective;
use crate::text::quote;
use crate::{Call, Catalogue};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Range, RangeInclusive};
use units::{Nanos, Parts};

pub(crate) const KEY: Key = key(
    "policy",
    Kind::Tables { name: crate::names::PORT_PATTERN, keys: KEYS },
    "",
    "{ edge = { delay = \"drr{codel}\" } }",
    "Policies by name. Each maps objectives to queueing schemes.",
);

/// Limit of policies.
const MOST_POLICIES: usize = 64;
/// The range of measurement windows. A shorter window would have too few packets for a decision.
const WINDOWS: RangeInclusive<Nanos> = Nanos::millis(100)..=Nanos::secs(3600);
const DWELLS: RangeInclusive<Nanos> = Nanos::millis(100)..=Nanos::secs(86_400);
/// More than a half, so that at most one objective can have it.
const SHARES: RangeInclusive<Parts> = Parts::percent(51)..=Parts::ONE;

const SCHEME: Kind = Kind::Text(Form::Scheme);

const KEYS: &[Key] = &[
    key(
        "window",
        Kind::Text(TIME),
        "\"1s\"",
        "\"1s\"",
        "How long packets are counted before each decision, 100ms to 3600s.",
    ),
    key(
        "dwell",
        Kind::Text(TIME),
        "\"30s\"",
        "\"30s\"",
        "The shortest time between two scheme changes, up to 86400s, and at least the window.",
    ),
    key(
        "share",
        Kind::Text(PART),
        "\"60%\"",
        "\"60%\"",
        "The fraction of a window's bytes that an objective needs to be selected, 51% to 100%. If none reaches it, \
         the scheme stays.",
    ),
    key(
        "packets",
        Kind::Integer { least: 1, most: 1_000_000_000 },
        "100",
        "100",
        "Windows with fewer packets are ignored.",
    ),
    key(
        "throughput",
        SCHEME,
        "",
        "\"fifo(limit=20000)\"",
        "The scheme for throughput. The default is the port's own `scheme`.",
    ),
    key("delay", SCHEME, "", "\"drr{codel}\"", "The scheme for low delay. The default is the port's own `scheme`."),
    key(
        "power",
        SCHEME,
        "",
        "\"drr{codel}\"",
        "The scheme for high throughput over delay. The default is the port's own `scheme`.",
    ),
    key(
        "fct",
        SCHEME,
        "",
        "\"drr{codel}\"",
        "The scheme for short flow completion times on average. The default is the port's own `scheme`.",
    ),
    key(
        "tail",
        SCHEME,
        "",
        "\"drr{codel}\"",
        "The scheme for short completion times of the slowest flows. The default is the port's own `scheme`.",
    ),
];

/// The scheme for each objective at a port, and the rules for changing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PolicyPlan {
    /// Its name.
    pub name: Name,
    /// How long packets are counted before each decision.
    #[serde(serialize_with = "nanoseconds")]
    pub window: Nanos,
    /// The shortest time between two scheme changes.
    #[serde(serialize_with = "nanoseconds")]
    pub dwell: Nanos,
    /// The fraction of a window's bytes that selects an objective; more than a half.
    #[serde(serialize_with = "as_text")]
    pub share: Parts,
    /// Windows with fewer packets are ignored.
    pub packets: u64,
    /// The scheme for each objective; the port's own scheme for the others.
    pub schemes: BTreeMap<Objective, Call>,
}

impl fmt::Display for PolicyPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PolicyPlan { window, dwell, share, packets, schemes, .. } = self;
        write!(f, "window {window} dwell {dwell} share {share} packets {packets}")?;
        schemes.iter().try_for_each(|(objective, scheme)| write!(f, " {objective} {scheme}"))
    }
}

/// The policies, and their names.
pub(crate) struct Policies {
    pub plans: Vec<PolicyPlan>,
    /// The names and positions of all policies, including those with errors.
    pub names: Vec<(Name, Range<usize>)>,
}

pub(crate) fn check(report: &mut Report<'_>, root: &Section<'_>, catalogue: &Catalogue) -> Policies {
    let parent = Path::Key(&root.path, "policy");
    let mut tables = root.tables(report, "policy");
    if let Some((span, _, _)) = tables.get(MOST_POLICIES) {
        report.error(span.clone(), parent, || more_than(MOST_POLICIES, "policies"));
        tables.truncate(MOST_POLICIES);
    }
    let mut policies = Policies { plans: Vec::with_capacity(tables.len()), names: Vec::new() };
    for (span, name, value) in tables {
        let path = Path::Key(&parent, name);
        if !names::is_port(name) {
            report.error(span.clone(), path, || {
                let hint = format!("use a letter, then letters, digits, '_' and '-', 15 at most: {PORT_PATTERN}");
                (format!("{} is no name for a policy", quote(name)), hint)
            });
        }
        let name = Name::from(name);
        policies.names.push((name.clone(), span));
        let node = Node::new(value.get_ref(), value.span(), path);
        let Some(section) = node.section(report, KEYS, &format!("[policy.{name}]")) else { continue };
        policies.plans.push(policy(report, &section, name, catalogue));
    }
    policies.plans.sort_by(|a, b| a.name.cmp(&b.name));
    policies
}

fn policy(report: &mut Report<'_>, section: &Section<'_>, name: Name, catalogue: &Catalogue) -> PolicyPlan {
    let window = section.within(report, "window", WINDOWS).unwrap_or(Nanos::secs(1));
    let said = section.within(report, "dwell", DWELLS);
    let dwell = said.unwrap_or(Nanos::secs(30).max(window));
    if dwell < window {
        section.text(report, "dwell").into_iter().for_each(|text| {
            text.error(report, || {
                let hint = format!("give at least {window}, or a shorter window");
                (format!("the dwell of {dwell} is shorter than the window of {window}"), hint)
            });
        });
    }
    let share = section.within(report, "share", SHARES).unwrap_or(Parts::percent(60));
    let packets = section.integer(report, "packets").unwrap_or(1);
    let mut schemes = BTreeMap::new();
    for objective in Objective::SERVED {
        let text = section.text(report, objective.name());
        let call = text.and_then(|text| scheme(report, &text, catalogue));
        schemes.extend(call.map(|call| (*objective, call)));
    }
    PolicyPlan { name, window, dwell, share, packets, schemes }
}

pub(crate) fn diff<'p>(old: &'p [PolicyPlan], new: &'p [PolicyPlan]) -> Vec<Step<'p, PolicyPlan>> {
    steps(old, new, |policy| &policy.name)
}

pub(crate) fn edits(old: &PolicyPlan, new: &PolicyPlan) -> Vec<PropertyChange> {
    let mut what = Vec::new();
    edit(&mut what, "window", old.window, new.window);
    edit(&mut what, "dwell", old.dwell, new.dwell);
    edit(&mut what, "share", old.share, new.share);
    edit(&mut what, "packets", old.packets, new.packets);
    for objective in Objective::ALL {
        let of = |policy: &PolicyPlan| or_none(&policy.schemes.get(objective));
        edit(&mut what, objective.name(), of(old), of(new));
        if let (Some(old), Some(new)) = (old.schemes.get(objective), new.schemes.get(objective))
            && old.text == new.text
        {
            edit(&mut what, "build", old.guest_digest(), new.guest_digest());
        }
    }
    what
}
