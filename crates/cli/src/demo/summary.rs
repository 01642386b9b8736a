//! What is said at the end: what was transferred, what was dropped and why, and that every packet is accounted for.

use super::Reload;
use super::traffic::{Flow, Kind, Traffic};
use super::view::{bytes, count};
use crate::output::rate;
use control::Closing;
use control::api::{Ledger, Paths};
use units::Nanos;

/// How it ended.
pub struct End {
    /// After how long.
    pub elapsed: Nanos,
    /// Whether before its time.
    pub interrupted: bool,
    /// The change of the configuration, where it came to that.
    pub reload: Option<Reload>,
    /// The paths as they were last.
    pub paths: Option<Paths>,
    /// The router after its end.
    pub closing: Closing,
    /// What failed besides a transfer.
    pub failure: Option<String>,
}

/// The summary, and whether everything went well.
pub fn summarise(traffic: &Traffic, end: &End) -> (Vec<String>, bool) {
    let seconds = end.elapsed.as_secs_f64();
    let interrupted = if end.interrupted { "Interrupted after" } else { "After" };
    let mut lines = vec![format!("{interrupted} {seconds:.1} s. Transferred, every byte compared with the one sent:")];
    let mut good = end.failure.is_none();
    for flow in &traffic.flows {
        let failure = flow.failure(end.interrupted);
        good &= failure.is_none();
        let verdict = failure.map_or_else(|| "ok".into(), |reason| format!("FAILED: {reason}"));
        lines.push(format!("  {:<28} {:<62} {verdict}", flow.name(), transferred(flow, seconds)));
    }
    if let Some(reload) = &end.reload {
        good &= reload.result.is_ok();
        let voice = end.paths.iter().flat_map(|paths| &paths.paths).find(|path| path.name == "voice");
        let taken = voice.map_or_else(String::new, |path| format!(" Then {} took it.", count(path.entered_packets)));
        lines.push(format!("{}{taken}", reload.tell()));
    }
    lines.push("Dropped, by reason:".into());
    lines.extend(drops(traffic, &end.closing));
    lines.extend(lost(&end.closing));
    let (law, holds) = law(&end.closing);
    lines.push(law);
    lines.extend(end.failure.iter().map(|reason| format!("FAILED: {reason}")));
    (lines, good && holds)
}

fn transferred(flow: &Flow, seconds: f64) -> String {
    let counted = flow.count();
    match flow.kind {
        Kind::Tcp => {
            let goodput = if seconds > 0.0 { 8.0 * counted.received as f64 / seconds } else { 0.0 };
            format!("{} ({} bytes), {}", bytes(counted.received), count(counted.received), rate(goodput))
        }
        Kind::Udp => {
            let (sent, received) = (counted.sent_packets, counted.received_packets);
            let lost = sent.saturating_sub(received);
            format!("{} of {} datagrams, {} lost, {} late", count(received), count(sent), lost, counted.late)
        }
        Kind::Ping => {
            let echoes = counted.echoes;
            let [least, mean, most] =
                [echoes.least, echoes.mean(), echoes.most].map(|t| format!("{:.3}", t.as_secs_f64() * 1e3));
            let (sent, received) = (counted.sent_packets, counted.received_packets);
            format!("{received} of {sent} replies, round trip {least} / {mean} / {most} ms")
        }
    }
}

fn drops(traffic: &Traffic, closing: &Closing) -> Vec<String> {
    if closing.drops.drops.is_empty() {
        return vec!["  nothing".into()];
    }
    let line = |drop: &control::api::Drop| {
        let sent = traffic.strays.iter().find(|(reason, _)| *reason == drop.reason);
        let sent = sent.map(|(_, sent)| sent.load(std::sync::atomic::Ordering::Relaxed));
        let remark = sent.map_or_else(String::new, |sent| format!(" ({sent} sent to be dropped for it)"));
        format!("  {:<18} {:>7}  {}{remark}", drop.reason, count(drop.packets), drop.explanation)
    };
    closing.drops.drops.iter().map(line).collect()
}

/// What was lost outside of the router, where anything was.
fn lost(closing: &Closing) -> Vec<String> {
    let ports = closing.ports.ports.iter();
    let lost = ports.filter(|p| p.lost_before_receive_packets + p.lost_after_transmit_packets > 0);
    lost.map(|port| {
        format!(
            "Lost outside of the router, at port {}: {} before it could receive them, {} after it had sent them",
            port.name,
            count(port.lost_before_receive_packets),
            count(port.lost_after_transmit_packets)
        )
    })
    .collect()
}

/// The law of conservation, and whether it held.
fn law(closing: &Closing) -> (String, bool) {
    let Ledger {
        received_packets,
        generated_packets,
        sent_packets,
        consumed_packets,
        dropped_packets,
        held_packets,
        ..
    } = closing.ledgers.total;
    // Of a worker that failed there is no ledger.
    let holds = !closing.ledgers.workers.is_empty() && closing.ledgers.balanced && held_packets == 0;
    let text = format!(
        "Conservation law: received {} + generated {} = sent {} + consumed {} + dropped {} + held {}  {}",
        count(received_packets),
        count(generated_packets),
        count(sent_packets),
        count(consumed_packets),
        count(dropped_packets),
        count(held_packets),
        if holds { "OK" } else { "BROKEN" }
    );
    (text, holds)
}
