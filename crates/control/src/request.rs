//! Parses HTTP requests into requests for the router: one pure function, so that it can be fuzzed.

mod observation;

use crate::api::{AccessLevel, ApiError, ENDPOINTS, ErrorKind, ShareOrder, SubscriberOrder};
use crate::daemon::{RollbackTarget, SetCommand, ShareQuery};
use crate::explain::{ExplainPacket, Probe};
use fib::Origin;
use io::login::Login;
pub use observation::{CaptureRequest, CpuTraceRequest, InjectRequest, TraceRequest};
use packet::pool::SUPER_FRAME;
use plan::{Match, Prefix, SetValue};
use units::Nanos;

/// The default and the largest number of routes in an answer.
const ROUTES: (usize, usize) = (1000, 1_000_000);
/// The default and the largest number of connections in an answer. They are copied under a lock.
const CONNECTIONS: (u64, u64) = (1000, 100_000);
/// The default and the largest number of elements of a set, or rules of a list, in an answer.
const ELEMENTS: (u64, u64) = (1000, 1_000_000);
/// The default and the largest number of shares of a port, or of subscribers, in an answer: a port has no more.
const SHARES: (u64, u64) = (1000, 1 << 20);
/// The least `snaplen` of a capture: an Ethernet header.
const LEAST_SNAPLEN: u64 = 14;
/// The shortest and the longest trial.
const LEAST_CONFIRM_TIME: Nanos = Nanos::secs(1);
const MOST_CONFIRM_TIME: Nanos = Nanos::secs(86_400);
/// The highest packet rate of a trace. More would slow a worker down.
const MOST_RATE: u64 = 10_000;
/// The most frames injected at once, as many as a path can hold.
pub const MOST_FRAMES: usize = 256;
/// The shortest and the longest trace of the CPU schedulers.
const CPU_TRACE_TIMES: (Nanos, Nanos) = (Nanos::millis(1), Nanos::secs(60));
/// The default number of events kept of each worker.
pub const DEFAULT_EVENTS: usize = 100_000;
/// The largest number of events kept of each worker.
pub const MOST_EVENTS: usize = 2_000_000;
/// The most characters in the name of a configuration.
const MOST_NAME: usize = 4096;

/// A request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// The router as a whole.
    Status,
    /// The ports.
    Ports,
    /// The paths.
    Paths,
    /// The queues.
    Queues,
    /// The links.
    Links {
        /// Only links of this port.
        port: Option<String>,
        /// The number of latest samples of each link.
        samples: usize,
    },
    /// The workers.
    Workers,
    /// The tasks.
    Tasks,
    /// The objectives of packets, and the schemes selected for them.
    Policies,
    /// Routes.
    Routes {
        /// Only routes within this prefix.
        within: Option<Prefix>,
        /// Only routes of this origin.
        origin: Option<Origin>,
        /// Only routes of this VRF.
        vrf: Option<String>,
        /// At most this many routes.
        limit: usize,
    },
    /// Changes routes and neighbours.
    Edit(ConfigText),
    /// Returns the progress of such a change.
    Editing,
    /// The named sets.
    Sets,
    /// Elements of a set.
    SetElements {
        /// The set.
        set: String,
        /// The first element to list; none for the first of the set.
        first: Option<SetValue>,
        /// At most this many elements.
        limit: usize,
    },
    /// Changes elements of the set of this name.
    SetEdit(String, SetCommand, ConfigText),
    /// Lists of rules.
    Rules {
        /// Only this list.
        list: Option<String>,
        /// Only rules without packets.
        unused: bool,
        /// At most this many rules of each list.
        limit: usize,
    },
    /// Changes rules of the list of this name.
    RuleEdit(String, ConfigText),
    /// Shares of ports.
    Shares(ShareQuery),
    /// Changes shares of the port of this name.
    ShareEdit(String, ConfigText),
    /// The slices, or the one of this name.
    Slices(Option<String>),
    /// Filters of a slice: from this position on, and at most so many.
    SliceFilters(String, u32, usize),
    /// The statistics of a slice.
    SliceStats(String),
    /// A part of a slice's memory: the offset, and the length.
    SliceMemory(String, usize, Option<usize>),
    /// Packets for the slow path of a slice, at most so many.
    SliceExceptions(String, usize),
    /// The packets for the slow path of a slice, as they arrive.
    SliceSlowPath(String),
    /// Packets that the slow path of a slice returns.
    SliceReinject(String, ConfigText),
    /// Changes slices.
    SliceEdit(ConfigText),
    /// The reserved flows, at most this many.
    Flows(usize),
    /// Changes the reserved flows. With true it is a trial.
    FlowEdit(ConfigText, bool),
    /// The subscribers: the order, if not that of their file, and the most of them.
    Subscribers(Option<SubscriberOrder>, usize),
    /// The sites: the order, if not that of the tree, and the most of them.
    Sites(Option<SubscriberOrder>, usize),
    /// Reads the files of subscribers again.
    ReloadSubscribers,
    /// The functions of paths.
    Functions,
    /// Address translation, with at most this many connections.
    Nat(usize),
    /// The multicast groups.
    Multicast,
    /// The interfaces of the kernel.
    Linux,
    /// Every counter.
    Counters,
    /// Ephemeral state.
    Ephemeral,
    /// At most this many entries of a store, or of all stores.
    EphemeralEntries(Option<String>, usize),
    /// The neighbours.
    Neighbours,
    /// Drops by reason.
    Drops,
    /// Recent events.
    Events {
        /// The number of the first event.
        since: u64,
    },
    /// The packet ledgers.
    Ledger,
    /// The running configuration, or that of a generation in the history.
    Config(Option<u64>),
    /// The history of configurations.
    History,
    /// Checks a configuration.
    Check(ConfigText),
    /// Returns the changes that applying a configuration would make.
    Diff(ConfigText),
    /// Applies a configuration.
    Apply(ConfigText, ApplyConditions),
    /// Confirms the configuration on trial.
    Confirm,
    /// Applies an earlier configuration again.
    RollBack(RollbackTarget, ApplyConditions),
    /// Explains what the router would do with a packet.
    Explain(ExplainPacket),
    /// Captures packets as they meet their fates.
    Capture(CaptureRequest),
    /// Traces packets through the router.
    Trace(TraceRequest),
    /// Traces the CPU schedulers.
    Schedule(CpuTraceRequest),
    /// Injects frames into a port.
    Inject(InjectRequest),
    /// All counters.
    Metrics,
    /// The OpenAPI description of the API.
    OpenApi,
}

/// A configuration in a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigText {
    /// Its origin, for messages.
    pub name: String,
    /// The text.
    pub text: String,
}

/// The conditions of an apply.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ApplyConditions {
    /// Roll back unless confirmed within this time.
    pub confirm: Option<Nanos>,
    /// The login of the caller.
    pub login: Option<Login>,
    /// Take interfaces that carry it anyway.
    pub force: bool,
}

/// Parses a request: its method, path and query from the request line, and its body, which becomes the text of the request.
pub fn parse(method: &str, path: &str, query: &str, body: impl Into<Vec<u8>>) -> Result<Request, ApiError> {
    let mut here = ENDPOINTS.iter().filter(|endpoint| endpoint.path == path).peekable();
    if here.peek().is_none() {
        let hint = "GET /v1/openapi.json lists the endpoints";
        return Err(ApiError::new(ErrorKind::NotFound, format!("there is nothing at {}", sanitized(path)), hint));
    }
    let Some(endpoint) = here.find(|endpoint| endpoint.method == method) else {
        let methods: Vec<&str> = ENDPOINTS.iter().filter(|e| e.path == path).map(|e| e.method).collect();
        let reason = format!("{} does not support {}", sanitized(path), sanitized(method));
        return Err(ApiError::new(ErrorKind::Method, reason, format!("use {}", methods.join(" or "))));
    };
    let query = Query::read(query, endpoint.parameters)?;
    let text = || {
        let name = query.get("name").unwrap_or("request").to_owned();
        if name.chars().count() > MOST_NAME {
            return Err(bad("the name is too long", "give the name of a file"));
        }
        let text = String::from_utf8(body.into()).map_err(|error| {
            let valid = error.utf8_error().valid_up_to();
            bad(format!("the body is not UTF-8 from byte {valid} on"), "send a text")
        })?;
        Ok(ConfigText { name, text })
    };
    Ok(match path {
        "/v1/status" => Request::Status,
        "/v1/ports" => Request::Ports,
        "/v1/paths" => Request::Paths,
        "/v1/queues" => Request::Queues,
        "/v1/links" => Request::Links {
            port: query.get("port").map(str::to_owned),
            samples: query.number("samples", 0, u64::MAX)?.map_or(usize::MAX, |samples| samples as usize),
        },
        "/v1/workers" => Request::Workers,
        "/v1/tasks" => Request::Tasks,
        "/v1/policy" => Request::Policies,
        "/v1/routes" if method == "POST" => Request::Edit(text()?),
        "/v1/routes/batch" => Request::Editing,
        "/v1/routes" => Request::Routes {
            within: query.get("prefix").map(prefix).transpose()?,
            origin: query.get("origin").map(origin).transpose()?,
            vrf: query.get("vrf").map(str::to_owned),
            limit: query.number("limit", 1, ROUTES.1 as u64)?.map_or(ROUTES.0, |limit| limit as usize),
        },
        "/v1/sets" => Request::Sets,
        "/v1/sets/elements" => Request::SetElements {
            set: set_name(&query)?,
            first: query.get("first").map(set_value).transpose()?,
            limit: query.number("limit", 1, ELEMENTS.1)?.unwrap_or(ELEMENTS.0) as usize,
        },
        "/v1/sets/add" => Request::SetEdit(set_name(&query)?, SetCommand::Add, text()?),
        "/v1/sets/remove" => Request::SetEdit(set_name(&query)?, SetCommand::Remove, text()?),
        "/v1/sets/replace" => Request::SetEdit(set_name(&query)?, SetCommand::Replace, text()?),
        "/v1/sets/flush" => {
            let nothing = ConfigText { name: "request".into(), text: String::new() };
            Request::SetEdit(set_name(&query)?, SetCommand::Flush, nothing)
        }
        "/v1/rules" => Request::Rules {
            list: query.get("list").map(str::to_owned),
            unused: flag(&query, "unused")?,
            limit: query.number("limit", 1, ELEMENTS.1)?.unwrap_or(ELEMENTS.0) as usize,
        },
        "/v1/rules/batch" => {
            let list = query.get("list").map(str::to_owned);
            let missing = || bad("the parameter list is missing", "give `paths` or the name of a path: list=guests");
            Request::RuleEdit(list.ok_or_else(missing)?, text()?)
        }
        "/v1/shares" => Request::Shares(ShareQuery {
            port: query.get("port").map(str::to_owned),
            only_leaves: flag(&query, "leaves")?,
            order: query.get("sort").map(share_order).transpose()?,
            limit: query.number("limit", 1, SHARES.1)?.unwrap_or(SHARES.0) as usize,
        }),
        "/v1/shares/batch" => {
            let port = query.get("port").map(str::to_owned);
            let missing = || bad("the parameter port is missing", "give the name of a port with shares: port=lan");
            Request::ShareEdit(port.ok_or_else(missing)?, text()?)
        }
        "/v1/slices" => Request::Slices(query.get("only").map(str::to_owned)),
        "/v1/slices/batch" => Request::SliceEdit(text()?),
        "/v1/slices/reinject" => Request::SliceReinject(slice_name(&query)?, text()?),
        path if path.starts_with("/v1/slices/") => slice_request(path, &query)?,
        "/v1/reservations" => Request::Flows(query.number("limit", 1, SHARES.1)?.unwrap_or(SHARES.0) as usize),
        "/v1/reservations/batch" => {
            let trial = flag(&query, "trial")?;
            Request::FlowEdit(text()?, trial)
        }
        "/v1/subscribers" | "/v1/sites" => {
            let order = query.get("worst").map(subscriber_order).transpose()?;
            let limit = query.number("limit", 1, SHARES.1)?.unwrap_or(SHARES.0) as usize;
            if path == "/v1/sites" { Request::Sites(order, limit) } else { Request::Subscribers(order, limit) }
        }
        "/v1/subscribers/reload" => Request::ReloadSubscribers,
        "/v1/functions" => Request::Functions,
        "/v1/state" => Request::Ephemeral,
        "/v1/state/entries" => {
            let limit = query.number("limit", 1, CONNECTIONS.1)?.unwrap_or(CONNECTIONS.0) as usize;
            Request::EphemeralEntries(query.get("port").map(str::to_owned), limit)
        }
        "/v1/nat" => Request::Nat(query.number("limit", 1, CONNECTIONS.1)?.unwrap_or(CONNECTIONS.0) as usize),
        "/v1/multicast" => Request::Multicast,
        "/v1/linux" => Request::Linux,
        "/v1/counters" => Request::Counters,
        "/v1/neighbours" => Request::Neighbours,
        "/v1/drops" => Request::Drops,
        "/v1/events" => Request::Events { since: query.number("since", 0, u64::MAX)?.unwrap_or(0) },
        "/v1/accounting" => Request::Ledger,
        "/v1/config" => Request::Config(query.number("generation", 1, u64::MAX)?),
        "/v1/history" => Request::History,
        "/v1/check" => Request::Check(text()?),
        "/v1/diff" => Request::Diff(text()?),
        "/v1/apply" => Request::Apply(text()?, conditions(&query)?),
        "/v1/confirm" => Request::Confirm,
        "/v1/rollback" => Request::RollBack(rollback_target(&query)?, conditions(&query)?),
        "/v1/explain" => Request::Explain(explain_packet(&query)?),
        "/v1/capture" => Request::Capture(capture(&query)?),
        "/v1/trace" => Request::Trace(TraceRequest {
            capture: capture(&query)?,
            port: query.get("port").map(str::to_owned),
            rate: query.number("rate", 1, MOST_RATE)?,
            injected: flag(&query, "injected")?,
        }),
        "/v1/schedule" => Request::Schedule(schedule(&query)?),
        "/v1/inject" => Request::Inject(inject(&query, &text()?.text)?),
        "/metrics" => Request::Metrics,
        "/v1/openapi.json" => Request::OpenApi,
        other => unreachable!("{other} is declared"),
    })
}

fn share_order(text: &str) -> Result<ShareOrder, ApiError> {
    text.parse().map_err(|hint: String| bad(format!("shares have no order {}", plan::quote(text)), hint))
}

fn subscriber_order(text: &str) -> Result<SubscriberOrder, ApiError> {
    text.parse().map_err(|hint: String| bad(format!("subscribers have no order {}", plan::quote(text)), hint))
}

fn set_name(query: &Query) -> Result<String, ApiError> {
    query
        .get("set")
        .map(str::to_owned)
        .ok_or_else(|| bad("the parameter set is missing", "give the name of a set: set=bad"))
}

fn set_value(text: &str) -> Result<SetValue, ApiError> {
    text.parse().map_err(|error: plan::TextError| bad(error.reason, error.hint))
}

fn capture(query: &Query) -> Result<CaptureRequest, ApiError> {
    let matching = match query.get("match") {
        None => Match::default(),
        Some(text) => Match::parse_without_routes(text)
            .map_err(|error| bad(format!("the match '{}': {}", sanitized(text), error.reason), error.hint))?,
    };
    Ok(CaptureRequest {
        matching,
        limit: query.number("limit", 1, u64::MAX)?,
        snaplen: query.number("snaplen", LEAST_SNAPLEN, u32::MAX.into())?.map(|bytes| bytes as usize),
        arrivals: flag(query, "arrivals")?,
    })
}

fn schedule(query: &Query) -> Result<CpuTraceRequest, ApiError> {
    let time = match query.get("time") {
        None => Nanos::secs(1),
        Some(text) => text.parse().map_err(|error: units::UnitError| bad(error.reason, error.hint))?,
    };
    if !(CPU_TRACE_TIMES.0..=CPU_TRACE_TIMES.1).contains(&time) {
        return Err(bad(
            format!("the time {time} is out of range"),
            format!("give {} to {}", CPU_TRACE_TIMES.0, CPU_TRACE_TIMES.1),
        ));
    }
    let events = query.number("events", 1, MOST_EVENTS as u64)?.map_or(DEFAULT_EVENTS, |events| events as usize);
    Ok(CpuTraceRequest { time, events })
}

/// Parses the body of an injection: one frame a line.
fn inject(query: &Query, text: &str) -> Result<InjectRequest, ApiError> {
    let port = query.get("port").map(str::to_owned);
    let frames: Vec<Vec<u8>> =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(bytes).collect::<Result<_, _>>()?;
    if frames.len() > MOST_FRAMES {
        return Err(bad(format!("{} frames are too many at once", frames.len()), format!("give up to {MOST_FRAMES}")));
    }
    if let Some(long) = frames.iter().find(|frame| frame.len() > SUPER_FRAME) {
        return Err(bad(format!("a frame has {} bytes", long.len()), format!("give frames of up to {SUPER_FRAME}")));
    }
    Ok(InjectRequest { port, ours: flag(query, "ours")?, frames })
}

fn explain_packet(query: &Query) -> Result<ExplainPacket, ApiError> {
    let port = query.get("port").map(str::to_owned);
    match (query.get("packet"), query.get("frame")) {
        (_, Some(hex)) => Ok(ExplainPacket::Frame { port, frame: bytes(hex)?, ours: flag(query, "ours")? }),
        (words, None) => {
            let words = words.unwrap_or_default();
            let probe = Probe::parse(words)
                .map_err(|error| bad(format!("the packet '{}': {}", sanitized(words), error.reason), error.hint))?;
            Ok(ExplainPacket::Probe(probe))
        }
    }
}

/// Decodes pairs of hexadecimal digits.
fn bytes(hex: &str) -> Result<Vec<u8>, ApiError> {
    let pair = |pair: &[u8]| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let wrong = || bad("the frame is not in hexadecimal", "give two digits for each byte, and nothing between");
    if !hex.len().is_multiple_of(2) || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    hex.as_bytes().chunks(2).map(pair).collect::<Option<Vec<u8>>>().ok_or_else(wrong)
}

/// Returns the rights that a request needs, from its request line alone, before its body is read. An unknown address needs read access only, so that
/// its caller gets the right error.
pub fn needs(method: &str, path: &str) -> AccessLevel {
    let endpoint = ENDPOINTS.iter().find(|endpoint| endpoint.path == path && endpoint.method == method);
    endpoint.map_or(AccessLevel::Read, |endpoint| endpoint.needs)
}

fn conditions(query: &Query) -> Result<ApplyConditions, ApiError> {
    let confirm = query.get("confirm").map(|text| {
        let time: Nanos = text.parse().map_err(|error: units::UnitError| bad(error.reason, error.hint))?;
        let fits = (LEAST_CONFIRM_TIME..=MOST_CONFIRM_TIME).contains(&time);
        fits.then_some(time)
            .ok_or_else(|| bad(format!("'{}' is out of range for 'confirm'", sanitized(text)), "give 1s to 86400s"))
    });
    let login = query.get("login").map(|text| {
        text.parse().map_err(|_| bad(format!("'{}' is not a login", sanitized(text)), "give PEER,LOCAL: two addresses"))
    });
    Ok(ApplyConditions { confirm: confirm.transpose()?, login: login.transpose()?, force: flag(query, "force")? })
}

fn flag(query: &Query, name: &str) -> Result<bool, ApiError> {
    match query.get(name) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(other) => Err(bad(format!("'{}' is not a value of '{name}'", sanitized(other)), "give true or false")),
    }
}

fn rollback_target(query: &Query) -> Result<RollbackTarget, ApiError> {
    let steps = query.number("steps", 1, u32::MAX.into())?;
    match (steps, query.number("to", 1, u64::MAX)?) {
        (Some(_), Some(_)) => Err(bad("both 'steps' and 'to' are given", "give one of them")),
        (None, Some(generation)) => Ok(RollbackTarget::To(generation)),
        (steps, None) => Ok(RollbackTarget::Steps(steps.unwrap_or(1))),
    }
}

fn origin(text: &str) -> Result<Origin, ApiError> {
    Origin::ALL.into_iter().find(|origin| origin.name() == text).ok_or_else(|| {
        let names: Vec<&str> = Origin::ALL.iter().map(|origin| origin.name()).collect();
        bad(format!("no route has the origin '{}'", sanitized(text)), format!("use {}", names.join(", ")))
    })
}

fn prefix(text: &str) -> Result<Prefix, ApiError> {
    let parsed: Result<Prefix, _> = match text.contains('/') {
        true => text.parse().map_err(|_| ()),
        false => text.parse().map(Prefix::host).map_err(|_| ()),
    };
    parsed.map(Prefix::network).map_err(|()| {
        bad(
            format!("'{}' is no prefix", sanitized(text)),
            "write an address with the length of its prefix: 192.0.2.0/24",
        )
    })
}

fn bad(reason: impl Into<String>, hint: impl Into<String>) -> ApiError {
    ApiError::new(ErrorKind::BadRequest, reason, hint)
}

/// Makes input from outside safe to repeat in a message.
fn sanitized(text: &str) -> String {
    const MOST: usize = 80;
    let clean: String = text.chars().take(MOST).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(MOST).is_some() { clean + "…" } else { clean }
}

/// The parameters of a request: each declared, and given at most once.
struct Query(Vec<(String, String)>);

impl Query {
    fn read(query: &str, declared: &[crate::api::Parameter]) -> Result<Query, ApiError> {
        let mut given: Vec<(String, String)> = Vec::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if !declared.iter().any(|parameter| parameter.name == name) {
                let known: Vec<&str> = declared.iter().map(|parameter| parameter.name).collect();
                let hint = if known.is_empty() {
                    "this endpoint has no parameters".into()
                } else {
                    format!("use {}", known.join(", "))
                };
                return Err(bad(format!("unknown parameter '{}'", sanitized(&name)), hint));
            }
            if given.iter().any(|(earlier, _)| *earlier == name) {
                return Err(bad(format!("the parameter '{name}' is given twice"), "give it once"));
            }
            given.push((name.into_owned(), value.into_owned()));
        }
        Ok(Query(given))
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    fn number(&self, name: &str, least: u64, most: u64) -> Result<Option<u64>, ApiError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        let refused = || {
            bad(
                format!("'{}' is not a number for '{name}'", sanitized(text)),
                format!("give a whole number from {least} to {most}"),
            )
        };
        number.map(Some).ok_or_else(refused)
    }
}

/// An entry point for the fuzzer: bytes as a request line (`GET /v1/routes?limit=1`), a line end, and a body.
pub fn exercise(bytes: &[u8]) {
    let (line, body) =
        bytes.iter().position(|&b| b == b'\n').map_or((bytes, &[][..]), |at| (&bytes[..at], &bytes[at + 1..]));
    let line = String::from_utf8_lossy(line);
    let (method, target) = line.split_once(' ').unwrap_or(("GET", &line));
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let needs = needs(method, path);
    if let Err(error) = parse(method, path, query, body) {
        assert!(error.error.status() >= 400 && !error.reason.is_empty());
    } else if matches!(path, "/v1/apply" | "/v1/confirm" | "/v1/rollback" | "/v1/capture" | "/v1/trace" | "/v1/inject")
    {
        assert_eq!(needs, AccessLevel::Full, "{path}");
    }
}

fn slice_name(query: &Query) -> Result<String, ApiError> {
    let missing = || bad("the parameter slice is missing", "give the name of a slice: slice=overlay");
    query.get("slice").map(str::to_owned).ok_or_else(missing)
}

/// A request for a part of one slice.
fn slice_request(path: &str, query: &Query) -> Result<Request, ApiError> {
    let slice = slice_name(query)?;
    let limit = |most: u64| Ok::<_, ApiError>(query.number("limit", 1, most)?.unwrap_or(most.min(1000)) as usize);
    Ok(match path {
        "/v1/slices/filters" => {
            let from = query.number("from", 0, u64::from(u32::MAX))?.unwrap_or(0) as u32;
            Request::SliceFilters(slice, from, limit(1 << 17)?)
        }
        "/v1/slices/memory" => {
            let offset = query.number("offset", 0, u64::from(u32::MAX))?.unwrap_or(0) as usize;
            let length = query.number("length", 0, 1 << 16)?.map(|length| length as usize);
            Request::SliceMemory(slice, offset, length)
        }
        "/v1/slices/exceptions" => Request::SliceExceptions(slice, limit(256)?),
        "/v1/slices/slow-path" => Request::SliceSlowPath(slice),
        _ => Request::SliceStats(slice),
    })
}

#[cfg(test)]
mod tests;
