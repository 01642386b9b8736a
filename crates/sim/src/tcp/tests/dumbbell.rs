//! The smallest world: connections over one link with a constant rate and a bounded queue. The way back only adds delay.

use crate::tcp::application::TcpApplication;
use crate::tcp::{Ack, CongestionControl, Receiver, Sender, Settings, TcpSegment};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use units::{Instant, Nanos};

pub struct Flow {
    pub sender: Sender,
    pub receiver: Receiver,
    pub application: TcpApplication,
    /// The time of its earliest pending timer event.
    armed: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    Timer(usize),
    /// The link is idle.
    Free,
    Segment(usize, TcpSegment, bool),
    Ack(usize, Ack),
}

struct At(Instant, u64, Event);

impl PartialEq for At {
    fn eq(&self, other: &At) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for At {}
impl PartialOrd for At {
    fn partial_cmp(&self, other: &At) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for At {
    fn cmp(&self, other: &At) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

/// Decides on the loss of a data packet: `true` loses it.
pub type Loss = Box<dyn FnMut(usize, &TcpSegment) -> bool>;

pub struct Dumbbell {
    pub now: Instant,
    pub flows: Vec<Flow>,
    events: BinaryHeap<Reverse<At>>,
    number: u64,
    queue: VecDeque<(usize, TcpSegment, bool)>,
    busy: bool,
    /// The transmission time of a packet.
    pub service: Nanos,
    /// The packets that the queue holds, besides the one being sent.
    pub room: usize,
    /// A packet is marked if at least this many are queued before it.
    pub mark: usize,
    /// The delay from the link to the receiver, and that back to the sender.
    pub there: Nanos,
    pub back: Nanos,
    pub loss: Loss,
    pub dropped: u64,
    /// The times of drops, since the start.
    pub drops: Vec<Nanos>,
    pub left: u64,
    pub marked: u64,
    pub longest: usize,
}

impl Dumbbell {
    pub fn new(service: Nanos, room: usize, trip: Nanos) -> Dumbbell {
        let half = Nanos::new(trip.get() / 2);
        Dumbbell {
            now: Instant::START,
            flows: Vec::new(),
            events: BinaryHeap::new(),
            number: 0,
            queue: VecDeque::new(),
            busy: false,
            service,
            room,
            mark: usize::MAX,
            there: half,
            back: half,
            loss: Box::new(|_, _| false),
            dropped: 0,
            drops: Vec::new(),
            left: 0,
            marked: 0,
            longest: 0,
        }
    }

    pub fn flow(&mut self, settings: Settings, control: Box<dyn CongestionControl>, application: TcpApplication) {
        let (sender, receiver) = (Sender::new(settings, control), Receiver::new(&settings));
        self.flows.push(Flow { sender, receiver, application, armed: Instant::NEVER });
    }

    fn post(&mut self, at: Instant, event: Event) {
        self.number += 1;
        self.events.push(Reverse(At(at, self.number, event)));
    }

    /// Runs until `end`, and calls `look` after every event of a flow.
    pub fn run(&mut self, end: Instant, mut look: impl FnMut(Instant, usize, &Flow)) {
        if self.now == Instant::START {
            for number in 0..self.flows.len() {
                let flow = &mut self.flows[number];
                flow.application.begin(Instant::START, &mut flow.sender);
                self.send(number);
            }
        }
        while let Some(Reverse(At(at, _, event))) = self.events.pop() {
            if at > end {
                self.events.push(Reverse(At(at, 0, event)));
                break;
            }
            assert!(at >= self.now, "time runs backwards");
            self.now = at;
            match event {
                // The timer was set to an earlier time since; that event handles it.
                Event::Timer(number) if self.flows[number].armed != at => {}
                Event::Timer(number) => {
                    let flow = &mut self.flows[number];
                    flow.armed = Instant::NEVER;
                    flow.sender.expire(at);
                    flow.application.expire(at, &mut flow.sender);
                    let ack = flow.receiver.expire(at);
                    self.answer(number, ack);
                    self.send(number);
                    look(at, number, &self.flows[number]);
                }
                Event::Free => {
                    self.busy = false;
                    self.serve();
                }
                Event::Segment(number, segment, marked) => {
                    let ack = self.flows[number].receiver.segment(at, segment, marked);
                    self.answer(number, ack);
                    self.arm(number);
                }
                Event::Ack(number, ack) => {
                    let flow = &mut self.flows[number];
                    flow.sender.acknowledge(at, &ack);
                    flow.application.acknowledged(at, &flow.sender);
                    self.send(number);
                    look(at, number, &self.flows[number]);
                }
            }
        }
        self.now = end;
    }

    fn answer(&mut self, number: usize, ack: Option<Ack>) {
        if let Some(ack) = ack {
            self.post(self.now + self.back, Event::Ack(number, ack));
        }
    }

    fn send(&mut self, number: usize) {
        while let Some(segment) = self.flows[number].sender.next(self.now) {
            if (self.loss)(number, &segment) || self.queue.len() >= self.room {
                self.dropped += 1;
                self.drops.push(self.now.since(Instant::START));
                continue;
            }
            let mark = self.flows[number].sender.is_ecn_capable() && self.queue.len() >= self.mark;
            self.marked += u64::from(mark);
            self.queue.push_back((number, segment, mark));
            self.longest = self.longest.max(self.queue.len());
            self.serve();
        }
        self.arm(number);
    }

    fn serve(&mut self) {
        if !self.busy
            && let Some((number, segment, mark)) = self.queue.pop_front()
        {
            self.busy = true;
            self.left += 1;
            self.post(self.now + self.service, Event::Free);
            self.post(self.now + self.service + self.there, Event::Segment(number, segment, mark));
        }
    }

    fn arm(&mut self, number: usize) {
        let flow = &mut self.flows[number];
        let timers = [flow.sender.timer(), flow.application.timer(), flow.receiver.timer()];
        if let Some(at) = timers.into_iter().flatten().min().filter(|&at| at < flow.armed) {
            flow.armed = at;
            self.post(at, Event::Timer(number));
        }
    }
}
