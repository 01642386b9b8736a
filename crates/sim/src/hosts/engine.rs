//! Runs a world of hosts, event by event. Simultaneous events run in the order of their numbers, those of links before those of flows.

use super::events::Events;
use super::flow::Flow;
use super::link::Link;
use super::measure::Meters;
use super::packet::{Fields, Packet, Payload};
use super::queue::Queue;
use super::wires::Fate;
use crate::check::{Violations, WorldInvariant};
use crate::describe::{FlowPlan, WorldEvent, WorldPlan};
use crate::run::{Measurements, ProgressCallback, RunError, ScheduledItem, world_schedule};
use crate::source::Captures;
use crate::tcp::application::{FlowSizes, TcpApplication};
use crate::tcp::{Receiver, Sender};
use link::medium::Medium;
use plan::MediumPlan;
use units::Instant;

/// A running world of hosts.
pub(super) struct RunningHosts<'w> {
    pub world: &'w WorldPlan,
    pub links: Vec<Link>,
    pub flows: Vec<Flow>,
    /// The next events. A link has two: the next service of its queue (even number), and its next arrival (odd). A flow has its timer.
    events: Events,
    /// Packets that links dropped during the current call.
    lost: Vec<(Packet, Fate)>,
    /// For each link, true if it waits for a time that its scheme has set.
    scheme_timers: Vec<bool>,
    pub violations: Violations,
    /// Packets of all flows given to their first link.
    pub packets: u64,
}

/// Runs a world of hosts to its end.
pub(crate) fn run(
    world: &WorldPlan,
    captures: &mut dyn Captures,
    progress: ProgressCallback<'_>,
) -> Result<Measurements, RunError> {
    let mut live = RunningHosts::new(world, captures)?;
    let mut meters = Meters::new(&live.flows, &live.links);
    let mut told = 0;
    for (time, due) in world_schedule(world) {
        live.until(time);
        live.check(time);
        if !live.violations.is_empty() {
            break;
        }
        match due {
            ScheduledItem::Sample => meters.sample(&live.flows, &live.links, time),
            ScheduledItem::WarmupEnd => meters.end_warmup(&mut live.flows, &mut live.links, time),
            ScheduledItem::Event(index) => live.apply_event(index, time, captures)?,
            ScheduledItem::End => break,
        }
        let part = time * 100 / world.duration.get().max(1);
        if part > told {
            told = part;
            progress(part as f64 / 100.0);
        }
    }
    if !live.violations.is_empty() {
        return Err(RunError::Broken(live.violations.list, live.violations.omitted));
    }
    if let Some(link) = live.links.iter().find(|link| link.medium.has_failed()) {
        return Err(RunError::Link(link.name.clone(), "its trace ended before the world".into()));
    }
    let mut measured = meters.finish(world, &live.flows, &live.links);
    measured.values.insert("packets".into(), live.packets as f64);
    Ok(measured)
}

/// The medium of a link, with its trace if it has one.
fn medium(
    world: &WorldPlan,
    (plan, name): (&MediumPlan, &str),
    now: u64,
    captures: &mut dyn Captures,
) -> Result<Medium, RunError> {
    let trace = Medium::trace(plan, |file| captures.bytes(file));
    let trace = trace.map_err(|reason| RunError::Link(name.to_owned(), reason))?;
    Ok(Medium::new(plan, trace, Instant::new(now), world.seed, &format!("link {name}")))
}

/// Makes the sender, receiver and application of a flow.
fn ends(
    world: &WorldPlan,
    flow: &FlowPlan,
    captures: &mut dyn Captures,
) -> Result<(Sender, Receiver, TcpApplication), RunError> {
    let read = |file: &String| FlowSizes::parse(&String::from_utf8_lossy(&captures.bytes(file)?));
    let sizes = flow.sizes.as_ref().map(read).transpose();
    let sizes = sizes.map_err(|reason| RunError::Sizes(flow.name.clone(), reason))?;
    Ok((flow.sender(), Receiver::new(&flow.settings()), flow.application(world.seed, sizes)))
}

impl<'w> RunningHosts<'w> {
    pub fn new(world: &'w WorldPlan, captures: &mut dyn Captures) -> Result<RunningHosts<'w>, RunError> {
        let plan = &world.hosts;
        let mut links = Vec::new();
        for link in &plan.links {
            let name = plan.name(link);
            let wrong = |error: schemes::BuildError| RunError::Link(name.clone(), error.to_string());
            let queue = Queue::new(&link.scheme, link.buffer).map_err(wrong)?;
            let medium = medium(world, (&link.medium, &name), 0, captures)?;
            links.push(Link::new(name, queue, (&link.medium, medium)));
        }
        let mut flows = Vec::new();
        for (index, flow) in plan.flows.iter().enumerate() {
            let routes = plan.routes(flow).expect("a world is checked for that");
            let ordered =
                routes.each_ref().map(|route| route.iter().all(|link| plan.links[*link as usize].preserves_order()));
            let ends = ends(world, flow, captures)?;
            flows.push(Flow::new((index, flow), ends, plan.fields(index), routes, ordered));
        }
        let events = Events::new(links.len() * 2 + flows.len());
        let held = vec![false; links.len()];
        let (lost, violations) = (Vec::new(), Violations::default());
        let mut live = RunningHosts { world, links, flows, events, lost, scheme_timers: held, violations, packets: 0 };
        (0..live.flows.len()).for_each(|flow| live.arm(flow));
        Ok(live)
    }

    fn timer(&self, flow: usize) -> usize {
        self.links.len() * 2 + flow
    }

    /// Runs all events before `time`.
    pub fn until(&mut self, time: u64) {
        while let Some((now, what)) = self.events.first().filter(|(now, _)| *now < time) {
            // Events 2n and 2n + 1 belong to link n; those beyond the links are the timers of flows.
            match (what / 2, what % 2) {
                (link, _) if link >= self.links.len() => self.run_timer(what - self.links.len() * 2, now),
                (link, 0) => self.serve(link, now),
                (link, _) => self.arrive(link, now),
            }
            if !self.violations.is_empty() {
                return;
            }
        }
    }

    /// Serves the queue of a link: packets move on to its medium.
    fn serve(&mut self, link: usize, now: u64) {
        let before = self.links[link].counts;
        self.links[link].serve(now, &mut self.lost);
        self.count_drops();
        self.update_arrival_event(link);
        self.schedule_service(link, now);
        // A service that changes no counter and is due again at the same time would repeat for ever.
        if self.links[link].counts == before && self.events.first() == Some((now, link * 2)) {
            let name = &self.links[link].name;
            let what = || {
                format!(
                    "the scheme of link {name} keeps asking for the link without sending a packet, at one point in time"
                )
            };
            self.violations.add(now, WorldInvariant::Progress, what);
        }
    }

    /// Packets arrive at the end of a link.
    fn arrive(&mut self, link: usize, now: u64) {
        while let Some(packet) = self.links[link].arrived(now) {
            self.forward_packet(now, packet);
        }
        self.update_arrival_event(link);
    }

    /// Updates the event of a link's next arrival.
    #[inline]
    fn update_arrival_event(&mut self, link: usize) {
        match self.links[link].next_arrival() {
            Some(at) => self.events.set(at, link * 2 + 1),
            None => self.events.remove(link * 2 + 1),
        }
    }

    /// Schedules the next service of a link.
    #[inline]
    fn schedule_service(&mut self, link: usize, now: u64) {
        let Some((at, held)) = self.links[link].next_service(now) else {
            return self.events.remove(link * 2);
        };
        self.scheme_timers[link] = held;
        self.events.set(at, link * 2);
    }

    /// Offers a packet to a link.
    #[inline]
    fn offer(&mut self, link: usize, now: u64, packet: Packet, fields: Fields) {
        let of = &mut self.links[link];
        let first = of.next_arrival();
        of.offer(now, packet, fields, &mut self.lost);
        if of.next_arrival() != first {
            self.update_arrival_event(link);
        }
        if self.links[link].queue.packets() > 0 && (self.scheme_timers[link] || !self.events.contains(link * 2)) {
            self.schedule_service(link, now);
        }
        if !self.lost.is_empty() {
            self.count_drops();
        }
    }

    /// Counts dropped packets in their flows.
    fn count_drops(&mut self) {
        for (packet, fate) in self.lost.drain(..) {
            self.flows[packet.stream as usize / 2].dropped(&packet, fate);
        }
    }

    /// Moves a packet that has passed a link to its next link, or to its receiver.
    #[inline]
    fn forward_packet(&mut self, now: u64, mut packet: Packet) {
        let (flow, way) = (packet.stream as usize / 2, packet.stream as usize % 2);
        packet.hop += 1;
        let of = &mut self.flows[flow];
        if let Some(&link) = of.routes[way].get(usize::from(packet.hop)) {
            let fields = of.fields[way];
            return self.offer(link as usize, now, packet, fields);
        }
        if let Some(other) = of.arrived(way, &packet) {
            let name = &of.plan.name;
            let what = || format!("packet {} of flow {name} arrived after packet {other}", packet.number);
            self.violations.add(now, WorldInvariant::Order, what);
        }
        let time = Instant::new(now);
        match &packet.payload {
            Payload::Data(segment) => {
                if let Some(ack) = of.segment(time, segment, packet.ecn == 3) {
                    self.emit(flow, 1, now, Payload::Ack(ack));
                }
            }
            Payload::Ack(ack) => {
                of.acknowledged(time, ack);
                self.send(flow, now);
            }
        }
        self.arm(flow);
    }

    /// Sends all segments that the sender may send now.
    #[inline]
    fn send(&mut self, flow: usize, now: u64) {
        while let Some(segment) = self.flows[flow].sender.next(Instant::new(now)) {
            self.emit(flow, 0, now, Payload::Data(segment));
        }
    }

    #[inline]
    fn emit(&mut self, flow: usize, way: usize, now: u64, load: Payload) {
        let of = &mut self.flows[flow];
        let packet = of.packet(way, load);
        let (link, fields) = (of.routes[way][0] as usize, of.fields[way]);
        self.packets += 1;
        self.offer(link, now, packet, fields);
    }

    /// Sets the timer of a flow if it must run earlier than the pending event. A later time is set when that event runs.
    #[inline]
    fn arm(&mut self, flow: usize) {
        let wanted = self.flows[flow].next();
        if wanted < self.flows[flow].timer_event {
            self.flows[flow].timer_event = wanted;
            let timer = self.timer(flow);
            self.events.set(wanted, timer);
        }
    }

    /// Runs the timer of a flow.
    fn run_timer(&mut self, flow: usize, now: u64) {
        let timer = self.timer(flow);
        self.events.remove(timer);
        let of = &mut self.flows[flow];
        of.timer_event = u64::MAX;
        if let Some(ack) = of.run_timers(Instant::new(now)) {
            self.emit(flow, 1, now, Payload::Ack(ack));
        }
        self.send(flow, now);
        self.arm(flow);
    }

    /// Carries out a scheduled event of the world.
    fn apply_event(&mut self, index: usize, time: u64, captures: &mut dyn Captures) -> Result<(), RunError> {
        match &self.world.events[index].1 {
            WorldEvent::Scheme(link, scheme, change) => {
                let fields: Vec<Fields> = self.flows.iter().flat_map(|flow| flow.fields).collect();
                let of = &mut self.links[*link];
                let wrong = |error: schemes::BuildError| RunError::Link(of.name.clone(), error.to_string());
                of.queue.replace((time, of.rate), scheme, *change, &fields).map_err(wrong)?;
                of.apply_decisions(time, &mut self.lost);
                self.count_drops();
                self.update_arrival_event(*link);
                self.schedule_service(*link, time);
            }
            WorldEvent::Medium(link, plan) => {
                let name = &self.links[*link].name;
                let new = medium(self.world, (plan, name), time, captures)?;
                self.links[*link].change_medium(time, (plan, new));
                self.schedule_service(*link, time);
            }
            // These events exist only in worlds of routers.
            WorldEvent::Apply(..) | WorldEvent::Reserve(..) | WorldEvent::Slices(..) | WorldEvent::Link(..) => {}
        }
        Ok(())
    }

    /// Checks the laws of the world.
    fn check(&mut self, time: u64) {
        let RunningHosts { links, flows, violations, .. } = self;
        // Each packet sent or duplicated has arrived, was dropped or lost, or is within a link.
        let (mut within, mut made, mut gone) = (0, 0, 0);
        for link in &*links {
            if let Err(what) = link.check_conservation() {
                violations.add(time, WorldInvariant::Conservation, || what);
            }
            if let Some(early) = link.early {
                let what = || format!("a packet left link {} {early} ns too early", link.name);
                violations.add(time, WorldInvariant::RateBound, what);
            }
            within += u64::from(link.queue.packets()) + link.in_flight() as u64;
            made += link.counts.duplicated;
            gone += link.counts.all_dropped() + link.counts.lost;
        }
        let emitted: u64 = flows.iter().flat_map(|flow| flow.counts.emitted).sum();
        let arrived: u64 = flows.iter().flat_map(|flow| flow.counts.arrived).sum();
        if emitted + made != arrived + gone + within {
            let what = || {
                format!(
                    "{emitted} packets sent, {made} duplicated, {arrived} arrived, {gone} lost, {within} in the network"
                )
            };
            violations.add(time, WorldInvariant::Conservation, what);
        }
    }
}
