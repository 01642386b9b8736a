//! A world with slices on real packets: its router in a network namespace, and a host at each card. Time and rates are those of the world.

use super::super::state::{sleep_until, started};
use super::traffic::{SinkCounter, SourceSender, spawn_receivers, spawn_sender};
use crate::bench::io::processors::Processors;
use anyhow::{Context, Result, anyhow, bail, ensure};
use control::api::{AccessLevel, Author, SliceQueueReply, Via};
use control::{Daemon, Notice, SliceRights};
use io::clock;
use io::netns::{Lab, LabHost, Plug};
use io::thread_priority::RealtimePriority;
use sim::{LinkEnd, Measurements, Pattern, WorldPlan};
use slice::{FilterAction, FilterEdit, SliceCommand};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::thread;
use units::{Instant, Nanos};

/// The interface of a host.
const INTERFACE: &str = "eth0";
/// The time from the start of the threads to that of the world.
const SOON: Nanos = Nanos::millis(100);
/// The time in which the last packets arrive after the world's end.
const REST: Nanos = Nanos::millis(100);

/// Full access: the experiment is the operator.
pub fn operator() -> SliceRights<'static> {
    const OPERATOR: &Author = &Author::by(Via::Socket);
    SliceRights { author: OPERATOR, allowed: AccessLevel::Full }
}

/// A host at a card.
struct CardHost {
    host: LabHost,
    address: Ipv4Addr,
}

/// The router and its hosts.
struct SliceNetwork {
    daemon: Arc<Daemon>,
    notices: Receiver<Notice>,
    /// A host for each card of the world.
    hosts: Vec<CardHost>,
    _router: LabHost,
    _lab: Lab,
}

impl Drop for SliceNetwork {
    fn drop(&mut self) {
        self.daemon.stop();
    }
}

/// The counters of all queues, and the time at which they were read.
struct QueueCounts {
    at: Instant,
    /// By the names of slices and the numbers of their queues.
    queues: BTreeMap<(String, u16), SliceQueueReply>,
}

impl SliceNetwork {
    fn new(world: &WorldPlan) -> Result<SliceNetwork> {
        let [router] = &world.routers[..] else { bail!("a world with slices on real packets has one router") };
        ensure!(world.events.is_empty(), "a world with slices has no events on real packets");
        let lab = Lab::new().context("real packets need network namespaces: run it as root")?;
        let place = lab.host("router")?;
        place.silence_kernel()?;
        let mut hosts = Vec::new();
        for card in &world.cards {
            let device = format!("sim:{}", card.name);
            let port = router.plan.ports.iter().find(|port| port.device.to_string() == device);
            let port = port.with_context(|| format!("no port has the device '{device}'"))?;
            let own = port.interfaces.iter().flat_map(|interface| &interface.addresses).find_map(|prefix| {
                let IpAddr::V4(address) = prefix.address else { return None };
                Some((address, prefix.length))
            });
            let (own, length) = own.with_context(|| format!("port {} has no IPv4 address", port.name))?;
            // The host is the port's neighbour, or has the address after the router's.
            let neighbour = router.plan.neighbours.iter().find_map(|neighbour| match neighbour.address {
                IpAddr::V4(address) if neighbour.interface == port.name => Some((address, neighbour.mac)),
                _ => None,
            });
            let address = neighbour.map_or(Ipv4Addr::from_bits(own.to_bits() + 1), |(address, _)| address);
            let host = lab.host(&card.name)?;
            let near = Plug { host: &host, link: INTERFACE, mac: neighbour.map(|(_, mac)| mac) };
            lab.cable(&near, &place.plug(&card.name)).context("laying a cable")?;
            host.add_address(INTERFACE, address.into(), length)?;
            host.add_default_route(own.into())?;
            hosts.push(CardHost { host, address });
        }
        let text = router.config.replace("\"sim:", "\"packet:");
        let processors = Processors::of_thread()?;
        let apart = processors.on_others(|| started(&text, &place))?;
        // With a single processor it shares that one with the hosts.
        let (daemon, notices) = apart.map_or_else(|| started(&text, &place), Ok)?;
        let network = SliceNetwork { daemon, notices, hosts, _router: place, _lab: lab };
        let changed = network.daemon.edit_slices(operator(), (&router.slices.0, "slices"));
        changed.map_err(|failure| anyhow!("the slices cannot be made: {failure:?}"))?;
        Ok(network)
    }

    /// Sockets at the next nodes of the slices' filters that are hosts here, for each card.
    fn sinks(&self, world: &WorldPlan) -> Result<Vec<(usize, UdpSocket)>> {
        let mut sinks: BTreeMap<SocketAddr, (usize, UdpSocket)> = BTreeMap::new();
        for command in &world.routers[0].slices.1 {
            let SliceCommand::Filter(_, FilterEdit::Insert(_, filter)) = command else { continue };
            let FilterAction::Send { next, .. } = filter.action else { continue };
            let at = self.hosts.iter().position(|host| IpAddr::V4(host.address) == next.ip());
            let (Some(card), false) = (at, sinks.contains_key(&next)) else { continue };
            let LinkEnd::Sink(sink) = world.cards[card].end else { continue };
            sinks.insert(next, (sink, self.hosts[card].host.run(|| UdpSocket::bind(next))??));
        }
        ensure!(!sinks.is_empty(), "no filter sends to a sink");
        Ok(sinks.into_values().collect())
    }

    /// Senders for the sources.
    fn sources<'a>(&self, world: &'a WorldPlan) -> Result<Vec<SourceSender<'a>>> {
        let sender = |source: &'a sim::SourcePlan| {
            let Pattern::Constant(pace) = source.pattern else {
                bail!("source {} is not constant: others have no version on real packets", source.name)
            };
            let inner =
                source.inner.as_ref().with_context(|| format!("source {} has no inner packets", source.name))?;
            let (from, to) = source.fields.ports;
            let socket = self.hosts[source.card].host.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, from)))??;
            socket.connect((source.fields.destination, to))?;
            SourceSender::new((source, inner), pace, socket)
        };
        world.sources.iter().map(sender).collect()
    }

    fn queues(&self) -> Result<QueueCounts> {
        if let Ok(Notice::Failed(reason)) = self.notices.try_recv() {
            bail!("the router has failed: {reason}");
        }
        let reply = self.daemon.slices(operator(), None).map_err(|error| anyhow!("no counters: {error:?}"))?;
        let at = clock::now();
        let of = |slice: control::api::SliceReply| {
            slice.queues.into_iter().map(move |queue| ((slice.name.clone(), queue.queue), queue))
        };
        Ok(QueueCounts { at, queues: reply.slices.into_iter().flat_map(of).collect() })
    }

    /// Packets that the kernel lost at the router's ports.
    fn lost(&self) -> Result<u64> {
        let ports = self.daemon.ports().map_err(|error| anyhow!("no counters: {error:?}"))?.ports;
        Ok(ports.iter().map(|port| port.counters.lost_before_receive + port.counters.lost_after_transmit).sum())
    }
}

/// Runs a world.
pub fn run(world: &WorldPlan) -> Result<Measurements> {
    // All threads inherit it: other programs of the machine must not stop the router or the hosts. Without it they do, which the report shows.
    let _first = RealtimePriority::acquire();
    let network = SliceNetwork::new(world)?;
    Processors::of_thread()?.pin_to_first()?;
    let (sources, sinks) = (network.sources(world)?, network.sinks(world)?);
    let counter = SinkCounter::new(world);
    let is_over = AtomicBool::new(false);
    let begin = clock::now() + SOON;
    let series = thread::scope(|scope| {
        spawn_receivers(scope, sinks, &counter, &is_over);
        let sender = spawn_sender(scope, &sources, begin, &is_over);
        let series = sample(world, &network, (&sources, &counter), begin);
        let rested = sleep_until(clock::now() + REST);
        is_over.store(true, Ordering::Relaxed);
        sender.join().map_err(|_| anyhow!("the sender panicked"))??;
        rested.and(series)
    })?;
    let mut measured = Measurements { series, ..Measurements::default() };
    let span = world.duration.as_secs_f64();
    let mut put = |name: String, value: f64| _ = measured.values.insert(name, value);
    for ((slice, number), queue) in network.queues()?.queues {
        let mut put = |key: &str, value: u64| put(format!("slice.{slice}.queue.{number}.{key}"), value as f64);
        put("sent", queue.packets);
        put("dropped", queue.dropped_packets);
        put("waiting", queue.waiting_packets);
    }
    for (index, source) in sources.iter().enumerate() {
        let name = &source.plan.name;
        put(format!("source.{name}.sent"), source.sent() as f64);
        put(format!("source.{name}.received"), counter.of_source(index) as f64);
    }
    for (index, name) in world.sinks.iter().enumerate() {
        put(format!("sink.{name}.received"), counter.of_sink(index) as f64);
        put(format!("sink.{name}.received_pps"), counter.of_sink(index) as f64 / span);
    }
    let late = sources.iter().map(|source| source.latest().get()).max().unwrap_or(0);
    put("real.late_max_us".into(), late as f64 / 1e3);
    put("real.kernel_lost".into(), network.lost()? as f64);
    Ok(measured)
}

/// The time series of a run.
type Series = BTreeMap<String, Vec<(f64, f64)>>;

/// Reads all counters at each sample until the world's end.
fn sample(
    world: &WorldPlan,
    network: &SliceNetwork,
    (sources, counter): (&[SourceSender<'_>], &SinkCounter),
    begin: Instant,
) -> Result<Series> {
    let counts = || -> Result<_> {
        let received: Vec<u64> = (0..world.sinks.len()).map(|sink| counter.of_sink(sink)).collect();
        let sent: Vec<u64> = sources.iter().map(SourceSender::sent).collect();
        Ok((network.queues()?, sent, received))
    };
    sleep_until(begin)?;
    let (mut series, mut was) = (Series::new(), counts()?);
    for number in 1..=world.duration.get() / world.sample.get() {
        sleep_until(begin + world.sample * number)?;
        let now = counts()?;
        let (at, span) = (now.0.at.since(begin).as_secs_f64(), now.0.at.since(was.0.at).as_secs_f64());
        let mut put = |name: String, value: f64| series.entry(name).or_default().push((at, value));
        let rate = |now: u64, was: u64| (now - was) as f64 / span;
        for (key @ (slice, queue), counts) in &now.0.queues {
            let before = was.0.queues.get(key).map_or(0, |queue| queue.packets);
            put(format!("slice.{slice}.queue.{queue}.sent_pps"), rate(counts.packets, before));
            put(format!("slice.{slice}.queue.{queue}.waiting"), counts.waiting_packets as f64);
        }
        for (index, source) in sources.iter().enumerate() {
            put(format!("source.{}.sent_pps", source.plan.name), rate(now.1[index], was.1[index]));
        }
        for (index, name) in world.sinks.iter().enumerate() {
            put(format!("sink.{name}.received_pps"), rate(now.2[index], was.2[index]));
        }
        was = now;
    }
    Ok(series)
}
