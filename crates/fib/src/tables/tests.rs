mod changes;

use super::*;
use crate::Origin;
use plan::Prefix;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use units::{AdjacencyId, Mac, VrfId};

const LAN: InterfaceId = InterfaceId(1);
const WAN: InterfaceId = InterfaceId(2);
/// An interface in VRF 1; the others are in the main VRF.
const RED: InterfaceId = InterfaceId(3);

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn mac(last: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, last])
}

fn small() -> Tables {
    let tables = Tables::with_limits(TableLimits { adjacencies: 128, routes: 1000 });
    tables.attach(RED, VrfId(1));
    // Every test also checks the ranges of the route caches: see `look`.
    tables.set_route_cache(16);
    tables
}

impl Tables {
    fn look(&self, vrf: VrfId, destination: IpAddr) -> Outcome {
        let place = if vrf == VrfId::MAIN { LAN } else { RED };
        let alone = self.lookup_from(place, destination);
        if let IpAddr::V4(address) = destination {
            let mut words = [0];
            match self.vrf(vrf) {
                None => self.fib4().lookup_bulk(&[address.to_bits()], &mut words),
                Some(vrf) => vrf.lookup_bulk4(&[address.to_bits()], &mut words),
            }
            assert_eq!(Outcome::decode(words[0]), alone, "in bulk: {destination}");
            if let Some(feed) = self.route_feed(vrf) {
                let range = feed.resolve(address.to_bits()).range;
                assert_eq!(Outcome::decode(range.word), alone, "in a route cache: {destination}");
            }
        }
        alone
    }

    fn via(&self, to: &str, origin: Origin, interface: InterfaceId, next_hop: &str) -> AdjacencyId {
        let id = self.adjacency_for(interface, ip(next_hop)).unwrap();
        self.set_route(prefix(to), origin, Outcome::Via(id)).unwrap();
        self.release(id);
        id
    }

    /// The interface and next hop of packets to `address`, if its link-layer address is resolved.
    fn direct(&self, address: &str) -> Option<(InterfaceId, IpAddr)> {
        match self.lookup(ip(address)) {
            Outcome::Via(id) if self.adjacencies.load(id).is_resolved() => self.next_hop(id),
            _ => None,
        }
    }
}

#[test]
fn static_route_overrides_connected_prefix_until_removed() {
    let tables = small();
    let lan = prefix("10.0.0.0/24");
    tables.set_route(lan, Origin::Connected, Outcome::Connected(LAN)).unwrap();
    tables.set_route(lan, Origin::Static, Outcome::Blackhole).unwrap();
    assert_eq!(tables.lookup(ip("10.0.0.9")), Outcome::Blackhole);
    tables.clear_route(lan, Origin::Static);
    assert_eq!(tables.lookup(ip("10.0.0.9")), Outcome::Connected(LAN));
    tables.clear_route(lan, Origin::Static);
    tables.clear_route(lan, Origin::Connected);
    assert_eq!((tables.lookup(ip("10.0.0.9")), tables.len4()), (Outcome::NoRoute, 0));
}

#[test]
fn a_resolved_neighbour_is_a_host_route_until_it_is_unresolved() {
    let tables = small();
    for (lan, host, last) in
        [("10.0.0.0/24", "10.0.0.9", 9), ("2001:db8::/64", "2001:db8::9", 10), ("10.1.0.1/32", "10.1.0.1", 11)]
    {
        tables.set_route(prefix(lan), Origin::Connected, Outcome::Connected(LAN)).unwrap();
        assert!(tables.resolve(LAN, ip(host), mac(last)));
        let Outcome::Via(id) = tables.lookup(ip(host)) else { panic!("{host} has no host route") };
        assert_eq!(
            (tables.adjacencies().hop(id), tables.next_hop(id)),
            ((tables.adjacencies().load(id), LAN), Some((LAN, ip(host))))
        );
        assert_eq!(tables.adjacencies().load(id).mac(), mac(last));
        tables.unresolve(LAN, ip(host));
        assert_eq!((tables.lookup(ip(host)), tables.next_hop(id)), (Outcome::Connected(LAN), None));
        assert!(!tables.adjacencies().load(id).is_resolved());
    }
    assert_eq!(tables.adjacencies_in_use(), 0);
}

#[test]
fn neighbour_does_not_override_a_route() {
    let tables = small();
    tables.set_route(prefix("10.0.0.0/24"), Origin::Connected, Outcome::Connected(LAN)).unwrap();
    assert!(tables.resolve(LAN, ip("10.0.0.9"), mac(9)) && tables.resolve(WAN, ip("10.0.0.10"), mac(10)));
    assert_eq!(tables.direct("10.0.0.9"), Some((LAN, ip("10.0.0.9"))));
    assert_eq!(tables.lookup(ip("10.0.0.10")), Outcome::Connected(LAN), "it is not where it belongs");
    tables.set_route(prefix("10.0.0.8/29"), Origin::Static, Outcome::Unreachable).unwrap();
    assert_eq!(tables.lookup(ip("10.0.0.9")), Outcome::Unreachable);
    tables.set_route(prefix("10.0.0.8/29"), Origin::Static, Outcome::Connected(WAN)).unwrap();
    assert_eq!(tables.lookup(ip("10.0.0.9")), Outcome::Connected(WAN));
    assert_eq!(tables.direct("10.0.0.10"), Some((WAN, ip("10.0.0.10"))));
    tables.clear_route(prefix("10.0.0.8/29"), Origin::Static);
    assert_eq!(tables.direct("10.0.0.9"), Some((LAN, ip("10.0.0.9"))));
    tables.set_route(prefix("10.0.0.9/32"), Origin::Local, Outcome::Local(LAN)).unwrap();
    assert_eq!(tables.lookup(ip("10.0.0.9")), Outcome::Local(LAN));
}

#[test]
fn resolved_gateway_is_used_by_its_routes() {
    let tables = small();
    let id = tables.via("0.0.0.0/0", Origin::Static, WAN, "192.0.2.1");
    assert_eq!((tables.lookup(ip("8.8.8.8")), tables.direct("8.8.8.8")), (Outcome::Via(id), None));
    assert!(tables.resolve(WAN, ip("192.0.2.1"), mac(1)));
    assert_eq!(tables.direct("8.8.8.8"), Some((WAN, ip("192.0.2.1"))));
    tables.unresolve(WAN, ip("192.0.2.1"));
    assert_eq!((tables.lookup(ip("8.8.8.8")), tables.direct("8.8.8.8")), (Outcome::Via(id), None));
}

#[test]
fn a_link_local_neighbour_has_an_adjacency_and_no_route() {
    let tables = small();
    let id = tables.via("2001:db8::/32", Origin::Static, WAN, "fe80::1");
    tables.set_route(prefix("fe80::/10"), Origin::Connected, Outcome::Connected(WAN)).unwrap();
    assert!(tables.resolve(WAN, ip("fe80::1"), mac(1)) && tables.resolve(LAN, ip("fe80::1"), mac(2)));
    assert_eq!(tables.adjacencies().load(id).mac(), mac(1));
    assert_eq!(tables.lookup(ip("fe80::1")), Outcome::Connected(WAN));
}

#[test]
fn removing_interface_removes_its_routes_and_neighbours() {
    let tables = small();
    let kept = tables.adjacency_for(WAN, ip("192.0.2.1")).unwrap();
    assert!(tables.resolve(WAN, ip("192.0.2.1"), mac(1)) && tables.resolve(LAN, ip("10.0.0.1"), mac(2)));
    for third in 0..=255 {
        tables.set_route(prefix(&format!("10.1.{third}.0/24")), Origin::Static, Outcome::Via(kept)).unwrap();
        tables
            .set_route(prefix(&format!("2001:db8:{third:x}::/48")), Origin::Connected, Outcome::Connected(WAN))
            .unwrap();
    }
    tables.set_route(prefix("10.1.9.0/24"), Origin::Connected, Outcome::Connected(LAN)).unwrap();
    tables.remove_interface(WAN);
    let left = tables.routes(&RouteQuery::default(), 1000);
    assert_eq!(
        left.iter().map(|r| (r.prefix, r.outcome)).collect::<Vec<_>>(),
        [(prefix("10.1.9.0/24"), Outcome::Connected(LAN))]
    );
    assert_eq!((tables.next_hop(kept), tables.adjacencies_in_use()), (Some((WAN, ip("192.0.2.1"))), 2));
    assert!(!tables.adjacencies().load(kept).is_resolved());
    tables.release(kept);
    assert_eq!(tables.next_hop(kept), None);
}

#[test]
fn routes_are_reported_in_order_with_the_active_ones_marked() {
    let tables = small();
    tables.via("10.0.0.0/8", Origin::Static, WAN, "192.0.2.1");
    tables.set_route(prefix("10.0.0.0/8"), Origin::Connected, Outcome::Connected(LAN)).unwrap();
    tables.set_route(prefix("10.9.0.77/16"), Origin::Connected, Outcome::Connected(LAN)).unwrap();
    tables.set_route(prefix("::/0"), Origin::Static, Outcome::Blackhole).unwrap();
    assert!(tables.resolve(LAN, ip("10.9.1.1"), mac(1)));
    let show = |query: RouteQuery, limit| {
        let line = |r: RouteReport| {
            let hop = r.next_hop.map_or("-".to_string(), |hop| hop.to_string());
            format!("{} {} {hop} {}", r.prefix, r.origin.name(), if r.active { "active" } else { "idle" })
        };
        tables.routes(&query, limit).into_iter().map(line).collect::<Vec<_>>()
    };
    let all = [
        "10.0.0.0/8 static 192.0.2.1 active",
        "10.0.0.0/8 connected - idle",
        "10.9.0.0/16 connected - active",
        "10.9.1.1/32 neighbour 10.9.1.1 active",
        "::/0 static - active",
    ];
    assert_eq!(show(RouteQuery::default(), 100), all);
    assert_eq!(show(RouteQuery::default(), 2), all[..2]);
    assert_eq!(show(RouteQuery { within: Some(prefix("10.9.0.0/16")), ..RouteQuery::default() }, 100), all[2..4]);
    assert_eq!(show(RouteQuery { origin: Some(Origin::Connected), ..RouteQuery::default() }, 100), all[1..3]);
}

#[test]
fn full_tables_refuse_and_change_nothing() {
    let tables = Tables::with_limits(TableLimits { adjacencies: 2, routes: 2 });
    let lan = prefix("10.0.0.0/24");
    tables.set_route(lan, Origin::Connected, Outcome::Connected(LAN)).unwrap();
    tables.set_route(prefix("::/0"), Origin::Static, Outcome::Blackhole).unwrap();
    let more = prefix("10.1.0.0/16");
    assert_eq!(
        tables.set_route(more, Origin::Static, Outcome::Blackhole),
        Err(RouteError::Full { prefix: more, limit: 2 })
    );
    assert_eq!(tables.set_route(lan, Origin::Static, Outcome::Blackhole), Ok(()), "the prefix has routes already");
    tables.clear_route(lan, Origin::Static);
    assert!(tables.resolve(LAN, ip("10.0.0.1"), mac(1)), "neighbours are limited by adjacencies");
    assert!(tables.adjacency_for(WAN, ip("192.0.2.1")).is_some());
    assert!(!tables.resolve(LAN, ip("10.0.0.2"), mac(2)) && tables.adjacency_for(WAN, ip("192.0.2.2")).is_none());
    assert!(tables.resolve(LAN, ip("10.0.0.1"), mac(3)), "a known neighbour needs no room");
    assert_eq!((tables.lookup(ip("10.0.0.2")), tables.len4(), tables.len6()), (Outcome::Connected(LAN), 2, 1));
}

#[test]
fn route_to_unused_adjacency_is_refused() {
    let tables = small();
    let (to, adjacency) = (prefix("10.0.0.0/8"), AdjacencyId(0));
    let error = tables.set_route(to, Origin::Static, Outcome::Via(adjacency)).unwrap_err();
    assert_eq!(error, RouteError::NoAdjacency { prefix: to, adjacency });
    assert_eq!(error.to_string(), "the route to 10.0.0.0/8 names adjacency 0, which does not exist");
}

#[test]
fn apply_routes_stops_at_first_error() {
    let tables = Tables::with_limits(TableLimits { adjacencies: 2, routes: 200 });
    let change = |n: u32| {
        let address = IpAddr::from(Ipv4Addr::from_bits(n << 12));
        let prefix = Prefix { address, length: 20 };
        RouteChange { vrf: VrfId::MAIN, prefix, origin: Origin::Static, outcome: Outcome::Blackhole }
    };
    assert_eq!(tables.apply_routes((0..200).map(change)), Ok(()));
    assert!(matches!(tables.apply_routes((100..300).map(change)), Err(RouteError::Full { limit: 200, .. })));
    assert_eq!(tables.len4(), 200);
    let clear = |n| RouteChange { outcome: Outcome::NoRoute, ..change(n) };
    assert_eq!(tables.apply_routes((0..300).map(clear)), Ok(()));
    assert_eq!((tables.len4(), tables.lookup(ip("0.0.16.1"))), (0, Outcome::NoRoute));
}

#[test]
fn a_reader_sees_the_old_or_the_new_route_while_it_changes() {
    let tables = small();
    let hops = [
        tables.via("10.1.0.0/16", Origin::Static, WAN, "192.0.2.1"),
        tables.via("10.2.0.0/16", Origin::Static, WAN, "192.0.2.2"),
    ];
    let changed = prefix("10.0.0.0/28");
    tables.set_route(changed, Origin::Static, Outcome::Via(hops[0])).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..20_000 {
                tables.set_route(changed, Origin::Static, Outcome::Via(hops[round % 2])).unwrap();
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            let outcome = tables.lookup(ip("10.0.0.5"));
            assert!(hops.map(Outcome::Via).contains(&outcome), "{outcome}");
        }
    });
}

/// The target of a route, by name instead of by adjacency.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Goal {
    Plain(Outcome),
    Via(InterfaceId, IpAddr),
    Group(BTreeSet<(InterfaceId, IpAddr)>),
}

#[derive(Clone, Debug)]
enum Step {
    Set(VrfId, Prefix, Origin, Goal),
    Clear(VrfId, Prefix, Origin),
    Resolve(InterfaceId, IpAddr),
    Unresolve(InterfaceId, IpAddr),
    Remove(InterfaceId),
}

/// A model of the rules without any data structure.
#[derive(Default)]
struct Model {
    routes: BTreeMap<(VrfId, Prefix, Origin), Goal>,
    neighbours: BTreeSet<(IpAddr, InterfaceId)>,
}

impl Model {
    fn lookup(&self, vrf: VrfId, address: IpAddr) -> Goal {
        let covering = self.routes.iter().filter(|((of, prefix, _), _)| *of == vrf && prefix.contains(address));
        let best = covering.max_by_key(|((_, prefix, origin), _)| (prefix.length, std::cmp::Reverse(*origin)));
        let is_here = |on| (on == RED) == (vrf == VrfId(1));
        match best.map(|(_, goal)| goal.clone()) {
            Some(Goal::Plain(Outcome::Connected(on)))
                if self.neighbours.contains(&(address, on)) && is_here(on) && !is_link_local(address) =>
            {
                Goal::Via(on, address)
            }
            goal => goal.unwrap_or(Goal::Plain(Outcome::NoRoute)),
        }
    }

    fn remove(&mut self, interface: InterfaceId) {
        self.neighbours.retain(|(_, on)| *on != interface);
        self.routes.retain(|_, goal| match goal {
            Goal::Plain(Outcome::Connected(on) | Outcome::Local(on) | Outcome::Broadcast(on)) => *on != interface,
            Goal::Via(on, _) => *on != interface,
            Goal::Group(hops) => {
                hops.retain(|(on, _)| *on != interface);
                !hops.is_empty()
            }
            Goal::Plain(_) => true,
        });
    }

    fn take(&mut self, step: &Step, tables: &Tables) {
        match *step {
            Step::Set(vrf, prefix, origin, ref goal) => {
                self.routes.insert((vrf, prefix, origin), goal.clone());
                let set = |outcome| tables.change_route(RouteChange { vrf, prefix, origin, outcome }).unwrap();
                match goal {
                    Goal::Plain(outcome) => set(*outcome),
                    Goal::Via(on, hop) => {
                        let id = tables.adjacency_for(*on, *hop).unwrap();
                        set(Outcome::Via(id));
                        tables.release(id);
                    }
                    Goal::Group(hops) => {
                        let hop = |&(interface, address)| NextHop { interface, address, weight: 1 };
                        let hops: Vec<NextHop> = hops.iter().map(hop).collect();
                        let before = match tables.route(vrf, prefix, origin) {
                            Outcome::Group(group) => Some(group),
                            _ => None,
                        };
                        let group = tables.group_for(&hops, before).unwrap();
                        set(Outcome::Group(group));
                        tables.release_group(group);
                    }
                }
            }
            Step::Clear(vrf, prefix, origin) => {
                self.routes.remove(&(vrf, prefix, origin));
                let outcome = Outcome::NoRoute;
                tables.change_route(RouteChange { vrf, prefix, origin, outcome }).unwrap();
            }
            Step::Resolve(on, address) => {
                self.neighbours.insert((address, on));
                assert!(tables.resolve(on, address, mac(on.0 as u8)));
            }
            Step::Unresolve(on, address) => {
                self.neighbours.remove(&(address, on));
                tables.unresolve(on, address);
            }
            Step::Remove(on) => {
                self.remove(on);
                tables.remove_interface(on);
            }
        }
    }

    fn check(&self, tables: &Tables) {
        for (vrf, address) in [VrfId::MAIN, VrfId(1)].into_iter().flat_map(|vrf| all().map(move |a| (vrf, a))) {
            let goal = match tables.look(vrf, address) {
                Outcome::Via(id) => {
                    let (on, hop) = tables.next_hop(id).expect("a route holds its adjacency");
                    let (link, interface) = tables.adjacencies().hop(id);
                    let mac = self.neighbours.contains(&(hop, on)).then(|| mac(on.0 as u8));
                    assert_eq!((interface, link.is_resolved().then(|| link.mac())), (on, mac), "{hop}");
                    Goal::Via(on, hop)
                }
                Outcome::Group(group) => {
                    let members = tables.members(group);
                    assert_eq!(members.iter().map(|m| m.buckets).sum::<usize>(), GroupMember::BUCKETS);
                    Goal::Group(members.into_iter().map(|m| (m.hop.interface, m.hop.address)).collect())
                }
                outcome => Goal::Plain(outcome),
            };
            assert_eq!(goal, self.lookup(vrf, address), "{address} in {vrf}");
        }
    }
}

fn all() -> impl Iterator<Item = IpAddr> {
    (0..20).flat_map(addresses)
}

fn addresses(n: u8) -> [IpAddr; 3] {
    let group = |first, last| IpAddr::from([first, 0, 0, 0, 0, 0, 0, u16::from(last)]);
    [IpAddr::from([10, 0, 0, n]), group(0x2001, n), group(0xfe80, n)]
}

fn a_prefix() -> impl Strategy<Value = Prefix> {
    let length = prop_oneof![1 => Just(32u8), 1 => 0..9u8, 8 => Just(0u8)];
    (0..20u8, 0..3usize, length).prop_map(|(n, family, shorter)| {
        let host = Prefix::host(addresses(n)[family]);
        Prefix { length: host.length - shorter, ..host }.network()
    })
}

fn a_step() -> impl Strategy<Value = Step> {
    let interface = || (0..4u16).prop_map(InterfaceId);
    let vrf = || prop_oneof![2 => Just(VrfId::MAIN), 1 => Just(VrfId(1))];
    let address = || (0..20u8, 0..3usize).prop_map(|(n, family)| addresses(n)[family]);
    let origin = || proptest::sample::select(&Origin::ALL[..5]);
    let goal = prop_oneof![
        4 => interface().prop_map(|on| Goal::Plain(Outcome::Connected(on))),
        1 => interface().prop_map(|on| Goal::Plain(Outcome::Local(on))),
        1 => interface().prop_map(|on| Goal::Plain(Outcome::Broadcast(on))),
        1 => Just(Goal::Plain(Outcome::Blackhole)),
        1 => Just(Goal::Plain(Outcome::Unreachable)),
        3 => (interface(), address()).prop_map(|(on, hop)| Goal::Via(on, hop)),
        2 => proptest::collection::btree_set((interface(), address()), 1..5).prop_map(Goal::Group),
    ];
    prop_oneof![
        8 => (vrf(), a_prefix(), origin(), goal).prop_map(|(vrf, to, origin, goal)| Step::Set(vrf, to, origin, goal)),
        6 => (vrf(), a_prefix(), origin()).prop_map(|(vrf, to, origin)| Step::Clear(vrf, to, origin)),
        8 => (interface(), address()).prop_map(|(on, address)| Step::Resolve(on, address)),
        3 => (interface(), address()).prop_map(|(on, address)| Step::Unresolve(on, address)),
        1 => interface().prop_map(Step::Remove),
    ]
}

proptest! {
    #[test]
    fn tables_equal_model_after_every_change(steps in proptest::collection::vec(a_step(), 1..80)) {
        let (tables, mut model) = (small(), Model::default());
        for step in &steps {
            model.take(step, &tables);
            model.check(&tables);
        }
        for interface in 0..4 {
            model.take(&Step::Remove(InterfaceId(interface)), &tables);
        }
        while let Some((&(vrf, prefix, origin), _)) = model.routes.iter().next() {
            model.take(&Step::Clear(vrf, prefix, origin), &tables);
        }
        prop_assert_eq!((tables.groups_in_use(), tables.vrf(VrfId(1)).map(|vrf| vrf.nodes())), (0, Some((0, 0))));
        prop_assert_eq!((tables.len4(), tables.len6(), tables.adjacencies_in_use()), (0, 0, 0));
        prop_assert_eq!((tables.fib4().groups(), tables.fib6().nodes()), (0, (0, 0)));
    }
}

#[test]
fn vrf_has_its_own_routes_and_little_memory() {
    let tables = small();
    let red = VrfId(1);
    let empty = tables.vrf(red).unwrap().bytes();
    for third in 0..=255 {
        let to = prefix(&format!("10.1.{third}.0/24"));
        tables.set_route(to, Origin::Static, Outcome::Blackhole).unwrap();
        let change = RouteChange { vrf: red, prefix: to, origin: Origin::Static, outcome: Outcome::Unreachable };
        tables.change_route(change).unwrap();
    }
    assert_eq!(tables.lookup_from(LAN, ip("10.1.9.9")), Outcome::Blackhole);
    assert_eq!(tables.lookup_from(RED, ip("10.1.9.9")), Outcome::Unreachable);
    assert_eq!(tables.lookup_from(RED, ip("10.2.0.1")), Outcome::NoRoute);
    let used = tables.vrf(red).unwrap().bytes() - empty;
    assert!(used < 256 * 16, "{used} bytes for 256 routes that lie side by side");
    let to = prefix("10.0.0.0/8");
    let nowhere = RouteChange { vrf: VrfId(9), prefix: to, origin: Origin::Static, outcome: Outcome::Blackhole };
    assert_eq!(tables.change_route(nowhere), Err(RouteError::NoVrf { prefix: to, vrf: VrfId(9) }));
}

#[test]
fn group_omits_failed_member_until_it_recovers() {
    let tables = small();
    let hop = |interface, last| NextHop { interface, address: IpAddr::from([192, 0, 2, last]), weight: 1 };
    let hops = [hop(LAN, 1), hop(LAN, 2), hop(WAN, 3)];
    let group = tables.group_for(&hops, None).unwrap();
    let has = |tables: &Tables| tables.members(group).iter().map(|m| m.buckets).collect::<Vec<_>>();
    let whole = has(&tables);
    assert_eq!(whole, [171, 171, 170]);
    tables.fail(LAN, hops[0].address);
    assert_eq!(has(&tables)[0], 0);
    tables.set_up(WAN, false);
    assert_eq!(has(&tables), [0, 512, 0]);
    tables.set_up(LAN, false);
    assert_eq!(has(&tables), [0, 512, 0], "where none can be used nothing moves");
    tables.set_up(LAN, true);
    assert!(tables.resolve(LAN, hops[0].address, mac(1)));
    tables.set_up(WAN, true);
    assert_eq!(has(&tables), whole);
    assert!(tables.is_member(LAN, hops[0].address) && !tables.is_member(WAN, hops[0].address));
    tables.unresolve(LAN, hops[0].address);
    tables.release_group(group);
    assert_eq!((tables.groups_in_use(), tables.adjacencies_in_use()), (0, 0));
}

#[test]
fn equal_groups_are_shared_and_their_number_is_limited() {
    let tables = small();
    let hop = |last: u8, weight| NextHop { interface: LAN, address: IpAddr::from([192, 0, 2, last]), weight };
    let one = tables.group_for(&[hop(1, 1), hop(2, 3)], None).unwrap();
    assert_eq!(tables.group_for(&[hop(2, 2), hop(1, 1), hop(2, 1)], None), Ok(one));
    assert_ne!(tables.group_for(&[hop(1, 1), hop(2, 2)], None), Ok(one));
    for wrong in [vec![], vec![hop(1, 0)], vec![hop(1, 300), hop(2, 300)], (0..65).map(|n| hop(n, 1)).collect()] {
        assert_eq!(tables.group_for(&wrong, None), Err(GroupError::Size));
    }
    let many: Vec<NextHop> = (0..100).map(|n| hop(n, 1)).collect();
    let pair = |n: usize| [many[n % 100], many[(n % 100 + 1 + n / 100) % 100]];
    let all: Vec<_> = (0..5000).map_while(|n| tables.group_for(&pair(n), None).ok()).collect();
    assert!(tables.groups_in_use() <= 4096 && all.len() < 5000, "{}", all.len());
    assert_eq!(tables.group_for(&[hop(1, 7), hop(2, 9)], None), Err(GroupError::Groups));
}

#[test]
fn reader_of_changing_group_sees_only_members() {
    let tables = small();
    let hop = |last: u8| NextHop { interface: LAN, address: IpAddr::from([192, 0, 2, last]), weight: 1 };
    let group = tables.group_for(&[hop(1), hop(2)], None).unwrap();
    let members = [1, 2].map(|n| tables.adjacency_for(LAN, hop(n).address).unwrap());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..5_000 {
                let last = 1 + (round % 2) as u8;
                tables.fail(LAN, hop(last).address);
                assert!(tables.resolve(LAN, hop(last).address, mac(last)));
            }
            done.store(true, Ordering::Release);
        });
        let mut flow = 1u32;
        while !done.load(Ordering::Acquire) {
            flow = flow.wrapping_mul(0x9e37_79b1).wrapping_add(1);
            let picked = tables.groups().pick(group, flow);
            assert!(members.contains(&picked), "{picked}");
        }
    });
}

#[test]
fn route_caches_follow_routes_neighbours_and_interfaces() {
    let tables = small();
    let hosts: Vec<u32> = (0..64).map(|n| 0x0a00_0000 | n << 5).collect();
    let mut caches = [VrfId::MAIN, VrfId(1)].map(|vrf| {
        let feed = tables.route_feed(vrf).expect("the VRF has an interface");
        (vrf, feed.cache(Default::default()), feed)
    });
    let mut agree = || {
        for (vrf, cache, feed) in &mut caches {
            for _ in 0..2 {
                let mut words = [0; 64];
                feed.lookup_bulk(cache, &hosts, &mut words, |asked, words| match tables.vrf(*vrf) {
                    None => tables.fib4().lookup_bulk(asked, words),
                    Some(vrf) => vrf.lookup_bulk4(asked, words),
                });
                for (&host, &word) in hosts.iter().zip(&words) {
                    let outcome = tables.look(*vrf, IpAddr::V4(Ipv4Addr::from_bits(host)));
                    assert_eq!(Outcome::decode(word), outcome, "{host:08x} in {vrf}");
                }
            }
        }
        caches.iter().map(|(_, cache, _)| cache.counters().hits).sum::<u64>()
    };
    tables.set_route(prefix("10.0.0.0/8"), Origin::Connected, Outcome::Connected(LAN)).unwrap();
    agree();
    let red = RouteChange {
        vrf: VrfId(1),
        prefix: prefix("10.0.0.0/22"),
        origin: Origin::Static,
        outcome: Outcome::Blackhole,
    };
    tables.change_route(red).unwrap();
    agree();
    assert!(tables.resolve(LAN, ip("10.0.0.32"), mac(9)));
    agree();
    tables.unresolve(LAN, ip("10.0.0.32"));
    tables.via("10.0.4.0/24", Origin::Static, WAN, "10.9.0.1");
    agree();
    tables.remove_interface(WAN);
    agree();
    tables.set_route_cache(64);
    assert!(agree() > 64, "the caches are in use");
}

#[test]
fn index_bits_are_chosen_again_when_a_table_has_grown() {
    let tables = Tables::new();
    tables.set_route_cache(64);
    let feed = tables.route_feed(VrfId::MAIN).expect("it is prepared");
    let (few, _) = feed.plan();
    let route = |n: u32| RouteChange {
        vrf: VrfId::MAIN,
        prefix: Prefix::new(IpAddr::V4(Ipv4Addr::from_bits(n << 9)), 24).unwrap(),
        origin: Origin::Static,
        outcome: Outcome::Local(LAN),
    };
    tables.apply_routes((0..5).map(route)).unwrap();
    assert!(std::sync::Arc::ptr_eq(&few, &feed.plan().0), "five routes need no other bits");
    tables.apply_routes((0..2000).map(route)).unwrap();
    let (many, _) = feed.plan();
    assert!(!std::sync::Arc::ptr_eq(&few, &many));
    // With the first bits, which are the lowest, every /24 was in all 64 partitions.
    assert!(feed.totals().ranges < 10_000, "{:?}", feed.totals());
}
