//! Drives a single sender step by step.

use crate::tcp::{Ack, CongestionControl, SackBlock, Sender, Settings};
use std::collections::BTreeMap;
use std::fmt::Write;
use units::{Instant, Nanos};

/// Runs the steps of `text` (separated by `;`). After each it reports the packets sent, the window, the threshold, and the packets in flight.
///
/// `offer N` offers N packets, `ack N` acknowledges everything before N, `dup N` sends N duplicate acknowledgements, and `same N` sends N for packets
/// that arrived twice. `sack A-B C-D` adds blocks to the last acknowledgement, `mark N` is `ack` with a mark, `wait MS` lets time pass, and `timer`
/// lets it pass until the timer.
pub fn script(settings: Settings, control: Box<dyn CongestionControl>, text: &str) -> String {
    let mut sender = Sender::new(settings, control);
    let (mut now, mut next) = (Instant::START, 0);
    let mut sent: BTreeMap<u64, Instant> = BTreeMap::new();
    let mut out = String::new();
    for step in text.split(';').map(str::trim).filter(|step| !step.is_empty()) {
        let (word, rest) = step.split_once(' ').unwrap_or((step, ""));
        let number = || rest.parse::<u64>().unwrap_or_else(|_| panic!("'{step}' has no number"));
        let echo = |next: u64| sent.get(&(next.max(1) - 1)).copied().unwrap_or(now);
        match word {
            "offer" => sender.offer(now, number()),
            "wait" => now += Nanos::millis(number()),
            "timer" => {
                now = sender.timer().unwrap_or_else(|| panic!("'{step}': no timer runs"));
                sender.expire(now);
            }
            "ack" | "mark" => {
                next = number();
                let marked = u32::from(word == "mark");
                sender.acknowledge(now, &Ack { next, echo: echo(next), marked, ..Ack::default() });
            }
            "dup" | "same" => {
                for _ in 0..number() {
                    sender
                        .acknowledge(now, &Ack { next, echo: echo(next), duplicate: word == "same", ..Ack::default() });
                }
            }
            "sack" => {
                let mut blocks = [SackBlock::default(); 3];
                for (block, range) in blocks.iter_mut().zip(rest.split(' ')) {
                    let (from, to) = range.split_once('-').expect("a block is FROM-TO");
                    let [from, to] = [from, to].map(|seq| seq.parse::<u64>().expect("a block has numbers"));
                    *block = SackBlock { after: (from - next) as u32, packets: (to - from) as u32 };
                }
                sender.acknowledge(now, &Ack { next, echo: echo(next), blocks, ..Ack::default() });
            }
            _ => panic!("'{step}' is no step"),
        }
        let segments: Vec<String> = std::iter::from_fn(|| sender.next(now))
            .map(|segment| {
                sent.insert(segment.seq, now);
                format!("{}{}", segment.seq, if segment.retransmitted { "!" } else { "" })
            })
            .collect();
        let (window, threshold) = (sender.window(), sender.threshold());
        let (at, flight) = (now.get() / 1_000_000, sender.in_flight());
        let sent = segments.join(" ");
        writeln!(
            out,
            "{at:<5} {step:<14} window {window:<5.2} threshold {threshold:<4} flight {flight:<3} sends {sent}"
        )
        .unwrap();
    }
    out.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}
