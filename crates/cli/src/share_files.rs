//! The shares of a configuration as `check` lists them, with those of its files and of subscribers.

use anyhow::Result;
use control::memory::{round_trip_limit, share_limit};
use plan::subscribers::{SubscriberPlan, SubscriberShares};
use plan::{Diagnostics, Plan, PortPlan, ShareOrigin, ShareTree};
use serde::Serialize;
use std::io::Write;

/// The tree of a port.
#[derive(Serialize)]
pub struct ShareCheck {
    port: String,
    shares: usize,
    leaves: usize,
    levels: usize,
    guarantee_bps: u64,
    /// The most memory that the tree uses.
    memory_bytes: u64,
}

/// The subscribers and sites of a configuration.
#[derive(Serialize)]
pub struct SubscriberCheck {
    subscribers: usize,
    sites: usize,
    circuits: usize,
    /// The most memory of their round-trip times; zero if they are not measured.
    round_trip_memory_bytes: u64,
}

/// The shares of a configuration.
#[derive(Serialize, Default)]
pub struct SharesCheck {
    #[serde(rename = "share_trees", skip_serializing_if = "Vec::is_empty")]
    trees: Vec<ShareCheck>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subscribers: Option<SubscriberCheck>,
}

/// Reads the files of shares and of subscribers. Returns the shares, and the diagnostics of files, each with whether it has an error.
pub fn of(plan: &Plan) -> (SharesCheck, Vec<(Diagnostics, bool)>) {
    let mut found = Vec::new();
    let network = plan.subscribers.as_ref().and_then(|section| {
        let read = plan::load_subscribers(&section.source);
        if !read.diagnostics.is_empty() {
            found.push((read.diagnostics, read.plan.is_none()));
        }
        read.plan
    });
    let shares = network.as_ref().zip(plan.subscribers.as_ref()).map(|(network, section)| {
        let (shares, warnings) = section.shares(network.clone(), &plan.ports);
        let file = section.source.files().next().unwrap_or_default();
        found.extend(warnings.into_iter().map(|warning| {
            (Diagnostics::warning_of(file, warning, "give lower guarantees, or the port a higher rate"), false)
        }));
        shares
    });
    let mut trees = Vec::new();
    for port in plan.ports.iter().filter(|port| port.scheme.has_shares()) {
        match tree(plan, port, shares.as_ref()) {
            Ok(tree) => trees.push(summary(port, &tree)),
            Err(wrong) => found.push((wrong, true)),
        }
    }
    let subscribers = network.as_ref().zip(shares.as_ref()).map(|(network, shares)| {
        let SubscriberPlan { sites, subscribers } = network;
        // A share has the same name at all ports, so this is the most names that there can be.
        let names = trees.iter().map(|tree| tree.shares).sum();
        SubscriberCheck {
            subscribers: subscribers.len(),
            sites: sites.len(),
            circuits: shares.circuits.len(),
            round_trip_memory_bytes: round_trip_limit(plan, subscribers.len(), names).get(),
        }
    });
    (SharesCheck { trees, subscribers }, found)
}

/// The shares of a port: those of the configuration, of its file, and of subscribers.
fn tree(plan: &Plan, port: &PortPlan, subscribers: Option<&SubscriberShares>) -> Result<ShareTree, Diagnostics> {
    let mut tree = plan::load_shares(port)?;
    let side = plan.subscribers.as_ref().zip(subscribers);
    let side = side.and_then(|(section, shares)| section.shares_of(&port.name, shares));
    if let (Some(side), Some(section)) = (side, &plan.subscribers) {
        tree.reserve(side.len());
        tree.apply_all(side, ShareOrigin::Subscribers).map_err(|(_, reason, hint)| {
            let file = section.source.files().next().unwrap_or_default();
            Diagnostics::unreadable(file, format!("port {}: {reason}", port.name), &hint)
        })?;
        tree.commit();
    }
    Ok(tree)
}

fn summary(port: &PortPlan, tree: &ShareTree) -> ShareCheck {
    let mut levels = 0;
    let mut parents = std::collections::HashSet::new();
    for node in tree.iter() {
        levels = levels.max(node.level - 1);
        parents.extend(node.parent);
    }
    let (shares, leaves) = (tree.len(), tree.len() - parents.len());
    let guarantee_bps = tree.guaranteed().get();
    ShareCheck {
        port: port.name.to_string(),
        shares,
        leaves,
        levels,
        guarantee_bps,
        memory_bytes: share_limit(port, shares, leaves).get(),
    }
}

fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// Prints a line for each tree, and one for the subscribers.
pub fn print(checked: &SharesCheck, out: &mut dyn Write) -> Result<()> {
    if let Some(SubscriberCheck { subscribers, sites, circuits, round_trip_memory_bytes: times }) = &checked.subscribers
    {
        let (keys, sites) = (count(*circuits, "address", "addresses"), count(*sites, "site", "sites"));
        let times = match times {
            0 => "not measured (rtt = false)".to_owned(),
            times => format!("at most {:.1} MB of memory", *times as f64 / 1e6),
        };
        writeln!(out, "subscribers: {subscribers} with {keys} and other keys, {sites}; round-trip times: {times}")?;
    }
    for tree in &checked.trees {
        let megabytes = tree.memory_bytes as f64 / 1e6;
        writeln!(
            out,
            "shares of {}: {} in {}, {}, {} guaranteed; at most {megabytes:.1} MB of memory",
            tree.port,
            tree.shares,
            count(tree.levels, "level", "levels"),
            count(tree.leaves, "leaf", "leaves"),
            crate::output::rate(tree.guarantee_bps as f64),
        )?;
    }
    Ok(())
}
