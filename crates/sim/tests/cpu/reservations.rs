//! An accepted reservation is kept, for any best-effort load and any scheme of its port. Otherwise it is refused, with a hint that works. There is no
//! third case.

use crate::common::{try_run, value, world_of};
use crate::worlds::{Flow, config, world_text};
use plan::admission::{CostEstimate, CostSource, Costs, admit};
use std::collections::BTreeMap;
use std::fmt;
use units::Nanos;

/// Every scheme; those that can also distinguish classes appear in that form too.
const SCHEMES: [&str; 26] = [
    "",
    "fifo",
    "threshold",
    "codel",
    "red",
    "pie",
    "blue",
    "choke",
    "priority",
    "priority{codel}",
    "priority{red}",
    "fq",
    "sfq",
    "las",
    "drr",
    "drr(by=class)",
    "drr(by=class, weights=1:4)",
    "wfq",
    "wfq(by=class)",
    "wf2q",
    "wf2q(by=class, weights=1:3)",
    "tree",
    "tree{branch(class=1, weight=3){fifo}, branch{fq}}",
    "tree{branch(class=1, ceiling=1mbit){fifo}, branch{red}}",
    "tree{branch(class=1, weight=3){red}, branch}",
    "cake(rate=50mbit)",
];

/// The bound of the port: none, a shaper around the scheme, or its link.
const BOUNDS: [&str; 3] = ["", "shape(rate=50mbit)", "link"];

/// The cost of a best-effort packet in its functions, and of receiving and sending one.
const NEIGHBOURS: [(&str, u64, u64); 3] = [("20us", 900, 900), ("20us", 100, 100), ("1us", 900, 200)];

/// The reservation, and the packet rate of its flow.
const RESERVED: [(&str, u64); 2] = [
    ("reserve = \"40kpps\"\npacket_size = \"64b\"", 40_000),
    ("reserve = \"1mbit\"\npacket_size = \"218b\"\nmax_delay = \"20ms\"", 573),
];

#[derive(Clone, Copy)]
struct Cell {
    scheme: &'static str,
    bound: &'static str,
    layout: u8,
    grouping: &'static str,
    neighbour: (&'static str, u64, u64),
    reserved: (&'static str, u64),
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell { scheme, bound, layout, grouping, neighbour: (dear, input, output), reserved: (_, rate) } = self;
        write!(
            f,
            "{scheme:?} in {bound:?}, layout {layout}, {grouping}, beside {dear}, received in {input}ns, sent in {output}ns, {rate} pps"
        )
    }
}

/// The fate of a reservation.
#[derive(Debug)]
enum Outcome {
    /// The longest latency of a packet, and the promised one, in microseconds.
    Kept(f64, f64),
    /// The reason.
    Refused(String),
    /// How the promise was broken.
    Broken(String),
}

impl Cell {
    fn scheme(&self) -> String {
        match (self.bound, self.scheme) {
            ("" | "link", scheme) => scheme.to_string(),
            (shape, "") => shape.to_string(),
            (shape, scheme) => format!("{shape}{{{scheme}}}"),
        }
    }

    fn flows(&self) -> [Flow; 2] {
        let (reserve, rate) = self.reserved;
        let size = if rate > 1000 { 64 } else { 218 };
        let flow = |cost: &str, rate: u64, size: u64, more: &str| {
            let law = format!("kind = \"constant\"\nrate = \"{rate}pps\"\nsize = \"{size}b\"");
            Flow { share: 0, cost: cost.into(), pattern: law, more: format!("cost = \"{cost}\"\n{more}") }
        };
        [flow("4us", rate, size, reserve), flow(self.neighbour.0, 400_000, 64, "")]
    }

    fn config(&self, scheme: &str, more: &str) -> String {
        let cpu = format!("layout = {}\nbest_effort = \"{}\"\n{more}", self.layout, self.grouping);
        let said = if scheme.is_empty() { String::new() } else { format!("scheme = \"{scheme}\"\n") };
        let config = config(&cpu, &self.flows()).replace("match = \"udp", "match = \"iif in udp");
        config.replace("device = \"sim:out\"\n", &format!("device = \"sim:out\"\n{said}"))
    }

    /// The promised latency, computed like in `check`, with the costs of this world.
    fn guaranteed_rate(&self, config: &str) -> Option<f64> {
        let plan =
            plan::check(config, "table.toml", &sim::catalogue()).unwrap_or_else(|e| panic!("{}", e.render(false)));
        let mut costs = Costs::assumed(&plan);
        let flat = |ns| CostEstimate::flat(Nanos::new(ns), CostSource::Measured);
        costs.switch = Nanos::new(200);
        for (port, costs) in plan.ports.iter().zip(&mut costs.ports) {
            (costs.input, costs.output) = (flat(self.neighbour.1), flat(self.neighbour.2));
            if self.bound == "link" && &*port.name == "out" {
                (costs.link, costs.transmit) = (Some(units::Rate::mbit(50)), Some(16));
            }
        }
        Some(admit(&plan, &costs).ok()?.paths[0].through?.get() as f64 / 1000.0)
    }

    fn outcome(&self, scheme: &str, more: &str) -> Outcome {
        let config = self.config(scheme, more);
        if let Err(errors) = plan::check(&config, "table.toml", &sim::catalogue()) {
            let error = errors.errors().next().expect("there is one");
            assert!(error.line > 0 && !error.hint.is_empty(), "{self}: {}", errors.render(false));
            return Outcome::Refused(format!("{}: {}; {}", error.path, error.reason, error.hint));
        }
        let link = "[card.out]\ntransmit_ring = 16\n[[link]]\nbetween = [\"out\", \"k\"]\nrate = \"50mbit\"\n";
        let world = format!(
            "duration = \"{}ms\"\nwarmup = \"70ms\"\nsample = \"50ms\"\n[card.in]\nring = 1024\n{}",
            // At least two hundred packets: one in flight at the end is half a percent of them.
            if self.reserved.1 > 1000 { 220 } else { 420 },
            if self.bound == "link" { link } else { "" }
        );
        let (_, input, output) = self.neighbour;
        let costs = format!("switch = \"200ns\"\npoll = \"100ns\"\ninput = \"{input}ns\"\noutput = \"{output}ns\"");
        let measured = match try_run(&world_of(&config, &world_text(&costs, &self.flows(), &world))) {
            Ok(measured) => measured,
            Err(error) => return Outcome::Refused(error.to_string()),
        };
        let of = |key: &str| value(&measured, &format!("source.s0.{key}"));
        let Some(promised) = self.guaranteed_rate(&config).or((!more.is_empty()).then_some(f64::INFINITY)) else {
            return Outcome::Broken("the router accepts what `check` refuses".into());
        };
        let (rate, lost, wait) = (of("received") / of("sent"), of("lost"), of("latency_max_us"));
        let kept = lost == 0.0 && (rate - 1.0).abs() <= 0.01 && wait <= promised;
        match kept {
            true => Outcome::Kept(wait, promised),
            false => {
                Outcome::Broken(format!("{:.1} % arrive, {lost} lost, {wait:.0} us of {promised:.0}", 100.0 * rate))
            }
        }
    }
}

fn cells() -> impl Iterator<Item = Cell> {
    let outer = SCHEMES.into_iter().flat_map(|scheme| BOUNDS.map(|bound| (scheme, bound)));
    outer.filter(|(scheme, bound)| !scheme.starts_with("cake") || bound.is_empty()).flat_map(|(scheme, bound)| {
        [2, 3].into_iter().flat_map(move |layout| {
            ["per_function", "aggregate"].into_iter().flat_map(move |grouping| {
                NEIGHBOURS.into_iter().flat_map(move |neighbour| {
                    RESERVED.map(|reserved| Cell { scheme, bound, layout, grouping, neighbour, reserved })
                })
            })
        })
    })
}

/// The scheme that a refusal suggests.
fn hinted(said: &str) -> Option<&str> {
    said.split("scheme = \"").nth(1)?.split('"').next()
}

/// The outcome of a cell, and of the scheme that a refusal suggests.
type CellResult = (Cell, Outcome, Option<(String, Outcome)>);

fn try_cell(cell: Cell) -> CellResult {
    let outcome = cell.outcome(&cell.scheme(), "");
    // The hint is tried in the hardest case: output is a separate task, and the other flow is expensive.
    let hard = cell.layout == 3 && cell.grouping == "aggregate" && cell.neighbour == NEIGHBOURS[1];
    let hint = match &outcome {
        Outcome::Refused(said) if hard => hinted(said).map(|scheme| (scheme.to_owned(), cell.outcome(scheme, ""))),
        _ => None,
    };
    (cell, outcome, hint)
}

#[test]
fn reservation_is_kept_or_refused_with_working_hint() {
    let (mut broken, mut kept, mut refused, mut mended) = (Vec::new(), 0, 0, 0);
    let mut closest: (f64, String) = (0.0, String::new());
    let mut hints: BTreeMap<String, String> = BTreeMap::new();
    // Two threads, each with every other cell: this is the longest test of all.
    let results: Vec<CellResult> = std::thread::scope(|scope| {
        let half = |from: usize| move || cells().skip(from).step_by(2).map(try_cell).collect::<Vec<CellResult>>();
        let odd = scope.spawn(half(1));
        let even = half(0)();
        even.into_iter().chain(odd.join().expect("a cell failed")).collect()
    });
    for (cell, outcome, hint) in results {
        match outcome {
            Outcome::Kept(wait, promised) => {
                kept += 1;
                if wait / promised > closest.0 {
                    closest = (wait / promised, format!("{cell}: {wait:.0} us of {promised:.0}"));
                }
            }
            Outcome::Refused(said) => {
                refused += 1;
                match hint {
                    Some((_, Outcome::Kept(..))) => mended += 1,
                    Some((scheme, other)) => broken.push(format!("{cell}: {said}\n    with {scheme}: {other:?}")),
                    None => {}
                }
                hints.insert(cell.scheme(), said);
            }
            Outcome::Broken(how) => broken.push(format!("{cell}: {how}")),
        }
    }
    hints.iter().for_each(|(scheme, said)| println!("{scheme}\n    {said}"));
    println!("{kept} kept, {refused} refused, {mended} hints kept, {} broken; closest {closest:?}", broken.len());
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(kept > 100 && refused > 100 && mended > 20, "{kept} kept, {refused} refused, {mended} mended");
}

/// Proves that the worlds of the table are hard enough: without separate classes the reservation is broken.
#[test]
fn a_flood_breaks_a_reservation_without_a_class_of_its_own() {
    for (layout, bound, scheme) in
        [(3, "shape(rate=50mbit)", "fifo"), (2, "shape(rate=50mbit)", "fifo"), (3, "link", "red")]
    {
        let cell =
            Cell { scheme, bound, layout, grouping: "aggregate", neighbour: NEIGHBOURS[2], reserved: RESERVED[0] };
        let outcome = cell.outcome(&cell.scheme(), "admission = \"warn\"");
        assert!(matches!(outcome, Outcome::Broken(_)), "{cell}: {outcome:?}");
    }
}
