//! The cost of calling an extension for some of the packets: the whole router in memory, whose paths have a guest function (spec P, F7).

use super::forwarding::{BenchRouter, BenchTable, SPARE};
use super::guests::{FunctionLoad, SERVICE};
use super::median;
use anyhow::{Context, Result, anyhow};
use extension::{GuestFunction, LoadError, Runtime};
use io::clock::{self, CycleCounter};
use packet::event::Silent;
use plan::{Catalogue, GuestCode, Guests};
use plane::rig::{Rig, UdpFrame};
use plane::snapshot::Layout;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use units::Mac;
use units::declare::Declaration;

/// Frames that circulate, and how often in a measurement. They are fewer than the packets that wait on a path.
const FRAMES: usize = 120;
const PASSES: usize = 200;
/// Measurements, of which the median is reported.
const MEASURED: usize = 15;
/// Flows of the frames: a tenth of the packets each.
const FLOWS: usize = 10;
/// The source port of the first flow.
const FIRST: u16 = 1000;
/// Indirect calls, and round trips to another process, of a measurement.
const CALLS: u64 = 100_000;
const TRIPS: usize = 200;

/// How many packets call an extension.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CallLoad {
    /// The part of the packets on a path of their own, in percent.
    pub share: f64,
    /// Guest functions of that path.
    pub calls: usize,
    /// The most packets of a call.
    pub vector: usize,
}

/// A directory of guests with one function, which is compiled into the program.
#[derive(Debug)]
struct ServiceGuest(GuestFunction);

impl Guests for ServiceGuest {
    fn find(&self, name: &str) -> Result<(Declaration, GuestCode), (String, String)> {
        Err((format!("there is no scheme '{name}'"), "use 'service' as a function".to_owned()))
    }

    fn function(&self, name: &str) -> Result<(Declaration, GuestCode), (String, String)> {
        let declaration = self.0.declared().declaration(&format!("guest:{name}"));
        Ok((declaration, plane::function::function_code(self.0.digest(), Arc::new(self.0.clone()))))
    }
}

/// A running router. The packets of the first flows are on a path with the functions.
fn router(load: CallLoad, runtime: &Runtime) -> Result<BenchRouter> {
    let guest = GuestFunction::load(SERVICE, runtime).map_err(|LoadError { reason, .. }| anyhow!(reason))?;
    let last = f64::from(FIRST - 1) + load.share * FLOWS as f64 / 100.0;
    // A path has each function once, so each call has a name of its own for the same guest.
    let functions: String = (1..=load.calls).map(|number| format!("\"guest:service{number}\", ")).collect();
    let config = format!(
        "{}[cpu]\nvector = {}\nbest_effort = \"single\"\n[[path]]\nname = \"extension\"\nmatch = \"udp sport {}-{last:.0}\"\nfunctions = [{functions}\"ip\"]\n",
        BenchTable::Few.config(),
        load.vector,
        FIRST - 1,
    );
    let catalogue = Catalogue { guests: Some(Arc::new(ServiceGuest(guest))), ..plane::catalogue() };
    let plan = plan::check(&config, "calls.toml", &catalogue).map_err(|wrong| anyhow!("{wrong}"))?;
    let mut rig = Rig::new(FRAMES + SPARE, Layout::Three, Box::new(Silent));
    rig.run(&plan).map_err(|errors| anyhow!("{errors:?}"))?;
    let link = (Mac([2, 0, 0, 0, 0, 9]), Mac([2, 0, 0, 0, 0, 1]));
    let frame = |number: usize| {
        let network = (Ipv4Addr::new(192, 0, 2, 7), Ipv4Addr::new(10, 1, 2, 3));
        let ports = (FIRST + (number % FLOWS) as u16, 7);
        UdpFrame { link, network, ports, ttl: 255, length: 60 }.frame(&[])
    };
    Ok(BenchRouter::of(rig, (0..FRAMES).map(frame)))
}

/// The time of an indirect call, in nanoseconds.
fn indirect_call(counter: &CycleCounter) -> f64 {
    let functions: [Box<dyn Fn(u64) -> u64>; 2] = [Box::new(|n| n ^ 1), Box::new(|n| n.wrapping_add(2))];
    let begun = counter.read();
    let mut sum = 0;
    for number in 0..CALLS {
        sum = black_box(&functions)[black_box(number as usize & 1)](sum);
    }
    black_box(sum);
    counter.between(begun, counter.read()).get() as f64 / CALLS as f64
}

/// The time in nanoseconds from writing a byte to another process until it has returned.
fn process_round_trip(counter: &CycleCounter) -> Result<f64> {
    let mut child =
        Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("starting `cat`")?;
    let mut to = child.stdin.take().context("it has an input")?;
    let mut from = child.stdout.take().context("it has an output")?;
    let mut trip = || -> Result<()> {
        to.write_all(&[7])?;
        from.read_exact(&mut [0]).context("`cat` returns the byte")
    };
    trip()?;
    let begun = counter.read();
    (0..TRIPS).try_for_each(|_| trip())?;
    let spent = counter.between(begun, counter.read()).get();
    drop(to);
    child.wait()?;
    Ok(spent as f64 / TRIPS as f64)
}

/// The measurements of one run of F7 on this machine's processor, by name.
///
/// | value | meaning |
/// |---|---|
/// | `source.source.received_pps` | packets a second for which the router has time, named as in virtual time |
/// | `call_ns` | a call of the function with one packet |
/// | `null_ns` | the call of a null function and its return, without its packet |
/// | `indirect_ns`, `process_ns` | an indirect call, and a byte to another process and back |
///
/// # Errors
///
/// No guest can run here, or no other process.
pub fn call_costs(load: CallLoad) -> Result<BTreeMap<String, f64>> {
    let runtime = Runtime::timed(clock::processor_time).map_err(cli::guests::no_runtime)?;
    let counter = CycleCounter::calibrated();
    let mut router = router(load, &runtime)?;
    let [mut null, mut service] = [super::guests::NULL, SERVICE].map(|module| FunctionLoad::new(module, &runtime));
    let mut rounds: [Vec<f64>; 5] = Default::default();
    for round in 0..=MEASURED {
        let costs = [
            router.run_router(PASSES),
            service.each(&counter, 1),
            null.call(&counter).0,
            indirect_call(&counter),
            process_round_trip(&counter)?,
        ];
        // The first round only warms up.
        if round > 0 {
            rounds.iter_mut().zip(costs).for_each(|(list, cost)| list.push(cost));
        }
    }
    let [packet, call, null, indirect, process] = rounds.map(median);
    let values = [
        ("source.source.received_pps", 1e9 / packet),
        ("call_ns", call),
        ("null_ns", null),
        ("indirect_ns", indirect),
        ("process_ns", process),
    ];
    Ok(values.map(|(name, value)| (name.to_owned(), value)).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_with_extension_gets_its_part_of_the_packets() {
        let runtime = Runtime::timed(clock::processor_time).expect("guests run here");
        for (share, calls) in [(0.0, 1), (40.0, 1), (100.0, 1), (100.0, 5)] {
            let mut router = router(CallLoad { share, calls, vector: 1 }, &runtime).expect("it starts");
            router.run_router(1);
            assert_eq!(router.forwarded_by("extension") as f64, FRAMES as f64 * share / 100.0, "{share} %");
        }
    }

    #[test]
    fn another_process_takes_longer_than_a_call() {
        let counter = CycleCounter::calibrated();
        let trip = process_round_trip(&counter).expect("`cat` runs here");
        assert!(trip > indirect_call(&counter), "{trip} ns");
    }
}
