//! Parses a world. One pass reports all errors. Only a syntax error ends it at once.

mod hosts;

use super::slice_lines::Ring;
use super::tables::{AtTable, CardTable, CostTable, File, LinkTable, RouterTable, SinkTable};
use super::text::{Text, blank_outside, quantity, quantity_or, within};
use super::{CardPlan, HostsPlan, LinkEnd, RouterPlan, WorldEvent, WorldPlan};
use crate::cost::{CostModel, PacketCost};
use plan::{Catalogue, Diagnostics, FlowChange, LinkService, MediumPlan, Plan, Report, did_you_mean, quote};
use std::collections::BTreeMap;
use toml::Spanned;
use units::{Instant, Nanos, Rate};

/// The most sources, sinks, cards and events of a world, of each.
const MOST: usize = 4096;
/// The most points of a time series.
const MOST_SAMPLES: u64 = 1_000_000;
/// The longest duration of a world.
const LONGEST: Nanos = Nanos::secs(1_000_000);

pub(super) fn world(source: &str, file: &str, catalogue: Catalogue) -> Result<WorldPlan, Diagnostics> {
    let mut report = Report::new(source, file);
    let parsed: File = match toml::from_str(source) {
        Ok(parsed) => parsed,
        Err(error) => {
            report.error(error.span().unwrap_or(0..0), "", || {
                let message = error.message().trim();
                (message.to_owned(), form_hint(message))
            });
            return Err(report.finish());
        }
    };
    let mut reader = Reader { report, file, catalogue, config_errors: Vec::new(), cards: BTreeMap::new(), ring: None };
    let world = reader.read(parsed);
    let failed = reader.report.failed();
    if let Some(wrong) = reader.config_errors.pop() {
        return Err(wrong);
    }
    match world {
        Some(world) if !failed => Ok(world),
        _ => Err(reader.report.finish()),
    }
}

fn form_hint(message: &str) -> String {
    let names = |text: &str| -> Vec<String> { text.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    if message.starts_with("unknown field") {
        let names = names(message);
        if let Some((unknown, known)) = names.split_first() {
            return did_you_mean(unknown, known.iter().map(String::as_str));
        }
    }
    if message.starts_with("missing field") {
        return "add it: a world has a duration and a router, and each source a name, a card and a kind".to_owned();
    }
    if message.starts_with("invalid type") {
        return "durations, rates, sizes and costs are texts with a unit, like \"30us\", \"10mbit\", \"64b\""
            .to_owned();
    }
    "the file is TOML: `key = value` lines below `[table]` headers".to_owned()
}

pub(super) struct Reader<'s> {
    pub report: Report<'s>,
    file: &'s str,
    /// The schemes, functions and devices that configurations may name.
    catalogue: Catalogue,
    /// Errors in configurations. They are reported alone, because their excerpts come from the configuration.
    config_errors: Vec<Diagnostics>,
    /// The index of each card's router. The index of a card is its position in this map, final after all configurations are read.
    cards: BTreeMap<String, usize>,
    pub ring: Option<Ring>,
}

impl Reader<'_> {
    fn read(&mut self, file: File) -> Option<WorldPlan> {
        let duration = quantity(&mut self.report, &file.duration, "duration").unwrap_or(Nanos::secs(1));
        if duration == Nanos::ZERO || duration > LONGEST {
            self.report.error(file.duration.span(), "duration", || {
                (format!("{duration} is out of range"), format!("write 1ns to {LONGEST}"))
            });
        }
        let warmup = quantity_or(&mut self.report, &file.warmup, "warmup", Nanos::ZERO);
        if let Some(text) = file.warmup.as_ref().filter(|_| warmup >= duration) {
            let say =
                || ("the warm-up leaves no time for measurements".to_owned(), format!("write less than {duration}"));
            self.report.error(text.span(), "warmup", say);
        }
        let default = Nanos::new((duration.get() / 100).max(1));
        let sample = quantity_or(&mut self.report, &file.sample, "sample", default);
        if let Some(text) = file.sample.as_ref().filter(|_| sample.get() <= duration.get() / MOST_SAMPLES) {
            let least = Nanos::new(duration.get() / MOST_SAMPLES + 1);
            let say = || (format!("that is more than {MOST_SAMPLES} points"), format!("write {least} or more"));
            self.report.error(text.span(), "sample", say);
        }
        let seed = within(&mut self.report, &file.seed, "seed", (0, i64::MAX as u64), 1);
        self.ring = file.ring.as_ref().map(|ring| Ring::read(&mut self.report, ring));
        let hosts = self.hosts(&file);
        self.check_kind(&file);
        let routers = self.routers(file.router);
        let mut events = self.events(&file.at, duration, &routers, &hosts);
        let mut cards = self.cards(file.card);
        let sinks = self.sinks(&file.sink, &mut cards);
        let is_host = |name: &Text| hosts.hosts.contains(name.get_ref());
        let (_, of_cards): (Vec<_>, Vec<_>) = file
            .link
            .into_iter()
            .enumerate()
            .partition(|(_, link)| link.get_ref().between.get_ref().iter().all(is_host));
        self.links(&of_cards, &mut cards, &sinks);
        let sources = self.sources(&file.source, duration);
        events.sort_by_key(|(time, _)| *time);
        Some(WorldPlan { duration, warmup, sample, seed, routers, cards, sources, sinks, hosts, events })
    }

    /// A world has either routers or hosts.
    fn check_kind(&mut self, file: &File) {
        match (file.router.is_empty(), file.host.is_empty()) {
            (true, true) => {
                self.report.error(0..0, "router", || ("there is no router".into(), "add [router.r], or hosts".into()));
            }
            (false, false) => self.report.error(file.host[0].name.span(), "host", || {
                let reason = "a world of routers has no hosts".to_owned();
                (reason, "make it two worlds: one of routers and sources, one of hosts and flows".to_owned())
            }),
            _ => {}
        }
    }

    fn routers(&mut self, tables: BTreeMap<String, Spanned<RouterTable>>) -> Vec<RouterPlan> {
        let mut routers = Vec::new();
        for (index, (name, table)) in tables.into_iter().enumerate() {
            let path = format!("router.{name}");
            let table = table.into_inner();
            let cost = self.cost(&table.cost, &path);
            let Some(plan) = self.config(&table.config, &path) else { continue };
            self.assign_cards(&plan, index, &table.config, &path);
            let slices = table.slices.map(|text| {
                let changes = self.slice_changes(&text, &format!("{path}.slices"));
                (text.into_inner(), changes)
            });
            for (named, text) in &table.cost.path {
                if !["control", "general", "best-effort"].contains(&named.as_str())
                    && !plan.paths.iter().any(|path| path.name == *named)
                {
                    let hint = did_you_mean(named, plan.paths.iter().map(|path| path.name.as_str()));
                    let reason = format!("the configuration has no path {}", quote(named));
                    self.report.error(text.span(), format!("{path}.cost.path.{named}"), || (reason, hint));
                }
            }
            routers.push(RouterPlan {
                name,
                config: table.config.into_inner(),
                plan,
                slices: slices.unwrap_or_default(),
                cost,
                busy_poll: table.busy_poll,
            });
        }
        routers
    }

    fn cost(&mut self, table: &CostTable, path: &str) -> CostModel {
        let report = &mut self.report;
        let mut cost = |text: &Option<Text>, name: &str| {
            quantity_or(report, text, format!("{path}.cost.{name}"), PacketCost::NOTHING)
        };
        let (input, interrupt) = (cost(&table.input, "input"), cost(&table.interrupt, "interrupt"));
        let (forwarding, output) = (cost(&table.forwarding, "forwarding"), cost(&table.output, "output"));
        let instruction = cost(&table.instruction, "instruction");
        let mut paths = Vec::new();
        for (name, text) in &table.path {
            if let Some(cost) = quantity(report, text, &format!("{path}.cost.path.{name}")) {
                paths.push((name.clone(), cost));
            }
        }
        let mut time = |text, name: &str, default| quantity_or(report, text, format!("{path}.cost.{name}"), default);
        let switch = time(&table.switch, "switch", Nanos::ZERO);
        // As in the prototype: 0.3 us for 1.6 us (Qie et al. 2001, section 5).
        let poll = time(&table.poll, "poll", Nanos::new((input.mean(60) * 0.3 / 1.6) as u64));
        CostModel { switch, poll, input, interrupt, forwarding, output, instruction, paths }
    }

    /// The plan of a configuration. Errors are reported with their place in the file.
    fn config(&mut self, text: &Text, path: &str) -> Option<Plan> {
        let source = match blank_outside(self.report.source, text.span()) {
            Ok(source) => source,
            Err(wrong) => {
                self.report.error(text.span(), format!("{path}.config"), || wrong);
                return None;
            }
        };
        match plan::check(&source, self.file, &self.catalogue) {
            Ok(plan) => Some(plan),
            Err(wrong) => {
                self.config_errors.push(wrong);
                None
            }
        }
    }

    /// Changes of flows on the paths of this configuration. Errors are reported with their place in the file.
    fn flows(&mut self, text: &Text, plan: &Plan) -> Option<Vec<FlowChange>> {
        let source = match blank_outside(self.report.source, text.span()) {
            Ok(source) => source,
            Err(wrong) => {
                self.report.error(text.span(), "at.reserve", || wrong);
                return None;
            }
        };
        match plan::flow_batch(&source, self.file, plan) {
            Ok(batch) => Some(batch.changes.into_iter().map(|(_, change)| change).collect()),
            Err(wrong) => {
                self.config_errors.push(wrong);
                None
            }
        }
    }

    /// Assigns the cards that a configuration names to its router.
    fn assign_cards(&mut self, plan: &Plan, router: usize, text: &Text, path: &str) {
        for port in &plan.ports {
            let card = &port.device.target;
            let owner = *self.cards.entry(card.clone()).or_insert(router);
            if owner != router || card.is_empty() {
                self.report.error(text.span(), format!("{path}.config"), || {
                    let reason = format!("port {} is on card {}, which another router has", port.name, quote(card));
                    (reason, "give each port a card of its own: device = \"sim:NAME\"".to_owned())
                });
            }
        }
    }

    fn cards(&mut self, tables: BTreeMap<String, Spanned<CardTable>>) -> Vec<CardPlan> {
        for (name, table) in &tables {
            if !self.cards.contains_key(name) {
                let hint = did_you_mean(name, self.cards.keys().map(String::as_str));
                self.report.error(table.span(), format!("card.{name}"), || {
                    (format!("no router has a port on card {}", quote(name)), hint)
                });
            }
        }
        let mut cards = Vec::new();
        for (name, &router) in &self.cards {
            let table = tables.get(name).map(Spanned::get_ref);
            let slots = |report: &mut Report<'_>, value: Option<&Option<Spanned<i64>>>, key: &str| {
                let value = value.unwrap_or(&None);
                within(report, value, format!("card.{name}.{key}"), (1, 65_536), 64) as usize
            };
            let ring = slots(&mut self.report, table.map(|table| &table.ring), "ring");
            let transmit_ring = slots(&mut self.report, table.map(|table| &table.transmit_ring), "transmit_ring");
            let rate = table.and_then(|table| table.rate.as_ref());
            let rate = rate.and_then(|text| rate_of(&mut self.report, text, &format!("card.{name}.rate")));
            let service = LinkService::Constant(rate.unwrap_or(Rate::MAX));
            let medium = MediumPlan { service, ..MediumPlan::default() };
            let name = name.clone();
            cards.push(CardPlan { name, router, ring, transmit_ring, end: LinkEnd::Nothing, medium });
        }
        cards
    }

    fn sinks(&mut self, tables: &[SinkTable], cards: &mut [CardPlan]) -> Vec<String> {
        let mut sinks: Vec<String> = Vec::new();
        for table in tables {
            let name = table.name.get_ref();
            if sinks.contains(name) || self.cards.contains_key(name) || name.is_empty() {
                let reason = format!("the name {} is used already", quote(name));
                self.report
                    .error(table.name.span(), "sink.name", || (reason, "give each sink a name of its own".into()));
            }
            sinks.push(name.clone());
            if let Some(card) = &table.card
                && let Some(card) = self.card(card, "sink.card")
            {
                self.join(cards, card, LinkEnd::Sink(sinks.len() - 1), table.name.span());
            }
        }
        self.bounded(tables.len(), "sink");
        sinks
    }

    pub fn bounded(&mut self, count: usize, what: &str) {
        self.bounded_by(count, MOST, what);
    }

    pub fn bounded_by(&mut self, count: usize, most: usize, what: &str) {
        if count > most {
            self.report.error(0..0, what, || (format!("there are {count}"), format!("use at most {most}")));
        }
    }

    /// Finds the index of a card by its name.
    pub fn card(&mut self, name: &Text, path: &str) -> Option<usize> {
        let position = self.cards.keys().position(|card| card == name.get_ref());
        if position.is_none() {
            let hint = did_you_mean(name.get_ref(), self.cards.keys().map(String::as_str));
            let reason = format!("there is no card {}", quote(name.get_ref()));
            self.report.error(name.span(), path, || (reason, hint));
        }
        position
    }

    fn join(&mut self, cards: &mut [CardPlan], card: usize, end: LinkEnd, span: std::ops::Range<usize>) {
        if cards[card].end != LinkEnd::Nothing {
            let reason = format!("card {} has a link already", quote(&cards[card].name));
            return self.report.error(span, "link", || (reason, "a card has one link".into()));
        }
        cards[card].end = end;
    }

    fn links(&mut self, tables: &[(usize, Spanned<LinkTable>)], cards: &mut [CardPlan], sinks: &[String]) {
        for (index, table) in tables {
            let (span, table, path) = (table.get_ref().between.span(), table.get_ref(), format!("link[{index}]"));
            let [from, to] = &table.between.get_ref()[..] else {
                self.report
                    .error(span, path, || ("a link has two ends".into(), "write between = [\"p1\", \"p2\"]".into()));
                continue;
            };
            let sink = sinks.iter().position(|sink| sink == to.get_ref());
            let Some(card) = self.card(from, &path) else { continue };
            let end = match sink {
                Some(sink) => LinkEnd::Sink(sink),
                None => match self.card(to, &path) {
                    Some(other) => LinkEnd::Card(other),
                    None => continue,
                },
            };
            let texts = table.medium();
            let ends = [Some(card), if let LinkEnd::Card(other) = end { Some(other) } else { None }];
            for (turn, card) in ends.into_iter().flatten().enumerate() {
                // Both ends have the same text: errors are reported for the first only.
                let mut again = Report::new("", self.file);
                let report = if turn == 0 { &mut self.report } else { &mut again };
                cards[card].medium = MediumPlan::read(report, &path, &texts, &cards[card].medium);
            }
            self.join(cards, card, end, span.clone());
            if let LinkEnd::Card(other) = end {
                self.join(cards, other, LinkEnd::Card(card), span);
            }
        }
    }

    fn events(
        &mut self,
        tables: &[Spanned<AtTable>],
        duration: Nanos,
        routers: &[RouterPlan],
        hosts: &HostsPlan,
    ) -> Vec<(Instant, WorldEvent)> {
        let mut events = Vec::new();
        let mut links = Vec::new();
        for (index, table) in tables.iter().enumerate() {
            let (span, table, path) = (table.span(), table.get_ref(), format!("at[{index}]"));
            let Some(time) = quantity::<Nanos>(&mut self.report, &table.time, &format!("{path}.time")) else {
                continue;
            };
            let time = Instant::START + time;
            match table {
                AtTable { router: Some(router), config, reserve, slices, card: None, up: None, link: None, .. }
                    if [config, reserve, slices].into_iter().flatten().count() == 1 =>
                {
                    let Some(position) = routers.iter().position(|known| known.name == *router.get_ref()) else {
                        let hint = did_you_mean(router.get_ref(), routers.iter().map(|known| known.name.as_str()));
                        let reason = format!("there is no router {}", quote(router.get_ref()));
                        self.report.error(router.span(), path, || (reason, hint));
                        continue;
                    };
                    if let Some(config) = config
                        && let Some(plan) = self.config(config, &path)
                    {
                        self.assign_cards(&plan, position, config, &path);
                        let apply = WorldEvent::Apply(position, config.get_ref().clone(), Box::new(plan));
                        events.push((time, apply));
                    }
                    if let Some(text) = reserve
                        && let Some(changes) = self.flows(text, &routers[position].plan)
                    {
                        events.push((time, WorldEvent::Reserve(position, text.get_ref().clone(), changes)));
                    }
                    if let Some(text) = slices {
                        let changes = self.slice_changes(text, &path);
                        let happens = WorldEvent::Slices(position, text.get_ref().clone(), changes);
                        let times = self.times(table, (time, duration), &path);
                        events.extend(times.into_iter().map(|time| (time, happens.clone())));
                    }
                }
                AtTable { router: None, config: None, slices: None, card: Some(card), up: Some(up), link: None, .. } => {
                    links.push((time, card, *up))
                }
                AtTable { router: None, config: None, slices: None, card: None, up: None, link: Some(link), .. } => {
                    let Some(happens) = self.link_event(hosts, table, link, &path) else { continue };
                    let times = self.times(table, (time, duration), &path);
                    events.extend(times.into_iter().map(|time| (time, happens.clone())));
                }
                _ => self.report.error(span, path, || {
                    let hint =
                        "give router and config, router and reserve, router and slices, card and up, link and scheme, or link and rate";
                    ("it states no change".into(), hint.into())
                }),
            }
        }
        // Links come last: only after all configurations are read are all cards known.
        for (time, card, up) in links {
            if let Some(card) = self.card(card, "at.card") {
                events.push((time, WorldEvent::Link(card, up)));
            }
        }
        self.bounded(tables.len(), "at");
        events
    }

    /// The times of an event that may repeat.
    fn times(&mut self, table: &AtTable, (first, duration): (Instant, Nanos), path: &str) -> Vec<Instant> {
        let every = quantity_or(&mut self.report, &table.every, format!("{path}.every"), Nanos::ZERO);
        let times = std::iter::successors(Some(first), |time| Some(*time + every));
        let most = if every == Nanos::ZERO { 1 } else { MOST };
        times.take(most).take_while(|time| time.since(Instant::START) < duration).collect()
    }
}

fn rate_of(report: &mut Report<'_>, text: &Text, path: &str) -> Option<Rate> {
    let rate: Rate = quantity(report, text, path)?;
    if rate == Rate::ZERO {
        report.error(text.span(), path, || {
            ("the link would never send a packet".into(), "write a rate like \"100mbit\"".into())
        });
    }
    Some(rate)
}
