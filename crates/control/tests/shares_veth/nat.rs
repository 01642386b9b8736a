//! Circuits by addresses that the router translates.

use crate::access::{ATTEMPTS, Access, INTERNET, is_near, lab, routed_config, spans};
use crate::traffic::{Direction, Load};

/// The part of the plan by which a rate may differ.
const PART: f64 = 0.05;
const TABLE: &str = "circuit,address,down,up\nC0,100.64.1.0,6mbit,3mbit\nC1,100.64.1.1,4mbit,5mbit\n";

#[test]
fn both_directions_of_translated_circuits_are_shaped() {
    let Some((lab, _turn)) = lab() else { return };
    let access = Access::routed(&lab, 0..2);
    let nat = "[nat]\noutside = 'wan'\n[[path]]\nname = 'home'\nmatch = 'any'\nfunctions = ['nat', 'ip']\n";
    let running = access.start(&routed_config(nat), TABLE);
    for (direction, plans) in [(Direction::Down, [6e6, 4e6]), (Direction::Up, [3e6, 5e6])] {
        let mut load = Load::default();
        for number in 0..2 {
            let peer = load.connect(&access, INTERNET, number, direction);
            assert_eq!(
                peer.ip().to_string(),
                "198.51.100.1",
                "the host of the Internet sees the router's address only"
            );
        }
        let attempt = || {
            let rates = load.run(spans()).rates;
            println!("{direction:?}: {:.2} of 1", rates.iter().sum::<f64>() / plans.iter().sum::<f64>());
            rates.iter().zip(plans).all(|(rate, plan)| is_near(*rate, plan, PART)).then_some(()).ok_or(rates)
        };
        let faults: Vec<Vec<f64>> = std::iter::repeat_with(attempt).take(ATTEMPTS).map_while(Result::err).collect();
        assert!(faults.len() < ATTEMPTS, "{direction:?}: {faults:?} of {plans:?} {:?}", running.daemon.drops());
    }
}
