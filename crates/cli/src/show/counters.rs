//! `switchpath show counters`: every declared counter.

use super::{ShowView, per_second};
use crate::output::{Rows, short};
use anyhow::Result;
use control::api;
use std::io::Write;

impl ShowView for api::CountersReply {
    fn table(&self, before: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        let mut rows = Rows::new(&["KIND", "OF", "COUNTER", ">VALUE", ">A SECOND", "ABOUT"]);
        for counter in &self.counters {
            let like = |old: &&api::CounterValue| {
                (&old.kind, &old.of, &old.name) == (&counter.kind, &counter.of, &counter.name)
            };
            let old = before.and_then(|old| Some((old.counters.iter().find(like)?.value, old.time_ns)));
            let (kind, of, name) = (counter.kind.clone(), counter.of.clone(), counter.name.clone());
            let rate = per_second((counter.value, self.time_ns), old, short);
            rows.add([kind, of, name, counter.value.to_string(), rate, counter.help.clone()]);
        }
        rows.print(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::PortCounters;

    #[test]
    fn each_counter_has_a_line_with_its_sentence() {
        let mut now = api::CountersReply { time_ns: 0, counters: Vec::new() };
        now.add("port", "lan", &PortCounters { received: 7, ..PortCounters::default() });
        let before = now.clone();
        now.time_ns += 1_000_000_000;
        now.counters[0].value += 1500;
        let mut out = Vec::new();
        now.table(Some(&before), &mut out).unwrap();
        let table = String::from_utf8(out).unwrap();
        let line = table.lines().find(|line| line.contains("received_packets")).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[..6], ["port", "lan", "received_packets", "1507", "1.50k", "Packets"], "{table}");
    }
}
