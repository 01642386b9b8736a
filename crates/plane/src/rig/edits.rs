//! Applies batches of route and neighbour changes to a running router: for fuzzers and tests with any text.

use super::Rig;
use fib::{Origin, Outcome, RouteQuery, RouteReport};
use plan::batch::{BatchLine, Edit, batch};
use plan::{Diagnostics, MOST_DIAGNOSTICS, Name, Prefix, RouteAction};
use std::collections::BTreeMap;
use std::net::IpAddr;
use units::{InterfaceId, Mac, VrfId};

/// The result of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BatchVerdict {
    /// The text cannot be parsed.
    Unparsable,
    /// It was parsed, but cannot be applied.
    Refused,
    /// It was applied completely.
    Applied,
}

/// The target of a route: a named outcome, or next hops with their weights.
type End = (Option<&'static str>, Vec<(InterfaceId, IpAddr, u16)>);

/// The routes that edits have added.
type Added = BTreeMap<(VrfId, Prefix), End>;

/// Neighbours that the lines name, with their address after the batch.
type GivenNeighbours = BTreeMap<(Name, IpAddr), Option<Mac>>;

/// Applies `source` to a router without added routes and neighbours. Every error must report its line. A batch with an error must change
/// nothing, and one without must do what each line says. Removes all changes again.
///
/// # Panics
/// If one of these rules is broken.
pub fn exercise(rig: &mut Rig, source: &str) -> BatchVerdict {
    let plan = rig.router.plan().expect("it runs").clone();
    let held = resources(rig);
    let batch = match batch(source, "batch", &plan) {
        Ok(batch) => batch,
        Err(found) => {
            check_diagnostics(source, &found);
            return BatchVerdict::Unparsable;
        }
    };
    assert!(batch.lines.windows(2).all(|pair| pair[0].line < pair[1].line), "lines keep their order");
    match rig.router.prepare_edits(&batch.lines, MOST_DIAGNOSTICS) {
        Err(errors) => {
            assert!(errors.iter().all(|error| batch.lines.iter().any(|line| line.line == error.line)));
            check_diagnostics(
                source,
                &batch.refuse(errors.into_iter().map(|error| (error.line, error.reason, error.hint))),
            );
            assert_eq!((added_routes(rig), self::resources(rig)), (Added::new(), held), "nothing has changed");
            return BatchVerdict::Refused;
        }
        Ok(edits) => drop(rig.router.apply_edits(edits, |_| {})),
    }
    rig.settle();
    let (routes, neighbours) = expected_tables(rig, &batch.lines);
    assert_eq!(added_routes(rig), routes);
    for ((interface, address), mac) in &neighbours {
        assert_eq!(mac_of(rig, interface, *address), *mac, "{address} on {interface}");
    }
    let given = neighbours.iter().filter(|(_, mac)| mac.is_some());
    let end = given.map(|((port, address), _)| format!("neighbour del {address} port {port}\n")).collect::<String>();
    let end = end + "flush\n";
    let lines = plan::batch::batch(&end, "end", &plan).unwrap_or_else(|found| panic!("{found}")).lines;
    let edits = rig.router.prepare_edits(&lines, 1).unwrap_or_else(|errors| panic!("{errors:?}"));
    rig.router.apply_edits(edits, |_| {});
    rig.settle();
    assert_eq!((added_routes(rig), self::resources(rig)), (Added::new(), held), "all of it went again");
    BatchVerdict::Applied
}

/// Rules for all diagnostics.
fn check_diagnostics(source: &str, found: &Diagnostics) {
    let lines = source.split_inclusive('\n').count().max(1);
    assert!(found.errors().next().is_some() && found.list().len() <= MOST_DIAGNOSTICS);
    for one in found.list() {
        assert!((1..=lines).contains(&one.line), "{one:?}");
        assert!(!one.reason.is_empty() && !one.hint.is_empty(), "{one:?}");
        assert!(!one.to_string().contains(['\n', '\u{1b}']), "{one:?}");
    }
    assert!(!found.render(false).contains('\u{1b}'), "no control sequence reaches a terminal");
}

/// The numbers of groups and adjacencies held, and of prefixes that fit.
fn resources(rig: &Rig) -> (usize, usize, usize) {
    let tables = rig.router.tables();
    (tables.groups_in_use(), tables.adjacencies_in_use(), tables.room())
}

fn added_routes(rig: &Rig) -> Added {
    let query = RouteQuery { origin: Some(Origin::Api), ..RouteQuery::default() };
    let end = |route: &RouteReport| match route.outcome {
        Outcome::Blackhole => (Some("blackhole"), Vec::new()),
        Outcome::Unreachable => (Some("unreachable"), Vec::new()),
        Outcome::Via(_) => {
            (None, route.interface.zip(route.next_hop).map(|(on, hop)| (on, hop, 1)).into_iter().collect())
        }
        Outcome::Group(_) => {
            let mut hops: Vec<_> =
                route.members.iter().map(|m| (m.hop.interface, m.hop.address, m.hop.weight)).collect();
            hops.sort_unstable();
            (None, hops)
        }
        other => panic!("no edit says {other:?}"),
    };
    rig.router.tables().routes(&query, usize::MAX).iter().map(|route| ((route.vrf, route.prefix), end(route))).collect()
}

/// The routes and neighbours after these lines, in their order.
fn expected_tables(rig: &Rig, lines: &[BatchLine]) -> (Added, GivenNeighbours) {
    let (mut routes, mut neighbours) = (Added::new(), GivenNeighbours::new());
    let vrf = |name: &Option<Name>| rig.router.vrf(name.as_deref().unwrap_or("main")).expect("it was read");
    let on = |name: &Name| rig.router.snapshot().interface_named(name).expect("it was read").id;
    for line in lines {
        match &line.edit {
            Edit::AddRoute(route) => {
                let end = match &route.action {
                    RouteAction::Blackhole => (Some("blackhole"), Vec::new()),
                    RouteAction::Unreachable => (Some("unreachable"), Vec::new()),
                    RouteAction::Via { gateway, interface } => (None, vec![(on(interface), *gateway, 1)]),
                    RouteAction::Group(hops) => {
                        let mut hops: Vec<_> =
                            hops.iter().map(|hop| (on(&hop.interface), hop.gateway, hop.weight)).collect();
                        hops.sort_unstable();
                        (None, hops)
                    }
                };
                routes.insert((vrf(&route.vrf), route.to), end);
            }
            Edit::DelRoute(of, to) => drop(routes.remove(&(vrf(of), *to))),
            Edit::Flush(None) => routes.clear(),
            Edit::Flush(Some(of)) => routes.retain(|(other, _), _| *other != vrf(of)),
            Edit::AddNeighbour(n) => drop(neighbours.insert((n.interface.clone(), n.address), Some(n.mac))),
            Edit::DelNeighbour(interface, address) => drop(neighbours.insert((interface.clone(), *address), None)),
        }
    }
    (routes, neighbours)
}

/// The link-layer address that packets to a neighbour get.
fn mac_of(rig: &Rig, interface: &str, address: IpAddr) -> Option<Mac> {
    let tables = rig.router.tables();
    let on = rig.router.snapshot().interface_named(interface).expect("it was read").id;
    let adjacency = tables.adjacency_for(on, address).expect("there is room for one more");
    let link = tables.adjacencies().load(adjacency);
    tables.release(adjacency);
    link.is_resolved().then(|| link.mac())
}
