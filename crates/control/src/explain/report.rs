//! Puts an explanation into words: names instead of ids, sentences for findings.

use crate::api::{ExplainReply, ExplainedStep, FieldChange, StepOutcome};
use classifier::ListedRule;
use fib::{Outcome, RouteReport};
use packet::wire::{differences, summary};
use packet::{DropReason, Exception};
use plane::classify::Finding;
use plane::explain::{ExpectedFate, ExplainContext, ExplainStep, InstructionVisit};
use plane::snapshot::Snapshot;
use stack::ObjectiveSource;
use units::{InterfaceId, PortId, VrfId};

use StepOutcome::{Fail, Note, Pass};

/// The name of a step, its outcome, and the finding.
type ReportLine = (&'static str, StepOutcome, String);

pub(super) fn reply(
    question: &ExplainContext<'_>,
    port: PortId,
    frame: &[u8],
    explanation: &plane::explain::Explanation,
) -> ExplainReply {
    let teller = ExplanationFormatter { question, snapshot: question.snapshot };
    let mut lines: Vec<ReportLine> = Vec::new();
    for steps in explanation.steps.chunk_by(|one, other| is_unmet(one) && is_unmet(other)) {
        // Of many rules that do not match, the last ones are those that an operator compares with the one that does.
        let left_out = if is_unmet(&steps[0]) { steps.len().saturating_sub(MOST_UNMET) } else { 0 };
        if left_out > 0 {
            lines.push(("rule", Note, format!("{left_out} rules before these do not match")));
        }
        lines.extend(steps[left_out..].iter().flat_map(|step| teller.lines(step)));
    }
    lines.extend(teller.egress(&explanation.expected));
    lines.extend(teller.policy(explanation));
    let route = explanation.steps.iter().rev().find_map(|step| match step {
        ExplainStep::Routes(routes) => Some(routes.first()),
        // The next hop of a rule has no route.
        ExplainStep::Found(Finding::Gateway { .. }) => Some(None),
        _ => None,
    });
    let route = route.flatten();
    let neighbour = explanation.steps.iter().rev().find_map(|step| match step {
        ExplainStep::Neighbour { address, .. } => Some(address.to_string()),
        _ => None,
    });
    let interface = explanation.steps.iter().find_map(|step| match step {
        ExplainStep::Found(Finding::Interface { interface, .. }) => *interface,
        _ => None,
    });
    let sent = match &explanation.expected {
        ExpectedFate::Sent { port, frame, .. } => Some((*port, frame)),
        _ => None,
    };
    let (verdict, conclusion) = teller.conclusion(explanation);
    let step = |(step, outcome, text): ReportLine| ExplainedStep { step: step.to_owned(), outcome, text };
    ExplainReply {
        packet: summary(frame).to_string(),
        in_port: teller.port(port),
        steps: lines.into_iter().map(step).collect(),
        verdict: verdict.to_owned(),
        conclusion,
        interface: interface.map(|id| teller.interface(id)),
        prefix: route.map(|route| route.prefix.to_string()),
        next_hop: neighbour,
        path: explanation.path.map(|path| teller.path(path)),
        out_port: sent.map(|(port, _)| teller.port(port)),
        drop: match explanation.expected {
            ExpectedFate::Dropped(reason) => Some(reason.into()),
            _ => None,
        },
        changes: sent.map_or_else(Vec::new, |(_, after)| changes(frame, after)),
        sent_frame: sent.map(|(_, frame)| frame.iter().map(|byte| format!("{byte:02x}")).collect()),
    }
}

/// The most rules in a row that do not match and are listed.
const MOST_UNMET: usize = 20;

/// True for a rule that does not match.
fn is_unmet(step: &ExplainStep) -> bool {
    matches!(step, ExplainStep::Found(Finding::Rule { unmet: Some(_), .. }))
}

fn changes(before: &[u8], after: &[u8]) -> Vec<FieldChange> {
    differences(before, after).into_iter().map(FieldChange::from).collect()
}

/// Formats changes in one line.
pub(crate) fn format_changes(before: &[u8], after: &[u8]) -> String {
    let all = differences(before, after);
    let tell = |d: &packet::wire::FieldDifference| format!("{} {} -> {}", d.field, d.before, d.after);
    if all.is_empty() { "changes nothing".into() } else { all.iter().map(tell).collect::<Vec<_>>().join(", ") }
}

struct ExplanationFormatter<'a> {
    question: &'a ExplainContext<'a>,
    snapshot: &'a Snapshot,
}

impl ExplanationFormatter<'_> {
    fn port(&self, id: PortId) -> String {
        self.snapshot.port(id).map_or_else(|| format!("#{id}"), |port| port.name.to_string())
    }

    fn interface(&self, id: InterfaceId) -> String {
        self.snapshot.interface(id).map_or_else(|| format!("#{id}"), |interface| interface.name.clone())
    }

    fn path(&self, position: usize) -> String {
        self.snapshot.paths.get(position).map_or_else(|| format!("#{position}"), |path| path.name.to_string())
    }

    fn lines(&self, step: &ExplainStep) -> Vec<ReportLine> {
        match step {
            ExplainStep::Found(finding) => vec![self.finding(finding)],
            ExplainStep::Routes(routes) => self.routes(routes),
            ExplainStep::Neighbour { interface, address, entry: known } => {
                let on = self.interface(*interface);
                let text = match known {
                    Some(known) => {
                        let mac = known.mac.map_or_else(String::new, |mac| format!(" at {mac}"));
                        let waiting = match known.pending {
                            0 => String::new(),
                            n => format!(", {n} packets wait for it"),
                        };
                        format!("{address} on {on}{mac} is {}{waiting}", known.state.name())
                    }
                    None => format!("{address} on {on} is unknown"),
                };
                vec![("neighbour", Note, text)]
            }
            ExplainStep::Function { path, index, before, after, decision } => {
                let spec = self.snapshot.paths.get(*path).and_then(|path| path.functions.get(*index));
                let name = spec.map_or_else(|| "?".to_owned(), ToString::to_string);
                let because = decision.as_ref().map_or_else(String::new, |decision| format!(", {decision}"));
                vec![("function", Note, format!("{name}: {}{because}", format_changes(before, after)))]
            }
            ExplainStep::Reply { interface, frame } => {
                vec![("answer", Note, format!("sends by {}: {}", self.interface(*interface), summary(frame)))]
            }
            ExplainStep::Replica { interface } => {
                vec![("copy", Note, format!("one copy leaves by {}", self.interface(*interface)))]
            }
            ExplainStep::Fragment { port, frame } => {
                vec![("fragment", Note, format!("leaves by {}: {}", self.port(*port), summary(frame)))]
            }
            ExplainStep::Encapsulated { port, frame } => {
                vec![("tunnel", Pass, format!("{} encapsulates it: {}", self.port(*port), summary(frame)))]
            }
            ExplainStep::Decapsulated { port, frame } => {
                vec![("tunnel", Pass, format!("ends here, and arrives at {}: {}", self.port(*port), summary(frame)))]
            }
            ExplainStep::Instruction(instructed) => vec![self.instruction(instructed)],
            ExplainStep::Reclassified => {
                vec![("again", Note, "the router's own protocols forward it: it is classified again".into())]
            }
        }
    }

    fn instruction(&self, instructed: &InstructionVisit) -> ReportLine {
        let InstructionVisit { instruction: asked, port, is_output: leaves, executed } = instructed;
        let place = match (port, leaves) {
            (None, _) => "in the middle".to_owned(),
            (Some(port), false) => format!("at its input {}", self.port(*port)),
            (Some(port), true) => format!("at its output {}", self.port(*port)),
        };
        let what = format!("{} of computation {:#x} {place}", asked.instruction, asked.computation);
        match (&asked.refusal, executed) {
            (Some(why), _) => ("instruction", Fail, format!("{what}: not executed, {why}")),
            (None, false) => ("instruction", Note, format!("{what}: nothing is executed there")),
            (None, true) => {
                ("instruction", Note, format!("{what}: executed; its fate depends on the entries of earlier packets"))
            }
        }
    }

    fn finding(&self, finding: &Finding) -> ReportLine {
        match *finding {
            Finding::LinkDestination { destination, own } if destination.is_group() => {
                ("station", Pass, format!("{destination} is a group, which {own} may be in"))
            }
            Finding::LinkDestination { destination, own } if destination == own => {
                ("station", Pass, format!("{destination} is the port's own"))
            }
            Finding::LinkDestination { destination, own } => {
                ("station", Fail, format!("{destination} is not the port's own, {own}"))
            }
            Finding::Interface { vlan, interface } => {
                let tag = vlan.map_or_else(|| "untagged".to_owned(), |vlan| format!("VLAN {vlan}"));
                match interface {
                    Some(id) => ("interface", Pass, format!("{tag}: interface {}", self.interface(id))),
                    None => ("interface", Fail, format!("{tag}: no interface of this port")),
                }
            }
            Finding::Protocol { ethertype, enabled: true } => {
                ("protocol", Pass, format!("the interface supports {}", protocol(ethertype)))
            }
            Finding::Protocol { ethertype, enabled: false } => {
                ("protocol", Fail, format!("the interface has no address for {}", protocol(ethertype)))
            }
            Finding::Header { source, destination, length, .. } => {
                let text =
                    format!("{source} to {destination}, {length} bytes: version, lengths and checksum are right");
                ("header", Pass, text)
            }
            Finding::Objective { dscp, objective, origin: because } => {
                let (point, wants) = (plan::dscp_name(dscp), objective_text(objective));
                let text = match because {
                    ObjectiveSource::CodePoint => format!("code points are trusted here: with {point} it {wants}"),
                    ObjectiveSource::Unmapped => {
                        format!("the code point {point} has no objective: by the interface it {wants}")
                    }
                    ObjectiveSource::Untrusted => {
                        format!("code points are not trusted here: by the interface it {wants}")
                    }
                    ObjectiveSource::Path => format!("by its path it {wants}"),
                };
                ("objective", Note, text)
            }
            Finding::Addresses => ("addresses", Pass, "source and destination are valid".into()),
            Finding::ReversePath { source, outcome, check, passed } => {
                let (verdict, whether) = if passed { (Pass, "as") } else { (Fail, "not as") };
                let text =
                    format!("{source}: {}, {whether} reverse_path = \"{check}\" asks for", self.outcome(outcome));
                ("reverse path", verdict, text)
            }
            Finding::Lookup { vrf, destination, outcome } => {
                let within = if vrf == VrfId::MAIN { "" } else { " in the VRF of its input interface" };
                let text = format!("{destination}{within}: {}", self.outcome(outcome));
                match outcome {
                    Outcome::NoRoute
                    | Outcome::Unreachable
                    | Outcome::Blackhole
                    | Outcome::Broadcast(_)
                    | Outcome::Special => ("lookup", Fail, text),
                    _ => ("lookup", Pass, text),
                }
            }
            Finding::RuleLookup { destination, outcome, .. } => {
                ("lookup", Pass, format!("{destination} in the VRF of the rule: {}", self.outcome(outcome)))
            }
            Finding::Gateway { interface, address } => {
                ("gateway", Pass, format!("{address} on {}, by the rule", self.interface(interface)))
            }
            Finding::Member { flow, .. } => {
                ("flow", Pass, format!("the hash of its flow, {flow:08x}, picks one of them"))
            }
            Finding::PassThrough(other) => {
                ("passthrough", Pass, format!("all frames from this port leave unchanged by {}", self.port(other)))
            }
            Finding::Group { route } => self.group(route),
            Finding::HopLimit { left } if left <= 1 => ("hops", Fail, format!("{left} left: it expires here")),
            Finding::HopLimit { left } => ("hops", Pass, format!("{left} left")),
            Finding::Mtu { interface, mtu: 0, .. } => {
                ("mtu", Fail, format!("interface {} has been removed", self.interface(interface)))
            }
            Finding::Mtu { interface, length, mtu } => {
                let on = self.interface(interface);
                match length <= usize::from(mtu) {
                    true => ("mtu", Pass, format!("{length} bytes fit the MTU of {on}, {mtu}")),
                    false => ("mtu", Fail, format!("{length} bytes exceed the MTU of {on}, {mtu}")),
                }
            }
            Finding::NextHop { mac: Some(mac), .. } => ("next hop", Pass, format!("known to be at {mac}")),
            Finding::NextHop { mac: None, .. } => {
                ("next hop", Fail, "its link-layer address is unknown, or needs confirmation".into())
            }
            Finding::Rule { id, ref rule, unmet } => self.rule((id, rule), unmet),
            Finding::Path(position) => ("path", Pass, format!("takes {}", self.path(position))),
            Finding::Exception(exception) => ("exception", Note, exception_text(exception).into()),
        }
    }

    fn group(&self, position: Option<usize>) -> ReportLine {
        let of_kernel = self.snapshot.kernel_groups.latest();
        let find = |position| self.snapshot.multicast.get(position).or_else(|| of_kernel.get(position));
        let Some(route) = position.and_then(find) else {
            return ("group", Fail, "no [[multicast]] entry for this group".into());
        };
        let to: Vec<String> = route.to.iter().map(|&to| self.interface(to)).collect();
        let of = route.key.source.map_or_else(String::new, |source| format!(" from {source}"));
        let (group, from) = (route.key.group, self.interface(route.from));
        ("group", Pass, format!("packets to {group}{of} arrive by {from} and leave by {}", to.join(", ")))
    }

    fn rule(&self, (id, rule): (u32, &ListedRule), unmet: Option<plan::Condition>) -> ReportLine {
        match unmet {
            None => ("rule", Pass, format!("{id} ({}) matches", rule.text)),
            Some(condition) => ("rule", Fail, format!("{id} ({}) does not match: {}", rule.text, condition.name())),
        }
    }

    fn routes(&self, routes: &[RouteReport]) -> Vec<ReportLine> {
        let line = |(position, route): (usize, &RouteReport)| {
            let members = route.members.iter().map(|member| format!(" via {}", member.hop.address));
            let via = route.next_hop.map_or_else(|| members.collect(), |hop| format!(" via {hop}"));
            let on = route.interface.map_or_else(String::new, |on| format!(" on {}", self.interface(on)));
            let what = match route.outcome {
                Outcome::Via(_) | Outcome::Group(_) => String::new(),
                outcome => format!(" {}", self.outcome(outcome)),
            };
            let text = format!("{} {}{what}{via}{on}", route.prefix, route.origin.name());
            if position == 0 { ("route", Pass, text) } else { ("route", Note, format!("{text} (less specific)")) }
        };
        match routes {
            [] => vec![("route", Fail, "no route matches".into())],
            routes => routes.iter().enumerate().map(line).collect(),
        }
    }

    fn outcome(&self, outcome: Outcome) -> String {
        match outcome {
            Outcome::NoRoute => "no route".into(),
            Outcome::Via(_) => "via a next hop".into(),
            Outcome::Group(_) => "via one of several next hops".into(),
            Outcome::Connected(on) => format!("on the link of {}", self.interface(on)),
            Outcome::Local(_) => "the router's own".into(),
            Outcome::Broadcast(on) => format!("the broadcast address of {}", self.interface(on)),
            Outcome::Blackhole => "blackhole".into(),
            Outcome::Unreachable => "unreachable".into(),
            Outcome::Special => "not a unicast destination".into(),
        }
    }

    /// Describes the state of the egress link.
    fn egress(&self, expected: &ExpectedFate) -> Vec<ReportLine> {
        let &ExpectedFate::Sent { port, interface, .. } = expected else { return Vec::new() };
        let mut lines =
            vec![("egress", Pass, format!("port {}, interface {}", self.port(port), self.interface(interface)))];
        let reports = self.question.reports.iter().flat_map(|report| &report.ports);
        for report in reports.filter(|report| report.port == port) {
            let text = match report.backlog {
                0 => "the queue of the link is empty: it leaves at once".to_owned(),
                n => format!("{n} packets of {} bytes are queued before it", report.backlog_bytes.get()),
            };
            lines.push(("link", Note, text));
        }
        lines
    }

    /// Describes the effect of a policy at the egress port.
    fn policy(&self, explanation: &plane::explain::Explanation) -> Option<ReportLine> {
        let ExpectedFate::Sent { port, .. } = explanation.expected else { return None };
        let view = self.snapshot.port(port)?;
        let in_force = view.objective?;
        let wanted = explanation.steps.iter().rev().find_map(|step| match step {
            ExplainStep::Found(Finding::Objective { objective, .. }) => Some(*objective),
            _ => None,
        });
        let counts = wanted.unwrap_or_default();
        let text = format!("counts as {counts}; the port's objective is {in_force}, with the scheme {}", view.scheme);
        Some(("policy", Note, text))
    }

    fn conclusion(&self, explanation: &plane::explain::Explanation) -> (&'static str, String) {
        let fragments = explanation.steps.iter().filter(|step| matches!(step, ExplainStep::Fragment { .. })).count();
        match &explanation.expected {
            ExpectedFate::Sent { port, .. } => ("sent", format!("sent by {}", self.port(*port))),
            ExpectedFate::Replicated(copies) => {
                let each = copies.iter().map(|copy| match copy {
                    ExpectedFate::Sent { port, .. } => format!("sent by {}", self.port(*port)),
                    ExpectedFate::Dropped(reason) => format!("dropped: {}", reason.name()),
                    _ => "kept".into(),
                });
                let each: Vec<String> = each.collect();
                ("copied", format!("consumed, and copied {} times: {}", copies.len(), each.join(", ")))
            }
            ExpectedFate::Consumed if fragments > 0 => ("consumed", format!("cut into {fragments} fragments")),
            ExpectedFate::Consumed => ("consumed", "for the router itself".into()),
            ExpectedFate::Dropped(reason) => ("dropped", format!("dropped: {}", drop_text(*reason))),
            ExpectedFate::AwaitsNeighbour { interface, address } => {
                let on = self.interface(*interface);
                ("waits", format!("waits until {address} on {on} answers; dropped as neighbour_failed if it does not"))
            }
            ExpectedFate::Reassembling => ("collected", "waits for other fragments of its packet".into()),
        }
    }
}

fn objective_text(objective: plan::Objective) -> String {
    match objective {
        plan::Objective::None => "has no objective".into(),
        objective => format!("wants {objective}"),
    }
}

fn drop_text(reason: DropReason) -> String {
    format!("{}: {}", reason.name(), reason.explanation().trim())
}

fn protocol(ethertype: u16) -> String {
    match ethertype {
        packet::wire::ethertype::IPV4 => "IPv4".into(),
        packet::wire::ethertype::IPV6 => "IPv6".into(),
        packet::wire::ethertype::ARP => "ARP".into(),
        other => format!("ethertype 0x{other:04x}"),
    }
}

/// Returns why the local protocols get a packet.
pub(crate) fn exception_text(exception: Exception) -> &'static str {
    match exception {
        Exception::Arp => "an ARP packet: for the router's own protocols",
        Exception::Local => "for the router itself",
        Exception::Options => "it has options, which are processed first",
        Exception::Expired => "its time to live has expired: its sender gets an ICMP error",
        Exception::NoRoute => "no route to its destination: its sender gets an ICMP error",
        Exception::Unreachable => "an unreachable route: its sender gets an ICMP error",
        Exception::TooBig => "too long for the link, and must not be fragmented: its sender gets an ICMP error",
        Exception::Resolve => "the link-layer address of the next hop has to be resolved first",
        Exception::BeyondScope => "its source address may not leave its link: its sender gets an ICMP error",
        Exception::Unanswered => "the next hop did not answer: its sender gets an ICMP error",
        Exception::Prohibited => "a packet filter rejects it: its sender gets an ICMP error",
        Exception::Dispatched => "a function has selected another path",
        Exception::Again => "a function has given it another destination: it is classified again",
        Exception::Kernel => "for a program of the machine: the kernel gets it by its interface of this name",
        Exception::Delivered => "a function gives it to a program",
        Exception::Originated => "a service of the router has made it",
        Exception::Tunnel => "it has arrived at the end of a tunnel",
        Exception::Fragment => "a fragment that waits for the first of its packet, by which it is translated",
        Exception::Redirect => "it leaves by its input interface: its sender gets a redirect",
    }
}
