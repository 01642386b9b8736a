//! The agreement of both ends in virtual time: begin, fallback, recovery, restart, maps.

use super::super::header::VERSION;
use super::*;
use packet::port::DfqFallback;

const MULTIPLEXED: Option<DfqWireState> = Some(DfqWireState::Multiplexed);

fn plain(reason: DfqFallback) -> Option<DfqWireState> {
    Some(DfqWireState::Plain(reason))
}

#[test]
fn both_ends_agree_at_the_first_hello_and_frames_arrive_unchanged() {
    let mut pair = Pair::new([options(0), options(1)]);
    // Before the agreement frames leave plain.
    pair.send(0, &[(ShareId(0), frame(1, 1, 100))]);
    pair.carry_from(0, &mut |frame| !is_message(frame));
    assert_eq!(pair.receive(1).packets, [frame(1, 1, 100)]);
    assert_eq!(pair.elapse(Nanos::millis(200)), [MULTIPLEXED; 2]);
    assert_eq!(pair.exchange(0, &[(ShareId(0), frame(1, 2, 1514))]).packets, [frame(1, 2, 1514)]);
    assert_eq!(pair.exchange(1, &[(ShareId(0), frame(0, 3, 60))]).packets, [frame(0, 3, 60)]);
    assert_eq!(pair.status(0).counters.packets_sent, 1);
    assert_eq!(pair.status(0).counters.packets_received, 1);
    assert_eq!(pair.status(0).peer, Some(MACS[1]));
    assert_eq!(pair.pool.frames_in_use(), 0);
}

#[test]
fn beside_a_plain_peer_frames_leave_plain_and_one_event_says_so() {
    let mut pair = Pair::new([options(0), options(1)]);
    let mut changes = Vec::new();
    for _ in 0..100 {
        changes.extend(pair.ends[0].maintain(pair.now, &mut pair.pool));
        pair.now += Nanos::millis(100);
    }
    assert_eq!(changes, [DfqWireState::Plain(DfqFallback::NoAnswer)]);
    // Hellos go on: the other end may be configured later.
    let mut hellos = 0;
    pair.carry_from(0, &mut |frame| {
        hellos += usize::from(is_message(frame));
        false
    });
    assert_eq!(hellos, 10);
    pair.send(0, &[(ShareId(7), frame(1, 1, 900))]);
    let mut seen = Vec::new();
    pair.carry_from(0, &mut |frame| {
        seen.push(frame.to_vec());
        true
    });
    assert_eq!(seen, [frame(1, 1, 900)]);
}

#[test]
fn different_bitmaps_fall_back_at_both_ends() {
    let mut pair = Pair::new([options(0), DfqWireOptions { bitmap: 128, ..options(1) }]);
    let changes = pair.elapse(Nanos::millis(500));
    assert_eq!(changes[0], plain(DfqFallback::Bitmap { own: 64, peer: 128 }));
    assert_eq!(changes[1], plain(DfqFallback::Bitmap { own: 128, peer: 64 }));
    let mut seen = 0;
    pair.send(0, &[(ShareId(0), frame(1, 1, 100))]);
    pair.carry_from(0, &mut |frame| {
        seen += usize::from(!is_message(frame));
        true
    });
    assert_eq!((seen, pair.receive(1).packets.len()), (1, 1));
    // With new options the port is opened again, and both ends agree.
    let (near, far) = MemoryWire::pair(2048);
    pair.ends[1] = DfqWire::new(Box::new(near), &DfqWireOptions { opened: 2, ..options(1) });
    pair.cable[1] = far;
    assert_eq!(pair.elapse(Nanos::secs(2)), [MULTIPLEXED; 2]);
}

#[test]
fn another_version_falls_back() {
    let mut pair = Pair::new([options(0), options(1)]);
    let mut hello = vec![0; HEADER + 22];
    write_header(&mut hello[..HEADER], Mac::BROADCAST, MACS[1], None, ETHERTYPE);
    hello[HEADER] = (VERSION + 1) << 4 | 1;
    let frame = packet(&mut pair.pool, &hello);
    pair.batch.push(frame);
    pair.cable[0].transmit(pair.now, &mut pair.batch, &mut pair.pool);
    pair.receive(0);
    let change = pair.ends[0].maintain(pair.now, &mut pair.pool);
    assert_eq!(change, plain(DfqFallback::Version(VERSION + 1)));
}

#[test]
fn a_silent_peer_is_lost_after_the_timeout_and_found_again() {
    let mut pair = Pair::agreed();
    // Only hellos of the second end are lost.
    let changes = pair.elapse_with(Nanos::secs(5), &mut |end, _| end == 0);
    assert_eq!(changes[0], plain(DfqFallback::Lost));
    // The first end says that it hears nothing, so the second one sends plain too.
    assert_ne!(pair.status(1).state, DfqWireState::Multiplexed);
    assert_eq!(pair.exchange(1, &[(ShareId(0), frame(0, 1, 500))]).packets, [frame(0, 1, 500)]);
    // The second end did not wait for the timeout, so it has no news.
    assert_eq!(pair.elapse(Nanos::secs(2)), [MULTIPLEXED, None]);
    assert_eq!(pair.exchange(1, &[(ShareId(0), frame(0, 2, 500))]).packets, [frame(0, 2, 500)]);
    assert_eq!(pair.exchange(0, &[(ShareId(0), frame(1, 3, 500))]).packets, [frame(1, 3, 500)]);
}

#[test]
fn a_port_that_closes_takes_leave_and_no_packet_is_lost() {
    let mut pair = Pair::agreed();
    pair.ends[1].take_leave(pair.now, &mut pair.pool);
    pair.carry_from(1, &mut |_| true);
    pair.receive(0);
    let change = pair.ends[0].maintain(pair.now, &mut pair.pool);
    assert_eq!(change, plain(DfqFallback::Left));
    let mut seen = Vec::new();
    pair.send(0, &[(ShareId(0), frame(1, 1, 100))]);
    pair.carry_from(0, &mut |frame| {
        seen.push(frame.to_vec());
        true
    });
    assert_eq!(seen, [frame(1, 1, 100)]);
}

#[test]
fn flow_maps_survive_an_interruption() {
    let mut pair = Pair::agreed();
    pair.exchange(0, &[(ShareId(5), frame(1, 1, 100))]);
    pair.elapse(Nanos::millis(200));
    assert_eq!(pair.status(0).flows_out, 1);
    pair.elapse_with(Nanos::secs(5), &mut |_, _| false);
    assert_eq!(pair.elapse(Nanos::secs(2)), [MULTIPLEXED; 2]);
    let received = pair.exchange(0, &[(ShareId(5), frame(1, 2, 100))]);
    assert_eq!((received.packets.len(), received.refused.len()), (1, 0));
}

#[test]
fn a_restarted_peer_begins_a_new_session() {
    let mut pair = Pair::agreed();
    pair.exchange(0, &[(ShareId(5), frame(1, 1, 100))]);
    pair.elapse(Nanos::millis(200));
    let (near, far) = MemoryWire::pair(2048);
    pair.ends[1] = DfqWire::new(Box::new(near), &DfqWireOptions { opened: 2, ..options(1) });
    pair.cable[1] = far;
    // Batches to the former session have a reason, and are not read.
    let received = pair.exchange(0, &[(ShareId(5), frame(1, 2, 100))]);
    assert_eq!((received.packets.len(), &received.refused[..]), (0, &[DropReason::DfqBadFrame][..]));
    pair.elapse(Nanos::secs(2));
    assert_eq!((pair.status(0).state, pair.status(1).state), (DfqWireState::Multiplexed, DfqWireState::Multiplexed));
    let received = pair.exchange(0, &[(ShareId(5), frame(1, 3, 100))]);
    assert_eq!((received.packets.len(), received.refused.len()), (1, 0));
    pair.elapse(Nanos::millis(300));
    assert_eq!((pair.status(0).flows_out, pair.status(1).flows_in), (1, 1));
}

#[test]
fn a_flow_is_best_effort_until_its_number_is_acknowledged() {
    let mut pair = Pair::agreed();
    let flows = |pair: &mut Pair| {
        pair.send(0, &[(ShareId(900), frame(1, 1, 100))]);
        let mut first = None;
        pair.carry_from(0, &mut |frame| {
            if is_batch(frame) {
                first = Some(u16::from_be_bytes([frame[HEADER + 10], frame[HEADER + 11]]));
            }
            is_batch(frame)
        });
        assert_eq!(pair.receive(1).packets.len(), 1);
        first
    };
    // The map is lost at first: it is repeated.
    assert_eq!(flows(&mut pair), Some(0));
    assert_eq!(flows(&mut pair), Some(0));
    pair.elapse(Nanos::millis(300));
    assert_eq!(flows(&mut pair), Some(1));
    assert_eq!((pair.status(0).flows_out, pair.status(1).flows_in), (1, 1));
}

#[test]
fn numbers_of_flows_without_packets_are_used_again() {
    let mut pair = Pair::new([DfqWireOptions { flows: 3, ..options(0) }, DfqWireOptions { flows: 3, ..options(1) }]);
    pair.elapse(Nanos::millis(200));
    for share in 1..=5 {
        pair.exchange(0, &[(ShareId(share), frame(1, share, 100))]);
        pair.elapse(Nanos::millis(200));
    }
    // Two numbers besides best effort: three shares travel as that.
    assert_eq!(pair.status(0).flows_out, 2);
    pair.elapse(Nanos::secs(62));
    assert_eq!(pair.status(0).flows_out, 0);
    pair.exchange(0, &[(ShareId(5), frame(1, 9, 100))]);
    pair.elapse(Nanos::millis(200));
    assert_eq!(pair.exchange(0, &[(ShareId(5), frame(1, 10, 100))]).packets, [frame(1, 10, 100)]);
    assert_eq!(pair.status(0).flows_out, 1);
}

#[test]
fn frames_to_groups_and_other_stations_leave_plain() {
    let mut pair = Pair::agreed();
    let mut others = [frame(1, 1, 60), frame(1, 2, 60)];
    others[0][..6].fill(0xff);
    others[1][..6].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    let packets: Vec<_> = others.iter().map(|frame| (ShareId(0), frame.clone())).collect();
    pair.send(0, &packets);
    let mut seen = Vec::new();
    pair.carry_from(0, &mut |frame| {
        seen.push(frame.to_vec());
        true
    });
    assert_eq!(seen, others);
}

#[test]
fn a_third_router_is_ignored_while_the_peer_answers() {
    let mut pair = Pair::agreed();
    let mut hello = Vec::new();
    pair.ends[1].maintain(pair.now + Nanos::secs(2), &mut pair.pool);
    pair.carry_from(1, &mut |frame| {
        hello = frame.to_vec();
        false
    });
    hello[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    hello[HEADER + 5] ^= 1;
    let other = packet(&mut pair.pool, &hello);
    pair.batch.push(other);
    pair.cable[0].transmit(pair.now, &mut pair.batch, &mut pair.pool);
    pair.receive(0);
    assert_eq!(pair.status(0).peer, Some(MACS[1]));
    assert_eq!(pair.status(0).state, DfqWireState::Multiplexed);
}

#[test]
fn late_and_foreign_batches_are_refused_with_a_reason() {
    let mut pair = Pair::agreed();
    pair.send(0, &[(ShareId(0), frame(1, 1, 100))]);
    let mut first = Vec::new();
    pair.carry_from(0, &mut |frame| {
        first = frame.to_vec();
        false
    });
    assert_eq!(pair.exchange(0, &[(ShareId(0), frame(1, 2, 100))]).packets.len(), 1);
    assert_eq!(pair.exchange(0, &[(ShareId(0), frame(1, 3, 100))]).packets.len(), 1);
    let mut foreign = first.clone();
    foreign[HEADER + 3] ^= 1;
    for late in [first, foreign] {
        let frame = packet(&mut pair.pool, &late);
        pair.batch.push(frame);
        pair.cable[1].transmit(pair.now, &mut pair.batch, &mut pair.pool);
        assert_eq!(pair.receive(1).refused, [DropReason::DfqBadFrame]);
    }
}

#[test]
fn a_full_medium_refuses_whole_packets_and_loses_no_frame_of_the_pool() {
    let (near, mut far) = MemoryWire::pair(20);
    let mut pair = Pair::new([options(0), options(1)]);
    pair.ends[0] = DfqWire::new(Box::new(near), &options(0));
    std::mem::swap(&mut pair.cable[0], &mut far);
    pair.elapse(Nanos::millis(300));
    assert_eq!(pair.ends[0].room(), 6);
    for number in 0..60 {
        let mut packet = packet(&mut pair.pool, &frame(1, number, 1514));
        packet.meta_mut().set_share(ShareId(0));
        pair.batch.push(packet);
    }
    pair.ends[0].transmit(pair.now, &mut pair.batch, &mut pair.pool);
    let reasons: Vec<_> = pair.batch.as_slice().iter().map(packet::port::refusal_reason).collect();
    assert_eq!(reasons, vec![Some(DropReason::BufferFull); reasons.len()]);
    let refused = pair.batch.len();
    pair.batch.drain().for_each(|packet| pair.pool.give(packet));
    pair.carry_from(0, &mut |_| true);
    assert_eq!(pair.receive(1).packets.len(), 60 - refused);
    pair.elapse(Nanos::secs(1));
    assert_eq!(pair.pool.frames_in_use(), 0);
}

#[test]
fn many_packets_of_one_frame_arrive_in_several_batches() {
    let mut pair = Pair::agreed();
    let packets: Vec<_> = (0..250).map(|number| (ShareId(0), frame(1, number, 20))).collect();
    pair.send(0, &packets);
    pair.carry_from(0, &mut |_| true);
    let mut arrived = 0;
    // The worker asks for ten at once.
    loop {
        pair.batch.limit(10);
        pair.ends[1].receive(pair.now, &mut pair.batch, &mut pair.pool);
        pair.batch.unlimit();
        assert!(pair.batch.len() <= 10);
        assert_eq!(pair.pool.frames_in_use(), pair.batch.len() as u64);
        if pair.batch.is_empty() {
            break;
        }
        arrived += pair.batch.len();
        pair.batch.drain().for_each(|packet| pair.pool.give(packet));
    }
    assert_eq!(arrived, 250);
}
