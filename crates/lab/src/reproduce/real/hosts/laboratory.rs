//! The laboratory of a world of hosts on real packets. Its senders are in one network namespace and its receivers in another, with the kernel's own
//! TCP. The two ports of the router between them emulate the world's link, one direction each.

use anyhow::{Context, Result, anyhow};
use control::{Daemon, DaemonOptions, Notice};
use io::clock;
use io::devices::Devices;
use io::netns::{Lab, LabHost};
use io::tcp::TcpConnectOptions;
use plan::SchemeChange;
use sim::experiment::DataFiles;
use sim::{HostNetwork, NetworkDirection, SchemeReplacement};
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use units::{Mac, Nanos};

/// The configuration's name in messages.
const CONFIGURATION: &str = "laboratory";
/// From the addresses for benchmarks (RFC 2544, appendix C.2.2).
const SENDERS: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 18, 0, 2)];
const RECEIVERS: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 1, 1), Ipv4Addr::new(198, 18, 1, 2)];
/// The hosts' MAC addresses, so that the router need not resolve them over the link.
const MACS: [Mac; 2] = [Mac([2, 0, 0, 0, 0, 2]), Mac([2, 0, 0, 0, 1, 2])];
/// Limit of packets in flight on a link.
const MAX_IN_FLIGHT: u64 = 16_384;
/// Frames for everything else.
const SPARE: u64 = 8192;
/// Socket buffers of senders and receivers: larger than any deep queue. The least, the default and the most of tcp(7).
const RECEIVE: &str = "4096 536870912 1073741824";
const SEND: &str = "4096 1048576 1073741824";
/// Length of the link header.
const LINK_HEADER: u64 = 14;
/// Timeout for a connection over links that stall for seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// The hosts and the router.
pub struct Laboratory {
    senders: LabHost,
    receivers: LabHost,
    description: Description,
    daemon: Arc<Daemon>,
    notices: Receiver<Notice>,
    _lab: Lab,
}

/// The router's counters for one direction.
#[derive(Clone, Copy, Default, Debug)]
pub struct DirectionCounters {
    /// Packets offered to the scheme.
    pub offered: u64,
    /// Packets sent.
    pub sent: u64,
    /// Bytes of the IP packets sent.
    pub sent_bytes: u64,
    /// Packets dropped by the scheme.
    pub dropped: u64,
    /// Packets marked by the scheme.
    pub marked: u64,
    /// Packets queued.
    pub queued: u64,
    /// Packets that the kernel lost between the hosts and the router.
    pub kernel_lost: u64,
}

impl Laboratory {
    /// A laboratory with room for `waiting` packets before each link.
    ///
    /// # Errors
    ///
    /// Why this machine cannot provide one.
    pub fn new(passage: HostNetwork, waiting: u64, seed: u64, files: DataFiles) -> Result<Laboratory> {
        let description = Description { passage, queue_limit: waiting, seed, files, change: SchemeChange::default() };
        let text = description.configuration();
        let plan = plan::check(&text, CONFIGURATION, &plane::catalogue()).map_err(|wrong| anyhow!("{wrong}"))?;
        let lab = Lab::new().context("real packets need network namespaces: run it as root")?;
        let router = lab.host("router")?;
        router.silence_kernel()?;
        let make = |name: &str, [gateway, address]: [Ipv4Addr; 2], mac: Mac| -> Result<LabHost> {
            let host = lab.host(name)?;
            lab.cable(&io::netns::Plug { mac: Some(mac), ..host.plug("eth0") }, &router.plug(name))?;
            host.add_address("eth0", address.into(), 24)?;
            host.add_default_route(gateway.into())?;
            for (setting, value) in [
                ("tcp_rmem", RECEIVE),
                ("tcp_wmem", SEND),
                // Do not let one run's path metrics influence the next.
                ("tcp_no_metrics_save", "1"),
                ("tcp_slow_start_after_idle", "1"),
            ] {
                host.sysctl(&format!("net/ipv4/{setting}"), value)?;
            }
            Ok(host)
        };
        let senders = make("senders", SENDERS, MACS[0])?;
        let receivers = make("receivers", RECEIVERS, MACS[1])?;
        let devices = Devices::new(clock::epoch()).in_namespace(router.namespace().clone());
        let (notice, notices) = channel();
        let options = DaemonOptions::new(devices, &text, CONFIGURATION, move |what| _ = notice.send(what));
        let daemon = Daemon::start(&plan, options).map_err(|error| anyhow!("the router cannot start: {error}"))?;
        Ok(Laboratory { senders, receivers, description, daemon, notices, _lab: lab })
    }

    /// Replaces the scheme of the link to the receivers, or of the reverse link if `back` is set.
    ///
    /// # Errors
    ///
    /// The router refuses it.
    pub fn change(&mut self, back: bool, change: &SchemeReplacement) -> Result<()> {
        let HostNetwork { forward, back: other } = &mut self.description.passage;
        let way = if back { other } else { forward };
        way.scheme.clone_from(&change.scheme);
        self.description.change = change.transition;
        let applied = self.daemon.apply(&self.description.configuration(), CONFIGURATION);
        applied.map(drop).map_err(|error| anyhow!("the router refuses {}: {error:?}", change.scheme))
    }

    /// Opens connection `number`, configured as `manner` says: the sender's end and the receiver's.
    pub fn connection(&self, number: usize, manner: &TcpConnectOptions<'_>) -> Result<(TcpStream, TcpStream)> {
        let at = SocketAddr::new(RECEIVERS[1].into(), 80 + number as u16);
        let refused = || format!("a connection with the congestion control {}", manner.congestion_control);
        let listener = self.receivers.run(|| manner.listen(at))?.with_context(refused)?;
        let near = self.senders.run(|| manner.connect(at, PATIENCE))?.with_context(refused)?;
        // The kernel has completed the handshake already, so this does not block.
        let (far, _) = listener.accept().context("accepting a connection")?;
        Ok((near, far))
    }

    /// The router's counters so far: of the link to the receivers, and of the reverse link.
    ///
    /// # Errors
    ///
    /// The router has failed.
    pub fn counters(&self) -> Result<[DirectionCounters; 2]> {
        if let Some(Notice::Failed(reason)) = self.notices.try_iter().next() {
            return Err(anyhow!("the router has failed: {reason}"));
        }
        let ports = self.daemon.ports().map_err(|error| anyhow!("the router does not answer: {error:?}"))?;
        Ok(["receivers", "senders"].map(|name| {
            let port = ports.ports.iter().find(|port| port.name == name);
            port.map_or_else(DirectionCounters::default, |port| DirectionCounters {
                offered: port.link.offered,
                sent: port.link.sent,
                sent_bytes: port.link.sent_bytes - port.link.sent * LINK_HEADER,
                dropped: port.link.dropped,
                marked: port.link.marked,
                queued: port.backlog_packets,
                kernel_lost: port.counters.lost_before_receive + port.counters.lost_after_transmit + refused(port),
            })
        }))
    }
}

/// Packets that the kernel refused to transmit.
fn refused(port: &control::api::PortReply) -> u64 {
    port.drops.iter().filter(|drop| drop.reason == "device_refused").map(|drop| drop.packets).sum()
}

/// The statistics of a run at its end.
#[derive(Clone, Default, Debug)]
pub struct RunSummary {
    /// The 95th percentile of the sojourn time before the link, in microseconds.
    pub sojourn_p95_us: f64,
    /// Opportunities of the link's trace that were used, and that found an empty queue.
    pub opportunities: (u64, u64),
    /// The 99th percentile of the lateness of packets at the link's output, in microseconds.
    pub late_p99_us: f64,
    /// How long the link was idle although packets were queued, in milliseconds: this machine was too slow.
    pub missed_ms: f64,
    /// Packets that the link's scheme dropped, by reason.
    pub drops: Vec<(String, u64)>,
}

impl Laboratory {
    /// The statistics of the link to the receivers, and of the reverse link.
    ///
    /// # Errors
    ///
    /// The router does not answer.
    pub fn summary(&self) -> Result<[RunSummary; 2]> {
        let links = self.daemon.links(None, 0).map_err(|error| anyhow!("the router does not answer: {error:?}"))?;
        Ok(["receivers", "senders"].map(|name| {
            let link = links.links.iter().find(|link| link.port == name);
            let emulated = link.and_then(|link| link.emulated.as_ref());
            RunSummary {
                sojourn_p95_us: link.and_then(|link| link.sojourn.as_ref()).map_or(0.0, p95) / 1e3,
                opportunities: emulated.map_or((0, 0), |link| (link.opportunities_used, link.opportunities_unused)),
                late_p99_us: emulated.map_or(0.0, |link| link.late_p99_ns as f64 / 1e3),
                missed_ms: emulated.map_or(0.0, |link| link.missed_ns as f64 / 1e6),
                drops: link.map_or_else(Vec::new, |link| {
                    link.drops.iter().map(|drop| (drop.reason.clone(), drop.packets)).collect()
                }),
            }
        }))
    }
}

/// The 95th percentile in nanoseconds, from the histogram.
fn p95(latency: &control::api::LatencyReply) -> f64 {
    let mut left = latency.packets.div_ceil(20);
    let slowest = latency.buckets.iter().rev().find(|bucket| {
        let here = left > bucket.packets;
        left = left.saturating_sub(bucket.packets);
        !here
    });
    slowest.map_or(0.0, |bucket| bucket.most_ns as f64)
}

impl Drop for Laboratory {
    fn drop(&mut self) {
        self.daemon.stop();
    }
}

/// A text quoted for TOML, with the rules of JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The parameters of the router.
struct Description {
    passage: HostNetwork,
    /// Limit of packets queued before each link.
    queue_limit: u64,
    seed: u64,
    files: DataFiles,
    /// The treatment of queued packets when a scheme changes.
    change: SchemeChange,
}

impl Description {
    /// The router's configuration.
    fn configuration(&self) -> String {
        let Description { passage, queue_limit: waiting, seed, files, change } = self;
        let mut text = format!(
            "version = 1\n[router]\nname = \"laboratory\"\nworkers = 1\nframes = {}\nsuper_frames = 0\nbusy_poll = \"0ns\"\n",
            2 * MAX_IN_FLIGHT + SPARE + waiting
        );
        let sides = [
            ("receivers", RECEIVERS, MACS[1], &passage.forward, 2 * seed),
            ("senders", SENDERS, MACS[0], &passage.back, 2 * seed + 1),
        ];
        for (name, [own, host], mac, NetworkDirection { scheme, medium, .. }, seed) in sides {
            let mut keys = Vec::new();
            for (key, value) in medium.keys() {
                let file = files.find(&value).filter(|_| key == "trace");
                let value = file.map_or(value, |file| file.display().to_string());
                keys.push(format!("{key} = {}", quoted(&value)));
            }
            _ = write!(
                text,
                "[port.{name}]\ndevice = \"packet:{name}\"\naddress = [\"{own}/24\"]\noffloads = false\nscheme = {}\n\
             scheme_change = \"{}\"\nlink = {{ {}, hold = {MAX_IN_FLIGHT}, seed = {seed} }}\n\
             [[neighbour]]\naddress = \"{host}\"\nmac = \"{mac}\"\nport = \"{name}\"\n",
                quoted(scheme),
                change.name(),
                keys.join(", ")
            );
        }
        text
    }
}

/// The queue limit before a link of this rate for this duration so that no packet is ever dropped. A sender whose window grows by a packet per round
/// trip, or doubles, adds at most as many packets to the queue as the link removes.
pub fn queue_limit(rate: f64, duration: Nanos, packet: u32) -> u64 {
    let carried = rate * duration.as_secs_f64() / 8.0 / f64::from(packet.max(1));
    (carried as u64 + SPARE).clamp(SPARE, 2_000_000)
}
