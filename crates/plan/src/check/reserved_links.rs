//! Ports that a reservation may leave by. A port without a configured scheme gets one with a class for reservations. If a configured scheme does not
//! keep the reservation, the error suggests one. [`crate::admission`] computes the delays.

use super::cpu_settings::KeyPositions;
use crate::admission::{Link, LinkFault, Stream, exits};
use crate::diagnostic::Report;
use crate::{Admission, Call, Catalogue, PathPlan, Plan, PortPlan};
use std::ops::Range;
use toml::de::DeTable;
use units::declare::{Declaration, Inside, OrderDeclaration};

/// The default scheme of a port that a reservation may leave by.
const USUAL: &str = "priority";
/// The weight of a branch for reservations at a link of unknown rate.
const WEIGHT: u64 = 10;

/// True if the configuration reserves a rate for the path. Flows that are reserved later have shares of their own.
fn states_reservation(path: &PathPlan) -> bool {
    path.cpu.reservation.is_some() && !path.cpu.reservations
}

/// Sets the default scheme of these ports, and reports the ports that do not keep a reservation.
pub(super) fn set_default_schemes(
    report: &mut Report<'_>,
    table: &DeTable<'_>,
    plan: &mut Plan,
    catalogue: &Catalogue,
) {
    if report.failed() || plan.paths.iter().all(|path| !states_reservation(path)) {
        return;
    }
    let places = KeyPositions(table);
    let leaves: Vec<Vec<bool>> = plan.paths.iter().map(|path| may_leave_by(plan, path)).collect();
    let by_port: Vec<Vec<usize>> =
        (0..plan.ports.len()).map(|port| (0..plan.paths.len()).filter(|path| leaves[*path][port]).collect()).collect();
    for (index, paths) in by_port.iter().enumerate() {
        let reserved = |path: &usize| states_reservation(&plan.paths[*path]);
        let mut leaving: Vec<usize> = paths.iter().copied().filter(reserved).collect();
        // The smallest demand first, in the order of admission.
        leaving.sort_by_key(|&path| plan.paths[path].cpu.reservation.map(|reservation| reservation.packets));
        let others: Vec<usize> =
            paths.iter().copied().filter(|path| plan.paths[*path].cpu.reservation.is_none()).collect();
        if leaving.is_empty() {
            continue;
        }
        let name = plan.ports[index].name.clone();
        let said = places.port(&name, "scheme");
        if said.is_none()
            && let Ok(scheme) = Call::scheme(USUAL, catalogue)
        {
            plan.ports[index].scheme = scheme;
        }
        let port = &plan.ports[index];
        let key = format!("port.{name}.scheme");
        let find = LeavingPaths { plan, catalogue, port, leaving: &leaving, others: &others };
        let place = said.or_else(|| places.port(&name, "device")).unwrap_or(0..0);
        find.check(report, (place, &key), &port.scheme);
        // A policy may replace the scheme while packets flow, so check each of its schemes.
        let policy = plan.policies.iter().find(|policy| Some(&policy.name) == port.policy.as_ref());
        for (objective, scheme) in policy.iter().flat_map(|policy| &policy.schemes) {
            let policy = port.policy.as_deref().unwrap_or_default();
            let place = KeyPositions::find(table, &["policy", policy, objective.name()]).unwrap_or(0..0);
            find.check(report, (place, &format!("policy.{policy}.{}", objective.name())), scheme);
        }
    }
}

/// The ports by which packets of a path may leave; if unknown, any but the only one they enter by.
fn may_leave_by(plan: &Plan, path: &PathPlan) -> Vec<bool> {
    let known = exits(plan, path);
    let entries: Vec<bool> = plan.ports.iter().map(|port| path.may_enter_by(port)).collect();
    let only = entries.iter().filter(|enters| **enters).count() == 1 && entries.len() > 1;
    (0..plan.ports.len())
        .map(|port| if known.is_empty() { !(only && entries[port]) } else { known.contains(&port) })
        .collect()
}

/// A port, and the paths whose packets leave by it.
struct LeavingPaths<'p> {
    plan: &'p Plan,
    catalogue: &'p Catalogue,
    port: &'p PortPlan,
    leaving: &'p [usize],
    others: &'p [usize],
}

impl LeavingPaths<'_> {
    fn link<'s>(&'s self, scheme: &'s Call) -> Link<'s> {
        let path = |path: &usize| &self.plan.paths[*path];
        let reserved = self.leaving.iter().filter_map(|at| Stream::of(path(at), 1)).collect();
        Link { scheme, reserved, ..Link::of(self.port, self.others.iter().map(path)) }
    }

    /// The first reservation that the port does not keep with this scheme, and why.
    fn fault(&self, scheme: &Call) -> Option<(&PathPlan, LinkFault)> {
        let link = self.link(scheme);
        let fault = |&at: &usize| Some((&self.plan.paths[at], link.worst_delay(self.plan.paths[at].class).err()?));
        self.leaving.iter().find_map(fault)
    }

    fn check(&self, report: &mut Report<'_>, (place, key): (Range<usize>, &str), scheme: &Call) {
        let Some((path, fault)) = self.fault(scheme) else { return };
        let (name, path) = match &fault {
            LinkFault::Rate { path: name, .. } => (name.clone(), path),
            _ => (path.name.clone(), path),
        };
        let hint = match &fault {
            LinkFault::Rate { .. } => {
                "reserve less (with the real `packet_size`), or use a faster link, or a larger part of it".to_string()
            }
            LinkFault::Room(needed, _) => format!("give the scheme a queue of {needed} packets or more"),
            LinkFault::Class { free, .. }
                if scheme.name == USUAL && scheme.option("levels").unwrap_or(2) > (*free).into() =>
            {
                format!("give '{name}' class = {free}")
            }
            LinkFault::Class { free, .. } if u16::from(path.class) < *free => {
                let scheme = self.scheme_with_reservations(scheme, *free);
                format!("give '{name}' class = {free}, and the port scheme = \"{scheme}\"")
            }
            LinkFault::Scheme(_) | LinkFault::Class { .. } => {
                let scheme = self.scheme_with_reservations(scheme, self.lowest().max(1));
                format!("write scheme = \"{scheme}\", which serves its class separately")
            }
        };
        let reason = format!("this port cannot guarantee the reservation of '{name}': {fault}");
        match self.plan.cpu.admission {
            Admission::Refuse => report.error(place, key, || (reason, hint)),
            Admission::Warn => report.warning(place, key, || (reason, hint)),
        }
    }

    /// The lowest class of a reservation.
    fn lowest(&self) -> u16 {
        self.leaving.iter().map(|&at| u16::from(self.plan.paths[at].class)).min().unwrap_or(1)
    }

    /// A replacement for a scheme that keeps no reservation: it serves best effort in the same way, and adds a class for reservations.
    fn scheme_with_reservations(&self, scheme: &Call, class: u16) -> String {
        let branches = |rest: &str, rate: Option<u64>| {
            let weight = self.weight(rate);
            format!("tree{{branch(class={class}, weight={weight}){{fifo}}, branch{{{rest}}}}}")
        };
        match scheme.name {
            "shape" => {
                let inside = match &scheme.inner[..] {
                    [inner] if inner.name == "fifo" => self.scheme_with_reservations(inner, class),
                    [inner] => branches(&self.brief(inner), scheme.option("rate")),
                    _ => USUAL.to_string(),
                };
                format!("{}{{{inside}}}", self.head(scheme, "shape"))
            }
            "cake" => format!("{}{{{}}}", self.head(scheme, "shape"), branches("fq", scheme.option("rate"))),
            "fifo" => {
                let levels = if class > 1 { format!("(levels={})", class + 1) } else { String::new() };
                let inner = Some(self.brief(scheme)).filter(|inner| inner != "fifo");
                format!("{USUAL}{levels}{}", inner.map_or(String::new(), |inner| format!("{{{inner}}}")))
            }
            // The tree has its own rate, and its leaves' scheme serves best effort.
            "share" | "dfq" => {
                let inside = scheme.inner.first().map_or("fq".into(), |inner| self.brief(inner));
                match scheme.option("rate").filter(|rate| *rate > 0) {
                    Some(rate) => format!("{}{{{}}}", self.head(scheme, "shape"), branches(&inside, Some(rate))),
                    None => branches(&inside, self.link(scheme).rate.map(units::Rate::get)),
                }
            }
            // Keep the queue management of best effort.
            "priority" => branches(&scheme.inner.first().map_or("fifo".into(), |inner| self.brief(inner)), None),
            name if name.starts_with("guest:") || name.is_empty() => USUAL.to_string(),
            _ => branches(&self.brief(scheme), self.link(scheme).rate.map(units::Rate::get)),
        }
    }

    /// A weight for the reservations' branch, beside one of weight 1, that gives a quarter more than they need.
    fn weight(&self, rate: Option<u64>) -> u64 {
        let Some(rate) = rate else { return WEIGHT };
        let bits = |&at: &usize| {
            let reservation = self.plan.paths[at].cpu.reservation.expect("those that leave have one");
            let size = reservation.size.unwrap_or(units::Bytes::new(1518)).get() + 24;
            u128::from(reservation.packets.get()) * u128::from(size) * 10
        };
        let needed: u128 = self.leaving.iter().map(bits).sum();
        match u128::from(rate).checked_sub(needed).filter(|left| *left > 0) {
            Some(left) => needed.div_ceil(left).clamp(1, 10_000) as u64,
            None => 10_000,
        }
    }

    /// The shortest text of a scheme, without options at their default.
    fn brief(&self, scheme: &Call) -> String {
        let inner: Vec<String> = scheme.inner.iter().map(|inner| self.brief(inner)).collect();
        let usual = self.orders().find(|order| order.declaration.name == scheme.name);
        let head = self.head(scheme, scheme.name);
        match usual {
            _ if inner.is_empty() => head,
            Some(order) if inner == [order.usual] => head,
            _ => format!("{head}{{{}}}", inner.join(", ")),
        }
    }

    /// The scheme `name` with those options of `scheme` that it has as well.
    fn head(&self, scheme: &Call, name: &str) -> String {
        let Some(declaration) = self.declaration(name) else { return name.to_string() };
        let option = |(option, value): &(&'static str, u64)| {
            let declared = declaration.options.iter().find(|declared| declared.name == *option)?;
            let usual = declared.unit.read(declared.default).ok() == Some(*value);
            (!usual).then(|| format!("{option}={}", declared.unit.write(*value)))
        };
        let options: Vec<String> = scheme.options.iter().filter_map(option).collect();
        if options.is_empty() { name.to_string() } else { format!("{name}({})", options.join(", ")) }
    }

    fn declaration(&self, name: &str) -> Option<&Declaration> {
        let orders = self.orders().map(|order| &order.declaration);
        orders.chain(&self.catalogue.schemes).find(|declared| declared.name == name)
    }

    /// The schemes that order others, and the parts of those that have parts.
    fn orders(&self) -> impl Iterator<Item = &OrderDeclaration> {
        let part = |order: &OrderDeclaration| match order.inner {
            Inside::Branches(branch, _) => Some(branch),
            _ => None,
        };
        self.catalogue.orders.iter().chain(self.catalogue.orders.iter().filter_map(part))
    }
}
