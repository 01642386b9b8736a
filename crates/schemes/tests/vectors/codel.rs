//! CoDel: the times of drops. The queue is always long and the link accepts a packet each millisecond, so drops are a table of times.

use crate::described::described;
use schemes::model::{Model, ModelFate};
use schemes::{Progress, Scheme};
use units::{Instant, Nanos};

/// A link with this scheme, in milliseconds.
struct Link {
    scheme: Box<dyn Scheme<Model>>,
    model: Model,
}

impl Link {
    fn new(scheme: &str) -> Link {
        Link { scheme: described(scheme), model: Model::default() }
    }

    /// A thousand packets arrive.
    fn fill(&mut self, at: u64) {
        self.model.now = Instant::START + Nanos::millis(at);
        self.model.arrive(&mut *self.scheme, &[1500; 1000]);
    }

    /// The link accepts all waiting packets.
    fn empty(&mut self, at: u64) {
        self.model.now = Instant::START + Nanos::millis(at);
        self.model.ready(&mut *self.scheme, 2000);
        assert_eq!(self.model.waiting(), 0);
    }

    /// The milliseconds in which packets are dropped, while the link accepts one packet in each.
    fn drops(&mut self, during: std::ops::Range<u64>) -> Vec<u64> {
        let mut drops = Vec::new();
        for at in during {
            self.model.now = Instant::START + Nanos::millis(at);
            let before = self.model.fates.len();
            self.model.ready(&mut *self.scheme, 1);
            let dropped = self.model.fates[before..].iter().filter(|fate| matches!(fate, ModelFate::Dropped(_)));
            drops.extend(dropped.map(|_| at));
        }
        drops
    }
}

/// The first drop is 100 ms after the first packet exceeded 5 ms; then drops follow after 100/sqrt(1), 100/sqrt(2), 100/sqrt(3) ... ms. RFC 8289,
/// section 3.3 has the law; by section 5.5 drop_next advances from itself, not from the time of the drop: 105, 205, 275.711, 333.446, 383.446,
/// 428.167, 468.992, 506.788, 542.143, 575.476, 607.099; the next one is due at 637.250.
const TABLE: [u64; 11] = [105, 205, 276, 334, 384, 429, 469, 507, 543, 576, 608];

#[test]
fn codel_drops_follow_control_law() {
    for root in ["exact", "table", "newton"] {
        let mut link = Link::new(&format!("codel(root={root})"));
        link.fill(0);
        assert_eq!(link.drops(1..638), TABLE, "{root}");
        assert_eq!(link.drops(638..639), [638]);
    }
}

/// A link that has dropped eleven packets since 105 ms, the last one in the 608th, and is empty.
fn after_eleven() -> Link {
    let mut link = Link::new("codel");
    link.fill(0);
    assert_eq!(link.drops(1..609), TABLE);
    link.empty(609);
    link
}

#[test]
fn dropping_that_restarts_soon_keeps_its_count() {
    // Section 5.5: delta = count - lastcount = 11 - 1 = 10, which is more than 1 and within 16 intervals: count = 10. 805, + 31.623 = 836.623, +
    // 30.151 = 866.774.
    let mut link = after_eleven();
    link.fill(700);
    assert_eq!(link.drops(701..868), [805, 837, 867]);
    // count is 12 and lastcount 10: delta = 2. 1005, + 70.711 = 1075.711.
    link.empty(868);
    link.fill(900);
    assert_eq!(link.drops(901..1077), [1005, 1076]);
    // count is 3 and lastcount 2: delta = 1 is not more than 1, so count restarts with 1. 1205, + 100.
    link.empty(1077);
    link.fill(1100);
    assert_eq!(link.drops(1101..1306), [1205, 1305]);
}

#[test]
fn codel_resets_count_after_sixteen_intervals() {
    // The next drop was due at 637.250: until 2237.250 the earlier drops count.
    let mut link = after_eleven();
    link.fill(2237 - 105);
    assert_eq!(link.drops(2133..2270), [2237, 2269]);
    let mut link = after_eleven();
    link.fill(2238 - 105);
    assert_eq!(link.drops(2134..2340), [2238, 2338]);
}

#[test]
fn packet_below_the_target_ends_dropping() {
    // Section 5.6: "went below - stay below for at least INTERVAL". In the 300th millisecond one packet has not waited. 5 ms later others exceed the
    // target, and are dropped an interval after that.
    let mut link = Link::new("codel");
    link.fill(0);
    assert_eq!(link.drops(1..300), TABLE[..3]);
    link.empty(300);
    link.fill(300);
    assert!(link.drops(301..404).is_empty());
    // delta = 3 - 1 = 2: count = 2.
    assert_eq!(link.drops(404..477), [405, 476]);
}

#[test]
fn no_packet_is_dropped_with_at_most_one_packet_behind() {
    // Section 5.6, "bytes <= maxpacket": of two packets that wait for a second neither is dropped, of three the first is.
    for (packets, dropped) in [(2, 0), (3, 1)] {
        let mut link = Link::new("codel(mtu=1500b)");
        let mut drops = 0;
        for second in 0..5 {
            let lengths = vec![1500; packets - link.model.waiting()];
            link.model.now = Instant::START + Nanos::secs(second);
            link.model.arrive(&mut *link.scheme, &lengths);
            link.model.now += Nanos::millis(900);
            link.model.room = 1;
            while link.model.room > 0 && link.scheme.link_ready(&mut link.model) == Progress::Made {}
            drops = link.model.count_fates(|fate| matches!(fate, ModelFate::Dropped(_)));
        }
        assert_eq!(drops.min(1), dropped, "{packets} packets: {:?}", link.model.fates);
    }
}
