use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

const LAN: InterfaceId = InterfaceId(1);
const WAN: InterfaceId = InterfaceId(2);

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
    Tables::with_limits(TableLimits { adjacencies: 128, routes: 1000 })
}

impl Tables {
    fn via(&self, to: &str, origin: Origin, interface: InterfaceId, next_hop: &str) -> AdjacencyId {
        let id = self.adjacency_for(interface, ip(next_hop)).unwrap();
        self.set_route(prefix(to), origin, Outcome::Via(id)).unwrap();
        self.release(id);
        id
    }

    /// The interface and next hop packets to `address` get, where their link-layer address is asked for no more.
    fn direct(&self, address: &str) -> Option<(InterfaceId, IpAddr)> {
        match self.lookup(ip(address)) {
            Outcome::Via(id) if self.adjacencies.load(id).is_resolved() => self.next_hop(id),
            _ => None,
        }
    }
}

#[test]
fn a_static_route_wins_over_the_connected_prefix_and_gives_it_back() {
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
    assert_eq!(tables.adjacencies_held(), 0);
}

#[test]
fn a_neighbour_draws_no_traffic_that_a_route_sends_elsewhere() {
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
fn a_gateway_that_resolves_is_used_by_the_routes_that_name_it() {
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
fn a_removed_interface_takes_its_routes_and_neighbours_along() {
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
    assert_eq!((tables.next_hop(kept), tables.adjacencies_held()), (Some((WAN, ip("192.0.2.1"))), 2));
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
    assert_eq!(show(RouteQuery { within: Some(prefix("10.9.0.0/16")), origin: None }, 100), all[2..4]);
    assert_eq!(show(RouteQuery { within: None, origin: Some(Origin::Connected) }, 100), all[1..3]);
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
fn a_route_to_an_adjacency_nobody_holds_is_refused() {
    let tables = small();
    let (to, adjacency) = (prefix("10.0.0.0/8"), AdjacencyId(0));
    let error = tables.set_route(to, Origin::Static, Outcome::Via(adjacency)).unwrap_err();
    assert_eq!(error, RouteError::NoAdjacency { prefix: to, adjacency });
    assert_eq!(error.to_string(), "the route to 10.0.0.0/8 names adjacency 0, which does not exist");
}

#[test]
fn many_changes_stop_at_the_first_that_fails() {
    let tables = Tables::with_limits(TableLimits { adjacencies: 2, routes: 200 });
    let change = |n: u32| {
        let address = IpAddr::from(Ipv4Addr::from_bits(n << 12));
        RouteChange { prefix: Prefix { address, length: 20 }, origin: Origin::Static, outcome: Outcome::Blackhole }
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

/// Where a route leads, by name instead of by adjacency.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Goal {
    Plain(Outcome),
    Via(InterfaceId, IpAddr),
}

#[derive(Clone, Debug)]
enum Step {
    Set(Prefix, Origin, Goal),
    Clear(Prefix, Origin),
    Resolve(InterfaceId, IpAddr),
    Unresolve(InterfaceId, IpAddr),
    Remove(InterfaceId),
}

/// The rules again, without any structure.
#[derive(Default)]
struct Model {
    routes: BTreeMap<(Prefix, Origin), Goal>,
    neighbours: BTreeSet<(IpAddr, InterfaceId)>,
}

impl Model {
    fn lookup(&self, address: IpAddr) -> Goal {
        let covering = self.routes.iter().filter(|((prefix, _), _)| prefix.contains(address));
        let best = covering.max_by_key(|((prefix, origin), _)| (prefix.length, std::cmp::Reverse(*origin)));
        match best.map(|(_, goal)| *goal) {
            Some(Goal::Plain(Outcome::Connected(on)))
                if self.neighbours.contains(&(address, on)) && !is_link_local(address) =>
            {
                Goal::Via(on, address)
            }
            goal => goal.unwrap_or(Goal::Plain(Outcome::NoRoute)),
        }
    }

    fn remove(&mut self, interface: InterfaceId) {
        self.neighbours.retain(|(_, on)| *on != interface);
        self.routes.retain(|_, goal| match *goal {
            Goal::Plain(Outcome::Connected(on) | Outcome::Local(on) | Outcome::Broadcast(on)) => on != interface,
            Goal::Via(on, _) => on != interface,
            Goal::Plain(_) => true,
        });
    }

    fn take(&mut self, step: &Step, tables: &Tables) {
        match *step {
            Step::Set(prefix, origin, goal) => {
                self.routes.insert((prefix, origin), goal);
                match goal {
                    Goal::Plain(outcome) => tables.set_route(prefix, origin, outcome).unwrap(),
                    Goal::Via(on, hop) => drop(tables.via(&prefix.to_string(), origin, on, &hop.to_string())),
                }
            }
            Step::Clear(prefix, origin) => {
                self.routes.remove(&(prefix, origin));
                tables.clear_route(prefix, origin);
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
        for address in (0..20).flat_map(addresses) {
            let goal = match tables.lookup(address) {
                Outcome::Via(id) => {
                    let (on, hop) = tables.next_hop(id).expect("a route holds its adjacency");
                    let (link, interface) = tables.adjacencies().hop(id);
                    let mac = self.neighbours.contains(&(hop, on)).then(|| mac(on.0 as u8));
                    assert_eq!((interface, link.is_resolved().then(|| link.mac())), (on, mac), "{hop}");
                    Goal::Via(on, hop)
                }
                outcome => Goal::Plain(outcome),
            };
            assert_eq!(goal, self.lookup(address), "{address}");
        }
    }
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
    let interface = || (0..3u16).prop_map(InterfaceId);
    let address = || (0..20u8, 0..3usize).prop_map(|(n, family)| addresses(n)[family]);
    let origin = || proptest::sample::select(&Origin::ALL[..4]);
    let goal = prop_oneof![
        4 => interface().prop_map(|on| Goal::Plain(Outcome::Connected(on))),
        1 => interface().prop_map(|on| Goal::Plain(Outcome::Local(on))),
        1 => interface().prop_map(|on| Goal::Plain(Outcome::Broadcast(on))),
        1 => Just(Goal::Plain(Outcome::Blackhole)),
        1 => Just(Goal::Plain(Outcome::Unreachable)),
        3 => (interface(), address()).prop_map(|(on, hop)| Goal::Via(on, hop)),
    ];
    prop_oneof![
        8 => (a_prefix(), origin(), goal).prop_map(|(prefix, origin, goal)| Step::Set(prefix, origin, goal)),
        6 => (a_prefix(), origin()).prop_map(|(prefix, origin)| Step::Clear(prefix, origin)),
        8 => (interface(), address()).prop_map(|(on, address)| Step::Resolve(on, address)),
        3 => (interface(), address()).prop_map(|(on, address)| Step::Unresolve(on, address)),
        1 => interface().prop_map(Step::Remove),
    ]
}

proptest! {
    #[test]
    fn agree_with_the_plain_rules_after_every_change(steps in proptest::collection::vec(a_step(), 1..80)) {
        let (tables, mut model) = (small(), Model::default());
        for step in &steps {
            model.take(step, &tables);
            model.check(&tables);
        }
        for interface in 0..3 {
            model.take(&Step::Remove(InterfaceId(interface)), &tables);
        }
        while let Some((&(prefix, origin), _)) = model.routes.iter().next() {
            model.take(&Step::Clear(prefix, origin), &tables);
        }
        prop_assert_eq!((tables.len4(), tables.len6(), tables.adjacencies_held()), (0, 0, 0));
        prop_assert_eq!((tables.fib4().groups(), tables.fib6().nodes()), (0, (0, 0)));
    }
}
