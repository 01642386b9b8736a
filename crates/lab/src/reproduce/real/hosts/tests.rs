use super::*;
use sim::experiment::Parameters;
use std::sync::RwLockReadGuard;

/// The runner for worlds of hosts and its share of the machine; `None` if there can be no laboratory.
fn real_hosts() -> Option<(RwLockReadGuard<'static, ()>, RealHosts)> {
    let share = crate::machine_lock::shared_machine();
    match RealHosts::new(DataFiles::default(), 1) {
        Ok(real) => Some((share, real)),
        Err(error) => {
            eprintln!("skipped: {error:#}");
            None
        }
    }
}

fn world(duration: &str, scheme: &str, flows: &str) -> WorldPlan {
    let text = format!(
        "duration = \"{duration}\"\nhost = [{{ name = \"sender\" }}, {{ name = \"far\" }}]\n\
         [[link]]\nbetween = [\"sender\", \"far\"]\nscheme = \"{scheme}\"\n\
         forward = {{ rate = \"15mbit\", delay = \"75ms\" }}\nback = {{ rate = \"15mbit\", delay = \"75ms\" }}\n{flows}"
    );
    WorldPlan::parse(&text, "w.toml").unwrap_or_else(|wrong| panic!("{wrong}"))
}

fn flow(name: &str, application: &str) -> String {
    format!("[[flow]]\nname = \"{name}\"\nfrom = \"sender\"\nto = \"far\"\napplication = \"{application}\"\n")
}

fn run(real: &RealHosts, world: &WorldPlan) -> Measurements {
    real.run_once(world).unwrap_or_else(|error| panic!("{error:#}"))
}

#[track_caller]
fn get(measured: &Measurements, name: &str) -> f64 {
    measured.get(name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn kernel_reno_bufferbloat_rtt_half_t() {
    let Some((_share, real)) = real_hosts() else { return };
    let flows = flow("one", "interactive") + &flow("two", "interactive");
    let deep = "sfq(limit=100000000){codel(target=1000s, limit=100000000)}";
    let measured = run(&real, &world("20s", deep, &flows));
    for name in ["one", "two"] {
        let srtt = &measured.series[&format!("flow.{name}.srtt_ms")];
        // The queue fills twice as fast as it empties: a packet that leaves at t has been queued for t / 2.
        let parts: Vec<f64> = srtt.iter().filter(|(t, _)| *t > 15.0).map(|(t, ms)| ms / 1e3 / (t / 2.0)).collect();
        let mean = parts.iter().sum::<f64>() / parts.len() as f64;
        assert!((mean - 1.0).abs() < 0.1, "{name}: {mean} of half the time");
        let goodput = get(&measured, &format!("flow.{name}.goodput_bps"));
        assert!((6.5e6..7.6e6).contains(&goodput), "{name}: {goodput}");
    }
    assert_eq!(get(&measured, "link.sender-far.dropped"), 0.0);
    assert!(get(&measured, "link.sender-far.waiting") > 5000.0);
}

#[test]
fn transfers_on_real_packets_match_virtual_time() {
    let Some((_share, real)) = real_hosts() else { return };
    let world = world("12s", "codel", &flow("one", "web"));
    let here = run(&real, &world);
    let there = sim::run(&world, &mut DataFiles::default(), &mut |_| {}).unwrap();
    let transfers = |measured: &Measurements| get(measured, "flow.one.transfers");
    // The initial windows are ten packets instead of two: at least as many transfers, and each at least as fast.
    assert!(
        transfers(&here) >= transfers(&there) && transfers(&here) > 10.0,
        "{} {}",
        transfers(&here),
        transfers(&there)
    );
    let sent = |measured: &Measurements| get(measured, "link.sender-far.sent");
    let acknowledged = get(&here, "flow.one.acknowledged");
    assert!(acknowledged >= get(&there, "flow.one.acknowledged") && acknowledged <= sent(&here));
    let srtt = get(&here, "flow.one.srtt_mean_ms");
    assert!((150.0..190.0).contains(&srtt), "{srtt}");
}

#[test]
fn unsupported_world_is_an_error() {
    let Some((_share, real)) = real_hosts() else { return };
    let with =
        |transport: &str| world("1s", "codel", &(flow("one", "bulk") + &format!("transport = \"{transport}\"\n")));
    let job = |world: &str| Job {
        file: "w.toml".into(),
        world: world.into(),
        measures: Default::default(),
        parameters: Parameters::new(),
    };
    let mut world = with("newreno");
    world.hosts.links[0].medium.service = LinkService::Poisson("500pps".parse().unwrap());
    let error = format!("{:#}", real.run_once(&world).unwrap_err());
    assert_eq!(error, "on real packets a link has a rate or a trace, not poisson 500pps");
    assert!(!RealHosts::supports(&job("duration = \"1s\"\n")));
}
