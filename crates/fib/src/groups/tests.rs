use super::*;
use crate::Adjacencies;
use proptest::prelude::*;
use std::net::IpAddr;
use units::InterfaceId;

const LAN: InterfaceId = InterfaceId(1);

/// Next hops by number, and groups of them.
struct Lab {
    links: Adjacencies,
    hops: Hops,
    members: Members,
    groups: Groups,
}

impl Lab {
    fn new() -> Lab {
        Lab { links: Adjacencies::new(256), hops: Hops::new(256), members: Members::default(), groups: Groups::new() }
    }

    fn hop(&mut self, n: u8) -> AdjacencyId {
        self.hops.hold(LAN, IpAddr::from([192, 0, 2, n]), &self.links).unwrap()
    }

    fn group(&mut self, wanted: &[(u8, u16)], from: Option<GroupId>) -> GroupId {
        let members = wanted.iter().map(|&(n, weight)| Member { adjacency: self.hop(n), weight }).collect();
        self.members.group(members, from, &mut self.hops, &self.groups).unwrap()
    }

    /// The member of each bucket, by number.
    fn buckets(&self, group: GroupId) -> Vec<u8> {
        let flows = (0..BUCKETS as u32).map(|bucket| bucket << UNUSED);
        let last = |adjacency| match self.hops.get(adjacency).unwrap().1 {
            IpAddr::V4(address) => address.octets()[3],
            IpAddr::V6(_) => unreachable!("there are none"),
        };
        flows.map(|flow| last(self.groups.pick(group, flow))).collect()
    }

    fn set(&mut self, n: u8, usable: bool) {
        let id = self.hop(n);
        match usable {
            true => self.hops.link(id, Some(units::Mac([2, 0, 0, 0, 0, n])), &self.links),
            false => self.hops.fail(id),
        }
        self.members.changed(id, &self.hops, &self.groups);
    }
}

fn count(buckets: &[u8], member: u8) -> usize {
    buckets.iter().filter(|&&other| other == member).count()
}

/// Distinct members with weights.
fn a_group() -> impl Strategy<Value = Vec<(u8, u16)>> {
    let weight = prop_oneof![3 => Just(1u16), 1 => 1..8u16];
    proptest::collection::btree_map(0..40u8, weight, 1..20).prop_map(|members| members.into_iter().collect())
}

fn balanced(buckets: &[u8], members: &[(u8, u16)], within: f64) -> Result<(), TestCaseError> {
    let total: f64 = members.iter().map(|&(_, weight)| f64::from(weight)).sum();
    for &(member, weight) in members {
        let share = f64::from(weight) / total * BUCKETS as f64;
        let has = count(buckets, member) as f64;
        prop_assert!((has - share).abs() <= within, "member {member} of weight {weight} has {has}, not {share}");
    }
    Ok(())
}

proptest! {
    #[test]
    fn buckets_are_shared_by_weight(members in a_group()) {
        let mut lab = Lab::new();
        let group = lab.group(&members, None);
        balanced(&lab.buckets(group), &members, 1.0)?;
    }

    #[test]
    fn removing_member_moves_only_its_buckets(members in a_group(), gone in any::<prop::sample::Index>()) {
        prop_assume!(members.len() > 1);
        let mut lab = Lab::new();
        let mut left = members.clone();
        let (gone, _) = left.remove(gone.index(members.len()));
        let old = lab.group(&members, None);
        let new = lab.group(&left, Some(old));
        let (before, after) = (lab.buckets(old), lab.buckets(new));
        for (before, after) in before.iter().zip(&after) {
            prop_assert!(before == after || *before == gone);
        }
        balanced(&after, &left, 2.0)?;
    }

    #[test]
    fn adding_member_moves_only_its_share(members in a_group(), weight in 1..4u16) {
        let mut lab = Lab::new();
        let mut more = members.clone();
        more.push((99, weight));
        let old = lab.group(&members, None);
        let new = lab.group(&more, Some(old));
        let (before, after) = (lab.buckets(old), lab.buckets(new));
        for (before, after) in before.iter().zip(&after) {
            prop_assert!(before == after || *after == 99);
        }
        balanced(&after, &more, 2.0)?;
    }

    /// Members fail and recover in any order. Only the buckets of members that change state move. Exactly the usable members have buckets. Once all
    /// have recovered, every bucket has its owner again.
    #[test]
    fn failing_member_moves_only_its_buckets(
        members in a_group(),
        steps in proptest::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 1..40),
    ) {
        let mut lab = Lab::new();
        let group = lab.group(&members, None);
        let home = lab.buckets(group);
        let mut usable: Vec<bool> = vec![true; members.len()];
        for (which, up) in steps {
            let which = which.index(members.len());
            let (member, _) = members[which];
            let before = lab.buckets(group);
            let none_before = !usable.contains(&true);
            lab.set(member, up);
            usable[which] = up;
            let after = lab.buckets(group);
            if !usable.contains(&true) {
                prop_assert_eq!(before, after, "nobody to move to");
                continue;
            }
            let is_usable = |n: u8| usable[members.iter().position(|&(m, _)| m == n).unwrap()];
            for ((before, after), home) in before.iter().zip(&after).zip(&home) {
                prop_assert!(is_usable(*after));
                prop_assert!(!is_usable(*home) || after == home);
                prop_assert!(before == after || none_before || *before == member || *after == member);
            }
        }
        members.iter().for_each(|&(member, _)| lab.set(member, true));
        prop_assert_eq!(lab.buckets(group), home);
    }

    /// Random flows are spread over the members like the buckets: chi-squared over all members stays below its 99.999th percentile (Wilson, Hilferty
    /// 1931).
    #[test]
    fn flows_are_distributed_by_weight(members in a_group(), key: u64) {
        const FLOWS: u32 = 20_000;
        let mut lab = Lab::new();
        let group = lab.group(&members, None);
        let buckets = lab.buckets(group);
        let mut seen: HashMap<AdjacencyId, f64> = HashMap::new();
        for flow in 0..FLOWS {
            let mut frame = [0u8; 48];
            (frame[0], frame[9]) = (0x45, 17);
            frame[2..4].copy_from_slice(&48u16.to_be_bytes());
            frame[12..16].copy_from_slice(&(0x0a00_0000 | flow).to_be_bytes());
            frame[16..20].copy_from_slice(&[198, 51, 100, 7]);
            frame[20..22].copy_from_slice(&(1024 + flow as u16).to_be_bytes());
            let hash = packet::wire::flow_hash(&frame, 0, key);
            *seen.entry(lab.groups.pick(group, hash)).or_default() += 1.0;
        }
        let mut chi = 0.0;
        for &(member, _) in &members {
            let expected = count(&buckets, member) as f64 / BUCKETS as f64 * f64::from(FLOWS);
            let got = seen.get(&lab.hop(member)).copied().unwrap_or(0.0);
            chi += (got - expected).powi(2) / expected;
        }
        let freedom = (members.len() as f64 - 1.0).max(1.0);
        let spread = 2.0 / (9.0 * freedom);
        let limit = freedom * (1.0 - spread + 4.27 * spread.sqrt()).powi(3);
        prop_assert!(chi <= limit, "chi-squared {chi}, limit {limit}");
    }
}
