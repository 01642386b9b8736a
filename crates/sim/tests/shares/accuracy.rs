//! Each level of a tree has its rate in each second.

use crate::network::{Direction, FRAME, Network, Stream, config, is_near, subscriber};
use units::Nanos;

/// Three levels of sites above the circuits.
pub const TABLE: &str = "\
site,circuit,parent,address,down,up,down_min,up_min
west,,,,60mbit,60mbit,,
town,,west,,40mbit,40mbit,,
mast,,town,,30mbit,30mbit,,
east,,,,80mbit,80mbit,,
,a,mast,10.0.0.1,20mbit,20mbit,5mbit,5mbit
,b,mast,10.0.0.2,40mbit,40mbit,10mbit,10mbit
,c,mast,10.0.0.3,25mbit,25mbit,1mbit,1mbit
,d,west,10.0.0.4,12mbit,12mbit,5mbit,5mbit
,e,east,10.0.0.5,50mbit,50mbit,20mbit,20mbit
,f,east,10.0.0.6,60mbit,60mbit,,
,g,town,10.0.0.7,20mbit,20mbit,2mbit,2mbit
";

/// The part by which a rate may differ over a second.
const PART: f64 = 0.02;

/// A share that always has packets: guarantee, ceiling and weight in Mbit/s, and those below it.
struct Node {
    name: &'static str,
    rate: f64,
    ceiling: f64,
    weight: f64,
    below: Vec<Node>,
}

impl Node {
    fn leaf(name: &'static str, rate: f64, ceiling: f64) -> Node {
        Node { name, rate, ceiling, weight: 1.0, below: Vec::new() }
    }

    fn site(name: &'static str, ceiling: f64, below: Vec<Node>) -> Node {
        Node { name, rate: below.iter().map(|node| node.rate).sum(), ceiling, weight: 1.0, below }
    }

    /// The rates of docs/operate/shares.md below a node that gets `rate`: guarantees, then the rest by weight, up to the ceilings.
    fn expect(&self, rate: f64, rates: &mut Vec<(&'static str, f64)>) {
        rates.push((self.name, rate));
        let mut given: Vec<f64> = self.below.iter().map(|node| node.rate).collect();
        let mut is_full = vec![false; given.len()];
        let mut rest = rate - given.iter().sum::<f64>();
        while rest > 1e-9 && is_full.iter().any(|full| !full) {
            let open = || self.below.iter().zip(&is_full).filter(|(_, full)| !**full).map(|(node, _)| node.weight);
            let weights: f64 = open().sum();
            let part = rest / weights;
            rest = 0.0;
            for ((node, given), is_full) in self.below.iter().zip(&mut given).zip(&mut is_full) {
                if !*is_full {
                    let wanted = *given + part * node.weight;
                    (*given, *is_full) = (wanted.min(node.ceiling), wanted >= node.ceiling);
                    rest += wanted - *given;
                }
            }
        }
        self.below.iter().zip(given).for_each(|(node, rate)| node.expect(rate, rates));
    }
}

/// The tree of [`TABLE`], where `b` has weight 2.
fn tree() -> Node {
    let b = Node { weight: 2.0, ..Node::leaf("b", 10.0, 40.0) };
    let mast = Node::site("mast", 30.0, vec![Node::leaf("a", 5.0, 20.0), b, Node::leaf("c", 1.0, 25.0)]);
    let town = Node::site("town", 40.0, vec![mast, Node::leaf("g", 2.0, 20.0)]);
    let west = Node::site("west", 60.0, vec![town, Node::leaf("d", 5.0, 12.0)]);
    let east = Node::site("east", 80.0, vec![Node::leaf("e", 20.0, 50.0), Node::leaf("f", 0.0, 60.0)]);
    Node::site("link", 100.0, vec![west, east])
}

#[test]
fn each_level_has_its_rate_in_each_second_under_tcp_and_udp() {
    for (direction, port) in [(Direction::Down, "lan"), (Direction::Up, "wan")] {
        let mut network = Network::new(&config("accuracy.csv", ""));
        network.edit(port, "set b weight 2");
        // TCP only, UDP only, and both.
        for (number, connections) in [(1, 4), (3, 2), (4, 4), (5, 8), (7, 6)] {
            for _ in 0..connections {
                network.add(Stream::tcp(subscriber(number), direction));
            }
        }
        for (number, rate) in [(2, 40.0), (3, 15.0), (6, 40.0)] {
            network.add(Stream::constant(subscriber(number), direction, rate, FRAME));
        }
        network.run(Nanos::secs(2));
        let mut expected = Vec::new();
        tree().expect(100.0, &mut expected);
        for second in 0..3 {
            let rates = network.rates(port, Nanos::secs(1));
            for (name, expected) in &expected[1..] {
                let rate = rates[*name];
                assert!(is_near(rate, *expected, PART), "{direction:?}, second {second}: {name} {rate} of {expected}");
            }
            let link = rates["west"] + rates["east"];
            assert!(is_near(link, 100.0, PART), "{link}");
        }
        network.rig.report();
    }
}
