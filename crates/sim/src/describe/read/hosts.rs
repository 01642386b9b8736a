//! Parses the hosts of a world, their links and flows, and the events on these links.

use super::Reader;
use crate::describe::WorldEvent;
use crate::describe::hosts::{FlowPlan, HostLink, HostsPlan};
use crate::describe::tables::{AtTable, File, FlowTable, LinkTable};
use crate::describe::text::{Text, parsed, quantity_or, within};
use crate::describe::transports::{APPLICATIONS, NOTHING, TRANSPORTS};
use crate::tcp::TCP_PACKET;
use crate::tcp::application::SmoothedRtt;
use plan::{Call, LinkService, MediumPlan, MediumText, SchemeChange, TextError, did_you_mean, quote};
use toml::Spanned;
use units::declare::Declaration;
use units::{Bytes, Instant, Nanos, Rate};

/// A link without limits, with a FIFO queue.
fn unlimited_link(from: usize, to: usize) -> HostLink {
    let scheme = Call::scheme("fifo", &plane::catalogue()).expect("it is declared");
    let medium = MediumPlan { overhead: 0, service: LinkService::Constant(Rate::MAX), ..MediumPlan::default() };
    HostLink { from, to, scheme, buffer: MOST_WAITING as u32, medium }
}

/// Converts the error of a call into the reason and the hint of a message.
fn call_error(result: Result<Call, TextError>) -> Result<Call, (String, String)> {
    result.map_err(|TextError { reason, hint, .. }| (reason, hint))
}

impl Reader<'_> {
    /// Parses all tables of hosts. Links between cards are parsed elsewhere.
    pub fn hosts(&mut self, file: &File) -> HostsPlan {
        let File { host: hosts, link: tables, flow: flows, hash, .. } = file;
        let report = &mut self.report;
        let exact = hash.as_ref().and_then(|text| parsed(report, text, "hash", exact)).unwrap_or(false);
        let mut plan = HostsPlan { exact, ..HostsPlan::default() };
        for table in hosts {
            let name = table.name.get_ref();
            if name.is_empty() || name.contains('-') || plan.hosts.contains(name) {
                let reason = format!("{} is the name of another host, or contains '-'", quote(name));
                let hint = "give each host a name of its own, without '-'".to_owned();
                self.report.error(table.name.span(), "host.name", || (reason, hint));
            }
            plan.hosts.push(name.clone());
        }
        self.bounded(hosts.len(), "host");
        self.bounded(tables.len(), "link");
        self.bounded(flows.len(), "flow");
        for (index, table) in tables.iter().enumerate() {
            let ends: Vec<usize> =
                table.get_ref().between.get_ref().iter().filter_map(|end| host(&plan, end)).collect();
            if let [from, to] = ends[..] {
                self.host_link(&mut plan, (from, to), table, &format!("link[{index}]"));
            }
        }
        for (index, table) in flows.iter().enumerate() {
            let flow = self.flow(&plan, table, &format!("flow[{index}]"));
            plan.flows.extend(flow.filter(|flow| flow.application.name != NOTHING));
        }
        plan
    }

    fn host_link(&mut self, plan: &mut HostsPlan, (from, to): (usize, usize), table: &Spanned<LinkTable>, path: &str) {
        let (span, table) = (table.get_ref().between.span(), table.get_ref());
        if from == to || plan.links.iter().any(|link| (link.from, link.to) == (from, to)) {
            let reason = format!("{} and {} cannot have this link", quote(&plan.hosts[from]), quote(&plan.hosts[to]));
            return self
                .report
                .error(span, path, || (reason, "use two different hosts, with one link between them".into()));
        }
        let texts = (table.medium(), &table.scheme, &table.buffer);
        let both = self.link_direction(texts, path, &unlimited_link(from, to));
        for (ends, name, table) in [((from, to), "forward", &table.forward), ((to, from), "back", &table.back)] {
            let base = HostLink { from: ends.0, to: ends.1, ..both.clone() };
            let link = match table {
                Some(way) => {
                    self.link_direction((way.medium(), &way.scheme, &way.buffer), &format!("{path}.{name}"), &base)
                }
                None => base,
            };
            plan.links.push(link);
        }
    }

    /// One direction of a link; missing keys have their values from `base`.
    fn link_direction(&mut self, (texts, scheme, buffer): WayTexts<'_>, path: &str, base: &HostLink) -> HostLink {
        let report = &mut self.report;
        let mut medium = MediumPlan::read(report, path, &texts, &base.medium);
        if !texts.iter().any(|text| text.key == "overhead") {
            // The sizes of hosts' packets are those on the link, so no overhead is added by default.
            medium.overhead = base.medium.overhead;
        }
        let scheme = scheme.as_ref().and_then(|text| self.scheme(text, &format!("{path}.scheme")));
        let buffer = within(&mut self.report, buffer, format!("{path}.buffer"), (1, MOST_WAITING), base.buffer.into());
        HostLink {
            scheme: scheme.unwrap_or_else(|| base.scheme.clone()),
            buffer: buffer as u32,
            medium,
            ..base.clone()
        }
    }

    /// Parses a queueing scheme.
    fn scheme(&mut self, text: &Text, path: &str) -> Option<Call> {
        let catalogue = plane::catalogue();
        parsed(&mut self.report, text, path, |text| call_error(Call::scheme(text, &catalogue)))
    }

    fn flow(&mut self, plan: &HostsPlan, table: &Spanned<FlowTable>, path: &str) -> Option<FlowPlan> {
        let (span, table) = (table.span(), table.get_ref());
        let report = &mut self.report;
        if plan.flows.iter().any(|flow| flow.name == *table.name.get_ref()) {
            let reason = format!("{} is the name of another flow", quote(table.name.get_ref()));
            report.error(table.name.span(), path, || (reason, "give each flow a name of its own".into()));
        }
        let mut end = |text: &Text, key: &str| {
            let found = host(plan, text);
            if found.is_none() {
                let hint = did_you_mean(text.get_ref(), plan.hosts.iter().map(String::as_str));
                let reason = format!("there is no host {}", quote(text.get_ref()));
                report.error(text.span(), format!("{path}.{key}"), || (reason, hint));
            }
            found
        };
        let (from, to) = (end(&table.from, "from"), end(&table.to, "to"));
        let mut call = |text: &Option<Text>, key: &str, usual: &str, declared: &[Declaration]| match text {
            Some(text) => {
                parsed(report, text, &format!("{path}.{key}"), |text| call_error(Call::parse(text, declared, key)))
            }
            None => Call::parse(usual, declared, key).ok(),
        };
        let transport = call(&table.transport, "transport", "newreno", TRANSPORTS);
        let application = call(&table.application, "application", "bulk", APPLICATIONS);
        let mut size = |text: &Option<Text>, key: &str, usual: Bytes| {
            let size = quantity_or(report, text, format!("{path}.{key}"), usual);
            if size.get() == 0 || size.get() > 65_535 {
                let span = text.as_ref().map_or(0..0, Text::span);
                report.error(span, format!("{path}.{key}"), || {
                    (format!("no packet has {size}"), "write 1b to 65535b".into())
                });
            }
            size.get() as u32
        };
        let packet = size(&table.packet, "packet", TCP_PACKET);
        let acknowledgement = size(&table.acknowledgement, "acknowledgement", ACKNOWLEDGEMENT);
        let start = quantity_or(report, &table.start, format!("{path}.start"), Nanos::ZERO);
        let look = quantity_or(report, &table.look, format!("{path}.look"), SmoothedRtt::EVERY);
        let class = within(report, &table.class, format!("{path}.class"), (0, 255), 0) as u8;
        let dscp = within(report, &table.dscp, format!("{path}.dscp"), (0, 63), 0) as u8;
        let flow = FlowPlan {
            name: table.name.get_ref().clone(),
            from: from?,
            to: to?,
            transport: transport?,
            application: application?,
            sizes: table.sizes.clone().filter(|file| !file.is_empty()),
            packet,
            acknowledgement,
            start: Instant::START + start,
            class,
            dscp,
            rtt_interval: look,
        };
        if plan.routes(&flow).is_none() {
            let (from, to) = (&plan.hosts[flow.from], &plan.hosts[flow.to]);
            let reason = format!("no links lead from {} to {}", quote(from), quote(to));
            self.report.error(span, path, || (reason, "add [[link]] tables between hosts on the way".into()));
            return None;
        }
        Some(flow)
    }

    /// An event on a direction of a link between hosts: another scheme, or another rate.
    pub fn link_event(&mut self, plan: &HostsPlan, table: &AtTable, name: &Text, path: &str) -> Option<WorldEvent> {
        let ends = |link: &HostLink| (plan.hosts[link.from].as_str(), plan.hosts[link.to].as_str());
        let named = plan.links.iter().position(|link| name.get_ref().split_once('-') == Some(ends(link)));
        let Some(link) = named else {
            let names: Vec<String> = plan.links.iter().map(|link| plan.name(link)).collect();
            let hint = did_you_mean(name.get_ref(), names.iter().map(String::as_str));
            let reason = format!("there is no link {}", quote(name.get_ref()));
            self.report.error(name.span(), path, || (reason, hint));
            return None;
        };
        if let Some(scheme) = &table.scheme {
            let scheme = self.scheme(scheme, &format!("{path}.scheme"))?;
            let change = table.change.as_ref().map_or(Some(SchemeChange::default()), |text| {
                parsed(&mut self.report, text, &format!("{path}.change"), |text| {
                    let found = SchemeChange::ALL.iter().find(|change| change.name() == text).copied();
                    let hint = || did_you_mean(text, SchemeChange::NAMES.iter().copied());
                    found.ok_or_else(|| (format!("{} is no mode for a change of scheme", quote(text)), hint()))
                })
            })?;
            return Some(WorldEvent::Scheme(link, Box::new(scheme), change));
        }
        let Some(rate) = &table.rate else {
            let say = || ("it states no change to the link".to_owned(), "give scheme or rate".to_owned());
            self.report.error(name.span(), path, say);
            return None;
        };
        let text = MediumText { key: "rate", text: rate.get_ref(), span: rate.span() };
        let medium = MediumPlan::read(&mut self.report, path, &[text], &plan.links[link].medium);
        Some(WorldEvent::Medium(link, Box::new(medium)))
    }
}

/// The texts of a direction: medium, scheme and buffer.
type WayTexts<'t> = (Vec<MediumText<'t>>, &'t Option<Text>, &'t Option<Spanned<i64>>);

fn exact(text: &str) -> Result<bool, (String, String)> {
    match text {
        "tuple" => Ok(false),
        "exact" => Ok(true),
        other => Err((format!("unknown hash {}", quote(other)), "write \"tuple\" or \"exact\"".into())),
    }
}

/// The index of a host.
fn host(plan: &HostsPlan, name: &Text) -> Option<usize> {
    plan.hosts.iter().position(|host| host == name.get_ref())
}

/// The most packets that may wait before a link.
const MOST_WAITING: u64 = 100_000_000;
/// The size of an acknowledgement: its headers, with timestamps.
const ACKNOWLEDGEMENT: Bytes = Bytes::new(50);
