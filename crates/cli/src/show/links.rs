//! The queues of a port: its queue groups, the waiting times of packets in them, and their recent history.

use super::{ShowOptions, ShowView};
use crate::output::{Rows, brief, short};
use crate::stats;
use anyhow::Result;
use control::Client;
use control::api::{EmulatedLink, LatencyReply, LinkReply, Links, LongQueue};
use std::io::Write;
use std::process::ExitCode;

/// Characters of a graph over half a minute.
const LINE: usize = 60;

impl ShowOptions {
    /// Shows the links of a port.
    pub(super) fn links(&self, client: &Client, port: &str) -> Result<ExitCode> {
        let mut query = form_urlencoded::Serializer::new(String::new());
        self.show::<Links>(client, &format!("/v1/links?{}", query.append_pair("port", port).finish()))
    }
}

/// Returns cells with the latencies of packets since `before`.
fn latency_cells(now: Option<&LatencyReply>, before: Option<&LatencyReply>) -> [String; 4] {
    let Some(now) = now else { return std::array::from_fn(|_| "-".into()) };
    let at = |thousandths| now.recent_quantile_ns(before, thousandths).map_or("-".into(), brief);
    [at(500), at(990), at(999), brief(now.max_ns)]
}

impl ShowView for Links {
    fn table(&self, before: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        for (index, link) in self.links.iter().enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            print_link(link, before.and_then(|before| stats::find_link(&before.links, link)), out)?;
        }
        Ok(())
    }
}

fn print_link(link: &LinkReply, before: Option<&LinkReply>, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "{}, worker {}: {}, version {}", link.port, link.worker, link.scheme, link.version)?;
    if let Some(what) = &link.put_aside {
        writeln!(out, "the scheme panicked and is disabled; the link serves packets first in, first out: {what}")?;
    }
    let columns = [
        "queues", ">arrived", ">sent", ">dropped", ">marked", ">waiting", ">bytes", ">p50", ">p99", ">p99.9", ">max",
        "state",
    ];
    let mut rows = Rows::new(&columns);
    let mut add = |name: String, counts: [u64; 6], times: [String; 4], state: String| {
        let [arrived, sent, dropped, marked, waiting, bytes] = counts.map(|count| count.to_string());
        let [p50, p99, p999, max] = times;
        rows.add([name, arrived, sent, dropped, marked, waiting, bytes, p50, p99, p999, max, state]);
    };
    for group in &link.groups {
        let old = before.and_then(|link| stats::find_group(link, group)).and_then(|group| group.sojourn.as_ref());
        let name = if group.queues > 1 { format!("{} ({})", group.name, group.queues) } else { group.name.clone() };
        let counts = [
            group.arrived_packets,
            group.sent_packets,
            group.dropped_packets,
            group.marked_packets,
            group.backlog_packets,
            group.backlog_bytes,
        ];
        add(name, counts, latency_cells(group.sojourn.as_ref(), old), stats::format_scheme_state(&group.state));
    }
    let counts = [
        link.counters.offered,
        link.counters.sent,
        link.counters.dropped,
        link.counters.marked,
        link.backlog_packets,
        link.backlog_bytes,
    ];
    let old = before.and_then(|link| link.sojourn.as_ref());
    let passed = format!("{} bypassed", short(link.counters.passed as f64));
    add("the link".into(), counts, latency_cells(link.sojourn.as_ref(), old), passed);
    rows.print(out)?;
    if link.version > 1 {
        writeln!(out, "counted  queues since version {} of the scheme, the link since its creation", link.version)?;
    }
    if !link.drops.is_empty() {
        writeln!(out, "dropped  {}", stats::drops(&link.drops))?;
    }
    let held = link.counters.withheld;
    let idle = link.counters.wasted.saturating_sub(held);
    let each = link.handler_ns / link.handler_packets.max(1);
    writeln!(
        out,
        "to send  {} opportunities used, {} without backlog, {} withheld; {} a packet",
        short(link.counters.sent as f64),
        short(idle as f64),
        short(held as f64),
        brief(each)
    )?;
    if let Some(emulated) = &link.emulated {
        print_emulated_link(emulated, out)?;
    }
    let series = &link.series;
    let most = |values: &[u64]| values.iter().copied().max().unwrap_or(0);
    let seconds = series.time_ns.first().zip(series.time_ns.last()).map_or(0, |(first, last)| last - first);
    let (drawn, packets) = (stats::draw_graph(&series.most_packets, LINE), most(&series.most_packets));
    writeln!(out, "backlog  {drawn}  most {packets} packets in {}", brief(seconds))?;
    let (drawn, longest) = (stats::draw_graph(&series.max_sojourn_ns, LINE), most(&series.max_sojourn_ns));
    writeln!(out, "sojourn  {drawn}  most {}", brief(longest))?;
    for group in link.groups.iter().filter(|group| group.collided_packets > 0) {
        let (collided, arrived) = (group.collided_packets, group.arrived_packets.max(1));
        let part = 100.0 * collided as f64 / arrived as f64;
        writeln!(out, "shared   {}: {collided} packets ({part:.1} %) joined a queue with another flow", group.name)?;
    }
    if link.longest.len() > 1 {
        let queue = |queue: &LongQueue| format!("{} ({} packets)", queue.queue, queue.packets);
        let longest: Vec<String> = link.longest.iter().map(queue).collect();
        writeln!(out, "longest  queues {}", longest.join(", "))?;
    }
    Ok(())
}

/// Prints the emulated link of a port, and how accurate the emulation is.
fn print_emulated_link(link: &EmulatedLink, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "emulates {}", link.link)?;
    writeln!(
        out,
        "on it    {} in flight, {} arrived, {} lost, {} duplicated; late p99 {}, most {}",
        link.under_way_packets,
        short(link.arrived_packets as f64),
        short(link.lost_packets as f64),
        short(link.doubled_packets as f64),
        brief(link.late_p99_ns),
        brief(link.late_max_ns)
    )?;
    if link.opportunities_used + link.opportunities_unused > 0 {
        let (used, unused) = (short(link.opportunities_used as f64), short(link.opportunities_unused as f64));
        writeln!(out, "trace    {used} opportunities used, {unused} unused")?;
    }
    if link.missed_packets > 0 {
        let idle = brief(link.missed_ns);
        writeln!(out, "THIS MACHINE is slower than the link: the link was idle for {idle} with a backlog")?;
    }
    if link.trace_ended {
        writeln!(out, "THE TRACE HAS ENDED before the end of the run")?;
    }
    Ok(())
}
