//! What a world of hosts stands on when its packets are real: its senders in one network namespace, its receivers in another, with the kernel's
//! own TCP, and between them a router whose two ports have the world's link, one direction each.

use anyhow::{Context, Result, anyhow};
use control::{Daemon, Notice, Options};
use io::clock;
use io::devices::Devices;
use io::netns::{Host, Lab};
use io::tcp::Manner;
use plan::SchemeChange;
use sim::experiment::DataFiles;
use sim::{Change, Direction, Passage};
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use units::{Mac, Nanos};

/// What the configuration is called in messages.
const CONFIGURATION: &str = "laboratory";
/// Of the addresses for benchmarks (RFC 2544, appendix C.2.2).
const SENDERS: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 18, 0, 2)];
const RECEIVERS: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 18, 1, 1), Ipv4Addr::new(198, 18, 1, 2)];
/// The hosts' link addresses, so that the router need not ask for them over the link.
const MACS: [Mac; 2] = [Mac([2, 0, 0, 0, 0, 2]), Mac([2, 0, 0, 0, 1, 2])];
/// Packets that may be under way on a link.
const UNDER_WAY: u64 = 16_384;
/// Frames for everything else.
const SPARE: u64 = 8192;
/// What senders and receivers have room for: more than a deep buffer ever holds. The least, the default and the most of tcp(7).
const RECEIVE: &str = "4096 536870912 1073741824";
const SEND: &str = "4096 1048576 1073741824";
/// What frames have besides IP.
const LINK_HEADER: u64 = 14;
/// How long a connection may take to be made, over links that are silent for seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// The hosts and the router.
pub struct Laboratory {
    senders: Host,
    receivers: Host,
    description: Description,
    daemon: Arc<Daemon>,
    notices: Receiver<Notice>,
    _lab: Lab,
}

/// What the router says of the run.
#[derive(Clone, Copy, Default, Debug)]
pub struct Passed {
    /// Packets given to the scheme, sent, dropped by it and marked.
    pub offered: u64,
    /// See there.
    pub sent: u64,
    /// The bytes of those sent, of IP.
    pub sent_bytes: u64,
    /// See there.
    pub dropped: u64,
    /// See there.
    pub marked: u64,
    /// Packets that wait.
    pub waiting: u64,
    /// Packets that the kernel lost between the hosts and the router.
    pub kernel_lost: u64,
}

impl Laboratory {
    /// One in which so many packets may wait before each link.
    ///
    /// # Errors
    ///
    /// Why it cannot be had here.
    pub fn new(passage: Passage, waiting: u64, seed: u64, files: DataFiles) -> Result<Laboratory> {
        let description = Description { passage, waiting, seed, files, change: SchemeChange::default() };
        let text = description.configuration();
        let plan = plan::check(&text, CONFIGURATION, &plane::catalogue()).map_err(|wrong| anyhow!("{wrong}"))?;
        let lab = Lab::new().context("real packets need network namespaces: run it as root")?;
        let router = lab.host("router")?;
        router.silence_kernel()?;
        let make = |name: &str, [gateway, address]: [Ipv4Addr; 2], mac: Mac| -> Result<Host> {
            let host = lab.host(name)?;
            lab.cable(&io::netns::Plug { mac: Some(mac), ..host.plug("eth0") }, &router.plug(name))?;
            host.add_address("eth0", address.into(), 24)?;
            host.add_default_route(gateway.into())?;
            for (setting, value) in [
                ("tcp_rmem", RECEIVE),
                ("tcp_wmem", SEND),
                // What one run has learned of the path is nothing that the next may know.
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
        let options = Options::new(devices, &text, CONFIGURATION, move |what| _ = notice.send(what));
        let daemon = Daemon::start(&plan, options).map_err(|error| anyhow!("the router cannot start: {error}"))?;
        Ok(Laboratory { senders, receivers, description, daemon, notices, _lab: lab })
    }

    /// Another scheme takes the place of the one before the link to the receivers, or of that back.
    ///
    /// # Errors
    ///
    /// That the router does not have it.
    pub fn change(&mut self, back: bool, change: &Change) -> Result<()> {
        let Passage { forward, back: other } = &mut self.description.passage;
        let way = if back { other } else { forward };
        way.scheme.clone_from(&change.scheme);
        self.description.change = change.waiting;
        let applied = self.daemon.apply(&self.description.configuration(), CONFIGURATION);
        applied.map(drop).map_err(|error| anyhow!("the router does not take {}: {error:?}", change.scheme))
    }

    /// A connection of so many, as `manner` says: the sender's end and the receiver's.
    pub fn connection(&self, number: usize, manner: &Manner<'_>) -> Result<(TcpStream, TcpStream)> {
        let at = SocketAddr::new(RECEIVERS[1].into(), 80 + number as u16);
        let refused = || format!("a connection with the congestion control {}", manner.control);
        let listener = self.receivers.run(|| manner.listen(at))?.with_context(refused)?;
        let near = self.senders.run(|| manner.connect(at, PATIENCE))?.with_context(refused)?;
        // The kernel has shaken hands already.
        let (far, _) = listener.accept().context("accepting a connection")?;
        Ok((near, far))
    }

    /// What the router has done so far: of the link to the receivers, and of that back.
    ///
    /// # Errors
    ///
    /// That it has failed.
    pub fn passed(&self) -> Result<[Passed; 2]> {
        if let Some(Notice::Failed(reason)) = self.notices.try_iter().next() {
            return Err(anyhow!("the router has failed: {reason}"));
        }
        let ports = self.daemon.ports().map_err(|error| anyhow!("the router does not answer: {error:?}"))?;
        Ok(["receivers", "senders"].map(|name| {
            let port = ports.ports.iter().find(|port| port.name == name);
            port.map_or_else(Passed::default, |port| Passed {
                offered: port.link.offered,
                sent: port.link.sent,
                sent_bytes: port.link.sent_bytes - port.link.sent * LINK_HEADER,
                dropped: port.link.dropped,
                marked: port.link.marked,
                waiting: port.backlog_packets,
                kernel_lost: port.counters.lost_before_receive + port.counters.lost_after_transmit + refused(port),
            })
        }))
    }
}

/// Packets that the kernel refused when they were to be transmitted.
fn refused(port: &control::api::Port) -> u64 {
    port.drops.iter().filter(|drop| drop.reason == "device_refused").map(|drop| drop.packets).sum()
}

/// How a run went, seen from its end.
#[derive(Clone, Default, Debug)]
pub struct Went {
    /// How long 95 of 100 packets waited before the link at most, in microseconds.
    pub sojourn_p95_us: f64,
    /// Opportunities of the link's trace that were used, and that found nothing to send.
    pub opportunities: (u64, u64),
    /// How late 99 of 100 packets came out of the link at most, in microseconds.
    pub late_p99_us: f64,
    /// How long the link was idle though packets waited, in milliseconds: this machine was too slow.
    pub missed_ms: f64,
    /// Packets that the link's scheme dropped, by reason.
    pub drops: Vec<(String, u64)>,
}

impl Laboratory {
    /// How it went at the link to the receivers, and at that back.
    ///
    /// # Errors
    ///
    /// That the router does not answer.
    pub fn went(&self) -> Result<[Went; 2]> {
        let links = self.daemon.links(None, 0).map_err(|error| anyhow!("the router does not answer: {error:?}"))?;
        Ok(["receivers", "senders"].map(|name| {
            let link = links.links.iter().find(|link| link.port == name);
            let emulated = link.and_then(|link| link.emulated.as_ref());
            Went {
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

/// The time that 95 of 100 packets did not exceed, in nanoseconds, as their buckets have it.
fn p95(latency: &control::api::Latency) -> f64 {
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

/// A text as TOML has it: as JSON has it.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// What the router is to be like.
struct Description {
    passage: Passage,
    /// Packets that may wait before each link.
    waiting: u64,
    seed: u64,
    files: DataFiles,
    /// What becomes of what waits when a scheme is changed.
    change: SchemeChange,
}

impl Description {
    /// The router's configuration.
    fn configuration(&self) -> String {
        let Description { passage, waiting, seed, files, change } = self;
        let mut text = format!(
            "version = 1\n[router]\nname = \"laboratory\"\nworkers = 1\nframes = {}\nsuper_frames = 0\nspin = \"0ns\"\n",
            2 * UNDER_WAY + SPARE + waiting
        );
        let sides = [
            ("receivers", RECEIVERS, MACS[1], &passage.forward, 2 * seed),
            ("senders", SENDERS, MACS[0], &passage.back, 2 * seed + 1),
        ];
        for (name, [own, host], mac, Direction { scheme, medium, .. }, seed) in sides {
            let mut keys = Vec::new();
            for (key, value) in medium.keys() {
                let file = files.find(&value).filter(|_| key == "trace");
                let value = file.map_or(value, |file| file.display().to_string());
                keys.push(format!("{key} = {}", quoted(&value)));
            }
            _ = write!(
                text,
                "[port.{name}]\ndevice = \"packet:{name}\"\naddress = [\"{own}/24\"]\noffloads = false\nscheme = {}\n\
             scheme_change = \"{}\"\nlink = {{ {}, hold = {UNDER_WAY}, seed = {seed} }}\n\
             [[neighbour]]\naddress = \"{host}\"\nmac = \"{mac}\"\nport = \"{name}\"\n",
                quoted(scheme),
                change.name(),
                keys.join(", ")
            );
        }
        text
    }
}

/// How many packets may wait before a link that carries so many bits a second for so long, if nothing is ever dropped: a sender with its window
/// that grows by a packet a round trip, or doubles, puts as many into the queue as the link takes out at most.
pub fn waiting(rate: f64, duration: Nanos, packet: u32) -> u64 {
    let carried = rate * duration.as_secs_f64() / 8.0 / f64::from(packet.max(1));
    (carried as u64 + SPARE).clamp(SPARE, 2_000_000)
}
