//! RFC 5681, RFC 6582 and RFC 3042 by hand.

use super::script::script;
use crate::tcp::{IdleRestart, Reno, Settings};
use expect_test::{Expect, expect};

#[track_caller]
fn check(settings: Settings, steps: &str, told: Expect) {
    let all = script(settings, Box::new(Reno::new(&settings)), steps);
    // The common first steps are printed only once.
    let known = if steps.starts_with(EIGHT) && steps != EIGHT { EIGHT.matches(';').count() } else { 0 };
    told.assert_eq(&all.lines().skip(known).flat_map(|line| [line, "\n"]).collect::<String>());
}

fn plain() -> Settings {
    Settings::plain()
}

/// From the start to a window of eight with eight in flight.
const EIGHT: &str = "offer 1000; wait 100; ack 1; ack 2; wait 100; ack 3; ack 4; ack 5; ack 6;";

#[test]
fn slow_start_adds_a_packet_for_each_acknowledgement() {
    check(
        plain(),
        EIGHT,
        expect![[r#"
            0     offer 1000     window 2.00  threshold inf  flight 2   sends 0 1
            100   wait 100       window 2.00  threshold inf  flight 2   sends
            100   ack 1          window 3.00  threshold inf  flight 3   sends 2 3
            100   ack 2          window 4.00  threshold inf  flight 4   sends 4 5
            200   wait 100       window 4.00  threshold inf  flight 4   sends
            200   ack 3          window 5.00  threshold inf  flight 5   sends 6 7
            200   ack 4          window 6.00  threshold inf  flight 6   sends 8 9
            200   ack 5          window 7.00  threshold inf  flight 7   sends 10 11
            200   ack 6          window 8.00  threshold inf  flight 8   sends 12 13
        "#]],
    );
}

#[test]
fn three_duplicate_acks_retransmit_and_halve_window() {
    // Packet 6 of 6..14 is lost; 7..14 arrive. Limited transmit (RFC 3042) adds two packets to the eight of the window. Then half of eight are
    // outstanding, and three are known to have left.
    check(
        plain(),
        &format!("{EIGHT} wait 100; dup 1; dup 1; dup 1; dup 4; dup 1; dup 2; wait 100; ack 16"),
        expect![[r#"
            300   wait 100       window 8.00  threshold inf  flight 8   sends
            300   dup 1          window 8.00  threshold inf  flight 9   sends 14
            300   dup 1          window 8.00  threshold inf  flight 10  sends 15
            300   dup 1          window 4.00  threshold 4    flight 10  sends 6!
            300   dup 4          window 4.00  threshold 4    flight 11  sends 16
            300   dup 1          window 4.00  threshold 4    flight 12  sends 17
            300   dup 2          window 4.00  threshold 4    flight 14  sends 18 19
            400   wait 100       window 4.00  threshold 4    flight 14  sends
            400   ack 16         window 4.25  threshold 4    flight 4   sends
        "#]],
    );
}

#[test]
fn partial_ack_retransmits_next_lost_packet() {
    // 6 and 9 are lost.
    check(
        plain(),
        &format!("{EIGHT} wait 100; dup 6; wait 100; ack 9; dup 2; wait 100; ack 16; ack 17; ack 18"),
        expect![[r#"
            300   wait 100       window 8.00  threshold inf  flight 8   sends
            300   dup 6          window 4.00  threshold 4    flight 10  sends 6! 14 15
            400   wait 100       window 4.00  threshold 4    flight 10  sends
            400   ack 9          window 4.00  threshold 4    flight 8   sends 9! 16
            400   dup 2          window 4.00  threshold 4    flight 10  sends 17 18
            500   wait 100       window 4.00  threshold 4    flight 10  sends
            500   ack 16         window 4.25  threshold 4    flight 4   sends 19
            500   ack 17         window 4.49  threshold 4    flight 4   sends 20
            500   ack 18         window 4.71  threshold 4    flight 4   sends 21
        "#]],
    );
}

#[test]
fn only_first_partial_ack_restarts_timer() {
    // 6, 7 and 8 are lost. The timer of 8 started with the acknowledgement of 6.
    check(
        plain(),
        &format!("{EIGHT} wait 100; dup 5; wait 100; ack 7; wait 100; ack 8; timer"),
        expect![[r#"
            300   wait 100       window 8.00  threshold inf  flight 8   sends
            300   dup 5          window 4.00  threshold 4    flight 9   sends 6! 14
            400   wait 100       window 4.00  threshold 4    flight 9   sends
            400   ack 7          window 4.00  threshold 4    flight 9   sends 7! 15
            500   wait 100       window 4.00  threshold 4    flight 9   sends
            500   ack 8          window 4.00  threshold 4    flight 9   sends 8! 16
            600   timer          window 1.00  threshold 2    flight 1   sends 8!
        "#]],
    );
}

#[test]
fn timeout_retransmits_from_first_missing_packet() {
    // Packets that have arrived are skipped. Acknowledgements of packets that arrived twice cause no second halving.
    check(
        plain(),
        &format!("{EIGHT} timer; wait 100; ack 7; same 3; wait 100; ack 14; same 4; wait 100; ack 16"),
        expect![[r#"
            400   timer          window 1.00  threshold 4    flight 1   sends 6!
            500   wait 100       window 1.00  threshold 4    flight 1   sends
            500   ack 7          window 2.00  threshold 4    flight 2   sends 7! 8!
            500   same 3         window 2.00  threshold 4    flight 2   sends
            600   wait 100       window 2.00  threshold 4    flight 2   sends
            600   ack 14         window 3.00  threshold 4    flight 3   sends 14 15 16
            600   same 4         window 3.00  threshold 4    flight 3   sends
            700   wait 100       window 3.00  threshold 4    flight 3   sends
            700   ack 16         window 4.00  threshold 4    flight 4   sends 17 18 19
        "#]],
    );
}

#[test]
fn second_timeout_doubles_timer_and_keeps_threshold() {
    check(
        plain(),
        &format!("{EIGHT} timer; timer; timer; wait 100; ack 7"),
        expect![[r#"
            400   timer          window 1.00  threshold 4    flight 1   sends 6!
            800   timer          window 1.00  threshold 4    flight 1   sends 6!
            1600  timer          window 1.00  threshold 4    flight 1   sends 6!
            1700  wait 100       window 1.00  threshold 4    flight 1   sends
            1700  ack 7          window 2.00  threshold 4    flight 2   sends 7! 8!
        "#]],
    );
}

#[test]
fn congestion_avoidance_adds_a_packet_a_round_trip() {
    check(
        plain(),
        &format!(
            "{EIGHT} wait 100; dup 8; wait 100; ack 16; wait 100; ack 17; ack 18; ack 19; ack 20; wait 100; ack 21"
        ),
        expect![[r#"
            300   wait 100       window 8.00  threshold inf  flight 8   sends
            300   dup 8          window 4.00  threshold 4    flight 12  sends 6! 14 15 16 17
            400   wait 100       window 4.00  threshold 4    flight 12  sends
            400   ack 16         window 4.25  threshold 4    flight 4   sends 18 19
            500   wait 100       window 4.25  threshold 4    flight 4   sends
            500   ack 17         window 4.49  threshold 4    flight 4   sends 20
            500   ack 18         window 4.71  threshold 4    flight 4   sends 21
            500   ack 19         window 4.92  threshold 4    flight 4   sends 22
            500   ack 20         window 5.12  threshold 4    flight 5   sends 23 24
            600   wait 100       window 5.12  threshold 4    flight 5   sends
            600   ack 21         window 5.32  threshold 4    flight 5   sends 25
        "#]],
    );
}

/// A transfer is over; the next begins after a pause.
fn pause(restart: IdleRestart, millis: u64, steps: &str) -> String {
    let settings = Settings { restart, ..plain() };
    let steps =
        format!("offer 6; wait 100; ack 1; ack 2; wait 100; ack 3; ack 4; ack 5; ack 6; wait {millis}; {steps}");
    let told = script(settings, Box::new(Reno::new(&settings)), &steps);
    told.lines().last().unwrap_or_default().to_owned()
}

#[test]
fn idle_timeout_resets_window() {
    let steps = "offer 20";
    // The timeout is 200 ms; the last packet was sent 100 ms before it was acknowledged.
    for (restart, millis, window) in [
        (IdleRestart::AfterAcknowledged, 190, 8),
        (IdleRestart::AfterAcknowledged, 210, 2),
        (IdleRestart::AfterSent, 90, 8),
        (IdleRestart::AfterSent, 110, 2),
        (IdleRestart::Decay, 90, 8),
        (IdleRestart::Decay, 110, 4),
        (IdleRestart::Decay, 310, 2),
        (IdleRestart::Decay, 9000, 2),
        (IdleRestart::Off, 9000, 8),
    ] {
        let told = pause(restart, millis, steps);
        assert!(told.contains(&format!(" flight {window} ")), "{restart:?} {millis} ms: {told}");
    }
}

#[test]
fn marks_halve_window_once_per_round_trip() {
    let settings = Settings { marks: true, ..plain() };
    check(
        settings,
        &format!("{EIGHT} wait 100; mark 7; mark 8; ack 14; wait 100; mark 15"),
        expect![[r#"
            300   wait 100       window 8.00  threshold inf  flight 8   sends
            300   mark 7         window 4.25  threshold 4    flight 7   sends
            300   mark 8         window 4.49  threshold 4    flight 6   sends
            300   ack 14         window 4.71  threshold 4    flight 4   sends 14 15 16 17
            400   wait 100       window 4.71  threshold 4    flight 4   sends
            400   mark 15        window 2.50  threshold 2    flight 3   sends
        "#]],
    );
}

#[test]
fn packet_counting_grows_only_full_windows() {
    let settings = Settings { counts_packets: true, initial_window: 4, ..plain() };
    check(
        settings,
        "offer 1000; wait 100; ack 2; ack 4",
        expect![[r#"
            0     offer 1000     window 4.00  threshold inf  flight 4   sends 0 1 2 3
            100   wait 100       window 4.00  threshold inf  flight 4   sends
            100   ack 2          window 6.00  threshold inf  flight 6   sends 4 5 6 7
            100   ack 4          window 8.00  threshold inf  flight 8   sends 8 9 10 11
        "#]],
    );
    // Two of a window of four are used, so the window did not limit the sender. Three are more than half of it.
    check(
        settings,
        "offer 2; wait 100; ack 1; ack 2; offer 3; wait 100; ack 3; ack 4; ack 5",
        expect![[r#"
            0     offer 2        window 4.00  threshold inf  flight 2   sends 0 1
            100   wait 100       window 4.00  threshold inf  flight 2   sends
            100   ack 1          window 4.00  threshold inf  flight 1   sends
            100   ack 2          window 4.00  threshold inf  flight 0   sends
            100   offer 3        window 4.00  threshold inf  flight 3   sends 2 3 4
            200   wait 100       window 4.00  threshold inf  flight 3   sends
            200   ack 3          window 5.00  threshold inf  flight 2   sends
            200   ack 4          window 5.00  threshold inf  flight 1   sends
            200   ack 5          window 5.00  threshold inf  flight 0   sends
        "#]],
    );
}
