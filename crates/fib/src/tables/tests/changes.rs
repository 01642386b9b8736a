//! The number of changes of a look-up.

use super::*;

#[test]
fn each_change_of_a_look_up_is_counted() {
    let tables = small();
    let mut last = tables.changes();
    let mut is_counted = |what: &str, counted: bool| {
        assert_eq!(tables.changes() != last, counted, "{what}");
        last = tables.changes();
    };
    tables.via("10.0.0.0/8", Origin::Static, LAN, "192.0.2.1");
    is_counted("a new route", true);
    assert!(tables.resolve(LAN, ip("192.0.2.1"), mac(1)));
    tables.look(VrfId::MAIN, ip("10.0.0.1"));
    tables.via("2001:db8::/32", Origin::Static, LAN, "2001:db8::1");
    is_counted("a route of IPv6", true);
    tables
        .change_route(RouteChange {
            vrf: VrfId(1),
            prefix: prefix("10.0.0.0/8"),
            origin: Origin::Static,
            outcome: Outcome::Blackhole,
        })
        .unwrap();
    is_counted("a route of a VRF", true);
    is_counted("nothing", false);
    tables.set_link_mtu(WAN, Some(1280));
    is_counted("an MTU", true);
    tables.attach(InterfaceId(9), VrfId(1));
    is_counted("an interface in a VRF", true);
    tables.clear_route(prefix("10.0.0.0/8"), Origin::Static);
    is_counted("a removed route", true);
    tables.remove_interface(LAN);
    is_counted("routes of a removed interface", true);
}
