//! `[[path]]`: the switching paths, and the packets that take them.

pub(crate) mod cpu;
pub(crate) mod dispatch;
pub(crate) mod filter;
pub(crate) mod guest;
pub(crate) mod support;

use crate::connected::Connected;
use crate::diagnostic::{Report, more_than};
use crate::diff::{PropertyChange, Step, edit, joined, quoted, steps, summaries};
use crate::document::{Node, Path, Section, Text};
use crate::key::{Form, Key, Kind, PART, RESERVE, SIZE, TIME, WAIT, key, required};
use crate::matching::{Cover, Shadows};
use crate::names::{self, PATH_PATTERN, RESERVED_PATHS, WHOLE_PATH};
use crate::section::cpu::Layout;
use crate::section::objectives::Objective;
use crate::section::port::PortPlan;
use crate::share::ShareName;
use crate::text::{TextError, did_you_mean, quote};
use crate::{Call, Catalogue, Match};
use cpu::PathCpu;
use dispatch::DispatchRule;
use filter::rule::FilterRule;
use guest::GuestRule;
use serde::Serialize;
use std::collections::HashMap;
use support::RuleUses;
use units::{Bytes, Nanos};

pub(crate) const KEY: Key = key(
    "path",
    Kind::List(KEYS),
    "",
    "[{ name = \"voice\", match = \"ip dscp ef\" }]",
    "Switching paths. The first one that matches a packet applies.",
);

const MOST_PATHS: usize = 250;
pub(crate) const MOST_FUNCTIONS: usize = 16;
/// The default function of a path.
const DEFAULT_FUNCTION: &str = "ip";
/// The longest intended cost of a packet on a path without preemption.
const MOST_UNINTERRUPTED: Nanos = Nanos::millis(10);

/// The name of a share.
const SHARE_NAME: Form = Form::Pattern("^[^\"]{1,63}$");
const QUEUE: Kind = Kind::Integer { least: 1, most: 65_536 };

pub(crate) const KEYS: &[Key] = &[
    required("name", Kind::Text(Form::Except(WHOLE_PATH, RESERVED_PATHS)), "\"voice\"", "The name of the path."),
    key(
        "match",
        Kind::Text(Form::Pattern(crate::matching::FIRST_WORDS)),
        "",
        "\"ip dscp ef udp dport 5060\"",
        "The packets of the path; see Matches. Required, except with `reservations`.",
    ),
    key(
        "reservations",
        Kind::Boolean,
        "false",
        "true",
        "Whether flows can be reserved on this path while the router runs (`switchpath reserve`). Without a `match` it has the packets of these \
         flows, and of rules that name it.",
    ),
    key(
        "interleave",
        Kind::Boolean,
        "false",
        "true",
        "With `reservations`: whether the scheduler selects the next flow after each function of a packet, and charges the flow for exactly the time \
         that it used. Use it if functions are expensive. Otherwise a batch of packets passes all functions, which is faster.",
    ),
    key(
        "functions",
        Kind::Texts { form: Form::Function, most: MOST_FUNCTIONS },
        "[\"ip\"]",
        "[\"ip\"]",
        "The functions for each packet, in order.",
    ),
    key(
        "filter",
        Kind::TextsOrTable { form: Form::Pattern(filter::rule::PATTERN), most: filter::MOST_RULES, keys: filter::KEYS },
        "[]",
        "[\"tcp dport { 22, 443 } accept\", \"drop\"]",
        "The rules of the function `filter`. The first rule that matches decides. Packets that match none continue. \
         `{ file = \"acl.rules\" }` reads them from a file.",
    ),
    key(
        "dispatch",
        Kind::Texts {
            form: Form::Pattern(r"^\s*(tls\s+name|http\s+host|dns\s+name|payload\s+[0-9]+)\s+\S+\s+\S+\s*$"),
            most: dispatch::MOST_RULES,
        },
        "[]",
        "[\"tls name *.example.org video\", \"payload 0 0x16 secure\"]",
        "The rules of the function `dispatch`: a payload (`tls name`, `http host`, `dns name`, or bytes at an \
         offset), and the path of packets that contain it. Packets that match no rule stay on this path.",
    ),
    key(
        "guest_rules",
        Kind::Texts { form: Form::Pattern(r"^\s*\S+(\s+\S+)+\s*$"), most: guest::MOST_RULES },
        "[]",
        "[\"*.example.org video\", \"*.ads.example drop\"]",
        "The rules of the guest functions: a text that the guest interprets, and the treatment of the packets that it assigns to the rule. The \
         treatment is a path, `drop` or `pass`.",
    ),
    key("queue", QUEUE, "512", "512", "The limit of each queue of the path, in packets."),
    key(
        "input_queue",
        QUEUE,
        "",
        "128",
        "The limit of the queue before its functions, in packets. The default is `queue`.",
    ),
    key(
        "output_queue",
        QUEUE,
        "",
        "1024",
        "The limit of the queue before its port, in packets. The default is `queue`.",
    ),
    key(
        "class",
        Kind::Integer { least: 0, most: 255 },
        "",
        "2",
        "The class for queueing schemes. The default is 1 with `reserve` and 0 without. The router's own packets \
         have class 255.",
    ),
    key(
        "link_share",
        Kind::Text(SHARE_NAME),
        "",
        "\"voice\"",
        "The share of the output port that its packets belong to, by name; see `shares` of a port. Without it, packets belong to the share of \
         their circuit, or to the default leaf.",
    ),
    key(
        "objective",
        Kind::Text(Form::Choice(Objective::NAMES)),
        "",
        "\"delay\"",
        "The objective of its packets, which overrides their code points: `throughput`, `delay`, `power`, `fct`, \
         `tail`, `none`.",
    ),
    key(
        "reserve",
        Kind::Text(RESERVE),
        "",
        "\"49kpps\"",
        "The reserved rate, in packets or in bits a second. Without it the path is best effort.",
    ),
    key(
        "packet_size",
        Kind::Text(SIZE),
        "",
        "\"200b\"",
        "With `reserve`: the size of its packets, including the Ethernet header. Required for a rate in bits.",
    ),
    key(
        "max_delay",
        Kind::Text(TIME),
        "",
        "\"2ms\"",
        "With `reserve`: the longest delay of a packet through the router.",
    ),
    key(
        "cpu_share",
        Kind::Text(PART),
        "",
        "\"5%\"",
        "The processor share of the forwarding task. By default it follows from the reservation, or from the \
         division of best effort.",
    ),
    key(
        "max_wait",
        Kind::Text(WAIT),
        "",
        "\"500us\"",
        "Under `throttle`: how long its task waits for more packets. With `none` it waits as long as other tasks are \
         busy. The default is that of `[cpu]`.",
    ),
    key(
        "cost",
        Kind::Text(Form::Pattern(r"^ *[0-9.]+ *[a-z]+( */ *b)?( *\+ *[0-9.]+ *[a-z]+ */ *b)? *$")),
        "",
        "\"1us + 2ns/b\"",
        "The cost of its functions per packet. By default the declared cost, or else the measured one.",
    ),
    key(
        "cpu_limit",
        Kind::Text(TIME),
        "",
        "\"50us\"",
        "The time limit for its functions. Packets that take longer are dropped and counted. By default there is no \
         limit.",
    ),
    key(
        "preemptible",
        Kind::Boolean,
        "false",
        "true",
        "Whether its functions are preempted at the end of their slice, also within a packet. Use it for functions \
         that are expensive, or might not return.",
    ),
];

/// A switching path.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PathPlan {
    /// Its name.
    pub name: String,
    /// Its packets, unless an earlier path matches them. `None`: only reservations and rules added while the router runs select it.
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    pub matching: Option<Match>,
    /// The functions for each packet, in order.
    pub functions: Vec<Call>,
    /// The rules of its function `filter`, in order; empty without it.
    pub filter: Vec<FilterRule>,
    /// The rules of its function `dispatch`, in order; empty without it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dispatch: Vec<DispatchRule>,
    /// The rules of its guest functions, in order; empty without them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guest_rules: Vec<GuestRule>,
    /// Limit of packets queued before its functions.
    pub input_queue: u32,
    /// Limit of packets queued for its port.
    pub output_queue: u32,
    /// The class for the queueing scheme.
    pub class: u8,
    /// The share of the output port that its packets belong to; without one that of their circuit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_share: Option<ShareName>,
    /// The objective of its packets, which overrides their code points.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objective: Option<Objective>,
    /// Its processor settings.
    pub cpu: PathCpu,
}

impl PathPlan {
    /// The packet size for its costs: as reserved, or the smallest Ethernet frame.
    pub fn packet_size(&self) -> Bytes {
        self.cpu.reservation.map_or(Bytes::new(64), |reservation| reservation.packet_size())
    }

    /// How many packets can queue before and after its functions: without an output task, only before.
    pub fn queue_capacity(&self, layout: Layout) -> u32 {
        if layout == Layout::Three { self.input_queue.min(self.output_queue) } else { self.input_queue }
    }

    /// True if a packet of the path may enter by the port.
    pub fn may_enter_by(&self, port: &PortPlan) -> bool {
        let interface = self.matching.as_ref().and_then(|matching| matching.iif.as_deref());
        interface.is_none_or(|name| port.interfaces.iter().any(|interface| *interface.name == *name))
    }
}

pub(crate) fn check(
    report: &mut Report<'_>,
    root: &Section<'_>,
    connected: &Connected,
    catalogue: &Catalogue,
    layout: Layout,
) -> Vec<PathPlan> {
    let parent = Path::Key(&root.path, "path");
    let mut list = root.list(report, "path");
    if let Some((_, span, _)) = list.get(MOST_PATHS) {
        report.error(span.clone(), "path", || more_than(MOST_PATHS, "paths"));
        list.truncate(MOST_PATHS);
    }
    let mut uses = RuleUses::new(connected);
    let mut names: HashMap<String, usize> = HashMap::new();
    let mut leads: Vec<Lead> = Vec::new();
    let mut paths: Vec<PathPlan> = Vec::with_capacity(list.len());
    // Only paths with a match: the numbers of `shadows` are those of `matched`.
    let (mut shadows, mut matched) = (Shadows::default(), Vec::new());
    for (index, span, value) in list {
        let node = Node::new(value, span, Path::Index(&parent, index));
        let Some(section) = node.section(report, KEYS, "[[path]]") else { continue };
        let name = section.text(report, "name");
        if let Some(text) = &name {
            check_name(report, text, &mut names, index);
        }
        let has_match = section.node("match").is_some();
        if !has_match && !section.boolean(report, "reservations") {
            report.error(section.span.clone(), section.path, || {
                let reason = "the path has no match".to_string();
                (reason, "add match = \"ip daddr 203.0.113.0/24\", or reservations = true".to_string())
            });
        }
        let matching = matching(report, &section, connected, &mut uses);
        if let (Some((text, matching)), Some(name)) = (&matching, &name) {
            warn_if_covered(report, text, shadows.add(matching, true), &matched);
            matched.push(name.value.to_string());
        }
        let functions = functions(report, &section, catalogue);
        let filter = filter::check(report, &section, connected, &functions);
        let dispatch = dispatch::check(report, &section, &functions);
        let guest_rules = guest::check(report, &section, &functions);
        // The declared ranges fit the types.
        let queue = section.integer(report, "queue").unwrap_or(1) as u32;
        let mut one = |name| match section.node(name) {
            Some(_) => section.integer(report, name).unwrap_or(1) as u32,
            None => queue,
        };
        let (input_queue, output_queue) = (one("input_queue"), one("output_queue"));
        let cpu = cpu::check(report, &section);
        check_preemption(report, &section, &functions, (cpu.preemptible, layout));
        let class = match section.node("class") {
            Some(_) => section.integer(report, "class").unwrap_or(0) as u8,
            None => u8::from(cpu.reservation.is_some()),
        };
        let link_share = section.parsed::<ShareName>(report, "link_share");
        let objective = section.choice(report, "objective", Objective::ALL);
        if let Some(name) = name.filter(|_| matching.is_some() || !has_match) {
            let lead = |key, rule, to: &str| Lead { path: index, key, rule, to: to.to_string() };
            leads.extend(dispatch.iter().enumerate().map(|(rule, to)| lead("dispatch", rule, &to.path)));
            let targets = guest_rules.iter().enumerate().filter_map(|(rule, to)| Some((rule, to.path()?)));
            leads.extend(targets.map(|(rule, to)| lead("guest_rules", rule, to)));
            paths.push(PathPlan {
                name: name.value.to_string(),
                matching: matching.map(|(_, matching)| matching),
                functions,
                filter,
                dispatch,
                guest_rules,
                input_queue,
                output_queue,
                class,
                link_share,
                objective,
                cpu,
            });
        }
    }
    check_leads(report, root, &paths, &leads);
    paths
}

/// Warns of a path that earlier paths make useless.
fn warn_if_covered(report: &mut Report<'_>, text: &Text<'_>, cover: Option<Cover>, earlier: &[String]) {
    let Some(cover) = cover else { return };
    let name = |number: usize| earlier.get(number).map_or("an earlier path", String::as_str);
    report.warning(text.span.clone(), text.path, || match cover {
        Cover::One(one) => {
            let reason = format!("no packet can match this path: '{}' before it matches them all", name(one));
            (reason, format!("move it before '{}', or narrow that match", name(one)))
        }
        Cover::Several(first, last) => {
            let (first, last) = (name(first), name(last));
            let reason =
                format!("no packet can match this path: paths from '{first}' to '{last}' match them all together");
            (reason, format!("move it before '{first}', or narrow those matches"))
        }
    });
}

/// A rule that sends packets of a path to another path.
struct Lead {
    /// The number of the path.
    path: usize,
    /// The key with the rule, and the rule's number.
    key: &'static str,
    rule: usize,
    /// The name of the other path.
    to: String,
}

/// Checks that every rule with a path names another existing one.
fn check_leads(report: &mut Report<'_>, root: &Section<'_>, paths: &[PathPlan], leads: &[Lead]) {
    if report.error_count() > 0 {
        return;
    }
    let parent = Path::Key(&root.path, "path");
    for Lead { path: index, key, rule, to } in leads {
        let own = paths.get(*index).is_some_and(|path| path.name == *to);
        if !own && (paths.iter().any(|path| path.name == *to) || to == "best-effort") {
            continue;
        }
        let (one, list) = (Path::Index(&parent, *index), root.list(report, "path"));
        let Some((_, span, _)) = list.get(*index) else { continue };
        let key = Path::Key(&one, key);
        report.error(span.clone(), Path::Index(&key, *rule), || match own {
            true => (format!("the packet is on path '{to}' already"), "remove the rule, or name another path".into()),
            false => {
                let known = paths.iter().map(|path| path.name.as_str()).chain(["best-effort"]);
                (format!("there is no path {}", quote(to)), did_you_mean(to, known))
            }
        });
    }
}

fn check_name(report: &mut Report<'_>, text: &Text<'_>, names: &mut HashMap<String, usize>, index: usize) {
    let name = text.value;
    if !names::is_path(name) {
        return text.error(report, || {
            let hint = format!("use a letter, then letters, digits, '_' and '-', 31 at most: {PATH_PATTERN}");
            (format!("{} is no name for a path", quote(name)), hint)
        });
    }
    if RESERVED_PATHS.contains(&name) {
        return text
            .error(report, || (format!("'{name}' is the name of a built-in path"), "use another name".to_string()));
    }
    let first = *names.entry(name.to_string()).or_insert(index);
    if first != index {
        text.error(report, || {
            (format!("there is a path '{name}' already: path[{first}]"), "give each path a name of its own".to_string())
        });
    }
}

fn matching<'a>(
    report: &mut Report<'_>,
    section: &'a Section<'a>,
    connected: &Connected,
    known: &mut RuleUses<'_>,
) -> Option<(Text<'a>, Match)> {
    let text = section.text(report, "match")?;
    let checked = |matching| support::refuse_match(text.value, &matching, known).map(|()| matching);
    let matching = match Match::parse(text.value).and_then(checked) {
        Ok(matching) => matching,
        Err(error) => {
            text.wrong(report, error);
            return None;
        }
    };
    if let Some(name) = matching.iif.as_deref().filter(|name| connected.interface(name).is_none())
        && !connected.incomplete
    {
        let (reason, hint) = connected.no_interface(name);
        // Mark the first occurrence of the name in the text, which is the right one in nearly all cases.
        let offset = text.value.find(name).unwrap_or(0);
        text.wrong(report, TextError { offset, length: name.len(), reason, hint });
        return None;
    }
    Some((text, matching))
}

/// Reports functions that must not be preempted, and those that have to be.
fn check_preemption(
    report: &mut Report<'_>,
    section: &Section<'_>,
    functions: &[Call],
    (preemptible, layout): (bool, Layout),
) {
    let node = |name| section.node(name).map_or((section.span.clone(), section.path), |node| (node.span, node.path));
    if preemptible && functions.iter().any(|call| call.name == "nat") {
        let (span, path) = node("preemptible");
        report.error(span, path, || {
            let reason = "a preempted 'nat' would lock the connections for all other paths";
            (reason.to_string(), "use 'nat' on a path that is not preemptible".to_string())
        });
    }
    if preemptible && layout == Layout::One {
        let (span, path) = node("preemptible");
        report.error(span, path, || {
            let reason = "with layout = 1 its functions run in the input task, which is never preempted";
            (reason.to_string(), "give [cpu] layout = 2 or 3".to_string())
        });
    }
    let takes = |call: &Call| ["cost", "rare_cost"].iter().filter_map(|name| call.option(name)).max().unwrap_or(0);
    let longest = functions.iter().filter(|call| call.name == "spin").map(takes).max().map_or(Nanos::ZERO, Nanos::new);
    if !preemptible && longest > MOST_UNINTERRUPTED {
        let (span, path) = node("functions");
        report.error(span, path, || {
            let reason = format!("a packet of {longest} blocks all other tasks of the worker");
            (reason, format!("add preemptible = true, or a cost of at most {MOST_UNINTERRUPTED}"))
        });
    }
}

/// Extends the error if the name of a filter verdict is used as a function.
fn suggest_filter(name: &str, error: TextError) -> TextError {
    if !["drop", "accept", "reject"].contains(&name) {
        return error;
    }
    let rest = if name == "accept" { "\"tcp dport 22 accept\", \"drop\"".to_owned() } else { format!("\"{name}\"") };
    let hint = format!("use a filter: functions = [\"filter\", \"ip\"], and filter = [{rest}]");
    TextError { hint, ..error }
}

fn functions(report: &mut Report<'_>, section: &Section<'_>, catalogue: &Catalogue) -> Vec<Call> {
    let declared = &catalogue.functions;
    let Some(given) = section.node("functions") else {
        let default = Call::parse(DEFAULT_FUNCTION, declared, "function");
        return match default {
            Ok(call) => vec![call],
            Err(error) => {
                report.error(section.span.clone(), section.path, || {
                    (error.reason, format!("name the functions: {}", error.hint))
                });
                Vec::new()
            }
        };
    };
    let before = report.error_count();
    if section.list(report, "functions").is_empty() && report.error_count() == before {
        report.error(given.span.clone(), given.path, || {
            let reason = "a path needs at least one function".to_string();
            (reason, "write functions = [\"ip\"], or remove the key".to_string())
        });
    }
    if report.error_count() > before {
        return Vec::new();
    }
    let mut names = Vec::new();
    let surplus = |most| (format!("a path has at most {most} functions"), "remove some".to_string());
    section.texts(report, "functions", surplus, "\"ip\"", |report, text| {
        let call = guest::call(text.value, catalogue).unwrap_or_else(|| Call::parse(text.value, declared, "function"));
        let call = call.map_err(|error| text.wrong(report, suggest_filter(text.value, error))).ok()?;
        // Two `ip` functions would decrement the TTL twice in one router.
        if names.contains(&call.name) {
            let reason = format!("the function '{}' is in the list already", call.name);
            text.error(report, || (reason, "name each function once".to_string()));
            return None;
        }
        names.push(call.name);
        Some(call)
    })
}

pub(crate) fn diff<'p>(old: &'p [PathPlan], new: &'p [PathPlan]) -> Vec<Step<'p, PathPlan>> {
    steps(old, new, |path| path.name.as_str())
}

pub(crate) fn edits(old: &PathPlan, new: &PathPlan) -> Vec<PropertyChange> {
    let mut what = Vec::new();
    edit(&mut what, "match", match_text(old), match_text(new));
    edit(&mut what, "functions", joined(&old.functions), joined(&new.functions));
    // A guest may have been rebuilt.
    edit(&mut what, "build", builds(old), builds(new));
    let (old_rules, new_rules) = summaries(&old.filter, &new.filter, "rules");
    edit(&mut what, "filter", old_rules, new_rules);
    edit(&mut what, "dispatch", quoted(&old.dispatch), quoted(&new.dispatch));
    edit(&mut what, "guest_rules", quoted(&old.guest_rules), quoted(&new.guest_rules));
    edit(&mut what, "queue", queues(old), queues(new));
    edit(&mut what, "class", old.class, new.class);
    edit(&mut what, "link_share", share_name(old), share_name(new));
    edit(&mut what, "objective", objective_name(old), objective_name(new));
    cpu::edits(&old.cpu, &new.cpu, &mut what);
    what
}

/// Its match, or `none`.
fn match_text(path: &PathPlan) -> String {
    path.matching.as_ref().map_or_else(|| "none".to_string(), Match::to_string)
}

/// The digests of its guests, or `none`.
fn builds(path: &PathPlan) -> String {
    let guests = path.functions.iter().filter(|call| call.code.is_some());
    let digests: Vec<String> = guests.map(Call::guest_digest).collect();
    if digests.is_empty() { "none".to_string() } else { digests.join(" ") }
}

/// The objective of its packets, or `none`.
fn objective_name(path: &PathPlan) -> &'static str {
    path.objective.map_or("as they say", Objective::name)
}

/// The share that it names, or `none`.
fn share_name(path: &PathPlan) -> String {
    path.link_share.as_ref().map_or_else(|| "none".to_string(), ShareName::to_string)
}

/// `512`, or `128/1024` before and after the functions.
fn queues(path: &PathPlan) -> String {
    if path.input_queue == path.output_queue {
        return path.input_queue.to_string();
    }
    format!("{}/{}", path.input_queue, path.output_queue)
}

/// All paths of the new plan, if their order differs from the order after removing the old ones and appending the new ones.
pub(crate) fn order(old: &[PathPlan], new: &[PathPlan]) -> Option<Vec<String>> {
    let is_old = |name: &str| old.iter().any(|path| path.name == name);
    let is_new = |name: &str| new.iter().any(|path| path.name == name);
    let stay = old.iter().map(|path| &path.name).filter(|name| is_new(name));
    let come = new.iter().map(|path| &path.name).filter(|name| !is_old(name));
    let order = || new.iter().map(|path| &path.name);
    (!stay.chain(come).eq(order())).then(|| order().cloned().collect())
}

/// `match ip dscp ef functions ip queue 512 class 0`, and all values other than the default.
pub(crate) fn summary(path: &PathPlan) -> String {
    let (matching, class) = (match_text(path), path.class);
    let (functions, queue) = (joined(&path.functions), queues(path));
    let objective = path.objective.map_or_else(String::new, |objective| format!(" objective {objective}"));
    let mut what = Vec::new();
    cpu::edits(&PathCpu::default(), &path.cpu, &mut what);
    let rest: String = what.iter().map(|edit| format!(" {} {}", edit.what, edit.new)).collect();
    let share = path.link_share.as_ref().map_or_else(String::new, |share| format!(" link_share {share}"));
    format!("match {matching} functions {functions} queue {queue} class {class}{share}{objective}{rest}")
}
