use super::*;
use sim::experiment::Parameters;
use std::sync::RwLockWriteGuard;

/// Two queues of weights 3 and 1 on a scheduler of 8 Mbit/s. The first input ends before the second one, which is then slower than the scheduler.
const WORLD: &str = r#"
duration = "1500ms"
sample = "100ms"
[router.node]
config = '''
version = 1
[router]
frames = 4096
[port.p1]
device = "sim:p1"
address = ["10.0.1.1/24"]
scheme = "share(rate=1gbit, overhead=28b, leaves=64)"
shares = ["engine rate 8mbit ceiling 8mbit"]
[port.p2]
device = "sim:p2"
address = ["10.0.2.1/24"]
[[path]]
name = "slices"
match = "ip daddr { 10.0.1.1, 10.0.2.1 } udp dport 20000-20999"
functions = ["slice"]
'''
slices = '''
create router code ipv4 buffers 16mb rate 8mbit
mi add router 1 10.0.1.1:20000
mi add router 2 10.0.2.1:20000
reserve router p1/engine rate 8mbit
queue set router 1 p1/engine weight 3 limit 1mb
queue set router 2 p1/engine weight 1 limit 1mb
filter insert router 1 value 010a010000 mask ffffff0000 send 1 1 10.0.1.2:20000
filter insert router 2 value 020a010000 mask ffffff0000 send 2 1 10.0.1.2:20000
'''
[[sink]]
name = "out"
[[link]]
between = ["p1", "out"]
rate = "1gbit"
[[source]]
name = "one"
card = "p1"
kind = "constant"
rate = "1000pps"
size = "1074b"
destination = "10.0.1.1"
ports = [7000, 20000]
stop = "500ms"
inner = { code = "ipv4", destination = "10.1.0.1" }
[[source]]
name = "two"
card = "p2"
kind = "constant"
rate = "400pps"
size = "1074b"
destination = "10.0.2.1"
ports = [7000, 20000]
inner = { code = "ipv4", destination = "10.1.0.2" }
"#;

/// The machine, whose threads of other tests would wait for those with a real-time priority here, and the runner; `None` without the right to it.
fn real_slices(measures: RunKind) -> Option<(RwLockWriteGuard<'static, ()>, RealSlices)> {
    let machine = crate::machine_lock::whole_machine();
    match RealSlices::new([measures], None) {
        Ok(real) => Some((machine, real)),
        Err(error) => {
            eprintln!("skipped: {error:#}");
            None
        }
    }
}

fn job(measures: RunKind, world: &str) -> Job {
    Job { file: "small.toml".to_owned(), world: world.to_owned(), measures, parameters: Parameters::new() }
}

#[track_caller]
fn get(measured: &Measurements, name: &str) -> f64 {
    measured.get(name).unwrap_or_else(|| panic!("no {name} in {measured}"))
}

#[test]
fn queues_share_the_scheduler_by_weight_on_real_packets() {
    let job = job(RunKind::World, WORLD);
    assert!(RealSlices::supports(&job));
    let Some((_machine, real)) = real_slices(job.measures) else { return };
    let measured = real.run(&job).unwrap_or_else(|error| panic!("{error}"));
    // All packets that have left a queue arrive, and each is attributed to its source. Some wait at the end if other programs have stopped the router.
    for (queue, source, sent) in [(1, "one", 500.0), (2, "two", 600.0)] {
        assert_eq!(get(&measured, &format!("source.{source}.sent")), sent);
        let queue = |key| get(&measured, &format!("slice.router.queue.{queue}.{key}"));
        assert_eq!(queue("sent") + queue("waiting") + queue("dropped"), sent, "{measured}");
        assert_eq!(get(&measured, &format!("source.{source}.received")), queue("sent"), "{measured}");
    }
    // A program that disturbs the router takes rate from both queues, so the ratio is the shares'.
    let between = |name: &str, (from, to): (f64, f64)| {
        let points = &measured.series[name];
        points.iter().filter(|(at, _)| (from..to).contains(at)).map(|(_, value)| value).sum::<f64>()
    };
    let both = (0.15, 0.45);
    let ratio = between("slice.router.queue.1.sent_pps", both) / between("slice.router.queue.2.sent_pps", both);
    assert!((2.7..3.3).contains(&ratio), "{ratio}");
    assert!(between("slice.router.queue.1.waiting", both) > 100.0);
}

#[test]
fn unsupported_worlds_of_slices_are_errors() {
    let poisson = job(RunKind::World, &WORLD.replacen("\"constant\"", "\"poisson\"", 1));
    let Some((_machine, real)) = real_slices(poisson.measures) else { return };
    assert_eq!(real.run(&poisson).unwrap_err(), "source one is not constant: others have no version on real packets");
    let nowhere = job(RunKind::World, &WORLD.replace("10.0.1.2:20000", "10.0.1.3:20000"));
    assert_eq!(real.run(&nowhere).unwrap_err(), "no filter sends to a sink");
    assert!(!RealSlices::supports(&job(RunKind::World, "duration = \"1s\"\n")));
}

#[test]
fn fast_and_slow_path_forward_the_same_packets() {
    let Some((_machine, real)) = real_slices(RunKind::Forwarders) else { return };
    let routers = ["fast", "slow", "click", "click-sockets"];
    let world = |router| job(RunKind::Forwarders, &format!("router = \"{router}\"\npayload = 400\n"));
    let mut jobs = routers.map(world).to_vec();
    if let Some(remark) = real.skip_missing(&mut jobs) {
        eprintln!("{remark}");
    }
    for (router, job) in routers.into_iter().zip(jobs) {
        let measured = match real.run(&job) {
            Ok(measured) => measured,
            Err(error) if error.contains("two processors") => return eprintln!("skipped: {error}"),
            Err(error) => panic!("{error}"),
        };
        let most = get(&measured, "max_pps");
        assert!(most > 2000.0, "{router}: {measured}");
        // 498 bytes on the link.
        assert!((get(&measured, "max_mbps") / (most * 498.0 * 8.0 / 1e6) - 1.0).abs() < 1e-9);
        let points = &measured.series["forwarded_kpps"];
        assert!(points.len() > 4 && points.iter().all(|(offered, out)| *out <= offered * 1.2), "{points:?}");
    }
}

#[test]
fn runs_with_click_are_skipped_without_it_and_the_report_says_why() {
    let world = |router: &str| job(RunKind::Forwarders, &format!("router = \"{router}\"\npayload = 0\n"));
    let all = || ["fast", "slow", "click", "click-sockets"].map(world).to_vec();
    let mut jobs = all();
    let remark = RealSlices { click: Err("there is no program `click` in PATH".to_owned()) }.skip_missing(&mut jobs);
    assert_eq!(
        remark.as_deref(),
        Some(
            "skipped Click: there is no program `click` in PATH; install the Click modular router, or give its program as --click"
        )
    );
    assert_eq!(jobs.iter().map(|job| &*job.world).collect::<Vec<_>>(), [&all()[0].world, &all()[1].world]);
    // An experiment without such runs needs no remark.
    assert_eq!(RealSlices { click: Err("none".to_owned()) }.skip_missing(&mut jobs), None);
}
