//! Lists of rules while the router runs: reports, changes, maintenance of their tables, and the packets that rules log.

use super::failure::ApplyFailure;
use super::{ADOPTION_TIMEOUT, Daemon, RUNNING};
use crate::api::{self, Author};
use crate::events::LoggedEvent;
use classifier::{FlowCacheCounters, FlowCacheUse, Place, RuleEdit, RuleList, RuleStatus};
use io::clock;
use packet::wire::summary;
use plan::{FilterRule, FilterStatement, RoutingRule, RuleChange, RuleListKind, RulePlace, rule_batch};
use plane::snapshot::ROUTING;
use plane::{ROUTING_RULES, Router};
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn unknown(router: &Router, name: &str) -> ApplyFailure {
    let known = router.rule_lists().iter().map(|(name, ..)| name.to_string()).collect();
    ApplyFailure::UnknownRules(name.to_owned(), known)
}

impl Daemon {
    /// Returns up to `limit` rules of each list, or of the list `only`. `unused`: only rules that have decided about no packet.
    pub fn rules(&self, only: Option<&str>, unused: bool, limit: usize) -> Result<api::RuleLists, ApplyFailure> {
        let mut lists = {
            let control = self.control.lock();
            let lists = control.router.rule_lists();
            match only {
                Some(name) if !lists.iter().any(|(list, ..)| **list == *name) => {
                    return Err(unknown(&control.router, name));
                }
                _ => lists,
            }
        };
        // Most routers select no routes by rules, and have nothing to show.
        let is_unused = |name: &str, list: &RuleList| name == ROUTING_RULES && list.is_empty() && !list.is_changed();
        lists.retain(|(name, _, list)| only.map_or(!is_unused(name, list), |only| **name == *only));
        let now = clock::now();
        let reply = |status: RuleStatus| api::RuleReply {
            id: status.id,
            rule: status.rule.text.to_string(),
            packets: status.count.packets,
            bytes: status.count.bytes,
            idle_ns: status.count.last.map(|last| now.since(last).get()),
        };
        let lists = lists.into_iter().map(|(name, _, list)| {
            let (rules, others) = (list.rules(), list.others());
            let total = rules.len() as u64;
            let wanted = rules.into_iter().filter(|status| !unused || status.count.packets == 0);
            api::RuleListReply {
                list: name.to_string(),
                rules: wanted.take(limit).map(reply).collect(),
                total,
                other_packets: others.packets,
                other_bytes: others.bytes,
                changed: list.is_changed(),
                memory_bytes: list.bytes() as u64,
                flow_cache: flow_cache(list.flow_caches()),
            }
        });
        Ok(api::RuleLists { time_ns: self.now_ns(), lists: lists.collect() })
    }

    /// Changes rules of the list `name`: all changes, or none. `text` has one change a line; `source` is its name in messages.
    pub fn edit_rules(
        &self,
        name: &str,
        (text, source): (&str, &str),
        author: &Author,
    ) -> Result<api::RulesEdited, ApplyFailure> {
        let result = self.try_edit_rules(name, text, source);
        self.log_edit(source, &result, |edited| LoggedEvent::RulesEdited {
            list: name.to_owned(),
            edited: edited.clone(),
            author: author.clone(),
        });
        result
    }

    fn try_edit_rules(&self, name: &str, text: &str, source: &str) -> Result<api::RulesEdited, ApplyFailure> {
        if self.state.load(Ordering::Acquire) != RUNNING {
            return Err(ApplyFailure::Unavailable);
        }
        // Locked until the end, and not while a configuration is being adopted: that may have another list of this name.
        let control = self.lock_adopted(ADOPTION_TIMEOUT).ok_or(ApplyFailure::AdoptionTimeout)?;
        let router = &control.router;
        let Some((_, kind, list)) = router.rule_lists().into_iter().find(|(list, ..)| **list == *name) else {
            return Err(unknown(router, name));
        };
        let Some(plan) = router.plan() else { return Err(ApplyFailure::Unavailable) };
        let batch = rule_batch(text, source, plan, kind).map_err(ApplyFailure::Batch)?;
        let mut removed = 0;
        let flow_of = |id: u32| match kind {
            RuleListKind::Paths => router.flow_of_rule(id).map(|name| name.as_str().to_owned()),
            RuleListKind::Filter | RuleListKind::Routing => None,
        };
        let listed = |position: usize, rule| {
            router.listed_rule(rule).map_err(|(reason, hint)| ApplyFailure::Batch(batch.refuse(position, reason, hint)))
        };
        let edits = batch.changes.iter().enumerate().map(|(position, (_, change))| {
            Ok(match change {
                RuleChange::Add(place, rule) => {
                    let place = match *place {
                        RulePlace::End => Place::End,
                        RulePlace::Before(id) => Place::Before(id),
                        RulePlace::After(id) => Place::After(id),
                    };
                    RuleEdit::Add(place, listed(position, rule)?)
                }
                RuleChange::Remove(id) | RuleChange::Replace(id, _) if flow_of(*id).is_some() => {
                    let name = flow_of(*id).unwrap_or_default();
                    let reason = format!("rule {id} belongs to the reserved flow {}", plan::quote(&name));
                    let hint = format!("end the reservation: `switchpath reserve remove {name}`");
                    return Err(ApplyFailure::Batch(batch.refuse(position, reason, hint)));
                }
                RuleChange::Remove(id) => {
                    removed += 1;
                    RuleEdit::Remove(*id)
                }
                RuleChange::Replace(id, rule) => {
                    removed += 1;
                    RuleEdit::Replace(*id, listed(position, rule)?)
                }
            })
        });
        let edits = edits.collect::<Result<Vec<RuleEdit>, ApplyFailure>>()?;
        let added = list.edit(edits).map_err(|(position, error)| {
            let hint = format!("`switchpath rule list {name}` shows the rules with their ids");
            ApplyFailure::Batch(batch.refuse(position, error.to_string(), hint))
        })?;
        Ok(api::RulesEdited { added, removed, total: list.len() as u64 })
    }

    /// Makes tables anew that many changes have made slower, and writes logged packets into the event log.
    pub(super) fn maintain_rules(&self) {
        let lists = self.control.lock().router.rule_lists();
        // Without the lock: a table of a million rules takes a second.
        for (.., list) in &lists {
            list.maintain();
        }
        self.log_packets();
    }

    fn log_packets(&self) {
        let snapshot = self.snapshot();
        let (packets, left_out) = snapshot.log.take();
        let now = clock::now();
        for packet in packets {
            let filter = || snapshot.paths.iter().find(|path| path.id == packet.path).map(|path| &path.filter);
            let list = if packet.path == ROUTING { Some(&snapshot.routing) } else { filter() };
            let rule = list.and_then(|list: &Arc<RuleList>| list.rule_of(packet.rule));
            let rule =
                rule.as_ref().map_or_else(|| "a removed rule".to_string(), |(id, rule)| log_text(*id, &rule.text));
            let interface = snapshot.interface(packet.interface).map_or("?", |interface| &interface.name);
            let text = format!("{rule}: {} by {interface}, {} bytes", summary(&packet.head), packet.length);
            self.log.push(packet.at, LoggedEvent::PacketLogged { path: packet.path, text });
        }
        if left_out > 0 {
            let text = format!("{left_out} packets were not logged: rules log more packets than the log takes");
            self.log.push(now, LoggedEvent::Warning(text));
        }
    }
}

fn flow_cache(used: FlowCacheUse) -> api::FlowCacheReply {
    let state = match used {
        FlowCacheUse { is_short: true, .. } => "short",
        // Most of the workers.
        FlowCacheUse { pausing, workers, .. } if pausing * 2 > workers => "paused",
        _ => "on",
    };
    let FlowCacheCounters { hits, misses, passed } = used.counters;
    api::FlowCacheReply { state: state.into(), hits, misses, passed }
}

/// The prefix of a rule, or its id.
fn log_text(id: u32, rule: &str) -> String {
    // The text of a rule parses back to the rule: of a filter, or of routes.
    let statements = FilterRule::parse(rule)
        .map(|rule| rule.statements)
        .or_else(|_| RoutingRule::parse(rule).map(|rule| rule.statements))
        .unwrap_or_default();
    let prefix = statements.into_iter().find_map(|statement| match statement {
        FilterStatement::Log(prefix) => prefix,
        _ => None,
    });
    prefix.map_or_else(|| format!("rule {id}"), |prefix| prefix.trim_end_matches([':', ' ']).to_string())
}
