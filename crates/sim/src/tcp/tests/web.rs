//! Tests of the web source and its connection.

use super::dumbbell::Dumbbell;
use crate::tcp::application::{FlowSizes, TcpApplication, Transfer, Web, WebDraws, WebSettings};
use crate::tcp::{IdleRestart, Reno, Settings, TCP_PAYLOAD};
use units::{Instant, Nanos};

fn web(seed: u64) -> TcpApplication {
    let draws = WebDraws::new(WebSettings::new(FlowSizes::fitted(), TCP_PAYLOAD), seed, "web");
    TcpApplication::Web(Box::new(Web::new(draws)))
}

/// Runs a web source beside a bulk flow over a link for a minute. Returns its transfers, and the number of restarts of its sender.
fn run(seed: u64, service: Nanos, room: usize, restart: IdleRestart) -> (Vec<Transfer>, u64) {
    let settings = Settings { restart, ..Settings::plain() };
    let mut world = Dumbbell::new(service, room, Nanos::millis(150));
    world.flow(settings, Box::new(Reno::new(&settings)), TcpApplication::Bulk);
    world.flow(settings, Box::new(Reno::new(&settings)), web(seed));
    world.run(Instant::START + Nanos::secs(60), |_, _, _| ());
    (world.flows[1].application.completions().to_vec(), world.flows[1].sender.counters().restarts)
}

#[test]
fn common_random_numbers() {
    let settings = IdleRestart::AfterAcknowledged;
    let (fast, _) = run(3, Nanos::micros(672), 100, settings);
    let (slow, _) = run(3, Nanos::micros(3000), 500, settings);
    let (other, _) = run(4, Nanos::micros(672), 100, settings);
    let sizes = |transfers: &[Transfer]| transfers.iter().map(|transfer| transfer.packets).collect::<Vec<_>>();
    let both = fast.len().min(slow.len());
    assert!(both > 20 && fast.len() > slow.len(), "{} and {} transfers", fast.len(), slow.len());
    assert_eq!(sizes(&fast)[..both], sizes(&slow)[..both], "the k-th transfer has the same size in every world");
    assert_ne!(sizes(&fast)[..20], sizes(&other)[..20], "another seed has others");
    // The pauses too; each is counted from a check at a multiple of 5 ms.
    let pauses = |transfers: &[Transfer]| -> Vec<Nanos> {
        transfers.windows(2).map(|pair| pair[1].began.since(pair[0].ended.unwrap())).collect()
    };
    assert_eq!(pauses(&fast)[..both - 1], pauses(&slow)[..both - 1]);
    assert!(fast.iter().filter_map(|transfer| transfer.ended).all(|over| over.get() % 5_000_000 == 0));
    let mean = pauses(&fast).iter().map(|pause| pause.as_secs_f64()).sum::<f64>() / (fast.len() - 1) as f64;
    assert!((mean - 0.2).abs() < 0.05, "{mean} s");
    // ceil(16384 / 1210) packets at least.
    assert_eq!(sizes(&fast).iter().min(), Some(&14));
}

#[test]
fn web_persistent_connection_idle_restart() {
    let (with, restarts) = run(1, Nanos::micros(672), 100, IdleRestart::AfterAcknowledged);
    let (without, never) = run(1, Nanos::micros(672), 100, IdleRestart::Off);
    // Pauses have a mean of 200 ms. A part of exp(-1) or less exceeds the timeout of at least 200 ms, with the wait for a check.
    let part = restarts as f64 / with.len() as f64;
    assert!((0.1..0.5).contains(&part), "{restarts} of {}", with.len());
    assert_eq!(never, 0);
    // A transfer of 14 packets takes three round trips from a window of two, and one from a remembered window.
    let quick = |transfers: &[Transfer]| {
        let one = Nanos::millis(320);
        transfers
            .iter()
            .skip(1)
            .filter(|t| t.packets < 20 && t.ended.is_some_and(|over| over.since(t.began) < one))
            .count()
    };
    assert!(quick(&without) > quick(&with), "{} {}", quick(&without), quick(&with));
    // It is one connection: a transfer starts after the end of its predecessor, and packet numbers continue.
    assert!(with.windows(2).all(|pair| pair[0].ended.is_some_and(|over| over <= pair[1].began)));
}
