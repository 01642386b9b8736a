//! Compares the loop of RFC 8289 with this program's CoDel, which is called once per decision: both decide on the packets of a whole world.

use super::engine::RunningHosts;
use super::link::SchemeCall;
use super::packet::Packet;
use super::queue;
use super::wires::{Fate, SchemeQueues};
use crate::{NoCaptures, WorldPlan};
use plan::Call;
use schemes::{Next, Progress, Scheme, Wires};
use units::{Instant, Nanos, QueueId, Rate};

const QUEUE: QueueId = QueueId(0);
const TARGET: Nanos = Nanos::millis(5);
const INTERVAL: Nanos = Nanos::millis(100);
const MTU: u64 = 1514;

/// RFC 8289, section 5, with its loop.
#[derive(Default)]
struct Loop {
    above: Option<Instant>,
    drop_next: Instant,
    count: u32,
    last: u32,
    dropping: bool,
}

impl Loop {
    /// The RFC's `dodequeue`, for the packet at the head.
    fn is_late(&mut self, wires: &SchemeQueues) -> bool {
        let Some(head) = wires.head(QUEUE) else {
            self.above = None;
            return false;
        };
        let (now, size) = (wires.now(), wires.size(QUEUE));
        let behind = size.bytes.get() - u64::from(head.length);
        if now.since(head.timestamp) < TARGET || behind <= MTU || size.packets == 1 {
            self.above = None;
            return false;
        }
        match self.above {
            None => {
                self.above = Some(now + INTERVAL);
                false
            }
            Some(above) => now >= above,
        }
    }

    fn law(&self, from: Instant) -> Instant {
        from + Nanos::new((INTERVAL.get() as f64 / f64::from(self.count).sqrt()) as u64)
    }
}

impl Scheme<SchemeQueues> for Loop {
    fn arrival(&mut self, wires: &mut SchemeQueues) {
        while wires.arriving().is_some() {
            wires.enqueue(QUEUE);
        }
    }

    fn link_ready(&mut self, wires: &mut SchemeQueues) -> Progress {
        let now = wires.now();
        let mut late = self.is_late(wires);
        if self.dropping {
            if !late {
                self.dropping = false;
            }
            while now >= self.drop_next && self.dropping {
                wires.drop_front(QUEUE);
                self.count += 1;
                late = self.is_late(wires);
                match late {
                    true => self.drop_next = self.law(self.drop_next),
                    false => self.dropping = false,
                }
            }
        } else if late {
            wires.drop_front(QUEUE);
            self.is_late(wires);
            self.dropping = true;
            let lately = self.count.saturating_sub(self.last);
            let recent = now.since(self.drop_next) < INTERVAL * 16;
            self.count = if lately > 1 && recent { lately } else { 1 };
            (self.last, self.drop_next) = (self.count, self.law(now));
        }
        if wires.dequeue(QUEUE).is_none() {
            self.dropping = false;
            return Progress::None;
        }
        wires.transmit();
        // The RFC leaves the dropping state when it finds an empty queue. Here the departure of the last packet already does.
        if wires.size(QUEUE).packets == 0 {
            (self.above, self.dropping) = (None, false);
        }
        Progress::Made
    }

    fn next(&self, _: &SchemeQueues) -> Next {
        Next::Ready
    }
}

/// The decisions of a scheme on the logged calls of a link.
fn replay(log: &[SchemeCall], scheme: &mut dyn Scheme<SchemeQueues>, rate: Rate) -> Vec<(u32, u32, Fate)> {
    let mut lines = SchemeQueues::new(1, u32::MAX);
    lines.rate = rate;
    let mut fates: Vec<(Packet, Fate)> = Vec::new();
    for logged in log {
        lines.now = Instant::new(logged.at);
        match logged.packet {
            Some((packet, fields)) => lines.arrive(scheme, packet, fields),
            None => lines.ready(scheme, 1),
        }
        fates.append(&mut lines.fates);
    }
    fates.into_iter().map(|(packet, fate)| (packet.stream, packet.number, fate)).collect()
}

#[test]
fn codel_called_per_decision_equals_the_loop_of_rfc_8289() {
    let flow = |name: &str| format!("[[flow]]\nname = \"{name}\"\nfrom = \"near\"\nto = \"far\"\n");
    let text = format!(
        "duration = \"60s\"\n[[host]]\nname = \"near\"\n[[host]]\nname = \"far\"\n[[link]]\nbetween = [\"near\", \"far\"]\n\
         rate = \"15mbit\"\ndelay = \"75ms\"\nscheme = \"codel(limit=1000000)\"\n{}{}",
        flow("one"),
        flow("two")
    );
    let world = WorldPlan::parse(&text, "w.toml").unwrap_or_else(|wrong| panic!("{wrong}"));
    let mut live = RunningHosts::new(&world, &mut NoCaptures).unwrap();
    live.links[0].log = Some(Vec::new());
    live.until(60_000_000_000);
    let log = live.links[0].log.take().unwrap();
    let call = Call::scheme("codel(limit=1000000)", &plane::catalogue()).unwrap();
    let rate = Rate::mbit(15);
    let level = replay(&log, &mut *queue::scheme(&call).unwrap(), rate);
    let looped = replay(&log, &mut Loop::default(), rate);
    let dropped = level.iter().filter(|(.., fate)| *fate == Fate::Front).count();
    assert!(level.len() > 20_000 && dropped > 10, "{} packets, {dropped} dropped", level.len());
    assert!(level == looped, "they part at {:?}", level.iter().zip(&looped).position(|(a, b)| a != b));
}
