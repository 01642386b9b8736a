//! The summary at the end: the transfers, the drops with their reasons, and the proof that every packet is accounted for.

use super::Reload;
use super::traffic::{Flow, FlowKind, Traffic};
use super::view::{self, BAD, GOOD, bytes, count, paint};
use cli::output::{Rows, rate};
use control::FinalReport;
use control::api::{LedgerReply, Paths};
use std::sync::atomic::Ordering;
use units::Nanos;

/// The end of a demonstration.
pub struct DemoResult {
    /// The time it ran.
    pub elapsed: Nanos,
    /// True if it was interrupted.
    pub interrupted: bool,
    /// The configuration change, if the demonstration got that far.
    pub reload: Option<Reload>,
    /// The last counters of the paths.
    pub paths: Option<Paths>,
    /// The router's state after its end.
    pub closing: FinalReport,
    /// A failure other than of a transfer.
    pub failure: Option<String>,
}

/// The summary, and true if everything succeeded.
pub fn summarise(traffic: &Traffic, end: &DemoResult) -> (Vec<String>, bool) {
    let seconds = end.elapsed.as_secs_f64();
    let how = if end.interrupted { "Interrupted after" } else { "Transferred in" };
    let mut lines = vec![format!("{how} {seconds:.1} s; each received byte was compared with the sent one:")];
    let mut good = end.failure.is_none();
    let mut rows = Rows::new(&["FLOW", "TRANSFERRED", ""]);
    for flow in &traffic.flows {
        let failure = flow.failure(end.interrupted);
        good &= failure.is_none();
        let verdict = failure.map_or_else(|| paint("ok", GOOD), |reason| paint(&format!("FAILED: {reason}"), BAD));
        rows.add([flow.name(), transferred(flow, seconds), verdict]);
    }
    lines.extend(view::lines(&rows));
    lines.push(String::new());
    lines.extend(drops(traffic, &end.closing));
    lines.extend(lost(&end.closing));
    lines.push(String::new());
    if let Some(reload) = &end.reload {
        good &= reload.result.is_ok();
        lines.extend(reload.describe());
        let voice = end.paths.iter().flat_map(|paths| &paths.paths).find(|path| path.name == "voice");
        lines.extend(
            voice.map(|path| format!("Since then {} packets used the path voice.", count(path.counters.entered))),
        );
    }
    let (law, holds) = law(&end.closing);
    let verdict = if holds { paint("OK", GOOD) } else { paint("BROKEN", BAD) };
    lines.push(format!("Conservation law: {law}  {verdict}"));
    lines.extend(end.failure.iter().map(|reason| paint(&format!("FAILED: {reason}"), BAD)));
    (lines, good && holds)
}

fn transferred(flow: &Flow, seconds: f64) -> String {
    let counted = flow.count();
    match flow.kind {
        FlowKind::Tcp => {
            let goodput = if seconds > 0.0 { 8.0 * counted.received as f64 / seconds } else { 0.0 };
            format!("{} ({} bytes), {}", bytes(counted.received), count(counted.received), rate(goodput))
        }
        FlowKind::Udp => {
            let (sent, received) = (counted.sent_packets, counted.received_packets);
            let lost = sent.saturating_sub(received);
            format!("{} of {} datagrams, {} lost, {} late", count(received), count(sent), lost, counted.late)
        }
        FlowKind::Ping => {
            let echoes = counted.echoes;
            let [least, mean, most] =
                [echoes.least, echoes.mean(), echoes.most].map(|t| format!("{:.3}", t.as_secs_f64() * 1e3));
            let (sent, received) = (counted.sent_packets, counted.received_packets);
            format!("{received} of {sent} replies, rtt {least}/{mean}/{most} ms")
        }
    }
}

fn drops(traffic: &Traffic, closing: &FinalReport) -> Vec<String> {
    let mut rows = Rows::new(&["DROPPED", ">PACKETS", "WHY"]);
    for drop in &closing.drops.drops {
        let stray = traffic.strays.iter().find(|(reason, _)| *reason == drop.reason);
        let why = match stray {
            Some((_, sent)) => format!("the demo sent {} packets to cause this drop", sent.load(Ordering::Relaxed)),
            None => drop.explanation.clone(),
        };
        rows.add([drop.reason.clone(), count(drop.packets), why]);
    }
    if closing.drops.drops.is_empty() {
        rows.add(["nothing".into(), String::new(), String::new()]);
    }
    view::lines(&rows)
}

/// The losses outside of the router, if there are any.
fn lost(closing: &FinalReport) -> Vec<String> {
    let ports = closing.ports.ports.iter();
    let lost = ports.filter(|p| p.counters.lost_before_receive + p.counters.lost_after_transmit > 0);
    lost.map(|port| {
        format!(
            "Lost outside of the router, at port {}: {} before receive, {} after transmit",
            port.name,
            count(port.counters.lost_before_receive),
            count(port.counters.lost_after_transmit)
        )
    })
    .collect()
}

/// The conservation law, and true if it held.
fn law(closing: &FinalReport) -> (String, bool) {
    let LedgerReply {
        received_packets,
        generated_packets,
        sent_packets,
        consumed_packets,
        dropped_packets,
        held_packets,
        ..
    } = closing.ledgers.total;
    // A worker that failed has no ledger.
    let holds = !closing.ledgers.workers.is_empty() && closing.ledgers.balanced && held_packets == 0;
    let text = format!(
        "received {} + generated {} = sent {} + consumed {} + dropped {} + held {}",
        count(received_packets),
        count(generated_packets),
        count(sent_packets),
        count(consumed_packets),
        count(dropped_packets),
        count(held_packets),
    );
    (text, holds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::api::{Drops, Ledgers, Ports};

    /// An end with this worker's ledger and all transfers complete.
    fn end(ledger: Option<LedgerReply>) -> DemoResult {
        let workers: Vec<LedgerReply> = ledger.into_iter().collect();
        let closing = FinalReport {
            ledgers: Ledgers {
                balanced: workers.iter().all(LedgerReply::is_balanced),
                total: workers.first().cloned().unwrap_or_default(),
                workers,
            },
            ports: Ports { time_ns: 0, ports: Vec::new() },
            drops: Drops { time_ns: 0, drops: Vec::new() },
            uptime_ns: 0,
        };
        DemoResult { elapsed: Nanos::secs(1), interrupted: false, reload: None, paths: None, closing, failure: None }
    }

    fn all_transferred() -> Traffic {
        let traffic = Traffic::new();
        for flow in &traffic.flows {
            flow.add_packet(4);
            match flow.kind {
                FlowKind::Tcp => flow.receive_bytes(flow.pattern.at(0, 4)).unwrap(),
                FlowKind::Udp => flow.receive_datagram(&[&[0; 8][..], flow.pattern.at(0, 160)].concat()).unwrap(),
                FlowKind::Ping => flow.receive_echo(Nanos::millis(1), 4),
            }
        }
        traffic
    }

    #[test]
    fn summary_succeeds_only_if_ledger_balances_and_nothing_failed() {
        let right = LedgerReply { received_packets: 7, sent_packets: 5, dropped_packets: 2, ..LedgerReply::default() };
        let holding = LedgerReply { received_packets: 8, held_packets: 1, ..right.clone() };
        let lost = LedgerReply { received_packets: 8, ..right.clone() };
        let verdict = |traffic: &Traffic, end: &DemoResult| summarise(traffic, end).1;
        assert!(verdict(&all_transferred(), &end(Some(right.clone()))));
        // A ledger with a packet still held, one with a packet missing, and a worker without a ledger.
        for ledger in [Some(holding), Some(lost), None] {
            let (lines, good) = summarise(&all_transferred(), &end(ledger));
            assert!(!good && lines.iter().any(|line| line.contains("BROKEN")), "{lines:?}");
        }
        let failed = DemoResult { failure: Some("a worker has failed".into()), ..end(Some(right.clone())) };
        assert!(!verdict(&all_transferred(), &failed));
        let wrong = all_transferred();
        wrong.flows[0].add_sent(1);
        let (lines, good) = summarise(&wrong, &end(Some(right.clone())));
        assert!(
            !good && lines.iter().any(|line| line.contains("FAILED: 5 bytes were sent and 4 received")),
            "{lines:?}"
        );
        assert!(!verdict(&Traffic::new(), &end(Some(right.clone()))), "nothing was sent");
        assert!(verdict(&Traffic::new(), &DemoResult { interrupted: true, ..end(Some(right)) }));
    }

    #[test]
    fn summary_prints_all_terms_of_the_conservation_law() {
        let ledger = LedgerReply { received_packets: 1_234_567, sent_packets: 1_234_567, ..LedgerReply::default() };
        let (text, holds) = law(&end(Some(ledger)).closing);
        let terms = "received 1,234,567 + generated 0 = sent 1,234,567 + consumed 0 + dropped 0 + held 0";
        assert_eq!((text.as_str(), holds), (terms, true));
    }
}
