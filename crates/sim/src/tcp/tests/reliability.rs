//! Laws of every connection under any loss. Everything arrives once and in order, the packets in flight are never negative, and a timer runs while
//! data is outstanding.

use super::dumbbell::Dumbbell;
use crate::random::RandomStream;
use crate::tcp::application::TcpApplication;
use crate::tcp::{AckPolicy, Bbr, CongestionControl, Cubic, Dctcp, Reno, Settings};
use proptest::prelude::*;
use units::{Instant, Nanos, Parts};

/// The settings and controls with which the laws are tried.
pub fn connection(kind: usize) -> (Settings, Box<dyn CongestionControl>) {
    let (plain, kernel) = (Settings::plain(), Settings::kernel());
    let each = Settings { acknowledging: AckPolicy::Each, initial_window: 2, ..kernel };
    match kind {
        0 => (plain, Box::new(Reno::new(&plain))),
        1 => (kernel, Box::new(Reno::new(&kernel))),
        2 => (kernel, Box::new(Cubic::with_hystart(&kernel))),
        3 => (kernel, Box::new(Bbr::new(&kernel))),
        4 => (plain, Box::new(Cubic::new(&plain))),
        5 => (plain, Box::new(Bbr::new(&plain))),
        6 => (each, Box::new(Dctcp::new(&each))),
        _ => (each, Box::new(Reno::new(&each))),
    }
}

pub const KINDS: usize = 8;

fn transfer(kind: usize, packets: u64, lost: u32, room: usize, seed: u64) -> Result<(), TestCaseError> {
    let (settings, control) = connection(kind);
    let mut world = Dumbbell::new(Nanos::micros(300), room, Nanos::millis(40));
    world.flow(settings, control, TcpApplication::Silent);
    let mut chance = RandomStream::new(seed, "losses");
    world.loss = Box::new(move |_, _| chance.happens(Parts::millionths(lost)));
    world.flows[0].sender.offer(Instant::START, packets);
    let (mut offered, mut before) = (packets, 0);
    let mut law: Result<(), String> = Ok(());
    // With half of all packets lost, timeouts back off to a minute each.
    world.run(Instant::START + Nanos::secs(20_000), |now, _, flow| {
        let sender = &flow.sender;
        let outstanding = sender.acknowledged() < offered;
        let wrong = if sender.acknowledged() < before {
            "an acknowledgement was taken back"
        } else if sender.acknowledged() > flow.receiver.received() {
            "something was acknowledged that has not come"
        } else if outstanding && sender.timer().is_none() {
            "no timer runs"
        } else if !outstanding && sender.timer().is_some() {
            "a timer runs for nothing"
        } else if sender.in_flight() > offered {
            "more is under way than there is"
        } else if sender.window() < 1.0 || sender.window().is_nan() {
            "the window is closed"
        } else {
            ""
        };
        if !wrong.is_empty() && law.is_ok() {
            law = Err(format!("{wrong} at {now:?}: {sender:?}"));
        }
        before = sender.acknowledged();
        offered = sender.offered();
    });
    prop_assert_eq!(law, Ok(()));
    let flow = &world.flows[0];
    prop_assert_eq!(flow.sender.acknowledged(), packets, "{:?}", &flow.sender);
    prop_assert_eq!(flow.receiver.received(), packets);
    prop_assert_eq!(flow.receiver.out_of_order().0, 0);
    let told = flow.sender.counters();
    prop_assert_eq!(told.sent - told.retransmitted, packets, "every packet is sent for the first time once");
    prop_assert_eq!(told.sent, world.left + world.dropped, "packets are conserved");
    prop_assert_eq!(world.left, packets + flow.receiver.duplicates(), "each arrives once but for those sent in vain");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]
    #[test]
    fn everything_arrives_once_under_any_loss(
        kind in 0..KINDS, packets in 1..3000u64, lost in 0..300_000u32, room in 1..200usize, seed: u64,
    ) {
        transfer(kind, packets, lost, room, seed)?;
    }
}

#[test]
fn transfer_completes_under_heavy_loss() {
    for kind in 0..KINDS {
        transfer(kind, 200, 600_000, 50, 7).unwrap_or_else(|wrong| panic!("connection {kind}: {wrong}"));
    }
}
