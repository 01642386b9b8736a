//! Rounds and questions as futures, by an executor that does nothing but ask, over sockets whose time is what they are asked to wait for.

use crate::host::{
    Computation, Controller, Datagrams, Outcome, Patience, Reporter, Schedule, Unanswered, ask, collect, report,
};
use crate::isa::{Instruction, Operator};
use crate::store::LIFETIME;
use crate::wire::Part;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use units::{Instant, Nanos};

const START: Instant = Instant::new(5_000_000_000);

/// A socket, what it has sent and what is on its way to it. Waiting takes no time but that of its own clock.
struct Wire {
    now: Cell<Instant>,
    sent: RefCell<Vec<(Instant, Part)>>,
    coming: RefCell<VecDeque<(Instant, Vec<u8>)>>,
}

impl Wire {
    fn new(coming: Vec<(Instant, Vec<u8>)>) -> Wire {
        Wire { now: Cell::new(START), sent: RefCell::default(), coming: RefCell::new(coming.into()) }
    }
}

impl Datagrams for Wire {
    type Error = Infallible;

    fn now(&self) -> Instant {
        self.now.get()
    }

    async fn send(&self, bytes: &[u8]) -> Result<(), Infallible> {
        self.sent.borrow_mut().push((self.now.get(), Part::read(bytes).unwrap()));
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
fn a_member_reports_and_the_root_has_the_result() {
    let round = Computation::seeded([1, 2]).round(0, Operator::Max);
    let schedule = Schedule::plan(START, LIFETIME, (Nanos::millis(50), Nanos::ZERO), 3).unwrap();
    let member = Wire::new(vec![(START, b"noise".to_vec())]);
    run(report(&member, Reporter::new(round, schedule, 9, 42))).unwrap();
    let sent = member.sent.into_inner();
    assert!(member.now.get() >= schedule.end && sent.iter().all(|(at, _)| *at < schedule.end));
    // One hop away, and half of it lost.
    let arrive = |(at, part): &(Instant, Part)| (*at + Nanos::millis(20), part.to_bytes());
    let root = Wire::new(sent.iter().step_by(2).map(arrive).collect());
    let mut controller = Controller::new(round, schedule);
    assert_eq!(run(collect(&root, &mut controller)), Ok(Outcome::Complete(42)));
    assert!(root.now.get() < schedule.end && controller.packets() > 1);
}

#[test]
fn a_question_is_repeated_until_it_is_answered() {
    let own = Computation::seeded([1, 2]);
    let patience = Patience { retry: Nanos::millis(100), deadline: START + Nanos::secs(1) };
    let get = own.get(7);
    let with = |value, error| {
        let instruction = Instruction::Get { tag: 7, value };
        Part { error, instruction, ..get }.to_bytes()
    };
    let at = |millis| START + Nanos::millis(millis);
    let other = Part { computation: 1, ..get }.to_bytes();
    let wire = Wire::new(vec![(at(50), other), (at(60), b"noise".to_vec()), (at(250), with(5, false))]);
    assert_eq!(run(ask(&wire, &get, patience)).map(|part| part.to_bytes()), Ok(with(5, false)));
    let sent: Vec<Instant> = wire.sent.borrow().iter().map(|(at, _)| *at).collect();
    assert_eq!(sent, [at(0), at(100), at(200)]);
    let failed = Wire::new(vec![(at(10), with(0, true))]);
    assert_eq!(run(ask(&failed, &get, patience)), Err(Unanswered::Failed));
    let silent = Wire::new(Vec::new());
    assert_eq!(run(ask(&silent, &get, patience)), Err(Unanswered::Late));
    assert_eq!((silent.sent.borrow().len(), silent.now.get()), (10, patience.deadline));
}
