//! FQ-CoDel: the text of RFC 8290 about quanta and the lists of new and old queues. Flows are letters, and their packets are numbered.

use crate::described::described;
use schemes::model::{Model, ModelFate};
use schemes::{Record, Scheme};
use units::Nanos;

/// A link with this scheme, and its arrivals.
struct Link {
    scheme: Box<dyn Scheme<Model>>,
    model: Model,
    arrived: Vec<String>,
    seen: usize,
}

impl Link {
    fn new(scheme: &str) -> Link {
        let scheme = described(scheme);
        let model = Model::with_queues(scheme.queues() as usize);
        Link { scheme, model, arrived: Vec::new(), seen: 0 }
    }

    /// `count` packets of this flow and length arrive.
    fn offer(&mut self, flow: char, count: usize, length: u32) {
        for _ in 0..count {
            let number = self.arrived.iter().filter(|name| name.starts_with(flow)).count();
            self.arrived.push(format!("{flow}{number}"));
            // Of 16 queues each letter selects its own.
            let flow_hash = (flow as u32 - 'a' as u32) << 28;
            let packet = Record { length, flow_hash, ..Record::default() };
            self.model.arrive_all(&mut *self.scheme, std::iter::once(packet));
        }
    }

    /// The packets that leave when the link accepts `room` packets. A dropped packet has a minus sign.
    fn transmit(&mut self, room: usize) -> String {
        self.model.ready(&mut *self.scheme, room);
        let name = |fate: &ModelFate| match fate {
            ModelFate::Sent(number) => self.arrived[*number].clone(),
            ModelFate::Dropped(number) | ModelFate::Refused(number) => format!("-{}", self.arrived[*number]),
        };
        let fates: Vec<String> = self.model.fates[self.seen..].iter().map(name).collect();
        self.seen = self.model.fates.len();
        fates.join(" ")
    }
}

#[test]
fn queue_without_credit_moves_to_end_of_old_list() {
    // Sections 3 and 4.2. a: 300 - 100 - 100 - 100 = 0. b: 300 - 200 - 200 = -100, and with 300 more it has 200: one packet in its next turn, then
    // two again.
    let mut link = Link::new("fq(flows=16, quantum=300b){fifo}");
    link.offer('a', 10, 100);
    link.offer('b', 6, 200);
    assert_eq!(link.transmit(16), "a0 a1 a2 b0 b1 a3 a4 a5 b2 a6 a7 a8 b3 b4 a9 b5");
}

#[test]
fn new_queues_are_served_first_in_arrival_order() {
    // Section 4.1 appends them to the list of new queues. Section 4.2 serves that list first.
    let mut link = Link::new("fq(flows=16, quantum=1500b){fifo}");
    link.offer('a', 4, 1500);
    assert_eq!(link.transmit(2), "a0 a1");
    link.offer('c', 1, 1500);
    link.offer('b', 2, 1500);
    // Then the old ones. a has used up its second quantum too: it goes behind c, which is empty, and b.
    assert_eq!(link.transmit(5), "c0 b0 b1 a2 a3");
}

#[test]
fn emptied_new_queue_moves_to_old_list() {
    // Section 4.2, "crucial to prevent starvation": b always has one packet more when one has left. It delays a by one quantum, not forever.
    let mut link = Link::new("fq(flows=16, quantum=500b){fifo}");
    link.offer('a', 4, 500);
    assert_eq!(link.transmit(1), "a0");
    let mut left = Vec::new();
    for _ in 0..9 {
        link.offer('b', 1, 250);
        left.push(link.transmit(1));
    }
    assert_eq!(left.join(" "), "b0 b1 a1 b2 b3 a2 b4 b5 a3");
}

#[test]
fn empty_queue_stays_in_list_until_served() {
    // Section 4.2: a queue counts as empty only when CoDel returns no packet. b used up its quantum with its only packet: it goes behind a, and
    // packets that arrive meanwhile wait for that turn.
    let mut link = Link::new("fq(flows=16, quantum=1500b){fifo}");
    link.offer('a', 6, 1500);
    link.offer('b', 1, 1500);
    assert_eq!(link.transmit(3), "a0 b0 a1");
    link.offer('b', 1, 1500);
    assert_eq!(link.transmit(2), "b1 a2", "a had its turn, then b, which never left the list");
    // Now its turn comes and it is empty: it leaves the old queues, and with its next packet it is new.
    assert_eq!(link.transmit(1), "a3");
    assert_eq!(link.transmit(1), "a4");
    link.offer('b', 1, 1500);
    assert_eq!(link.transmit(2), "b2 a5");
}

#[test]
fn longest_queue_loses_half_and_at_most_64_packets_at_the_limit() {
    // Section 4.1: by bytes, not by packets; from the head.
    let mut link = Link::new("fq(flows=16, quantum=1500b, limit=20){fifo}");
    link.offer('a', 12, 100);
    link.offer('b', 8, 1500);
    assert_eq!(link.transmit(0), "");
    link.offer('a', 1, 100);
    assert_eq!(link.transmit(0), "-b0 -b1 -b2 -b3");
    let mut link = Link::new("fq(flows=16, quantum=1500b, limit=400){fifo}");
    link.offer('a', 401, 100);
    assert_eq!(link.transmit(0).split(' ').count(), 64);
}

#[test]
fn each_queue_has_its_own_codel_state() {
    // Section 1.3: CoDel's state is per queue. Packets of a wait too long and are dropped. b is served within the target and loses none.
    let mut link = Link::new("fq(flows=16, quantum=1500b){codel}");
    link.offer('a', 400, 1500);
    let mut fates = Vec::new();
    for _ in 0..250 {
        link.model.now += Nanos::millis(1);
        link.offer('b', 1, 60);
        fates.push(link.transmit(2));
    }
    let fates = fates.join(" ");
    assert!(fates.contains("-a") && !fates.contains("-b"), "{fates}");
    assert!(fates.contains("b249"), "{fates}");
}
