//! RFC 6675 and RFC 6937 by hand.

use super::script::script;
use crate::tcp::{Reno, Settings};
use expect_test::{Expect, expect};

#[track_caller]
fn check(steps: &str, told: Expect) {
    let settings = Settings { selective: true, initial_window: 10, ..Settings::plain() };
    told.assert_eq(&script(settings, Box::new(Reno::new(&settings)), &format!("offer 1000; wait 100; {steps}")));
}

#[test]
fn three_sacked_packets_start_proportional_reduction() {
    // Packet 0 of ten is lost. The first two packets beyond it allow two new ones; then each two or three arrivals allow one, until five are in
    // flight.
    check(
        "sack 1-2; sack 1-3; sack 1-4; sack 1-5; sack 1-6; sack 1-7; sack 1-8; sack 1-9; sack 1-10; wait 100; ack 13",
        expect![[r#"
            0     offer 1000     window 10.00 threshold inf  flight 10  sends 0 1 2 3 4 5 6 7 8 9
            100   wait 100       window 10.00 threshold inf  flight 10  sends
            100   sack 1-2       window 10.00 threshold inf  flight 10  sends 10
            100   sack 1-3       window 10.00 threshold inf  flight 10  sends 11
            100   sack 1-4       window 9.00  threshold 5    flight 9   sends 0!
            100   sack 1-5       window 8.00  threshold 5    flight 8   sends
            100   sack 1-6       window 8.00  threshold 5    flight 8   sends 12
            100   sack 1-7       window 7.00  threshold 5    flight 7   sends
            100   sack 1-8       window 7.00  threshold 5    flight 7   sends 13
            100   sack 1-9       window 6.00  threshold 5    flight 6   sends
            100   sack 1-10      window 5.00  threshold 5    flight 5   sends
            200   wait 100       window 5.00  threshold 5    flight 5   sends
            200   ack 13         window 5.20  threshold 5    flight 5   sends 14 15 16 17
        "#]],
    );
}

#[test]
fn all_holes_are_retransmitted_in_one_recovery() {
    // 0, 2, 4 and 5 are lost. Arrivals beyond the last of them reveal all losses.
    check(
        "sack 1-2; sack 3-4 1-2; sack 6-7 3-4 1-2; sack 6-8 3-4 1-2; sack 6-10 3-4 1-2; wait 100; ack 2; ack 4; ack 10",
        expect![[r#"
            0     offer 1000     window 10.00 threshold inf  flight 10  sends 0 1 2 3 4 5 6 7 8 9
            100   wait 100       window 10.00 threshold inf  flight 10  sends
            100   sack 1-2       window 10.00 threshold inf  flight 10  sends 10
            100   sack 3-4 1-2   window 10.00 threshold inf  flight 10  sends 11
            100   sack 6-7 3-4 1-2 window 6.00  threshold 5    flight 6   sends 0!
            100   sack 6-8 3-4 1-2 window 5.00  threshold 5    flight 5   sends
            100   sack 6-10 3-4 1-2 window 5.00  threshold 5    flight 5   sends 2! 4!
            200   wait 100       window 5.00  threshold 5    flight 5   sends
            200   ack 2          window 5.00  threshold 5    flight 5   sends 5!
            200   ack 4          window 5.00  threshold 5    flight 5   sends 12
            200   ack 10         window 5.00  threshold 5    flight 5   sends 13 14
        "#]],
    );
}

#[test]
fn lost_retransmissions_are_detected_by_later_packets() {
    // 0 is lost twice. Packet 10, the first one sent after its retransmission, reveals that.
    check(
        "sack 1-4; sack 1-10; wait 100; sack 1-13; sack 1-14; wait 100; ack 16",
        expect![[r#"
            0     offer 1000     window 10.00 threshold inf  flight 10  sends 0 1 2 3 4 5 6 7 8 9
            100   wait 100       window 10.00 threshold inf  flight 10  sends
            100   sack 1-4       window 8.00  threshold 5    flight 8   sends 0! 10
            100   sack 1-10      window 5.00  threshold 5    flight 5   sends 11 12 13
            200   wait 100       window 5.00  threshold 5    flight 5   sends
            200   sack 1-13      window 5.00  threshold 5    flight 5   sends 0! 14 15 16
            200   sack 1-14      window 5.00  threshold 5    flight 5   sends 17
            300   wait 100       window 5.00  threshold 5    flight 5   sends
            300   ack 16         window 5.20  threshold 5    flight 5   sends 18 19 20
        "#]],
    );
}

#[test]
fn timeout_retransmits_only_missing_packets() {
    // 0, 1 and 9 are lost. Too few packets arrived beyond them, so the timer detects the loss.
    check(
        "sack 2-4; timer; wait 100; ack 1; ack 4; wait 100; ack 9; wait 100; ack 10",
        expect![[r#"
            0     offer 1000     window 10.00 threshold inf  flight 10  sends 0 1 2 3 4 5 6 7 8 9
            100   wait 100       window 10.00 threshold inf  flight 10  sends
            100   sack 2-4       window 10.00 threshold inf  flight 10  sends 10 11
            3000  timer          window 1.00  threshold 5    flight 1   sends 0!
            3100  wait 100       window 1.00  threshold 5    flight 1   sends
            3100  ack 1          window 2.00  threshold 5    flight 2   sends 1! 4!
            3100  ack 4          window 3.00  threshold 5    flight 3   sends 5! 6!
            3200  wait 100       window 3.00  threshold 5    flight 3   sends
            3200  ack 9          window 4.00  threshold 5    flight 4   sends 9! 10! 11! 12
            3300  wait 100       window 4.00  threshold 5    flight 4   sends
            3300  ack 10         window 5.00  threshold 5    flight 5   sends 13 14
        "#]],
    );
}

#[test]
fn acks_without_new_data_change_nothing() {
    check(
        "sack 1-3; sack 1-3; sack 1-3; same 5; sack 1-4",
        expect![[r#"
            0     offer 1000     window 10.00 threshold inf  flight 10  sends 0 1 2 3 4 5 6 7 8 9
            100   wait 100       window 10.00 threshold inf  flight 10  sends
            100   sack 1-3       window 10.00 threshold inf  flight 10  sends 10 11
            100   sack 1-3       window 10.00 threshold inf  flight 10  sends
            100   sack 1-3       window 10.00 threshold inf  flight 10  sends
            100   same 5         window 10.00 threshold inf  flight 10  sends
            100   sack 1-4       window 9.00  threshold 5    flight 9   sends 0!
        "#]],
    );
}
