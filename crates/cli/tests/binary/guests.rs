//! Guests from the command line: checked, put on a port of a router that is confined, and refused where there is no directory of them.

use crate::rig::{Place, config};

const FIFO: &str = include_str!("../../../../examples/guests/fifo.wat");

/// The configuration with this scheme on its second port.
pub fn with(scheme: &str) -> String {
    let text = config("1000pps", "");
    let port = text.rfind("[port.").expect("it has ports");
    let line = port + text[port..].find('\n').expect("more than a header") + 1;
    format!("{}scheme = '{scheme}'\n{}", &text[..line], &text[line..])
}

#[test]
fn a_confined_router_compiles_the_guest_that_an_apply_names() {
    let place = Place::new(60000);
    std::fs::create_dir(place.path("guests")).unwrap();
    std::fs::write(place.path("guests/mine.wasm"), wat::parse_str(FIFO).unwrap()).unwrap();
    place.write("run.toml", &with("fifo")).write("guest.toml", &with("guest:mine(limit=77)"));
    let said = place.bad(1, &["check", "guest.toml"]);
    assert!(said.contains("there are no guests here") && said.contains("guest.toml:"), "{said}");
    let said = place.bad(1, &["check", "guest.toml", "--guests", "elsewhere"]);
    assert!(said.contains("there is no mine.wasm in elsewhere"), "{said}");
    place.good(&["check", "guest.toml", "--guests", "guests"]);

    let router = place.start_as(place.command(&["run", "run.toml", "--guests", "guests", "--socket", "control.sock"]));
    let status = place.json(&["show", "status", "--socket", "control.sock"]);
    assert!(!status["confinement"].is_null(), "{status}");
    let said = place.good(&["apply", "guest.toml", "--guests", "guests", "--socket", "control.sock"]);
    assert!(said.contains("scheme fifo -> guest:mine(limit=77)"), "{said}");
    let ports = place.json(&["show", "ports", "--socket", "control.sock"]);
    assert!(ports.to_string().contains("guest:mine(limit=77,hold=off)"), "{ports}");
    router.stop();
}

#[test]
fn a_world_in_virtual_time_has_guests_too() {
    let place = Place::new(60000);
    std::fs::create_dir(place.path("guests")).unwrap();
    std::fs::write(place.path("guests/mine.wasm"), wat::parse_str(FIFO).unwrap()).unwrap();
    let world = include_str!("../../../../examples/worlds/slow-link.toml").replace("${limit}", "100");
    place.write("native.toml", &world).write("guest.toml", &world.replace("fifo(", "guest:mine("));
    let (native, guest) =
        (place.json(&["sim", "native.toml"]), place.good(&["sim", "guest.toml", "--guests", "guests", "-j"]));
    assert_eq!(guest, place.good(&["sim", "guest.toml", "--guests", "guests", "-j"]), "each time the same");
    let guest: serde_json::Value = serde_json::from_str(&guest).unwrap();
    assert!(native["values"].as_object().is_some_and(|values| !values.is_empty()), "{native}");
    assert_eq!(guest["values"], native["values"], "first in, first out is the same wherever it runs");
    let said = place.bad(1, &["sim", "guest.toml"]);
    assert!(said.contains("there are no guests here"), "{said}");
}
