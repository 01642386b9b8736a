//! How much slower than its costs say a world has to run here.

use sim::{Measured, Pattern, World};
use std::fmt;

/// What a machine needs at least, so that a hiccup of it is short in the world.
const LEAST: f64 = 8.0;
/// How much more than what work takes by itself the world is to leave it.
const MARGIN: f64 = 1.5;
/// What work that costs nothing in the world may take of the processor.
const FREE: f64 = 0.01;

/// What the parts of forwarding a packet take by themselves, in nanoseconds.
#[derive(Clone, Copy, Default, Debug)]
pub struct Own {
    switch: f64,
    input: f64,
    forwarding: f64,
    output: f64,
}

impl fmt::Display for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Own { switch, input, forwarding, output } = self;
        write!(
            f,
            "{input:.0} ns to receive, {forwarding:.0} ns to process, {output:.0} ns to send, and a switch {switch:.0} ns"
        )
    }
}

/// A world that shows them: everything is so dear that nothing is waited for.
const WORLD: &str = include_str!("needs.world.toml");

/// Measures them with a run of [`WORLD`].
///
/// # Errors
///
/// What the run fails with.
pub fn measure(run: impl Fn(&World, u64) -> Result<Measured, String>) -> Result<Own, String> {
    let world = World::parse(WORLD, "needs.world.toml").map_err(|wrong| wrong.render(false))?;
    let measured = run(&world, 16)?;
    let of = |name: &str| measured.get(&format!("real.own.{name}_ns")).unwrap_or(0.0);
    Ok(Own { switch: of("switch"), input: of("input"), forwarding: of("forwarding"), output: of("output") })
}

impl Own {
    /// How many times slower a world is to run, so that work here is done well before it is to be done there.
    pub fn slower(&self, world: &World) -> u64 {
        self.need(world, MARGIN).max(LEAST).ceil() as u64
    }

    /// How many times slower it has to run at least; once where it keeps up.
    pub fn at_least(&self, world: &World) -> u64 {
        self.need(world, 1.0).max(1.0).ceil() as u64
    }

    fn need(&self, world: &World, margin: f64) -> f64 {
        let rate: f64 = world.sources.iter().map(|source| rate(&source.pattern)).sum();
        let (mut slower, mut free) = (0.0, 0.0);
        for router in &world.routers {
            let (cost, interrupts) = (&router.cost, router.plan.cpu.receive == plan::Receive::Interrupt);
            let received = if interrupts { &cost.interrupt } else { &cost.input };
            let of_paths =
                router.plan.paths.iter().filter_map(|path| path.cpu.cost).map(|cost| cost.packet.get() as f64);
            let named = cost.paths.iter().map(|(_, cost)| cost.mean(64));
            let functions = of_paths.chain(named).fold(cost.forwarding.mean(64), |least, next| match least > 0.0 {
                true => least.min(next),
                false => next,
            });
            let stages = [
                (self.switch, cost.switch.get() as f64),
                (self.input, received.mean(64)),
                (self.forwarding, functions),
                (self.output, cost.output.mean(64)),
            ];
            for (own, costs) in stages {
                if costs > 0.0 { slower = f64::max(slower, margin * own / costs) } else { free += own }
            }
        }
        slower.max(free * 1e-9 * rate / FREE)
    }
}

/// Packets a second at most, of 64 bytes.
fn rate(pattern: &Pattern) -> f64 {
    let of = |pace: &units::Pace| {
        let (part, whole) = pace.gap(64);
        whole as f64 * 1e9 / part.max(1) as f64
    };
    match pattern {
        Pattern::Constant(pace) | Pattern::Poisson(pace) | Pattern::OnOff { pace, .. } => of(pace),
        Pattern::Ramp { from, to, .. } => of(from).max(of(to)),
        Pattern::Replay { pace, .. } => pace.as_ref().map_or(0.0, of),
    }
}
