//! The subscribers of an access network: their plans, their circuits, and the sites that they share.
//!
//! Two formats become a [`SubscriberPlan`]: a table of our own ([`subscriber_file`]), and the files of LibreQoS ([`shaped_devices`]). Each site and
//! each subscriber becomes a share, downlink at the ports inside and uplink at the ports outside.

mod circuits;
mod guarantees;
mod key;
mod megabits;
mod network;
mod own;
mod shaped;
mod sites;
mod spreadsheet;

pub use guarantees::OversubscribedSite;
pub use own::subscriber_file;
pub use shaped::shaped_devices;

use crate::diagnostic::{Diagnostics, MOST_DIAGNOSTICS};
use crate::share::{ShareName, ShareSettings};
use crate::share_batch::ShareChange;
use crate::share_tree::{ShareOrigin, ShareTree};
use std::collections::HashSet;
use units::CircuitKey;
use units::Rate;

/// Rates of a subscriber in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct PlanRates {
    /// The guaranteed rate; `None` without a guarantee.
    pub rate: Option<Rate>,
    /// The rate of the plan, which is never exceeded.
    pub ceiling: Rate,
}

/// A site: subscribers and other sites behind a common link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubscriberSite {
    /// Its name.
    pub name: ShareName,
    /// The site above it; `None` for the port.
    pub parent: Option<ShareName>,
    /// Its bandwidth toward the subscribers; `None` without a limit of its own.
    pub down: Option<Rate>,
    /// Its bandwidth toward the Internet; `None` without a limit of its own.
    pub up: Option<Rate>,
}

/// A subscriber's circuit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subscriber {
    /// The name of the circuit, and of its shares.
    pub name: ShareName,
    /// The name for people; may be empty.
    pub title: String,
    /// The site above it; `None` for the port.
    pub parent: Option<ShareName>,
    /// The rates toward the subscriber.
    pub down: PlanRates,
    /// The rates toward the Internet.
    pub up: PlanRates,
    /// The keys of its packets. No other circuit has one of them.
    pub keys: Vec<CircuitKey>,
}

/// All sites and subscribers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SubscriberPlan {
    /// The sites, each parent before its children.
    pub sites: Vec<SubscriberSite>,
    /// The subscribers, in the order of their file.
    pub subscribers: Vec<Subscriber>,
}

/// The contents of files of subscribers.
#[derive(Clone, Debug)]
pub struct SubscriberResult {
    /// The plan; `None` if the diagnostics have an error.
    pub plan: Option<SubscriberPlan>,
    /// Errors and warnings. If there is a plan, only warnings.
    pub diagnostics: Diagnostics,
}

impl SubscriberResult {
    /// The plan, or the diagnostics. Drops the warnings of valid files.
    pub fn into_result(self) -> Result<SubscriberPlan, Diagnostics> {
        self.plan.ok_or(self.diagnostics)
    }
}

/// The shares of a plan, for [`crate::ShareTree`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubscriberShares {
    /// The new shares of a port inside, each parent before its children.
    pub down: Vec<ShareChange>,
    /// The new shares of a port outside.
    pub up: Vec<ShareChange>,
    /// The circuits, each with the share of its packets in both directions.
    pub circuits: Vec<(CircuitKey, ShareName)>,
}

/// The shares of a plan. A site has its bandwidth as ceiling, and guarantees the sum of the guarantees below it.
pub fn to_share_changes(plan: &SubscriberPlan) -> SubscriberShares {
    let site = |site: &SubscriberSite, ceiling| {
        let settings = ShareSettings { ceiling, ..ShareSettings::default() };
        ShareChange::Add { name: site.name.clone(), parent: site.parent.clone(), settings, lease: None }
    };
    let circuit = |circuit: &Subscriber, PlanRates { rate, ceiling }| {
        let settings = ShareSettings { rate, ceiling: Some(ceiling), ..ShareSettings::default() };
        ShareChange::Add { name: circuit.name.clone(), parent: circuit.parent.clone(), settings, lease: None }
    };
    let SubscriberPlan { sites, subscribers } = plan;
    let sites_down = sites.iter().map(|one| site(one, one.down));
    let sites_up = sites.iter().map(|one| site(one, one.up));
    let keys = subscribers.iter().flat_map(|one| one.keys.iter().map(|key| (*key, one.name.clone())));
    SubscriberShares {
        down: sites_down.chain(subscribers.iter().map(|one| circuit(one, one.down))).collect(),
        up: sites_up.chain(subscribers.iter().map(|one| circuit(one, one.up))).collect(),
        circuits: keys.collect(),
    }
}

/// The line between a table and `network.json` in the texts of [`exercise`].
const NETWORK: &str = "\n--- network.json\n";

/// Checks the rules that hold for any text, for tests and the fuzzer: a table in either format, and behind the line `--- network.json` the network.
/// Returns the number of subscribers that were read.
pub fn exercise(text: &str) -> usize {
    let (table, network) = text.split_once(NETWORK).map_or((text, None), |(table, network)| (table, Some(network)));
    let network = network.map(|network| (network, "network.json"));
    let results = [subscriber_file(table, "table"), shaped_devices((table, "table"), network)];
    let read = results.map(|SubscriberResult { plan, diagnostics }| {
        assert_eq!(plan.is_none(), diagnostics.errors().next().is_some(), "no plan just where there is an error");
        assert!(diagnostics.list().len() <= MOST_DIAGNOSTICS);
        for diagnostic in diagnostics.list() {
            let source = if &*diagnostic.file == "table" { table } else { network.map_or("", |(text, _)| text) };
            let line = diagnostic.line.checked_sub(1).and_then(|line| source.split('\n').nth(line));
            let columns = line.expect("the line exists").chars().count() + 1;
            assert!((1..=columns).contains(&diagnostic.column), "{diagnostic}");
            assert!(!diagnostic.reason.is_empty() && !diagnostic.hint.is_empty(), "{diagnostic:?}");
        }
        assert!(!diagnostics.render(false).contains('\u{1b}'), "no control sequence reaches a terminal");
        let Some(plan) = plan else { return 0 };
        let shares = to_share_changes(&plan);
        for changes in [&shares.down, &shares.up] {
            let mut tree = ShareTree::new(None);
            let applied = tree.apply_all(changes, ShareOrigin::Subscribers);
            assert_eq!(applied, Ok(()), "each plan is a tree of shares");
            assert_eq!(tree.len(), plan.sites.len() + plan.subscribers.len());
        }
        let keys: HashSet<CircuitKey> = shares.circuits.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys.len(), shares.circuits.len(), "each key belongs to one circuit");
        plan.subscribers.len()
    });
    read.iter().sum()
}
