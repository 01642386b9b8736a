use super::*;
use expect_test::expect;

fn at(us: u64) -> Instant {
    Instant::START + Nanos::micros(us)
}

/// A task waits for packets, times out and runs. The port of another is polled twice.
#[test]
fn every_event_is_one_line_in_the_trace_event_format() {
    let mut trace = TaskTrace::new(100);
    let (voice, lan) = (TaskId(0), TaskId(1));
    let records = [
        (10, voice, TaskEvent::Arrived { packets: 2, waiting: 2 }),
        (10, voice, TaskEvent::Eligible),
        (12, lan, TaskEvent::Polled { times: 2, used: Nanos::micros(3), until: at(16) }),
        (510, voice, TaskEvent::Timeout),
        (510, voice, TaskEvent::Active),
        (511, voice, TaskEvent::Dispatched { switch: Nanos::micros(1) }),
        (518, voice, TaskEvent::Yielded { packets: 2, bytes: 128, waiting: 0, used: Nanos::micros(6) }),
        (518, voice, TaskEvent::Idle),
        (519, voice, TaskEvent::Dropped { packets: 7 }),
        (520, TaskId(7), TaskEvent::Active),
    ];
    for (time, task, what) in records {
        trace.push(TraceRecord { at: at(time), task, event: what });
    }
    let tasks = [(voice, "path \"voice\"".to_owned()), (lan, "input lan".to_owned())].into();
    let routers = [TracedRouter { name: "edge", cores: vec![TracedCore { worker: 0, trace: &trace, tasks }] }];
    let mut text = Vec::new();
    write(&mut text, &routers, (at(0), at(600)), Some(1_000_000_000)).unwrap();
    expect![[r#"
        {"displayTimeUnit":"ns","otherData":{"producer":"switchpath","started_ns":1000000000,"took_ns":600000,"lost_events":0},"traceEvents":[
        {"ph":"M","pid":1,"tid":0,"ts":0.000,"name":"process_name","args":{"name":"edge"}},
        {"ph":"M","pid":1,"tid":1,"ts":0.000,"name":"thread_name","args":{"name":"core 0"}},
        {"ph":"M","pid":1,"tid":2,"ts":0.000,"name":"thread_name","args":{"name":"path \"voice\""}},
        {"ph":"M","pid":1,"tid":3,"ts":0.000,"name":"thread_name","args":{"name":"input lan"}},
        {"ph":"M","pid":1,"tid":9,"ts":0.000,"name":"thread_name","args":{"name":"task 7 (gone)"}},
        {"ph":"C","pid":1,"tid":2,"ts":10.000,"name":"queue of path \"voice\"","args":{"packets":2}},
        {"ph":"i","pid":1,"tid":2,"ts":10.000,"name":"packets received","s":"t","args":{"packets":2,"waiting":2}},
        {"ph":"X","pid":1,"tid":3,"ts":12.000,"name":"looks","dur":4.000,"args":{"times":2,"used_ns":3000}},
        {"ph":"X","pid":1,"tid":1,"ts":12.000,"name":"poll","dur":4.000,"args":{"times":2,"used_ns":3000}},
        {"ph":"i","pid":1,"tid":2,"ts":510.000,"name":"timeout","s":"t","args":{}},
        {"ph":"X","pid":1,"tid":2,"ts":10.000,"name":"waits for packets","dur":500.000,"args":{}},
        {"ph":"X","pid":1,"tid":1,"ts":511.000,"name":"switch","dur":1.000,"args":{}},
        {"ph":"X","pid":1,"tid":2,"ts":510.000,"name":"wait for the core","dur":1.000,"args":{}},
        {"ph":"X","pid":1,"tid":2,"ts":512.000,"name":"runs","dur":6.000,"args":{"packets":2,"bytes":128,"used_ns":6000,"cost_ns":3000,"waiting":0}},
        {"ph":"X","pid":1,"tid":1,"ts":512.000,"name":"path \"voice\"","dur":6.000,"args":{"packets":2,"bytes":128,"used_ns":6000,"cost_ns":3000,"waiting":0}},
        {"ph":"C","pid":1,"tid":2,"ts":518.000,"name":"queue of path \"voice\"","args":{"packets":0}},
        {"ph":"i","pid":1,"tid":2,"ts":519.000,"name":"dropped","s":"t","args":{"packets":7}},
        {"ph":"X","pid":1,"tid":9,"ts":520.000,"name":"wait for the core","dur":80.000,"args":{}},
        {"ph":"C","pid":1,"tid":1,"ts":0.000,"name":"efficiency","args":{"percent":0.0}},
        {"ph":"C","pid":1,"tid":1,"ts":0.000,"name":"efficiency, empty looks as work","args":{"percent":100.0}},
        {"ph":"C","pid":1,"tid":1,"ts":500.000,"name":"efficiency","args":{"percent":85.7}},
        {"ph":"C","pid":1,"tid":1,"ts":500.000,"name":"efficiency, empty looks as work","args":{"percent":85.7}}
        ]}
    "#]].assert_eq(std::str::from_utf8(&text).unwrap());
}

/// The windows hold exactly the time that was spent.
#[test]
fn durations_longer_than_a_window_are_divided_among_windows() {
    let mut windows = Windows::new(at(0), at(10_000));
    windows.add((at(25), at(1_025)), |times| &mut times.polling, Nanos::micros(500));
    windows.add((at(40), at(60)), |times| &mut times.useful, Nanos::micros(20));
    windows.add((at(9_990), at(20_000)), |times| &mut times.useful, Nanos::micros(7));
    let sum = |part: fn(&CoreTimes) -> Nanos| windows.iter().map(|(_, times)| part(times).get()).sum::<u64>();
    assert_eq!((sum(|t| t.polling), sum(|t| t.useful)), (500_000, 27_000));
    let first: Vec<(Instant, Nanos, Nanos)> = windows.iter().take(3).map(|(at, t)| (at, t.polling, t.useful)).collect();
    let us = |ns| Nanos::new(ns);
    assert_eq!(
        first,
        [(at(0), us(12_500), us(10_000)), (at(50), us(25_000), us(10_000)), (at(100), us(25_000), Nanos::ZERO)]
    );
}
