//! The reports of the run queue: times and their sums, the trace, warnings.

use super::*;
use packet::Advisory;

#[test]
fn core_time_is_useful_polling_or_switching() {
    let mut agenda = RunQueue::new(Nanos::ZERO);
    agenda.configure(&CpuPlan { receive: Receive::Polling, ..CpuPlan::default() }, at(0));
    let (input, task) =
        (agenda.add(TaskKind::Input, terms(1), at(0)), agenda.add(TaskKind::Forwarding, terms(1), at(0)));
    assert_eq!(agenda.times().efficiency(), 1.0);
    agenda.wake(input, at(0));
    agenda.pick(at(0));
    agenda.record_switch(input, Nanos::micros(1));
    agenda.record_poll(input, Nanos::micros(2), 0, false, false, at(3));
    agenda.stop_polling(input, at(3));
    agenda.update_queue(task, 1, 1, at(3));
    agenda.pick(at(3));
    agenda.record_switch(task, Nanos::micros(1));
    agenda.record_run(
        task,
        RunOutcome { used: Nanos::micros(6), packets: 1, waiting: 0, room: 1, in_function_thread: false },
        at(10),
    );
    assert_eq!((agenda.times().efficiency(), agenda.times().efficiency_literal()), (0.6, 0.8));
}

/// The records of a trace.
fn trace_events(trace: Option<Box<TaskTrace>>) -> Vec<(Instant, TaskEvent)> {
    trace.iter().flat_map(|trace| trace.records()).map(|record| (record.at, record.event)).collect()
}

#[test]
fn the_trace_has_every_event_in_order_and_keeps_the_last() {
    let (mut agenda, task) = one(&throttled(10), TaskTerms { max_wait: Some(Nanos::micros(500)), ..terms(1) });
    assert!(agenda.set_trace(Some(Box::new(TaskTrace::new(10))), at(0)).is_none());
    agenda.trace_arrival(task, 1, 1, at(0));
    agenda.update_queue(task, 1, 128, at(0));
    agenda.pick(at(500)).unwrap();
    agenda.record_switch(task, Nanos::micros(2));
    agenda.count_bytes(64);
    agenda.record_run(task, ran(1, 0, 128), at(503));
    agenda.trace_drop(task, 3, at(504));
    let first = agenda.set_trace(Some(Box::new(TaskTrace::new(1))), at(600));
    let yielded = TaskEvent::Yielded { packets: 1, bytes: 64, waiting: 0, used: Nanos::micros(1) };
    let expected = [
        (at(0), TaskEvent::Idle),
        (at(0), TaskEvent::Arrived { packets: 0, waiting: 0 }),
        (at(0), TaskEvent::Arrived { packets: 1, waiting: 1 }),
        (at(0), TaskEvent::Eligible),
        (at(500), TaskEvent::Timeout),
        (at(500), TaskEvent::Active),
        (at(500), TaskEvent::Dispatched { switch: Nanos::micros(2) }),
        (at(503), yielded),
        (at(503), TaskEvent::Idle),
        (at(504), TaskEvent::Dropped { packets: 3 }),
    ];
    assert_eq!((first.as_ref().unwrap().lost(), trace_events(first)), (0, expected.to_vec()));
    agenda.update_queue(task, 1, 128, at(600));
    agenda.update_queue(task, 30, 128, at(601));
    let last = agenda.set_trace(None, at(602));
    assert_eq!(
        (last.as_ref().unwrap().lost(), trace_events(last)),
        (3, vec![(at(601), TaskEvent::Active)]),
        "the oldest goes"
    );
    agenda.update_queue(task, 1, 128, at(700));
    assert!(agenda.set_trace(None, at(700)).is_none());
}

/// Two ports are polled a thousand times each without packets. In the middle one of them receives some.
#[test]
fn empty_polls_do_not_evict_trace_records() {
    let mut agenda = RunQueue::new(Nanos::micros(1));
    let ports = [(); 2].map(|()| agenda.add(TaskKind::Input, terms(1), at(0)));
    ports.iter().for_each(|&port| agenda.wake(port, at(0)));
    agenda.set_trace(Some(Box::new(TaskTrace::new(100))), at(0));
    for round in 0..2000 {
        let task = agenda.pick(at(round)).unwrap().task;
        agenda.record_switch(task, Nanos::new(100));
        agenda.record_poll(task, Nanos::new(400), u32::from(round == 1000), false, false, at(round + 1));
    }
    let trace = agenda.set_trace(None, at(2000)).unwrap();
    let polls = |what: &TaskEvent| match what {
        TaskEvent::Polled { times, used, .. } => Some((*times, *used)),
        _ => None,
    };
    let polls: Vec<(u32, Nanos)> = trace.records().filter_map(|record| polls(&record.event)).collect();
    assert_eq!((trace.lost(), polls.iter().map(|poll| poll.0).sum::<u32>()), (0, 1999));
    assert_eq!(polls.iter().map(|poll| poll.1.get()).sum::<u64>(), 1999 * 500);
    assert!(trace.records().len() < 20, "{:?}", trace.records().collect::<Vec<_>>());
}

/// The warnings of `looks` checks.
fn advisories(agenda: &mut RunQueue, looks: usize) -> Vec<Advisory> {
    let mut said = Vec::new();
    (0..looks).for_each(|_| agenda.report_advisories(|_, remark| said.push(remark)));
    said
}

#[test]
fn timeouts_only_warning_repeats_after_a_minute_without_the_condition() {
    let (mut agenda, task) = one(&throttled(10), TaskTerms { max_wait: Some(Nanos::micros(500)), ..terms(1) });
    let mut time = 0;
    let mut second = |agenda: &mut RunQueue, came: u32| {
        for _ in 0..20 {
            agenda.update_queue(task, came as usize, 128, at(time));
            agenda.pick(at(time + 500)).unwrap();
            agenda.record_switch(task, Nanos::ZERO);
            agenda.record_run(task, ran(came, 0, 128), at(time + 501));
            time += 1000;
        }
        advisories(agenda, 1)
    };
    assert_eq!(second(&mut agenda, 2), [Advisory::TimeoutsOnly { runs: 20, batch: 30 }]);
    assert!((0..100).all(|_| second(&mut agenda, 2).is_empty()), "it is not said again while it lasts");
    assert!((0..59).all(|_| second(&mut agenda, 30).is_empty()), "full batches");
    assert_eq!(second(&mut agenda, 30), []);
    assert_eq!(second(&mut agenda, 2), [Advisory::TimeoutsOnly { runs: 20, batch: 30 }]);
}

#[test]
fn each_warning_is_reported_when_its_condition_holds() {
    let plan = CpuPlan {
        forwarding: Batching::Throttle { overhead: Parts::percent(5), slice: Nanos::micros(300) },
        ..throttled(5)
    };
    let (mut agenda, task) = one(&plan, TaskTerms { capacity: 100, ..terms(1) });
    assert_eq!(advisories(&mut agenda, 2), [Advisory::NearCapacity { batch: 60, capacity: 100 }]);
    agenda.set_fill_time(task, Some(Nanos::micros(40)));
    for round in 0..2 {
        let now = round * 1000;
        agenda.update_queue(task, 100, 128, at(now));
        agenda.pick(at(now + 30 + 20 * round)).unwrap();
        agenda.record_switch(task, Nanos::ZERO);
        agenda.record_run(
            task,
            RunOutcome { used: Nanos::micros(200), packets: 100, waiting: 0, room: 100, in_function_thread: false },
            at(now + 300),
        );
        let said = advisories(&mut agenda, 1);
        let over = Advisory::OverCost { cost: Nanos::micros(2), declared: Nanos::micros(1) };
        let lags = Advisory::Lags { lag: Nanos::micros(50), lasts: Nanos::micros(40) };
        assert_eq!(said, [[over], [lags]][round as usize], "round {round}");
    }
    let input = agenda.add(TaskKind::Input, terms(1), at(0));
    let estimator = EstimatorPlan { sleep_max: Some(Nanos::millis(5)), ..EstimatorPlan::default() };
    let rate = Some(units::PacketRate::kpps(140));
    agenda.estimate(input, Some(estimator), false, Ring { slots: 64, batch: 16, line_rate: rate }, at(0));
    let lasts = Ring { slots: 64, batch: 256, line_rate: rate }.longest_sleep();
    assert_eq!(advisories(&mut agenda, 1), [Advisory::SleepsTooLong { sleep: Nanos::millis(5), lasts }]);
}

#[test]
fn vectors_over_budget_are_counted_and_many_cause_a_warning() {
    let plan = CpuPlan { classify_budget: Some(Nanos::micros(2)), ..CpuPlan::default() };
    let mut agenda = RunQueue::new(Nanos::ZERO);
    agenda.configure(&plan, at(0));
    let input = agenda.add(TaskKind::Input, terms(1), at(0));
    agenda.record_vector(input, 95, Nanos::micros(190));
    agenda.record_vector(input, 5, Nanos::new(10_001));
    assert_eq!(agenda.account(input).weighed, (100, 5));
    assert_eq!(advisories(&mut agenda, 1), [], "one in twenty may be the clock's doing");
    agenda.record_vector(input, 10, Nanos::micros(19));
    agenda.record_vector(input, 1, Nanos::micros(3));
    let over = Advisory::OverBudget { packets: 1, of: 11, budget: Nanos::micros(2) };
    assert_eq!(advisories(&mut agenda, 1), [over]);
    agenda.configure(&CpuPlan::default(), at(0));
    agenda.record_vector(input, 1, Nanos::secs(1));
    assert_eq!(agenda.account(input).weighed, (111, 6), "nobody looks");
}

#[test]
fn warnings_of_a_thousand_tasks_are_rate_limited_and_none_is_lost() {
    let mut agenda = RunQueue::new(Nanos::ZERO);
    agenda.configure(&throttled(2), at(0));
    let _: Vec<TaskId> = (0..40).map(|_| agenda.add(TaskKind::Forwarding, terms(1), at(0))).collect();
    assert_eq!(advisories(&mut agenda, 59).len(), 8);
    assert_eq!(advisories(&mut agenda, 60).len(), 8);
    assert_eq!(advisories(&mut agenda, 240).len(), 24);
}
