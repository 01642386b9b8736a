use super::super::packet::Payload;
use super::*;
use crate::tcp::TcpSegment;
use schemes::model;
use schemes::recordings::{Arrivals, Decisions, LinkEvent, Recording};
use std::path::{Path, PathBuf};

const ANY: Payload = Payload::Data(TcpSegment { seq: 0, sent: Instant::START, retransmitted: false, pushed: false });

fn recordings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../schemes/tests/conformance")
}

fn text(of: &str, name: &str) -> String {
    let path = recordings().join(of).join(format!("{name}.txt"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The decisions of a scheme over these wires.
fn play(arrivals: &Arrivals, scheme: &str) -> Vec<String> {
    let call = plan::Call::scheme(scheme, &plane::catalogue()).unwrap_or_else(|error| panic!("{scheme}: {error:?}"));
    let mut scheme = super::super::queue::scheme(&call).unwrap();
    let mut lines = SchemeQueues::new(scheme.queues(), u32::MAX);
    lines.rate = Rate::mbit(10);
    let mut count = 0;
    arrivals.play_over(|now, event| {
        lines.now = now;
        match event {
            LinkEvent::Arrival(record) => {
                let Record { length, class, ecn, flow_hash, source, destination, dscp, .. } = record;
                let came = now.get();
                let packet = Packet {
                    stream: 0,
                    number: count,
                    bytes: length,
                    hop: 0,
                    ecn,
                    class,
                    arrived_at: came,
                    payload: ANY,
                };
                lines.arrive(&mut *scheme, packet, Fields { flow_hash, source, destination, dscp });
                count += 1;
            }
            LinkEvent::Ready(room) => lines.ready(&mut *scheme, room),
            LinkEvent::RateChange(rate) => lines.rate = rate,
        }
        let fates = lines.fates.drain(..).map(|(packet, fate)| {
            let number = packet.number as usize;
            match fate {
                Fate::Sent => model::ModelFate::Sent(number),
                Fate::Arrival | Fate::Full => model::ModelFate::Refused(number),
                Fate::Front | Fate::Tail | Fate::Flush => model::ModelFate::Dropped(number),
            }
        });
        let fates = fates.collect();
        Decisions { fates, marked: lines.marked.drain(..).map(|(_, place)| place as usize).collect() }
    })
}

#[test]
fn schemes_decide_as_recorded() {
    let mut played = 0;
    for file in std::fs::read_dir(recordings().join("decisions")).unwrap() {
        let name = file.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned();
        let recording = Recording::read(&text("decisions", &name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let arrivals = Arrivals::read(&text("arrivals", &recording.arrivals)).unwrap();
        let found = play(&arrivals, &recording.scheme);
        let compared = arrivals.compare(&recording.decisions, &found);
        assert!(compared.is_ok(), "{name}: {}", compared.unwrap_err());
        played += 1;
    }
    assert!(played > 20, "{played}");
}

#[test]
fn drain_returns_packets_in_arrival_order() {
    let mut lines = SchemeQueues::new(3, u32::MAX);
    for (came, queue) in [(1, 2u32), (2, 0), (3, 0), (4, 1), (5, 2)] {
        let packet = Packet {
            stream: 0,
            number: came,
            bytes: 100,
            hop: 0,
            ecn: 0,
            class: 0,
            arrived_at: came.into(),
            payload: ANY,
        };
        lines.offered = Some((packet, Fields::default()));
        assert!(lines.arriving().is_some() && lines.enqueue(QueueId(queue)));
    }
    let order: Vec<u32> = lines.drain().iter().map(|packet| packet.number).collect();
    assert_eq!((order, lines.waiting()), (vec![1, 2, 3, 4, 5], Size::default()));
}

#[test]
fn packets_beyond_the_capacity_are_dropped_as_full() {
    let mut lines = SchemeQueues::new(1, 1);
    let call = plan::Call::scheme("fifo(unbounded=on)", &plane::catalogue()).unwrap();
    let mut scheme = super::super::queue::scheme(&call).unwrap();
    for place in 0..2 {
        let packet =
            Packet { stream: 0, number: place, bytes: 100, hop: 0, ecn: 0, class: 0, arrived_at: 0, payload: ANY };
        lines.arrive(&mut *scheme, packet, Fields::default());
    }
    let fates: Vec<(u32, Fate)> = lines.fates.iter().map(|(packet, fate)| (packet.number, *fate)).collect();
    assert_eq!(fates, [(1, Fate::Full)]);
}
