//! Worlds in virtual time from the command line.

use crate::rig::TestDirectory;

const FIFO: &str = include_str!("../../../../examples/guests/fifo.wat");

#[test]
fn world_in_virtual_time_can_use_guests() {
    let place = TestDirectory::new(60000);
    std::fs::create_dir(place.path("guests")).unwrap();
    std::fs::write(place.path("guests/mine.wasm"), wat::parse_str(FIFO).unwrap()).unwrap();
    let world = include_str!("../../../../examples/worlds/slow-link.toml").replace("${limit}", "100");
    place.write("native.toml", &world).write("guest.toml", &world.replace("fifo(", "guest:mine("));
    let (native, guest) =
        (place.json(&["sim", "native.toml"]), place.run_ok(&["sim", "guest.toml", "--guests", "guests", "-j"]));
    assert_eq!(guest, place.run_ok(&["sim", "guest.toml", "--guests", "guests", "-j"]), "each time the same");
    let guest: serde_json::Value = serde_json::from_str(&guest).unwrap();
    assert!(native["values"].as_object().is_some_and(|values| !values.is_empty()), "{native}");
    assert_eq!(guest["values"], native["values"], "first in, first out is the same wherever it runs");
    let said = place.run_failing(1, &["sim", "guest.toml"]);
    assert!(said.contains("no directory of guests is set"), "{said}");
}
