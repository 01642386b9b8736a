//! What is known beforehand of what packets cost: a simulated world says it, a real machine has to find out.

use plan::admission::{Costs, Figure, Source};
use units::Nanos;

/// What a packet of any port costs, where neither the configuration says it nor anybody has measured it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KnownCosts {
    /// Receiving and classifying it; none: not known.
    pub input: Option<Nanos>,
    /// The queueing scheme and transmitting it; none: not known.
    pub output: Option<Nanos>,
    /// The functions of the built-in path `best-effort`; none: not known.
    pub best_effort: Option<Nanos>,
}

impl KnownCosts {
    /// Puts what is known in the place of what was assumed.
    pub(super) fn replace_guesses(&self, costs: &mut Costs) {
        let better = |figure: &mut Figure, known: Option<Nanos>| {
            if let (Some(cost), Source::Assumed) = (known, figure.source) {
                *figure = Figure::flat(cost, Source::Measured);
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
    fn what_is_known_replaces_guesses_and_nothing_else() {
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
            assert_eq!(port.input, Figure::flat(Nanos::new(1600), Source::Measured));
            assert_eq!(port.output, guess.output);
        }
        assert_eq!((&costs.paths, costs.best_effort), (&guesses.paths, guesses.best_effort));
    }
}
