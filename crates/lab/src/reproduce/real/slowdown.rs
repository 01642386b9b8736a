//! Computes how much slower than its costs say a world has to run here.

use sim::{Measurements, Pattern, WorldPlan};
use std::fmt;

/// The smallest slowdown, so that hiccups of the machine are short in the world's time.
const LEAST: f64 = 8.0;
/// Safety margin: the time a world allows for work, in multiples of the work's own time.
const MARGIN: f64 = 1.5;
/// The fraction of the processor for work without cost in the world.
const FREE: f64 = 0.01;

/// The machine's own cost of each part of forwarding a packet, in nanoseconds.
#[derive(Clone, Copy, Default, Debug)]
pub struct ForwardingCosts {
    switch: f64,
    input: f64,
    forwarding: f64,
    output: f64,
}

impl fmt::Display for ForwardingCosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ForwardingCosts { switch, input, forwarding, output } = self;
        write!(
            f,
            "{input:.0} ns to receive, {forwarding:.0} ns to process, {output:.0} ns to send, and a switch {switch:.0} ns"
        )
    }
}

/// A world that measures them: its costs are so high that the machine never has to wait for work.
const WORLD: &str = include_str!("needs.world.toml");

/// Measures them with a run of [`WORLD`].
///
/// # Errors
///
/// The run's error.
pub fn measure(run: impl Fn(&WorldPlan, u64) -> Result<Measurements, String>) -> Result<ForwardingCosts, String> {
    let world = WorldPlan::parse(WORLD, "needs.world.toml").map_err(|wrong| wrong.render(false))?;
    let measured = run(&world, 16)?;
    let of = |name: &str| measured.get(&format!("real.own.{name}_ns")).unwrap_or(0.0);
    Ok(ForwardingCosts { switch: of("switch"), input: of("input"), forwarding: of("forwarding"), output: of("output") })
}

impl ForwardingCosts {
    /// The slowdown of a world with which the machine finishes its work well before the world requires it.
    pub fn slowdown(&self, world: &WorldPlan) -> u64 {
        self.required_time(world, MARGIN).max(LEAST).ceil() as u64
    }

    /// The smallest slowdown; one if the machine is fast enough.
    pub fn at_least(&self, world: &WorldPlan) -> u64 {
        self.required_time(world, 1.0).max(1.0).ceil() as u64
    }

    fn required_time(&self, world: &WorldPlan, margin: f64) -> f64 {
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

/// The highest rate of packets, for packets of 64 bytes.
fn rate(pattern: &Pattern) -> f64 {
    let of = |pace: &units::Pace| {
        let (part, whole) = pace.gap(64);
        whole as f64 * 1e9 / part.max(1) as f64
    };
    match pattern {
        Pattern::Constant(pace) | Pattern::Poisson(pace) | Pattern::OnOff { pace, .. } => of(pace),
        Pattern::Ramp { from, to, .. } => of(from).max(of(to)),
        Pattern::Steps { paces, .. } => paces.iter().flatten().map(of).fold(0.0, f64::max),
        Pattern::Replay { pace, .. } => pace.as_ref().map_or(0.0, of),
    }
}
