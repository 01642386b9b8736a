//! The multicast groups of the router on a link, and their reports (RFC 3810 6; RFC 2710 after a query of that version). A snooping switch passes
//! neighbour solicitations only to hosts that have reported their group.
//!
//! IPv4 needs no reports: the router is only in groups of 224.0.0.0/24, which no switch prunes (RFC 4541 2.1.2).

use packet::wire::ipv6;
use packet::wire::mld::{GroupRecord, MOST_RECORDS, MldQuery};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use units::{Instant, Nanos};

/// The number of reports of a change (RFC 3810 9.1, Robustness Variable), and the longest time between them (9.11).
const ROBUSTNESS: u8 = 2;
const UNSOLICITED: Nanos = Nanos::secs(1);
/// How long version 1 is used after a version 1 query (RFC 3810 9.12, with the default query interval).
const OLDER_PRESENT: Nanos = Nanos::secs(2 * 125 + 10);

/// A report that is due.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct DueReport {
    /// At most [`MOST_RECORDS`] records.
    pub records: Vec<(GroupRecord, Ipv6Addr)>,
    /// True for version 1.
    pub is_v1: bool,
}

/// The groups of one interface.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupReports {
    groups: BTreeSet<Ipv6Addr>,
    /// Groups joined or left, and the number of reports that are left.
    changes: BTreeMap<Ipv6Addr, u8>,
    changes_at: Option<Instant>,
    /// Queried groups, and the time of the answer; the unspecified address stands for all groups.
    answers_due: BTreeMap<Ipv6Addr, Instant>,
    /// Groups that did not fit into one report.
    general_pending: BTreeSet<Ipv6Addr>,
    v1_until: Instant,
}

impl GroupReports {
    /// Changes the groups of the router.
    pub fn set_groups(&mut self, groups: BTreeSet<Ipv6Addr>, now: Instant) {
        for &group in groups.symmetric_difference(&self.groups) {
            self.changes.insert(group, ROBUSTNESS);
            self.changes_at = Some(now);
        }
        self.groups = groups;
    }

    /// Reports all groups again as new: the previous reports came from the unspecified address (RFC 3810 5.2.13).
    pub fn report_all_again(&mut self, now: Instant) {
        self.changes.extend(self.groups.iter().map(|&group| (group, ROBUSTNESS)));
        self.changes_at = Some(now);
    }

    /// Processes a query. `delay` draws a random time below its argument.
    pub fn receive_query(&mut self, query: MldQuery, now: Instant, delay: impl FnOnce(Nanos) -> Nanos) {
        if query.is_v1 {
            self.v1_until = now + OLDER_PRESENT;
        }
        let known = query.group.is_unspecified() || self.groups.contains(&query.group);
        let general = self.answers_due.get(&Ipv6Addr::UNSPECIFIED);
        let at = now + delay(Nanos::millis(query.max_response_ms.into()));
        // An answer for all groups includes each one (RFC 3810 6.2).
        if !known || general.is_some_and(|&general| general <= at) {
            return;
        }
        let slot = self.answers_due.entry(query.group).or_insert(at);
        *slot = at.min(*slot);
    }

    /// When the next report is due.
    pub fn next_report(&self) -> Option<Instant> {
        if !self.general_pending.is_empty() {
            return Some(Instant::START);
        }
        self.changes_at.into_iter().chain(self.answers_due.values().copied()).min()
    }

    /// The next report that is due now.
    pub fn take_due_report(&mut self, now: Instant, delay: impl FnOnce(Nanos) -> Nanos) -> Option<DueReport> {
        let old = now < self.v1_until;
        let mut records = Vec::new();
        if self.changes_at.is_some_and(|at| at <= now) {
            records = self.take_changes(now, delay);
        }
        let due: Vec<Ipv6Addr> =
            self.answers_due.iter().filter(|&(_, &at)| at <= now).map(|(&group, _)| group).collect();
        for group in due {
            self.answers_due.remove(&group);
            match group {
                Ipv6Addr::UNSPECIFIED => self.general_pending.extend(&self.groups),
                group => self.general_pending.extend(self.groups.get(&group)),
            }
        }
        while records.len() < MOST_RECORDS
            && let Some(group) = self.general_pending.pop_first()
        {
            // A change record in the same report says as much.
            if !records.iter().any(|&(_, told)| told == group) {
                records.push((GroupRecord::Member, group));
            }
        }
        (!records.is_empty()).then_some(DueReport { records, is_v1: old })
    }

    fn take_changes(&mut self, now: Instant, delay: impl FnOnce(Nanos) -> Nanos) -> Vec<(GroupRecord, Ipv6Addr)> {
        let mut records = Vec::new();
        let groups = &self.groups;
        self.changes.retain(|group, left| {
            if records.len() == MOST_RECORDS {
                return true;
            }
            records.push((if groups.contains(group) { GroupRecord::Joined } else { GroupRecord::Left }, *group));
            *left -= 1;
            *left > 0
        });
        self.changes_at = (!self.changes.is_empty()).then(|| now + delay(UNSOLICITED));
        records
    }
}

/// The groups for these addresses that are reported: all except the all-nodes group (RFC 3810 6).
pub(super) fn groups(addresses: impl Iterator<Item = Ipv6Addr>) -> BTreeSet<Ipv6Addr> {
    let mut groups: BTreeSet<Ipv6Addr> = addresses.map(ipv6::solicited_node).collect();
    if !groups.is_empty() {
        groups.extend([ipv6::ALL_ROUTERS, ipv6::ALL_SITE_ROUTERS]);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::wire::mld::GroupRecord::{Joined, Left, Member};

    fn group(number: u16) -> Ipv6Addr {
        Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, number)
    }

    fn at(ms: u64) -> Instant {
        Instant::START + Nanos::millis(ms)
    }

    fn half(time: Nanos) -> Nanos {
        Nanos::new(time.get() / 2)
    }

    fn query(group: Ipv6Addr, within_ms: u32, old: bool) -> MldQuery {
        MldQuery { is_v1: old, group, max_response_ms: within_ms }
    }

    /// The time, the records, and whether version 1 is used.
    type Report = (u64, Vec<(GroupRecord, Ipv6Addr)>, bool);

    /// All reports until a time.
    fn reports_until(membership: &mut GroupReports, until: u64) -> Vec<Report> {
        let mut all = Vec::new();
        let mut now = at(0);
        while let Some(next) = membership.next_report().filter(|&next| next <= at(until)) {
            now = now.max(next);
            if let Some(DueReport { records, is_v1: old }) = membership.take_due_report(now, half) {
                all.push((now.get() / 1_000_000, records, old));
            }
        }
        all
    }

    #[test]
    fn group_change_is_reported_twice() {
        let mut membership = GroupReports::default();
        membership.set_groups([group(1), group(2)].into(), at(10));
        let both = vec![(Joined, group(1)), (Joined, group(2))];
        assert_eq!(reports_until(&mut membership, 9000), [(10, both.clone(), false), (510, both, false)]);
        membership.set_groups([group(2)].into(), at(9000));
        let left = vec![(Left, group(1))];
        assert_eq!(reports_until(&mut membership, 20_000), [(9000, left.clone(), false), (9500, left, false)]);
        membership.set_groups([group(2)].into(), at(21_000));
        assert_eq!(membership.next_report(), None);
    }

    #[test]
    fn query_is_answered_within_its_response_time() {
        let mut membership = GroupReports::default();
        membership.set_groups([group(1), group(2)].into(), at(0));
        reports_until(&mut membership, 2000);
        membership.receive_query(query(group(2), 1000, false), at(3000), half);
        membership.receive_query(query(group(9), 1000, false), at(3000), half);
        assert_eq!(reports_until(&mut membership, 9000), [(3500, vec![(Member, group(2))], false)]);
        // An answer for all groups replaces later ones for each group, and is sent once.
        let all = vec![(Member, group(1)), (Member, group(2))];
        membership.receive_query(query(Ipv6Addr::UNSPECIFIED, 2000, false), at(10_000), half);
        membership.receive_query(query(group(1), 9000, false), at(10_100), half);
        membership.receive_query(query(Ipv6Addr::UNSPECIFIED, 9000, false), at(10_200), half);
        assert_eq!(reports_until(&mut membership, 30_000), [(11_000, all, false)]);
    }

    #[test]
    fn version_1_query_is_answered_in_version_1_for_a_while() {
        let mut membership = GroupReports::default();
        membership.set_groups([group(1)].into(), at(0));
        reports_until(&mut membership, 2000);
        membership.receive_query(query(Ipv6Addr::UNSPECIFIED, 1000, true), at(3000), half);
        assert_eq!(reports_until(&mut membership, 4000), [(3500, vec![(Member, group(1))], true)]);
        membership.receive_query(query(Ipv6Addr::UNSPECIFIED, 1000, false), at(262_000), half);
        membership.receive_query(query(group(1), 5000, false), at(262_000), half);
        assert_eq!(reports_until(&mut membership, 263_000), [(262_500, vec![(Member, group(1))], true)]);
        membership.receive_query(query(Ipv6Addr::UNSPECIFIED, 1000, false), at(263_000), half);
        assert_eq!(reports_until(&mut membership, 264_000), [(263_500, vec![(Member, group(1))], false)]);
    }

    #[test]
    fn many_groups_are_split_into_several_reports() {
        let mut membership = GroupReports::default();
        let all: BTreeSet<Ipv6Addr> = (0..MOST_RECORDS as u16 + 5).map(group).collect();
        membership.set_groups(all.clone(), at(0));
        let reports = reports_until(&mut membership, 10_000);
        let mentioned: Vec<usize> = reports.iter().map(|(_, records, _)| records.len()).collect();
        assert_eq!(mentioned.iter().sum::<usize>(), 2 * all.len());
        assert!(mentioned.iter().all(|&count| count <= MOST_RECORDS));
        membership.receive_query(query(Ipv6Addr::UNSPECIFIED, 1000, false), at(20_000), half);
        let reports = reports_until(&mut membership, 30_000);
        assert_eq!(reports.iter().map(|(_, records, _)| records.len()).collect::<Vec<_>>(), [MOST_RECORDS, 5]);
    }
}
