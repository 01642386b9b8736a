//! Guests from the command line: checked, put on a port of a confined router, and refused without a guest directory.

use crate::rig::{TestDirectory, with_scheme};

const FIFO: &str = include_str!("../../../../examples/guests/fifo.wat");

#[test]
fn a_confined_router_compiles_the_guest_that_an_apply_names() {
    let place = TestDirectory::new(60000);
    std::fs::create_dir(place.path("guests")).unwrap();
    std::fs::write(place.path("guests/mine.wasm"), wat::parse_str(FIFO).unwrap()).unwrap();
    place.write("run.toml", &with_scheme("fifo")).write("guest.toml", &with_scheme("guest:mine(limit=77)"));
    let said = place.run_failing(1, &["check", "guest.toml"]);
    assert!(said.contains("no directory of guests is set") && said.contains("guest.toml:"), "{said}");
    let said = place.run_failing(1, &["check", "guest.toml", "--guests", "elsewhere"]);
    assert!(said.contains("there is no mine.wasm in elsewhere"), "{said}");
    place.run_ok(&["check", "guest.toml", "--guests", "guests"]);

    let router = place.start_as(place.command(&["run", "run.toml", "--guests", "guests", "--socket", "control.sock"]));
    let status = place.json(&["show", "status", "--socket", "control.sock"]);
    assert!(!status["confinement"].is_null(), "{status}");
    let said = place.run_ok(&["apply", "guest.toml", "--guests", "guests", "--socket", "control.sock"]);
    assert!(said.contains("scheme fifo -> guest:mine(limit=77)"), "{said}");
    let ports = place.json(&["show", "ports", "--socket", "control.sock"]);
    assert!(ports.to_string().contains("guest:mine(limit=77,hold=off)"), "{ports}");
    router.stop();
}
