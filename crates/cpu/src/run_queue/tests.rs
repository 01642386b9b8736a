//! The states of the throttle, one transition a test, and the rules for them (spec Q-40 to Q-4A).

mod inspect;

use super::*;
use plan::{Batching, Charge, CpuPlan, EstimatorPlan, Layout, Receive};
use proptest::prelude::*;
use units::{Parts, Share};

fn at(us: u64) -> Instant {
    Instant::START + Nanos::micros(us)
}

fn throttled(percent: u32) -> CpuPlan {
    CpuPlan {
        forwarding: Batching::Throttle { overhead: Parts::percent(percent), slice: Nanos::micros(300) },
        switch_cost: Some(Nanos::micros(3)),
        work_conserving: false,
        vector: Some(1),
        ..CpuPlan::default()
    }
}

fn terms(cost_us: u64) -> TaskTerms {
    TaskTerms {
        share: Share::of(1, 4),
        max_wait: None,
        capacity: 128,
        cost: Some(Nanos::micros(cost_us)),
        prompt: false,
    }
}

/// A run queue by `plan` with one forwarding task.
fn one(plan: &CpuPlan, terms: TaskTerms) -> (RunQueue, TaskId) {
    let mut agenda = RunQueue::new(Nanos::ZERO);
    agenda.configure(plan, at(0));
    let task = agenda.add(TaskKind::Forwarding, terms, at(0));
    (agenda, task)
}

fn state(agenda: &RunQueue, task: TaskId) -> TaskState {
    agenda.view(task, at(0)).unwrap().state
}

fn ran(packets: u32, waiting: u32, room: u32) -> RunOutcome {
    RunOutcome { used: Nanos::micros(u64::from(packets)), packets, waiting, room, in_function_thread: false }
}

#[test]
fn task_is_eligible_with_first_packet_and_active_with_full_batch() {
    let (mut agenda, task) = one(&throttled(10), terms(1));
    assert_eq!(agenda.view(task, at(0)).unwrap().threshold, 30, "3 us at 10 % of 1 us");
    agenda.update_queue(task, 0, 128, at(1));
    assert_eq!(state(&agenda, task), TaskState::Idle);
    agenda.update_queue(task, 1, 0, at(2));
    assert_eq!(state(&agenda, task), TaskState::Idle, "there is no room behind it");
    agenda.update_queue(task, 1, 128, at(3));
    assert_eq!((state(&agenda, task), agenda.pick(at(3))), (TaskState::Eligible, None));
    agenda.update_queue(task, 29, 128, at(4));
    agenda.update_queue(task, 30, 29, at(5));
    assert_eq!(state(&agenda, task), TaskState::Eligible, "30 need room for 30");
    agenda.update_queue(task, 30, 30, at(6));
    assert_eq!(state(&agenda, task), TaskState::Active);
    let grant = agenda.pick(at(7)).unwrap();
    assert_eq!((grant.task, grant.slice, grant.vector), (task, Nanos::micros(300), 1));
    assert!(grant.packets > 1000, "B is what it takes to start, and no limit (spec Q-47)");
}

#[test]
fn task_with_a_full_batch_skips_the_eligible_state() {
    let (mut agenda, task) = one(&throttled(10), terms(1));
    agenda.update_queue(task, 30, 128, at(1));
    assert_eq!(state(&agenda, task), TaskState::Active);
    assert_eq!(agenda.view(task, at(1)).unwrap().account.residency[TaskState::Eligible as usize], Nanos::ZERO);
}

#[test]
fn state_after_a_run_depends_on_the_remaining_packets() {
    for (waiting, room, expected) in [
        (30, 128, TaskState::Active),
        (29, 128, TaskState::Eligible),
        (64, 29, TaskState::Eligible),
        (0, 128, TaskState::Idle),
        (64, 0, TaskState::Idle),
    ] {
        let (mut agenda, task) = one(&throttled(10), terms(1));
        agenda.update_queue(task, 30, 128, at(1));
        agenda.pick(at(1)).unwrap();
        agenda.record_run(task, ran(30, waiting, room), at(31));
        assert_eq!(state(&agenda, task), expected, "{waiting} wait, room for {room}");
    }
}

#[test]
fn max_wait_activates_a_task_and_restarts_after_a_run() {
    let (mut agenda, task) = one(&throttled(10), TaskTerms { max_wait: Some(Nanos::micros(500)), ..terms(1) });
    agenda.update_queue(task, 1, 128, at(100));
    assert_eq!((agenda.next_timer(), agenda.pick(at(599))), (at(600), None));
    assert_eq!(agenda.pick(at(600)).map(|grant| grant.task), Some(task));
    agenda.record_run(task, ran(1, 1, 128), at(610));
    assert_eq!((state(&agenda, task), agenda.next_timer()), (TaskState::Eligible, at(1110)));
    // One more packet does not postpone the timer.
    agenda.update_queue(task, 2, 128, at(900));
    assert_eq!(agenda.next_timer(), at(1110));
    assert!(agenda.pick(at(1110)).is_some());
    assert_eq!(agenda.view(task, at(1110)).unwrap().account.timeouts, 2);
}

#[test]
fn full_batch_before_the_timeout_ends_the_wait() {
    let (mut agenda, task) = one(&throttled(10), TaskTerms { max_wait: Some(Nanos::micros(500)), ..terms(1) });
    agenda.update_queue(task, 1, 128, at(0));
    agenda.update_queue(task, 30, 128, at(10));
    agenda.pick(at(10)).unwrap();
    agenda.record_run(task, ran(30, 0, 128), at(40));
    assert_eq!(agenda.pick(at(2000)), None, "the time of a wait that is over means nothing");
    assert_eq!(agenda.view(task, at(2000)).unwrap().account.timeouts, 0);
}

#[test]
fn threshold_is_capped_by_queue_capacity_unless_strict() {
    // A switch of 3 us at 2 % of 1 us needs 150 packets, and the queues hold 128 (spec Q-49).
    let (agenda, task) = one(&throttled(2), terms(1));
    assert_eq!(agenda.view(task, at(0)).unwrap().threshold, 128);
    let (mut agenda, task) = one(&CpuPlan { strict: true, ..throttled(2) }, terms(1));
    assert_eq!(agenda.view(task, at(0)).unwrap().threshold, 150);
    agenda.update_queue(task, 128, 128, at(1));
    assert_eq!(agenda.pick(at(1_000_000)), None, "it waits for ever");
}

#[test]
fn fullest_task_runs_when_none_is_active_if_harvest_is_on() {
    let mut agenda = RunQueue::new(Nanos::ZERO);
    agenda.configure(&CpuPlan { work_conserving: true, ..throttled(10) }, at(0));
    let tasks = [5, 7, 7].map(|waiting| {
        let task = agenda.add(TaskKind::Forwarding, terms(1), at(0));
        agenda.update_queue(task, waiting, 128, at(0));
        task
    });
    assert_eq!(agenda.pick(at(1)).map(|grant| grant.task), Some(tasks[1]));
    agenda.record_run(tasks[1], ran(7, 0, 128), at(8));
    assert_eq!(agenda.pick(at(8)).map(|grant| grant.task), Some(tasks[2]));
}

#[test]
fn empty_polls_do_not_prevent_harvesting() {
    let mut agenda = RunQueue::new(Nanos::ZERO);
    agenda.configure(&CpuPlan { work_conserving: true, ..throttled(10) }, at(0));
    let (input, task) =
        (agenda.add(TaskKind::Input, terms(1), at(0)), agenda.add(TaskKind::Forwarding, terms(1), at(0)));
    agenda.wake(input, at(0));
    agenda.update_queue(task, 3, 128, at(0));
    assert_eq!(agenda.pick(at(0)).map(|grant| grant.task), Some(input));
    agenda.record_poll(input, Nanos::micros(1), 0, false, false, at(1));
    let mut picked = Vec::new();
    for now in 2..4 {
        let grant = agenda.pick(at(now)).unwrap();
        picked.push(grant.task);
        if grant.task == input {
            agenda.record_poll(input, Nanos::micros(1), 0, false, false, at(now));
        } else {
            agenda.record_run(task, ran(3, 0, 128), at(now));
        }
    }
    assert!(picked.contains(&task), "{picked:?}");
}

#[test]
fn empty_port_is_polled_once_in_eight_dispatches_and_always_when_idle() {
    for (greedy, expected) in [(false, 11), (true, 80)] {
        let mut agenda = RunQueue::new(Nanos::ZERO);
        agenda.configure(&CpuPlan::default(), at(0));
        let (input, task) =
            (agenda.add(TaskKind::Input, terms(1), at(0)), agenda.add(TaskKind::Forwarding, terms(1), at(0)));
        agenda.estimate(input, None, greedy, Ring { slots: 64, batch: 16, line_rate: None }, at(0));
        agenda.wake(input, at(0));
        let mut looks = 0;
        for now in 0..100 {
            agenda.update_queue(task, 100, 100, at(now));
            if agenda.pick(at(now)).unwrap().task == input {
                looks += 1;
                agenda.record_poll(input, Nanos::micros(1), 0, false, false, at(now));
            } else {
                agenda.record_run(task, ran(4, 100, 100), at(now));
            }
        }
        assert!(if greedy { looks >= expected - 5 } else { looks <= expected + 2 }, "{greedy}: {looks}");
        if !greedy {
            assert!(looks >= 10);
            while agenda.pick(at(100)).map(|grant| grant.task) != Some(task) {
                agenda.record_poll(input, Nanos::micros(1), 0, false, false, at(100));
            }
            agenda.record_run(task, ran(4, 0, 100), at(100));
            assert_eq!(agenda.pick(at(101)).map(|grant| grant.task), Some(input));
            assert!(agenda.is_quiet());
            // The time of the poll is charged to the next run.
            agenda.record_poll(input, Nanos::micros(1), 16, true, false, at(102));
            assert!(!agenda.is_quiet());
        }
    }
}

#[test]
fn new_scheduler_takes_over_polling_ports_but_not_ports_that_stepped_back() {
    let mut agenda = RunQueue::new(Nanos::ZERO);
    let ring = Ring { slots: 64, batch: 16, line_rate: None };
    let [polite, greedy] = [0; 2].map(|_| agenda.add(TaskKind::Input, terms(1), at(0)));
    agenda.estimate(greedy, None, true, ring, at(0));
    [polite, greedy].iter().for_each(|&task| agenda.wake(task, at(0)));
    let mut now = 0;
    let others =
        [wf2q::REGISTRATION, crate::sfq::REGISTRATION, crate::round_robin::REGISTRATION, crate::stride::REGISTRATION];
    for scheduler in others.map(|one| one.named()) {
        agenda.configure(&CpuPlan { scheduler, ..CpuPlan::default() }, at(now));
        let mut looks = [0; 2];
        for _ in 0..200 {
            let task = agenda.pick(at(now)).unwrap().task;
            now += 1;
            agenda.record_poll(task, Nanos::micros(1), 0, false, false, at(now));
            looks[usize::from(task == greedy)] += 1;
        }
        assert!(looks.iter().all(|&looks| looks >= 90), "{scheduler:?}: {looks:?}");
    }
}

#[test]
fn greedy_port_steps_back_while_queues_drain() {
    // The port has nearly all of the core and no work. The other task has nearly no share, and has work.
    let mut agenda = RunQueue::new(Nanos::ZERO);
    let port = agenda.add(TaskKind::Input, TaskTerms { share: Share::of(9, 10), ..terms(1) }, at(0));
    agenda.estimate(port, None, true, Ring { slots: 64, batch: 16, line_rate: None }, at(0));
    let task = agenda.add(TaskKind::Output, TaskTerms { share: Share::of(1, 1_000_000), ..terms(1) }, at(0));
    agenda.wake(port, at(0));
    let run = |agenda: &mut RunQueue, now: u64| {
        let picked = agenda.pick(at(now)).unwrap().task;
        match picked == port {
            true => agenda.record_poll(port, Nanos::micros(1), 0, false, false, at(now + 1)),
            false => agenda.record_run(task, ran(1, 9, 9), at(now + 1)),
        }
        picked
    };
    // Its first turn uses up its share for a long time.
    agenda.update_queue(task, 9, 9, at(0));
    (0..100).for_each(|now| _ = run(&mut agenda, now));
    assert!((100..200).all(|now| run(&mut agenda, now) == port));
    agenda.drain(at(200));
    assert!((200..210).filter(|&now| run(&mut agenda, now) == task).count() > 7);
    agenda.configure(&CpuPlan::default(), at(210));
    (210..230).for_each(|now| _ = run(&mut agenda, now));
    assert!((230..330).all(|now| run(&mut agenda, now) == port));
}

#[test]
fn changed_batching_activates_tasks_above_threshold() {
    let (mut agenda, task) = one(&throttled(10), terms(1));
    agenda.update_queue(task, 12, 128, at(0));
    assert_eq!(agenda.pick(at(1)), None);
    agenda.tune(Parts::percent(30), Nanos::micros(10), at(2));
    assert_eq!(agenda.view(task, at(2)).unwrap().threshold, 10);
    assert_eq!(agenda.pick(at(3)).map(|grant| (grant.task, grant.slice)), Some((task, Nanos::micros(10))));
    agenda.record_run(task, ran(1, 5, 128), at(4));
    assert_eq!(agenda.pick(at(5)), None);
    agenda.configure(&CpuPlan::default(), at(6));
    assert_eq!(agenda.pick(at(7)).map(|grant| grant.task), Some(task), "nothing is throttled now");
}

#[test]
fn a_tuned_throttle_follows_the_load() {
    let tune = plan::TunePlan {
        period: Nanos::millis(1),
        least: Parts::percent(2),
        most: Parts::percent(30),
        margin: Parts::percent(5),
    };
    let (mut agenda, task) = one(&CpuPlan { tune: Some(tune), ..throttled(10) }, terms(1));
    let b = |agenda: &RunQueue| agenda.view(task, at(0)).unwrap().threshold;
    assert_eq!(b(&agenda), 128, "it begins with the least overhead");
    // 100 packets of 1 us in each millisecond: a tenth of the processor.
    for period in 0..8 {
        agenda.count_offered(task, 100);
        agenda.update_queue(task, 100, 128, at(period * 1000));
        if agenda.pick(at(period * 1000 + 1)).is_some() {
            agenda.record_run(task, ran(100, 0, 128), at(period * 1000 + 101));
        }
    }
    assert_eq!(b(&agenda), 10, "then with the most");
    agenda.count_offered(task, 1800);
    agenda.update_queue(task, 128, 128, at(9000));
    agenda.pick(at(9000));
    assert!(b(&agenda) > 50, "nine tenths of the two milliseconds since leave little for switches: {}", b(&agenda));
}

#[test]
fn sleeping_input_task_is_woken_by_its_estimator_only() {
    let mut agenda = RunQueue::new(Nanos::ZERO);
    agenda.configure(&CpuPlan { input: Batching::Simple { packets: 16 }, ..throttled(10) }, at(0));
    let input = agenda.add(TaskKind::Input, terms(1), at(0));
    let ring = Ring { slots: 64, batch: 16, line_rate: None };
    let plan = EstimatorPlan { sleep_max: Some(Nanos::micros(300)), ..EstimatorPlan::default() };
    agenda.estimate(input, Some(plan), false, ring, at(0));
    agenda.wake(input, at(0));
    let mut now = at(0);
    for _ in 0..60 {
        assert_eq!(agenda.pick(now).map(|grant| (grant.task, grant.packets)), Some((input, 16)));
        agenda.record_poll(input, Nanos::micros(1), 0, false, false, now);
        assert_eq!(agenda.pick(now), None);
        now = agenda.next_timer();
        assert_eq!(agenda.sleeps_until(input), Some(now));
    }
    assert!(agenda.is_silent(input));
    assert_eq!(agenda.view(input, now).unwrap().estimator, Some((0, Nanos::micros(300))));
    // A wakeup from the port ends the sleep.
    agenda.wake(input, now);
    assert!(agenda.pick(now).is_some());
    agenda.record_poll(input, Nanos::micros(1), 16, true, false, now);
    assert_eq!(agenda.sleeps_until(input), None, "a full run after a silence: there may be more");
}

#[test]
fn expired_port_timer_gets_a_poll_beside_a_greedy_empty_port() {
    // One of two silent ports sleeps; the other has stepped back or keeps its turns. Neither gets all the polls.
    for greedy in [false, true] {
        let mut agenda = RunQueue::new(Nanos::ZERO);
        agenda.configure(&throttled(10), at(0));
        let [polled, other] = [0; 2].map(|_| agenda.add(TaskKind::Input, terms(1), at(0)));
        let ring = Ring { slots: 64, batch: 16, line_rate: None };
        agenda.estimate(polled, None, false, ring, at(0));
        let plan = EstimatorPlan { sleep_max: Some(Nanos::micros(10)), ..EstimatorPlan::default() };
        agenda.estimate(other, (!greedy).then_some(plan), greedy, ring, at(0));
        [polled, other].iter().for_each(|&task| agenda.wake(task, at(0)));
        let mut looks = [0; 2];
        for now in 1..1000 {
            let task = agenda.pick(at(now)).expect("one polls at any time").task;
            agenda.record_poll(task, Nanos::micros(1), 0, false, false, at(now + 1));
            looks[usize::from(task == other)] += 1;
        }
        assert!(looks.iter().all(|&looks| looks >= 80), "greedy: {greedy}, {looks:?}");
    }
}

#[test]
fn scheduler_is_updated_when_an_active_task_receives_packets() {
    // Both tasks have the same share and wake with one packet. For the first, fifteen more arrive before a pick. Its run is then long, so the second
    // task goes first.
    for (more, first) in [(1, 0), (16, 1)] {
        let mut agenda = RunQueue::new(Nanos::ZERO);
        let plan = CpuPlan { forwarding: Batching::Simple { packets: 16 }, ..throttled(10) };
        agenda.configure(&plan, at(0));
        let tasks = [0; 2].map(|_| agenda.add(TaskKind::Forwarding, terms(1), at(0)));
        tasks.iter().for_each(|&task| agenda.update_queue(task, 1, 128, at(0)));
        agenda.update_queue(tasks[0], more, 128, at(1));
        assert_eq!(agenda.pick(at(1)).unwrap().task, tasks[first], "{more} packets");
    }
}

#[test]
fn a_stalled_port_is_not_polled_until_there_is_room() {
    let mut agenda = RunQueue::new(Nanos::ZERO);
    agenda.configure(&throttled(10), at(0));
    let input = agenda.add(TaskKind::Input, terms(1), at(0));
    agenda.wake(input, at(0));
    agenda.pick(at(0)).unwrap();
    agenda.record_poll(input, Nanos::micros(1), 16, false, true, at(1));
    assert_eq!((agenda.pick(at(1_000_000)), agenda.next_timer()), (None, Instant::NEVER));
    agenda.wake(input, at(2));
    assert!(agenda.pick(at(2)).is_some());
}

#[test]
fn switch_is_charged_to_the_configured_task() {
    for (charge, expected) in [(Charge::None, [20, 20]), (Charge::Incoming, [10, 30]), (Charge::Outgoing, [25, 15])] {
        // Two tasks of equal shares: the switch to one is expensive, to the other cheap. The task that pays for switches runs less. A task that runs
        // twice in a row has switched from itself.
        let mut agenda = RunQueue::new(Nanos::ZERO);
        let plan = CpuPlan { charge, vector: Some(1), switch_cost: Some(Nanos::ZERO), ..CpuPlan::default() };
        agenda.configure(&plan, at(0));
        let tasks = [0; 2].map(|_| agenda.add(TaskKind::Forwarding, terms(1), at(0)));
        tasks.iter().for_each(|&task| agenda.update_queue(task, 100, 100, at(0)));
        let mut runs = [0u32; 2];
        let mut now = 0;
        for _ in 0..40 {
            let task = agenda.pick(at(now)).unwrap().task;
            let dear = task == tasks[0];
            agenda.record_switch(task, if dear { Nanos::micros(2) } else { Nanos::ZERO });
            now += 3;
            agenda.record_run(task, ran(1, 100, 100), at(now));
            runs[usize::from(!dear)] += 1;
        }
        let near = |runs: u32, expected: u32| runs.abs_diff(expected) <= 2;
        assert!(near(runs[0], expected[0]) && near(runs[1], expected[1]), "{charge:?}: {runs:?}");
        let switching = agenda.times().switching.get();
        assert_eq!(switching, 2000 * u64::from(runs[0]), "{charge:?}: all switches are in the sum");
    }
}

#[test]
fn expensive_packets_are_single_vectors_and_cheap_ones_fill_the_slice() {
    // The last number is that on a processor, where packets together cost less than one by one.
    for (cost, slice_us, expected, on_processor) in [
        (5, 100, 256, 256),
        (1000, 100, 1, 16),
        (1000, 4, 1, 4),
        (5000, 100, 1, 3),
        (30_000, 30, 1, 1),
        (500, 100, 200, 200),
        (0, 100, 16, 16),
    ] {
        let batching = Batching::Timeslice { packets: 256, slice: Nanos::micros(slice_us) };
        let cost = (cost > 0).then_some(Nanos::new(cost));
        let (mut agenda, task) =
            one(&CpuPlan { forwarding: batching, ..CpuPlan::default() }, TaskTerms { cost, ..terms(1) });
        agenda.update_queue(task, 100, 100, at(0));
        let grant = agenda.pick(at(0)).unwrap();
        assert_eq!((grant.vector, grant.on_processor().vector), (expected, on_processor), "{cost:?}");
    }
}

#[test]
fn packets_that_seem_expensive_are_one_vector_where_a_port_is_called() {
    let slice = Batching::Timeslice { packets: 256, slice: Nanos::micros(100) };
    let plan = CpuPlan { forwarding: slice, output: slice, ..CpuPlan::default() };
    let terms = TaskTerms { cost: Some(Nanos::micros(4)), ..terms(4) };
    for (kind, layout, expected) in [
        (TaskKind::Output, Layout::Three, 25),
        (TaskKind::Forwarding, Layout::Three, 1),
        (TaskKind::Forwarding, Layout::Two, 25),
    ] {
        let mut agenda = RunQueue::new(Nanos::ZERO);
        agenda.configure(&CpuPlan { layout, ..plan }, at(0));
        let task = agenda.add(kind, terms, at(0));
        agenda.update_queue(task, 100, 100, at(0));
        assert_eq!(agenda.pick(at(0)).unwrap().vector, expected, "{kind:?} {layout:?}");
    }
}

/// A random event of a run queue.
#[derive(Clone, Debug)]
enum RunQueueStep {
    Arrive(usize, u32),
    Run(u32),
    Advance(u64),
    Remove(usize),
    Configure(bool),
}

fn run_queue_step() -> impl Strategy<Value = RunQueueStep> {
    prop_oneof![
        4 => (0usize..6, 1u32..40).prop_map(|(task, packets)| RunQueueStep::Arrive(task, packets)),
        4 => (1u32..200).prop_map(RunQueueStep::Run),
        2 => (1u64..800).prop_map(RunQueueStep::Advance),
        1 => (0usize..6).prop_map(RunQueueStep::Remove),
        1 => any::<bool>().prop_map(RunQueueStep::Configure),
    ]
}

proptest! {
    /// With capacity guard and work_conserving on, packets that wait are always served, and each task that is picked has packets (spec section 3.8).
    #[test]
    fn every_queued_packet_is_eventually_run(sequence in prop::collection::vec(run_queue_step(), 0..200)) {
        let plan = CpuPlan { work_conserving: true, ..throttled(2) };
        let mut agenda = RunQueue::new(Nanos::ZERO);
        agenda.configure(&plan, at(0));
        let mut tasks: Vec<(TaskId, u32)> = (0..6).map(|_| (agenda.add(TaskKind::Forwarding, terms(3), at(0)), 0)).collect();
        let mut now = 0;
        let run = |agenda: &mut RunQueue, tasks: &mut Vec<(TaskId, u32)>, most: u32, now: &mut u64| {
            let Some(grant) = agenda.pick(at(*now)) else { return false };
            let (_, waiting) = tasks.iter_mut().find(|(task, _)| *task == grant.task).expect("it is there");
            assert!(*waiting > 0, "a task without work was picked");
            let packets = most.min(*waiting);
            *waiting -= packets;
            *now += u64::from(packets);
            agenda.record_run(grant.task, ran(packets, *waiting, 128), at(*now));
            true
        };
        for told in sequence {
            match told {
                RunQueueStep::Arrive(index, packets) => {
                    let (task, waiting) = &mut tasks[index];
                    *waiting = (*waiting + packets).min(128);
                    agenda.update_queue(*task, *waiting as usize, 128, at(now));
                }
                RunQueueStep::Run(most) => drop(run(&mut agenda, &mut tasks, most, &mut now)),
                RunQueueStep::Advance(us) => now += us,
                RunQueueStep::Remove(index) => {
                    agenda.remove(tasks[index].0, at(now));
                    tasks[index] = (agenda.add(TaskKind::Forwarding, terms(1), at(now)), 0);
                }
                RunQueueStep::Configure(plain) => agenda.configure(&if plain { CpuPlan::default() } else { plan.clone() }, at(now)),
            }
        }
        while run(&mut agenda, &mut tasks, 16, &mut now) {}
        prop_assert!(tasks.iter().all(|&(_, waiting)| waiting == 0), "{tasks:?}");
    }
}
