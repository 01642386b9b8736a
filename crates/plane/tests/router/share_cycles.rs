//! The scheme `dfq` through the whole router: rates, delays, changes and admission.

use crate::shares::{ALICE, BOB, STRANGER, changes, frame, rate, sent};
use plan::ShareChange;
use plane::rig::{MemoryWires, Rig};
use plane::snapshot::Layout;
use units::Nanos;

const CONFIG: &str = r#"
version = 1
[port.lan]
device = "memory:lan"
mac = "02:00:00:00:00:01"
address = ["192.0.2.1/24"]
scheme = "dfq(rate=20mbit, cycle=1ms, flows=16)"
shares = ["video rate 10mbit", "voice rate 1mbit burst 2kb delay 3ms"]
[port.wan]
device = "memory:wan"
mac = "02:00:00:00:00:02"
address = ["198.51.100.1/24"]
[[neighbour]]
address = "198.51.100.9"
mac = "02:00:00:00:00:22"
port = "wan"
[[neighbour]]
address = "192.0.2.9"
mac = "02:00:00:00:00:99"
port = "lan"
[[route]]
to = "10.0.0.0/8"
via = "192.0.2.9"
[[path]]
name = "video"
match = "ip daddr 10.0.0.1"
link_share = "video"
[[path]]
name = "voice"
match = "ip daddr 10.0.0.2"
link_share = "voice"
[[path]]
name = "other"
match = "any"
"#;

#[test]
fn cycles_keep_rates_and_delays_in_the_router() {
    for layout in [Layout::One, Layout::Three] {
        let mut rig = Rig::running_with(MemoryWires::default(), 8192, layout, CONFIG);
        let mut measure = |time: Nanos| {
            let before = sent(&rig.router, "lan");
            let mut received = 0;
            for step in 0..time.get() / 250_000 {
                // 32 Mbit/s of video, as much best effort, and 0.8 Mbit/s of calls.
                rig.send("wan", &frame(ALICE, true, 1));
                rig.send("wan", &frame(STRANGER, true, 2));
                if step % 40 == 0 {
                    rig.send("wan", &frame(BOB, true, 3));
                }
                rig.advance(Nanos::micros(250));
                received += rig.received("lan").len();
            }
            let after = sent(&rig.router, "lan");
            let of = |name: &str| rate(after[name] - before[name], time);
            (of("video"), of("voice"), rate(received as u64 * 1000, time))
        };
        measure(Nanos::millis(100));
        let (video, voice, all) = measure(Nanos::millis(800));
        assert!((9.8..10.3).contains(&video), "video {video} Mbit/s");
        assert!((0.75..0.85).contains(&voice), "voice {voice} Mbit/s");
        assert!((19.5..20.5).contains(&all), "all {all} Mbit/s");
        let voice = rig.router.shares("lan").expect("shares").into_iter().find(|share| share.name.as_str() == "voice");
        // Its delay, two cycles and a packet.
        let longest = voice.expect("it is configured").counts.longest;
        assert!(longest <= Nanos::micros(3000 + 2000 + 810), "{longest}");
        rig.report();
    }
}

#[test]
fn quanta_are_admitted_and_changed_while_packets_wait() {
    let mut rig = Rig::running_with(MemoryWires::default(), 8192, Layout::One, CONFIG);
    let refused = rig.router.edit_shares("lan", &changes("add bulk rate 8mbit burst 8kb delay 4ms"));
    let (_, reason, hint) = refused.expect_err("a cycle has 2375 bytes for shares");
    assert!(reason.contains("needs 2048 bytes in each cycle"), "{reason}");
    assert!(hint.contains("a rate of at most"), "{hint}");
    (0..100).for_each(|_| rig.send("wan", &frame(ALICE, true, 1)));
    rig.advance(Nanos::millis(1));
    rig.router.edit_shares("lan", &changes("remove video")).expect_err("it belongs to the configuration");
    let done = rig.router.edit_shares("lan", &changes("set video rate 2mbit\nadd bulk rate 8mbit")).expect("it fits");
    rig.advance(Nanos::millis(100));
    assert!(done.is_done());
    assert_eq!(sent(&rig.router, "lan")["video"], 100 * 1000, "no packet is lost");
    let voice = rig.router.shares("lan").expect("shares").into_iter().find(|share| share.name.as_str() == "voice");
    let settings = voice.expect("it is configured").settings;
    assert_eq!(settings.delay, Some(Nanos::millis(3)));
    assert_eq!(settings.to_string().parse::<String>().as_deref(), Ok(" rate 1mbit burst 2kb delay 3ms"));
    let wrong = CONFIG.replace("delay 3ms", "delay 2ms");
    let errors = plan::check(&wrong, "test.toml", &plane::catalogue()).expect_err("2 ms are two cycles");
    assert!(errors.to_string().contains("not more than two cycles of 1ms"), "{errors}");
    let line: Result<ShareChange, _> = "set voice delay none".parse();
    assert_eq!(line.map(|change| change.to_string()).ok().as_deref(), Some("set voice delay none"));
}
