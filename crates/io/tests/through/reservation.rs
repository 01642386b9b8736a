//! A reservation on real packets beside a flood of four times the shaper's rate. With its own class the reservation holds. Without one it does not,
//! and the configuration is refused.

use crate::lab;
use crate::rig::{Cable, Line, Running, ip};
use io::clock;
use io::wait::{Sleeper, Waker};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use units::Nanos;

/// The port of the reserved flow, and the payload of a frame of 218 bytes.
const VOICE: u16 = 4000;
const PAYLOAD: usize = 218 - 4 - 14 - 20 - 8;
/// 573 packets of 218 bytes a second are 1 Mbit/s.
const GAP: Nanos = Nanos::micros(1_000_000 / 573);
const PACKETS: u32 = 1000;
/// 1400-byte packets of a flood of 200 Mbit/s.
const FLOOD: u16 = 5000;
const FLOOD_GAP: Nanos = Nanos::micros(1400 * 8 / 200);

/// The results of the reserved flow: the packets received out of [`PACKETS`], and the median and the ninth decile of their delays.
#[derive(Debug)]
struct FlowResult {
    arrived: u32,
    median: Nanos,
    ninth: Nanos,
}

fn configuration(line: &Line, scheme: &str, admission: &str) -> String {
    format!(
        "version = 1\n[cpu]\nadmission = '{admission}'\n{}{}[[path]]\nname = 'voice'\nmatch = 'iif left udp dport {VOICE}'\n\
         reserve = '1mbit'\npacket_size = '218b'\nmax_delay = '20ms'\n",
        line.port(0, "line_rate = '100kpps'"),
        line.port(1, &format!("scheme = '{scheme}'")),
    )
}

/// Sleeps for this time.
fn pause() -> impl FnMut(Nanos) {
    let mut sleeper = Sleeper::new(Waker::new().unwrap());
    move |time| sleeper.sleep_on(std::iter::empty(), time).map(drop).unwrap()
}

/// Sends both flows through a router with this configuration.
fn send(line: &Line, configuration: &str) -> FlowResult {
    let running = Running::start(&line.router, configuration);
    line.connect();
    let bind = |host: &io::netns::LabHost, port| host.run(|| UdpSocket::bind((ip("0.0.0.0"), port)).unwrap()).unwrap();
    let (receiver, flooded) = (bind(&line.server, VOICE), bind(&line.server, FLOOD));
    let (voice, flood) = (bind(&line.client, 0), bind(&line.client, 0));
    receiver.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    // Addresses are resolved before the measurement.
    voice.send_to(&[0xff; PAYLOAD], (ip("10.0.2.2"), VOICE)).unwrap();
    receiver.recv(&mut [0; 2048]).unwrap();
    let stop = AtomicBool::new(false);
    let mut waits = thread::scope(|scope| {
        scope.spawn(|| {
            let (begun, mut pause, mut sent) = (clock::now(), pause(), 0);
            while !stop.load(Ordering::Acquire) {
                // All packets due by now, in bursts that a socket buffer holds.
                let due = clock::now().since(begun).get() / FLOOD_GAP.get();
                for _ in sent..due.min(sent + 64) {
                    let _ = flood.send_to(&[0; 1400 - 42], (ip("10.0.2.2"), FLOOD));
                }
                sent = due;
                pause(FLOOD_GAP);
            }
        });
        let heard = scope.spawn(|| {
            let (mut waits, mut packet) = (Vec::new(), [0; 2048]);
            while let Ok(length) = receiver.recv(&mut packet) {
                assert_eq!(length, PAYLOAD);
                let left = u64::from_be_bytes(packet[..8].try_into().unwrap());
                waits.push(clock::now().since(units::Instant::START).get().saturating_sub(left));
            }
            waits
        });
        let mut pause = pause();
        pause(Nanos::millis(300));
        for _ in 0..PACKETS {
            let mut packet = [0; PAYLOAD];
            packet[..8].copy_from_slice(&clock::now().since(units::Instant::START).get().to_be_bytes());
            voice.send_to(&packet, (ip("10.0.2.2"), VOICE)).unwrap();
            pause(GAP);
        }
        let waits = heard.join().unwrap();
        stop.store(true, Ordering::Release);
        waits
    });
    drop(flooded);
    running.stop();
    waits.sort_unstable();
    let at = |part: usize| Nanos::new(waits.get(waits.len() * part / 10).copied().unwrap_or(u64::MAX));
    FlowResult { arrived: waits.len() as u32, median: at(5), ninth: at(9) }
}

#[test]
fn reservation_holds_on_real_packets_or_is_refused() {
    let refused = |scheme: &str| {
        let Some(lab) = lab() else { return };
        let line = Line::lay(&lab, [Cable::Packet; 2]);
        let errors = plan::check(&configuration(&line, scheme, "refuse"), "t", &plane::catalogue()).unwrap_err();
        let error = errors.errors().next().unwrap();
        assert!(error.path == "port.right.scheme" && error.line > 0, "{}", errors.render(false));
    };
    refused("shape(rate=50mbit)");
    refused("shape(rate=500kbit){priority}");
    for (scheme, admission, is_kept) in [
        ("shape(rate=50mbit){priority}", "refuse", true),
        ("shape(rate=50mbit){tree{branch(class=1){fifo}, branch{fq}}}", "refuse", true),
        ("shape(rate=50mbit)", "warn", false),
    ] {
        let Some(lab) = lab() else { return };
        let line = Line::lay(&lab, [Cable::Packet; 2]);
        let seen = send(&line, &configuration(&line, scheme, admission));
        println!("{scheme}: {seen:?}");
        if is_kept {
            assert!(seen.arrived >= PACKETS * 99 / 100, "{scheme}: {seen:?}");
            // Tests share the machine: the last tenth may wait for a processor.
            assert!(seen.ninth < Nanos::millis(20), "{scheme}: {seen:?}");
        } else {
            // Without a class more than half were lost, and the rest waited 191 ms.
            assert!(seen.arrived < PACKETS * 8 / 10 || seen.median > Nanos::millis(100), "{scheme}: {seen:?}");
        }
    }
}
