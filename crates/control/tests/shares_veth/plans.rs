//! Ten thousand subscribers: each gets the rate of its plan, also while others change.

use crate::access::{ATTEMPTS, Access, INTERNET, Running, address, is_near, lab, millis, p95, routed_config, spans};
use crate::traffic::{Direction, Load, probing};
use control::api::{Author, Via};
use io::clock;
use io::wait::{Sleeper, Waker};
use std::fmt::Write;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use units::Nanos;

/// The subscribers of the configuration.
const SUBSCRIBERS: usize = 10_000;
/// The subscribers of a site of the lowest level, and those sites of one of the level above it.
const AT_SITE: usize = 100;
const AT_TOWER: usize = 10;
/// Their plans in Mbit/s, down and up, in turn: small enough for a hundred at once on two shared cores.
const PLANS: [(u64, u64); 4] = [(2, 1), (3, 1), (1, 2), (2, 2)];
/// The part of the plan by which a rate may differ.
const PART: f64 = 0.05;
/// The time by which the 95th percentile of the round-trip time may exceed the median without load.
const DELAY: Nanos = Nanos::millis(20);
/// The others that change at once, and the time between two such batches.
const CHANGED: usize = 1_000;
const BATCH_SPACE: Nanos = Nanos::millis(250);

fn measured_count() -> usize {
    std::env::var("SWITCHPATH_SUBSCRIBERS").map_or(20, |n| n.parse().expect("SWITCHPATH_SUBSCRIBERS is a number"))
}

/// The plan of a subscriber in bits per second.
fn plan(number: usize, direction: Direction) -> f64 {
    let (down, up) = PLANS[number % PLANS.len()];
    (1_000_000 * if direction == Direction::Down { down } else { up }) as f64
}

/// The table of all subscribers: towers, sites below them, and circuits.
fn table() -> String {
    let mut text = "site,circuit,parent,address,down,up,down_min,up_min\n".to_owned();
    for site in 0..SUBSCRIBERS / AT_SITE {
        let tower = site / AT_TOWER;
        if site % AT_TOWER == 0 {
            writeln!(text, "T{tower},,,,900mbit,900mbit,,").unwrap();
        }
        writeln!(text, "S{site},,T{tower},,400mbit,400mbit,,").unwrap();
    }
    for number in 0..SUBSCRIBERS {
        let (down, up) = PLANS[number % PLANS.len()];
        let (site, address) = (number / AT_SITE, address(number));
        writeln!(text, ",C{number},S{site},{address},{down}mbit,{up}mbit,50kbit,50kbit").unwrap();
    }
    text
}

/// Subscribers selected at random with a fixed seed (xorshift64*), each once.
fn selected(count: usize) -> Vec<usize> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut numbers = Vec::new();
    while numbers.len() < count {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        let number = (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % SUBSCRIBERS;
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    numbers
}

/// Changes at a port, which have to be carried out. Returns the time they took.
fn edit(running: &Running, port: &str, text: &str) -> Nanos {
    let begun = clock::now();
    let edited = running.daemon.edit_shares(port, (text, "changes"), &Author::by(Via::Socket)).unwrap();
    assert!(edited.carried_out, "{edited:?}");
    clock::now().since(begun)
}

/// Changes a thousand of the others again and again until `over`. Returns how many batches there were, and the longest time one took.
fn change_others(running: &Running, measured: &[usize], over: &AtomicBool) -> (usize, Nanos) {
    let mut sleeper = Sleeper::new(Waker::new().unwrap());
    let (mut batches, mut longest) = (0, Nanos::ZERO);
    while !over.load(Ordering::Acquire) {
        let others = (batches * CHANGED..).map(|number| number % SUBSCRIBERS).filter(|n| !measured.contains(n));
        let mut text = String::new();
        for number in others.take(CHANGED) {
            let (ceiling, weight) = (5 + (batches + number) % 50, 1 + batches % 9);
            writeln!(text, "set C{number} ceiling {ceiling}mbit weight {weight}").unwrap();
        }
        longest = longest.max(edit(running, ["lan", "wan"][batches % 2], &text));
        batches += 1;
        sleeper.sleep([], BATCH_SPACE).unwrap();
    }
    (batches, longest)
}

/// Measures the load once. Returns the fault, if there is one.
fn measure(access: &Access, load: &mut Load, of: (&[usize], &[Direction]), base: Nanos, what: &str) -> Option<String> {
    let (numbers, directions) = of;
    let (result, mut times) = probing(access, INTERNET, numbers, || load.run(spans()));
    let (probes, delay) = (times.len(), p95(&mut times).saturating_sub(base));
    let mut smoothed = result.smoothed;
    let smoothed = p95(&mut smoothed);
    let parts: Vec<f64> = (numbers.iter().zip(directions).zip(&result.rates))
        .map(|((number, direction), rate)| rate / plan(*number, *direction))
        .collect();
    let (least, most) =
        parts.iter().fold((f64::MAX, 0.0_f64), |(least, most), part| (least.min(*part), most.max(*part)));
    println!(
        "{what}: {} subscribers got {:.1} to {:.1} % of their plans, {:.0} Mbit/s together; p95 of {probes} round trips {:.1} ms above the base, \
         of TCP's own {:.0} ms",
        numbers.len(),
        100.0 * least,
        100.0 * most,
        result.rates.iter().sum::<f64>() / 1e6,
        millis(delay),
        millis(smoothed)
    );
    let wrong = parts.iter().position(|part| !is_near(*part, 1.0, PART));
    let rate = wrong.map(|at| format!("C{} {:?}: {:.3} of its plan", numbers[at], directions[at], parts[at]));
    rate.or_else(|| {
        (delay > DELAY).then(|| format!("the p95 of the round trips is {:.1} ms above the base", millis(delay)))
    })
}

#[test]
fn random_subscribers_get_their_plans_while_others_change() {
    let Some((lab, _turn)) = lab() else { return };
    let numbers = selected(measured_count());
    let access = Access::routed(&lab, numbers.iter().copied());
    let running = access.start(&routed_config(""), &table());
    let ((), mut base) = probing(&access, INTERNET, &numbers, || {
        Sleeper::new(Waker::new().unwrap()).sleep([], Nanos::secs(1)).unwrap();
    });
    base.sort_unstable();
    let base = base[base.len() / 2];
    println!("median round trip without load: {:.2} ms", millis(base));
    // Half of them receive, half send.
    let directions: Vec<Direction> =
        (0..numbers.len()).map(|at| if at % 2 == 0 { Direction::Down } else { Direction::Up }).collect();
    let mut load = Load::default();
    for (number, direction) in numbers.iter().zip(&directions) {
        load.connect(&access, INTERNET, *number, *direction);
    }
    let of = (&numbers[..], &directions[..]);
    let attempt = |what: &str, run: &mut dyn FnMut() -> Option<String>| {
        let faults: Vec<String> = (0..ATTEMPTS).map_while(|_| run()).collect();
        assert!(faults.len() < ATTEMPTS, "{what}: {faults:?}");
    };
    attempt("quiet", &mut || measure(&access, &mut load, of, base, "quiet"));
    attempt("changing", &mut || {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let changer = scope.spawn(|| change_others(&running, &numbers, &over));
            let fault = measure(&access, &mut load, of, base, "while others change");
            over.store(true, Ordering::Release);
            let (batches, longest) = changer.join().unwrap();
            println!("{batches} batches of {CHANGED} changes, the longest took {:.0} ms", millis(longest));
            assert!(batches > 5);
            fault
        })
    });
}

/// Datagrams of the subscribers with sequence numbers.
struct Stream {
    sockets: Vec<UdpSocket>,
    next: Vec<u64>,
    scheduled: f64,
}

const DATAGRAM: usize = 1000;
/// A datagram with its headers.
const FRAME: f64 = DATAGRAM as f64 + 42.0;

impl Stream {
    /// Sends at 80 % of each plan until `over`.
    fn run(&mut self, numbers: &[usize], over: &AtomicBool) {
        let mut sleeper = Sleeper::new(Waker::new().unwrap());
        let mut last = clock::now();
        let mut datagram = [0; DATAGRAM];
        while !over.load(Ordering::Acquire) {
            let now = clock::now();
            // A stall of the host is not caught up: that would be a burst above the plan.
            self.scheduled += now.since(last).min(Nanos::millis(5)).as_secs_f64();
            last = now;
            for ((socket, next), number) in self.sockets.iter().zip(&mut self.next).zip(numbers) {
                let due = (0.8 * plan(*number, Direction::Down) / 8.0 / FRAME * self.scheduled) as u64;
                while *next < due {
                    datagram[..8].copy_from_slice(&next.to_be_bytes());
                    socket.send(&datagram).unwrap();
                    *next += 1;
                }
            }
            sleeper.sleep([], Nanos::millis(1)).unwrap();
        }
    }
}

/// Receives until each socket has all datagrams sent, or none arrive any more. Returns how many are missing, late or twice.
fn receive(sockets: &[UdpSocket], over: &AtomicBool, stop: &AtomicBool) -> Vec<u64> {
    let mut sleeper = Sleeper::new(Waker::new().unwrap());
    let mut next = vec![0; sockets.len()];
    let mut buffer = [0; DATAGRAM];
    while !stop.load(Ordering::Acquire) || !over.load(Ordering::Acquire) {
        for (socket, next) in sockets.iter().zip(&mut next) {
            while let Ok(length) = socket.recv(&mut buffer) {
                // The one that resolved the neighbour may be late.
                if length != DATAGRAM {
                    continue;
                }
                let number = u64::from_be_bytes(buffer[..8].try_into().unwrap());
                assert!(number >= *next, "datagram {number} arrived after {next}");
                // A gap is seen at the end, because the count of received ones is compared.
                *next += 1;
            }
        }
        sleeper.sleep([], Nanos::millis(1)).unwrap();
    }
    next
}

#[test]
fn ten_thousand_changes_lose_no_packet_of_traffic_within_its_plan() {
    let Some((lab, _turn)) = lab() else { return };
    let numbers = selected(20);
    let access = Access::routed(&lab, numbers.iter().copied());
    let running = access.start(&routed_config(""), &table());
    let receivers: Vec<UdpSocket> = access
        .subscribers
        .run(|| numbers.iter().map(|number| UdpSocket::bind((address(*number), 9000)).unwrap()).collect())
        .unwrap();
    receivers.iter().for_each(|socket| socket.set_nonblocking(true).unwrap());
    let sockets: Vec<UdpSocket> = access
        .internet
        .run(|| {
            let connected = |number: &usize| {
                let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                socket.connect((address(*number), 9000)).unwrap();
                // Resolves the neighbours before the sequence begins.
                socket.send(&[0]).unwrap();
                socket
            };
            numbers.iter().map(connected).collect()
        })
        .unwrap();
    thread::park_timeout(Duration::from_millis(300));
    let mut buffer = [0; DATAGRAM];
    receivers.iter().for_each(|socket| while socket.recv(&mut buffer).is_ok() {});
    for attempt in 1..=ATTEMPTS {
        let mut stream = Stream { next: vec![0; sockets.len()], scheduled: 0.0, sockets: clones(&sockets) };
        let (over, stop) = (AtomicBool::new(false), AtomicBool::new(false));
        let before = running.losses();
        let (received, took) = thread::scope(|scope| {
            let receiver = scope.spawn(|| receive(&receivers, &over, &stop));
            let sender = scope.spawn(|| stream.run(&numbers, &over));
            thread::park_timeout(Duration::from_millis(500));
            // All subscribers at once: new ceilings, weights and guarantees. Those of the measured ones stay above their traffic.
            let mut text = String::new();
            for number in 0..SUBSCRIBERS {
                let (down, _) = PLANS[number % PLANS.len()];
                let (ceiling, weight) = (down + attempt as u64 % 2, 1 + (number + attempt) % 7);
                writeln!(text, "set C{number} ceiling {ceiling}mbit weight {weight} rate {}kbit", 40 + attempt)
                    .unwrap();
            }
            let took = edit(&running, "lan", &text);
            thread::park_timeout(Duration::from_millis(500));
            over.store(true, Ordering::Release);
            sender.join().unwrap();
            thread::park_timeout(Duration::from_millis(500));
            stop.store(true, Ordering::Release);
            (receiver.join().unwrap(), took)
        });
        let (sent, came) = (stream.next.iter().sum::<u64>(), received.iter().sum::<u64>());
        let after = running.losses();
        let (dropped, lost) = (after.0 - before.0, after.1 - before.1);
        println!(
            "{SUBSCRIBERS} changes took {:.0} ms; {sent} datagrams, {} missing, {dropped} dropped",
            millis(took),
            sent - came
        );
        assert_eq!(dropped, 0, "{:?}", running.daemon.drops());
        if lost > 0 {
            println!("again: {lost} frames were lost before the router");
            continue;
        }
        assert_eq!(stream.next, received);
        if took <= Nanos::secs(1) {
            return;
        }
        println!("again: the changes took too long");
    }
    panic!("{ATTEMPTS} times in a row the host lost packets, or the changes took more than a second: see above");
}

fn clones(sockets: &[UdpSocket]) -> Vec<UdpSocket> {
    sockets.iter().map(|socket| socket.try_clone().unwrap()).collect()
}
