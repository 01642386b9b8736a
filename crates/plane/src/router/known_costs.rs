//! Packet costs known in advance. A simulated world provides them; on a real machine they must be measured.

use plan::admission::{CostEstimate, CostSource, Costs};
use units::Nanos;

/// The cost of a packet at any port, used if it is neither configured nor measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KnownCosts {
    /// Receiving and classifying it. `None`: unknown.
    pub input: Option<Nanos>,
    /// The queueing scheme and transmitting it. `None`: unknown.
    pub output: Option<Nanos>,
    /// The functions of the built-in path `best-effort`. `None`: unknown.
    pub best_effort: Option<Nanos>,
}

impl KnownCosts {
    /// Replaces assumed costs by known ones.
    pub(super) fn replace_guesses(&self, costs: &mut Costs) {
        let better = |figure: &mut CostEstimate, known: Option<Nanos>| {
            if let (Some(cost), CostSource::Assumed) = (known, figure.source) {
                // As if measured: a simulated world states the cost that it charges.
                *figure = CostEstimate::flat(cost, CostSource::Measured);
            }
        };
        for port in &mut costs.ports {
            better(&mut port.input, self.input);
            better(&mut port.output, self.output);
        }
        better(&mut costs.best_effort, self.best_effort);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_costs_replace_only_assumed_costs() {
        let text = r#"
            version = 1
            [port.a]
            device = "memory:a"
            [port.b]
            device = "memory:b"
            [[path]]
            name = "p"
            match = "udp"
            cost = "7us"
        "#;
        let plan = plan::check(text, "known.toml", &crate::catalogue()).unwrap();
        let guesses = Costs::assumed(&plan);
        let mut costs = guesses.clone();
        KnownCosts { input: Some(Nanos::new(1600)), ..KnownCosts::default() }.replace_guesses(&mut costs);
        for (port, guess) in costs.ports.iter().zip(&guesses.ports) {
            assert_eq!(port.input, CostEstimate::flat(Nanos::new(1600), CostSource::Measured));
            assert_eq!(port.output, guess.output);
        }
        assert_eq!((&costs.paths, costs.best_effort), (&guesses.paths, guesses.best_effort));
    }
}
