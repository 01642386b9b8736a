//! Changes of a list.

use super::counters::RuleCount;
use super::limit::RuleLimit;
use super::ranks::Ranks;
use super::{Entry, ListedRule, MOST_LIMITS, MOST_LISTED, RuleList, RuleTable, Writer};
use crate::packet_rules::{PacketRule, PacketRuleError, PacketRules};
use crate::set::SetStore;
use plan::Match;
use std::fmt;
use std::sync::Arc;

/// The place of a new rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Behind all others.
    End,
    /// Directly before the rule with this id.
    Before(u32),
    /// Directly behind the rule with this id.
    After(u32),
}

/// A change of a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RuleEdit {
    /// Adds a rule.
    Add(Place, ListedRule),
    /// Removes the rule with this id.
    Remove(u32),
    /// Puts another rule in the place of the rule with this id. It gets a new id.
    Replace(u32, ListedRule),
}

/// A reason to refuse a change. The list stays as it was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RuleListError {
    /// No rule has this id.
    UnknownId(u32),
    /// The list would have more than [`MOST_LISTED`] rules.
    TooManyRules,
    /// The list would have more than [`MOST_LIMITS`] rules with a limit.
    TooManyLimits,
    /// The rule is refused.
    Rule(PacketRuleError),
}

impl fmt::Display for RuleListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleListError::UnknownId(id) => write!(f, "the list has no rule {id}"),
            RuleListError::TooManyRules => write!(f, "the list would have more than {MOST_LISTED} rules"),
            RuleListError::TooManyLimits => {
                write!(f, "the list would have more than {MOST_LIMITS} rules with a limit")
            }
            RuleListError::Rule(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RuleListError {}

/// A change of the table. A rebuild that began before repeats it.
pub(super) struct TableChange {
    is_added: bool,
    rank: u32,
    entry: Entry,
}

/// A change of the entries. In the opposite order, the opposite changes lead back.
enum Done {
    Added(u32),
    Removed(u32, Entry),
    Moved(u32, u32),
}

impl RuleList {
    /// Applies all changes or, if one is refused, none; the error has its position. Workers see all of them at once. Returns the ids of new rules.
    pub fn edit(&self, edits: impl IntoIterator<Item = RuleEdit>) -> Result<Vec<u32>, (usize, RuleListError)> {
        let mut writer = self.lock();
        let table = writer.table.clone();
        let repeated = writer.since_rebuild.as_ref().map_or(0, Vec::len);
        let mut draft = Draft { list: self, writer: &mut writer, done: Vec::new() };
        let mut added = Vec::new();
        for (position, edit) in edits.into_iter().enumerate() {
            match draft.apply(edit) {
                Ok(id) => added.extend(id),
                Err(error) => {
                    draft.undo();
                    writer.table = table;
                    writer.since_rebuild.iter_mut().for_each(|changes| changes.truncate(repeated));
                    return Err((position, error));
                }
            }
        }
        let removed = draft.done.iter().filter_map(|done| match done {
            Done::Removed(_, entry) => Some(entry.slot),
            _ => None,
        });
        let removed: Vec<u32> = removed.collect();
        removed.into_iter().for_each(|slot| writer.slots.give(slot));
        self.published.publish(writer.finished_table());
        Ok(added)
    }

    /// Makes the table anew if many changes have made look-ups slower. Changes go on meanwhile. Returns true if it did.
    pub fn maintain(&self) -> bool {
        let worn = self.begin_rebuild();
        worn.inspect(|worn| self.finish_rebuild(worn.rebuilt())).is_some()
    }

    /// The table, if it is worn and no other thread makes it anew. From now on changes are recorded, to be repeated.
    fn begin_rebuild(&self) -> Option<PacketRules> {
        let mut writer = self.lock();
        if !writer.table.rules.is_worn() || writer.since_rebuild.is_some() {
            self.published.free_retired();
            return None;
        }
        writer.since_rebuild = Some(Vec::new());
        Some(writer.table.rules.clone())
    }

    /// Publishes the new table, with the changes since the begin.
    fn finish_rebuild(&self, mut rebuilt: PacketRules) {
        let mut writer = self.lock();
        for change in writer.since_rebuild.take().into_iter().flatten() {
            let (rule, sets) = (change.entry.packet_rule(change.rank), &*self.sets);
            if change.is_added {
                let added = insert(&mut rebuilt, &rule, sets);
                added.unwrap_or_else(|error| unreachable!("the worn table has taken the rule: {error}"));
            } else {
                remove(&mut rebuilt, &rule, sets);
            }
        }
        writer.table.rules = rebuilt;
        self.published.publish(writer.finished_table());
    }
}

fn insert(rules: &mut PacketRules, rule: &PacketRule<'_>, sets: &SetStore) -> Result<usize, PacketRuleError> {
    rules.insert(rule, |name, kind| Some(sets.promise(name, kind)))
}

fn remove(rules: &mut PacketRules, rule: &PacketRule<'_>, sets: &SetStore) {
    rules.remove(rule, |name, kind| Some(sets.promise(name, kind)));
}

impl Writer {
    /// A new entry, which is in no place yet.
    pub(super) fn entry(&mut self, rule: Arc<ListedRule>) -> Result<Entry, RuleListError> {
        if self.entries.len() >= MOST_LISTED {
            return Err(RuleListError::TooManyRules);
        }
        let limit = match &rule.limit {
            None => 0,
            Some(limit) => {
                let limits = &mut self.table.limits;
                let free = limits.iter().position(Option::is_none).unwrap_or(limits.len());
                if free >= MOST_LIMITS {
                    return Err(RuleListError::TooManyLimits);
                }
                limits.resize(limits.len().max(free + 1), None);
                // Its rank follows with its place.
                limits[free] = Some((0, Arc::new(RuleLimit::new(limit))));
                free as u32 + 1
            }
        };
        self.last_id += 1;
        Ok(Entry { id: self.last_id, slot: self.slots.take(), limit, rule, base: RuleCount::default() })
    }

    /// Gives an entry its place.
    pub(super) fn place(&mut self, rank: u32, entry: Entry) {
        if let Some(Some((of, _))) = (entry.limit as usize).checked_sub(1).and_then(|at| self.table.limits.get_mut(at))
        {
            *of = rank;
        }
        self.ranks.insert(entry.id, rank);
        self.entries.insert(rank, entry);
    }

    fn take(&mut self, rank: u32) -> Entry {
        let entry = self.entries.remove(&rank).expect("an entry has this rank");
        self.ranks.remove(&entry.id);
        entry
    }

    /// The table for the workers.
    pub(super) fn finished_table(&mut self) -> RuleTable {
        let first = self.entries.first_key_value().map(|(_, entry)| entry);
        let decides = |entry: &&Entry| {
            let ListedRule { matching, interface, vrf, limit, .. } = &*entry.rule;
            *matching == Match::default() && interface.is_none() && vrf.is_none() && limit.is_none()
        };
        self.table.always = first.filter(decides).map(Entry::result);
        self.table.clone()
    }

    /// Makes the table from the entries. An error has the position of the rule.
    pub(super) fn rebuild(&mut self, sets: &SetStore) -> Result<(), (usize, PacketRuleError)> {
        let rules = self.entries.iter().map(|(rank, entry)| entry.packet_rule(*rank));
        let rules = PacketRules::build(rules, |name, kind| Some(sets.promise(name, kind)))?;
        self.table.rules = rules;
        Ok(())
    }
}

/// A change that is not published yet.
struct Draft<'a> {
    list: &'a RuleList,
    writer: &'a mut Writer,
    done: Vec<Done>,
}

impl Draft<'_> {
    /// Returns the id of a new rule.
    fn apply(&mut self, edit: RuleEdit) -> Result<Option<u32>, RuleListError> {
        match edit {
            RuleEdit::Remove(id) => {
                let rank = self.rank(id)?;
                self.remove(rank);
                Ok(None)
            }
            RuleEdit::Replace(id, rule) => {
                let rank = self.rank(id)?;
                self.remove(rank);
                self.add(rank, rule).map(Some)
            }
            RuleEdit::Add(place, rule) => {
                let entries = &self.writer.entries;
                let below = |rank: u32| entries.range(..rank).next_back().map(|(rank, _)| *rank);
                let (gap, near_upper) = match place {
                    Place::End => ((entries.last_key_value().map(|(rank, _)| *rank), None), true),
                    Place::Before(id) => self.rank(id).map(|rank| ((below(rank), Some(rank)), true))?,
                    Place::After(id) => {
                        let rank = self.rank(id)?;
                        let above = entries.range(rank + 1..).next().map(|(rank, _)| *rank);
                        ((Some(rank), above), false)
                    }
                };
                let choice = Ranks::between(entries, gap, near_upper);
                self.move_all(&choice.moves);
                self.add(choice.rank, rule).map(Some)
            }
        }
    }

    fn rank(&self, id: u32) -> Result<u32, RuleListError> {
        self.writer.ranks.get(&id).copied().ok_or(RuleListError::UnknownId(id))
    }

    fn add(&mut self, rank: u32, rule: ListedRule) -> Result<u32, RuleListError> {
        let mut entry = self.writer.entry(Arc::new(rule))?;
        entry.base = self.list.counters.total(entry.slot);
        let (id, slot) = (entry.id, entry.slot);
        if let Err(error) = self.insert_into_table(rank, &entry) {
            self.writer.slots.undo(slot);
            return Err(error);
        }
        self.writer.place(rank, entry);
        self.done.push(Done::Added(rank));
        Ok(id)
    }

    fn insert_into_table(&mut self, rank: u32, entry: &Entry) -> Result<(), RuleListError> {
        let sets = &*self.list.sets;
        let inserted = insert(&mut self.writer.table.rules, &entry.packet_rule(rank), sets);
        match inserted {
            Ok(_) => {}
            // Removed rules may have used these sets: a new table has only those that rules use.
            Err(PacketRuleError::TooManySets) => {
                self.writer.rebuild(sets).map_err(|(_, error)| RuleListError::Rule(error))?;
                insert(&mut self.writer.table.rules, &entry.packet_rule(rank), sets).map_err(RuleListError::Rule)?;
            }
            Err(error) => return Err(RuleListError::Rule(error)),
        }
        self.note(true, rank, entry);
        Ok(())
    }

    fn remove(&mut self, rank: u32) {
        let entry = self.writer.take(rank);
        self.remove_from_table(rank, &entry);
        if let Some(limit) = (entry.limit as usize).checked_sub(1) {
            self.writer.table.limits[limit] = None;
        }
        self.done.push(Done::Removed(rank, entry));
    }

    fn remove_from_table(&mut self, rank: u32, entry: &Entry) {
        remove(&mut self.writer.table.rules, &entry.packet_rule(rank), &self.list.sets);
        self.note(false, rank, entry);
    }

    /// Changes ranks. None passes another.
    fn move_all(&mut self, moves: &[(u32, u32)]) {
        let taken: Vec<(u32, u32, Entry)> =
            moves.iter().map(|&(from, to)| (from, to, self.writer.take(from))).collect();
        for (from, to, entry) in taken {
            self.remove_from_table(from, &entry);
            let inserted = self.insert_into_table(to, &entry);
            inserted.unwrap_or_else(|error| unreachable!("the table had the rule: {error}"));
            self.writer.place(to, entry);
            self.done.push(Done::Moved(from, to));
        }
    }

    fn note(&mut self, is_added: bool, rank: u32, entry: &Entry) {
        if let Some(changes) = &mut self.writer.since_rebuild {
            changes.push(TableChange { is_added, rank, entry: entry.clone() });
        }
    }

    /// Gives all entries their old places. The caller restores the table.
    fn undo(mut self) {
        let mut moved = Vec::new();
        for done in std::mem::take(&mut self.done).into_iter().rev() {
            if let Done::Moved(from, to) = done {
                // Moves of one change exchange ranks among each other: all leave their places before any returns.
                moved.push((from, self.writer.take(to)));
                continue;
            }
            self.return_moved(&mut moved);
            match done {
                Done::Added(rank) => {
                    let entry = self.writer.take(rank);
                    self.writer.slots.undo(entry.slot);
                }
                Done::Removed(rank, entry) => self.writer.place(rank, entry),
                Done::Moved(..) => unreachable!("it was handled"),
            }
        }
        self.return_moved(&mut moved);
    }

    fn return_moved(&mut self, moved: &mut Vec<(u32, Entry)>) {
        moved.drain(..).for_each(|(rank, entry)| self.writer.place(rank, entry));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::RuleResult;
    use plan::{MatchFields, MatchFragment};
    use std::net::Ipv4Addr;
    use units::{InterfaceId, VrfId};

    fn rule(port: u16) -> ListedRule {
        let matching = Match::parse(&format!("udp dport {port}")).expect("it is a match");
        let result = RuleResult { action: port.into(), ..RuleResult::default() };
        ListedRule {
            matching,
            interface: None,
            vrf: None,
            text: "".into(),
            result,
            limit: None,
            held: Default::default(),
        }
    }

    fn finds(list: &RuleList, port: u16) -> bool {
        let fields = MatchFields {
            source: Ipv4Addr::LOCALHOST.into(),
            destination: Ipv4Addr::LOCALHOST.into(),
            protocol: 17,
            dscp: 0,
            sport: Some(1),
            dport: Some(port),
            tcp_flags: None,
            icmp_type: None,
            icmp_code: None,
            fragment: MatchFragment::Whole,
            vlan: None,
            flow_label: 0,
            length: 100,
            state: 0,
        };
        let table = list.published.latest();
        let found = table.rules.find(&fields, (InterfaceId(0), VrfId::MAIN), &list.sets.latest());
        found.is_some_and(|result| result.action == u32::from(port))
    }

    #[test]
    fn changes_during_a_rebuild_are_in_the_new_table() {
        let list = RuleList::new((0..100).map(rule).collect(), &Arc::default()).expect("all are possible");
        // Half of the table changes.
        for id in 1..=80 {
            list.edit([RuleEdit::Replace(id, rule(1000 + id as u16))]).expect("it is there");
        }
        let worn = list.begin_rebuild().expect("it is worn");
        assert!(list.begin_rebuild().is_none(), "one rebuild at a time");
        list.edit([RuleEdit::Add(Place::End, rule(500)), RuleEdit::Remove(90)]).expect("both are possible");
        // A refused batch is not repeated.
        list.edit([RuleEdit::Add(Place::End, rule(501)), RuleEdit::Remove(90)]).expect_err("it is gone");
        assert_eq!([500, 89, 501].map(|port| finds(&list, port)), [true, false, false]);
        list.finish_rebuild(worn.rebuilt());
        assert_eq!([500, 89, 501, 1001, 99].map(|port| finds(&list, port)), [true, false, false, true, true]);
        assert!(list.begin_rebuild().is_none(), "the new table is not worn");
    }
}
