//! Rounds and requests as futures, with an executor that only polls, and sockets with virtual clocks.

use super::{Place, packet, part};
use crate::host::{
    Computation, DatagramSocket, Mean, MeanController, MeanReporter, MeanRounds, Reporter, RequestError, RetryPolicy,
    RoundController, RoundOutcome, Schedule, SealingSocket, collect, report, request,
};
use crate::isa::{Operator, StateInstruction};
use crate::seal::OperatorKey;
use crate::site::{InstructionFate, Location};
use crate::store::LIFETIME;
use crate::wire::{Part, before_data, with_data};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use units::{Instant, Nanos};

const START: Instant = Instant::new(5_000_000_000);

/// A socket with the datagrams it has sent and those in flight towards it. A wait only advances its own clock.
struct Wire {
    now: Cell<Instant>,
    sent: RefCell<Vec<(Instant, Vec<u8>)>>,
    coming: RefCell<VecDeque<(Instant, Vec<u8>)>>,
}

impl Wire {
    fn new(coming: Vec<(Instant, Vec<u8>)>) -> Wire {
        Wire { now: Cell::new(START), sent: RefCell::default(), coming: RefCell::new(coming.into()) }
    }
}

impl DatagramSocket for Wire {
    type Error = Infallible;

    fn now(&self) -> Instant {
        self.now.get()
    }

    async fn send(&self, bytes: &[u8]) -> Result<(), Infallible> {
        self.sent.borrow_mut().push((self.now.get(), bytes.to_vec()));
        Ok(())
    }

    async fn receive(&self, until: Instant) -> Result<Option<Vec<u8>>, Infallible> {
        let mut coming = self.coming.borrow_mut();
        let Some((at, bytes)) = coming.pop_front_if(|(at, _)| *at <= until) else {
            self.now.set(until);
            return Ok(None);
        };
        self.now.set(at.max(self.now.get()));
        Ok(Some(bytes))
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let (mut future, mut context) = (pin!(future), Context::from_waker(Waker::noop()));
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return done;
        }
    }
}

#[test]
fn root_receives_the_result_of_the_members_reports() {
    let round = Computation::seeded([1, 2]).round(0, Operator::Max);
    let schedule = Schedule::plan(START, LIFETIME, (Nanos::millis(50), Nanos::ZERO), 3).unwrap();
    let member = Wire::new(vec![(START, b"noise".to_vec())]);
    run(report(&member, Reporter::new(round, schedule, 9, 42))).unwrap();
    let sent = member.sent.into_inner();
    assert!(member.now.get() >= schedule.end && sent.iter().all(|(at, _)| *at < schedule.end));
    // One hop away, with every second packet lost.
    let arrive = |(at, bytes): &(Instant, Vec<u8>)| (*at + Nanos::millis(20), bytes.clone());
    let root = Wire::new(sent.iter().step_by(2).map(arrive).collect());
    let mut controller = RoundController::new(round, schedule);
    assert_eq!(run(collect(&root, &mut controller)), Ok(RoundOutcome::Complete(42)));
    assert!(root.now.get() < schedule.end && controller.packets() > 1);
}

#[test]
fn request_is_retransmitted_until_its_answer_arrives() {
    let own = Computation::seeded([1, 2]);
    let patience = RetryPolicy { retry: Nanos::millis(100), deadline: START + Nanos::secs(1) };
    let get = own.get(7);
    let with = |value, error| {
        let instruction = StateInstruction::Get { tag: 7, value };
        Part { error, instruction, ..get }.to_bytes()
    };
    let at = |millis| START + Nanos::millis(millis);
    let other = Part { computation: 1, ..get }.to_bytes();
    let wire = Wire::new(vec![(at(50), other), (at(60), b"noise".to_vec()), (at(250), with(5, false))]);
    assert_eq!(run(request(&wire, &get, patience)).map(|part| part.to_bytes()), Ok(with(5, false)));
    let sent: Vec<Instant> = wire.sent.borrow().iter().map(|(at, _)| *at).collect();
    assert_eq!(sent, [at(0), at(100), at(200)]);
    let failed = Wire::new(vec![(at(10), with(0, true))]);
    assert_eq!(run(request(&failed, &get, patience)), Err(RequestError::Failed));
    let silent = Wire::new(Vec::new());
    assert_eq!(run(request(&silent, &get, patience)), Err(RequestError::TimedOut));
    assert_eq!((silent.sent.borrow().len(), silent.now.get()), (10, patience.deadline));
}

/// The futures run other rounds too.
#[test]
fn root_receives_the_mean_of_the_members_values() {
    let rounds = MeanRounds::of(&Computation::seeded([1, 2]), 0);
    let schedule = Schedule::plan(START, LIFETIME, (Nanos::millis(50), Nanos::ZERO), 3).unwrap();
    let member = Wire::new(Vec::new());
    run(report(&member, MeanReporter::new(rounds, schedule, 9, 42))).unwrap();
    let root = Wire::new(member.sent.into_inner());
    let outcome = run(collect(&root, &mut MeanController::new(rounds, schedule)));
    assert_eq!(outcome, Ok(RoundOutcome::Complete(Mean { sum: 42, members: 1 })));
}

const KEY: OperatorKey = OperatorKey::new([7; 16]);

/// A router that executes only parts sealed with the key.
fn keyed() -> Place {
    let mut place = Place::small();
    place.rules.sealed = Some((KEY, std::mem::take(&mut place.rules.allowed)));
    place
}

/// The datagrams that leave a router.
fn through(router: &mut Place, sent: &[(Instant, Vec<u8>)]) -> Vec<(Instant, Vec<u8>)> {
    let leaves = |(at, bytes): &(Instant, Vec<u8>)| {
        let mut packet = packet(&part(StateInstruction::Nop));
        packet.truncate(20);
        packet.extend(bytes);
        packet[3] = packet.len() as u8;
        router.now = *at;
        let fate = router.pass(Location::Input, &mut packet);
        (fate != InstructionFate::Dropped).then(|| (*at + Nanos::millis(20), packet.split_off(20)))
    };
    sent.iter().filter_map(leaves).collect()
}

#[test]
fn round_completes_at_a_keyed_router_only_with_the_key() {
    let round = Computation::seeded([1, 2]).round(0, Operator::Max);
    let schedule = Schedule::plan(START, LIFETIME, (Nanos::millis(50), Nanos::ZERO), 3).unwrap();
    let outcome = |members: Option<OperatorKey>, root: Option<OperatorKey>| {
        let mut router = keyed();
        let member = SealingSocket::new(Wire::new(Vec::new()), members);
        run(report(&member, Reporter::new(round, schedule, 9, 42))).unwrap();
        let came = through(&mut router, &member.into_inner().sent.into_inner());
        run(collect(&SealingSocket::new(Wire::new(came), root), &mut RoundController::new(round, schedule))).unwrap()
    };
    assert_eq!(outcome(Some(KEY), Some(KEY)), RoundOutcome::Complete(42));
    assert_eq!(outcome(None, None), RoundOutcome::Failed, "what is not sealed is not executed");
    assert_eq!(outcome(None, Some(KEY)), RoundOutcome::NoMembers, "and is nothing to whoever has the key");
}

#[test]
fn request_is_answered_at_a_keyed_router_only_with_the_key() {
    let own = Computation::seeded([1, 2]);
    let patience = RetryPolicy { retry: Nanos::millis(100), deadline: START + Nanos::secs(1) };
    let (mut router, get) = (keyed(), own.get(7));
    let mut answer = |part: &[u8]| through(&mut router, &[(START, part.to_vec())]);
    answer(&KEY.seal(&own.put(7, 5)));
    let asked = |coming| {
        let socket = SealingSocket::new(Wire::new(coming), Some(KEY));
        let answer = run(request(&socket, &get, patience));
        assert!(socket.into_inner().sent.borrow().iter().all(|(_, bytes)| KEY.read(bytes) == Ok(get)));
        answer.map(|part| part.instruction)
    };
    assert_eq!(asked(answer(&KEY.seal(&get))), Ok(StateInstruction::Get { tag: 7, value: 5 }));
    assert_eq!(asked(answer(&get.to_bytes())), Err(RequestError::TimedOut), "nobody with the key has answered");
    assert_eq!(asked(answer(&KEY.seal(&own.get(8)))), Err(RequestError::Failed), "nothing is there");
}

/// A sealing socket leaves data behind a part, and datagrams without a part, unchanged.
#[test]
fn sealing_socket_seals_only_parts() {
    let mark = Computation::seeded([1, 2]).mark(7, 1);
    for data in [&b""[..], b"data"] {
        let bytes = before_data(&mark, data);
        let out = SealingSocket::new(Wire::new(Vec::new()), Some(KEY));
        run(out.send(&bytes)).unwrap();
        let sent = out.into_inner().sent.into_inner();
        assert_eq!(sent[0].1, before_data(&KEY.sealed(mark), data));
        let back = SealingSocket::new(Wire::new(sent), Some(KEY));
        let came = run(back.receive(START)).unwrap().unwrap();
        assert_eq!(with_data(&came).map(|(part, data)| (part.instruction, data)), Ok((mark.instruction, Some(data))));
    }
    let out = SealingSocket::new(Wire::new(Vec::new()), Some(KEY));
    run(out.send(b"noise")).unwrap();
    assert_eq!(out.into_inner().sent.into_inner()[0].1, b"noise");
}
