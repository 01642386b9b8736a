//! The text of the live table and of the lines: counters of the router and the hosts, as rates over the last second.

use super::Reload;
use super::traffic::{Count, Flow, FlowKind, Traffic};
use cli::output::{Rows, is_coloured, rate, short};
use control::Daemon;
use control::api::{ApiError, Drops, Path, Paths, PortReply, Ports};
use std::collections::VecDeque;
use units::Nanos;

/// The interval of the rates.
const WINDOW: Nanos = Nanos::secs(1);
/// Width of the progress bar in characters.
const BAR: usize = 40;
/// Colours (ECMA-48 8.3.117).
pub const BOLD: &str = "1";
pub const GOOD: &str = "1;32";
pub const BAD: &str = "1;31";

/// All counters at one time.
#[derive(Clone)]
pub struct DemoSample {
    elapsed: Nanos,
    ports: Ports,
    paths: Paths,
    drops: Drops,
    counts: Vec<Count>,
}

impl DemoSample {
    /// Reads all counters.
    pub fn take(daemon: &Daemon, traffic: &Traffic, elapsed: Nanos) -> Result<DemoSample, ApiError> {
        let (ports, paths, drops) = (daemon.ports()?, daemon.paths()?, daemon.drops()?);
        Ok(DemoSample { elapsed, ports, paths, drops, counts: traffic.flows.iter().map(Flow::count).collect() })
    }
}

/// The recent samples.
pub struct DemoView {
    span: Nanos,
    /// The samples of the last second, oldest first.
    samples: VecDeque<DemoSample>,
}

/// The rate per second of a counter between two samples.
fn per_second(seconds: f64, old: u64, new: u64) -> f64 {
    if seconds > 0.0 { new.saturating_sub(old) as f64 / seconds } else { 0.0 }
}

impl DemoView {
    /// A view without samples.
    pub fn new(span: Nanos) -> DemoView {
        DemoView { span, samples: VecDeque::new() }
    }

    /// Adds the next sample.
    pub fn add(&mut self, sample: DemoSample) {
        let since = sample.elapsed.saturating_sub(WINDOW);
        // Keep one sample from before the window, so that rates cover a full second.
        while self.samples.get(1).is_some_and(|second| second.elapsed <= since) {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// The latest sample, the one a second before, and the seconds between them. `None` if there are not two.
    fn ends(&self) -> Option<(&DemoSample, &DemoSample, f64)> {
        let (old, new) = (self.samples.front()?, self.samples.back()?);
        Some((old, new, new.elapsed.saturating_sub(old.elapsed).as_secs_f64()))
    }

    /// Bits per second of a flow that were received.
    fn goodput(&self, number: usize) -> f64 {
        self.ends().map_or(0.0, |(old, new, seconds)| {
            8.0 * per_second(seconds, old.counts[number].received, new.counts[number].received)
        })
    }

    /// One line for the time since the last one.
    pub fn line(&self, traffic: &Traffic) -> String {
        let Some((old, new, seconds)) = self.ends() else { return String::new() };
        let sum = |sample: &DemoSample, of: fn(&PortReply) -> u64| sample.ports.ports.iter().map(of).sum::<u64>();
        let packets = |of: fn(&PortReply) -> u64| short(per_second(seconds, sum(old, of), sum(new, of)));
        let [tcp, udp, ping] =
            [FlowKind::Tcp, FlowKind::Udp, FlowKind::Ping].map(|kind| self.kind_summary(traffic, kind));
        let drops: Vec<String> = new.drops.drops.iter().map(|d| format!("{} {}", d.reason, d.packets)).collect();
        format!(
            "{:4.0} s  packets/s in {} out {}  tcp {tcp}  udp {udp}  ping {ping}  dropped: {}",
            new.elapsed.as_secs_f64(),
            packets(|port| port.counters.received),
            packets(|port| port.link.sent),
            if drops.is_empty() { "nothing".into() } else { drops.join(", ") }
        )
    }

    /// All flows of a kind in a few words.
    fn kind_summary(&self, traffic: &Traffic, kind: FlowKind) -> String {
        let Some((.., new, _)) = self.ends() else { return String::new() };
        let of = || traffic.flows_of(kind).map(|flow| (flow.number, &new.counts[flow.number]));
        match kind {
            FlowKind::Tcp => rate(of().map(|(number, _)| self.goodput(number)).sum()),
            FlowKind::Udp => {
                let missing: u64 = of().map(|(_, count)| count.missing).sum();
                let received: u64 = of().map(|(_, count)| count.received_packets).sum();
                format!("{received} ({missing} lost)")
            }
            FlowKind::Ping => {
                let times = of().map(|(_, count)| count.echoes.last.get()).filter(|&time| time > 0);
                let times: Vec<u64> = times.collect();
                let mean = times.iter().sum::<u64>().checked_div(times.len() as u64);
                mean.map_or_else(|| "-".into(), |mean| milliseconds(Nanos::new(mean)))
            }
        }
    }

    /// The table, in at most `most` lines if possible.
    pub fn table(&self, traffic: &Traffic, reload: Option<&Reload>, most: usize) -> Vec<String> {
        let Some((.., new, _)) = self.ends() else { return Vec::new() };
        let (gone, span) = (new.elapsed.as_secs_f64(), self.span.as_secs_f64());
        let past = ((gone / span).min(1.0) * BAR as f64) as usize;
        let bar = format!("{}{}", "━".repeat(past), "╌".repeat(BAR - past));
        let title = format!("{}  {bar}  {gone:.1} of {span:.0} s", paint("switchpath demo", BOLD));
        let plan = || vec!["At half time, voice (UDP port 5060) gets a path of its own.".into()];
        let news = reload.map_or_else(plan, Reload::describe);
        let blank = vec![String::new()];
        let head = [vec![title], blank.clone(), self.ports(), blank.clone(), self.paths(), blank.clone()].concat();
        let tail = [blank.clone(), self.drops(), blank, news].concat();
        let flows = self.flows(traffic);
        let fits = head.len() + flows.len() + tail.len() <= most;
        let mut lines = [head, if fits { flows } else { self.kinds(traffic) }, tail].concat();
        if lines.len() > most {
            lines.retain(|line| !line.is_empty());
        }
        lines.truncate(most);
        lines
    }

    fn ports(&self) -> Vec<String> {
        let mut rows =
            Rows::new(&["PORT", ">RECEIVED", ">PPS", ">RATE", ">SENT", ">PPS", ">RATE", ">WAITING", ">DROPPED"]);
        let Some((old, new, seconds)) = self.ends() else { return Vec::new() };
        for port in &new.ports.ports {
            let before = old.ports.ports.iter().find(|other| other.name == port.name);
            let grown = |of: fn(&PortReply) -> u64| per_second(seconds, before.map_or(0, of), of(port));
            rows.add([
                port.name.clone(),
                count(port.counters.received),
                short(grown(|p| p.counters.received)),
                rate(8.0 * grown(|p| p.counters.received_bytes)),
                count(port.link.sent),
                short(grown(|p| p.link.sent)),
                rate(8.0 * grown(|p| p.link.sent_bytes)),
                count(port.backlog_packets),
                count(port.drops.iter().map(|drop| drop.packets).sum()),
            ]);
        }
        lines(&rows)
    }

    fn paths(&self) -> Vec<String> {
        let mut rows = Rows::new(&["PATH", "MATCH", ">ENTERED", ">PPS", ">LEFT", ">WAITING", ">DROPPED"]);
        let Some((old, new, seconds)) = self.ends() else { return Vec::new() };
        for path in &new.paths.paths {
            let before = old.paths.paths.iter().find(|other| other.name == path.name);
            let entered = |path: &Path| path.counters.entered;
            rows.add([
                path.name.clone(),
                path.matching.clone().unwrap_or_else(|| "-".into()),
                count(path.counters.entered),
                short(per_second(seconds, before.map_or(0, entered), path.counters.entered)),
                count(path.counters.left),
                count(path.queued_packets),
                count(path.counters.dropped),
            ]);
        }
        lines(&rows)
    }

    fn flows(&self, traffic: &Traffic) -> Vec<String> {
        let mut rows = Rows::new(&["FLOW", ">RATE", ">RECEIVED", ""]);
        let Some((.., new, _)) = self.ends() else { return Vec::new() };
        for flow in &traffic.flows {
            let count = &new.counts[flow.number];
            let rate = rate(self.goodput(flow.number));
            rows.add([flow.name(), rate, bytes(count.received), flow.detail(count)]);
        }
        lines(&rows)
    }

    /// The flows in three lines.
    fn kinds(&self, traffic: &Traffic) -> Vec<String> {
        let mut rows = Rows::new(&["FLOWS", "", ""]);
        for (kind, what) in [(FlowKind::Tcp, "goodput"), (FlowKind::Udp, "datagrams"), (FlowKind::Ping, "round trip")] {
            let name = format!("{} {}", traffic.flows_of(kind).count(), kind.name());
            rows.add([name, what.into(), self.kind_summary(traffic, kind)]);
        }
        lines(&rows)
    }

    fn drops(&self) -> Vec<String> {
        let mut rows = Rows::new(&["DROPPED", ">PACKETS", "WHY"]);
        let Some((.., new, _)) = self.ends() else { return Vec::new() };
        for drop in &new.drops.drops {
            rows.add([drop.reason.clone(), count(drop.packets), drop.explanation.clone()]);
        }
        if new.drops.drops.is_empty() {
            rows.add(["nothing yet".into(), String::new(), String::new()]);
        }
        lines(&rows)
    }
}

impl Flow {
    /// The last column of a flow's row.
    fn detail(&self, count: &Count) -> String {
        match self.kind {
            FlowKind::Tcp => String::new(),
            FlowKind::Udp => format!("{} lost, {} late", count.missing, count.late),
            FlowKind::Ping if count.echoes.count == 0 => "no reply yet".into(),
            FlowKind::Ping => format!("round trip {}", milliseconds(count.echoes.last)),
        }
    }
}

impl Reload {
    /// The reload in one sentence, with a line for each change.
    pub fn describe(&self) -> Vec<String> {
        let at = self.at.as_secs_f64();
        match &self.result {
            Ok(changes) => {
                let took = milliseconds(self.took);
                let sentence = format!("Reloaded at {at:.1} s in {took}, UDP packets lost: {}.", self.lost);
                [sentence].into_iter().chain(changes.iter().map(|change| format!("  {change}"))).collect()
            }
            Err(reason) => vec![format!("The reload at {at:.1} s was refused: {reason}")],
        }
    }
}

/// The lines of a table.
pub fn lines(rows: &Rows) -> Vec<String> {
    let mut text = Vec::new();
    rows.print(&mut text).expect("memory takes what is written");
    String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
}

/// Text in a colour.
pub fn paint(text: &str, colour: &str) -> String {
    if is_coloured(&std::io::stdout()) { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
}

/// A number with its digits in groups of three.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes with three digits.
pub fn bytes(number: u64) -> String {
    format!("{}B", short(number as f64))
}

/// Milliseconds to the microsecond.
pub fn milliseconds(time: Nanos) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}
