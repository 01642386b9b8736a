//! Answers requests.

use crate::access::Caller;
use crate::api::{ApiError, openapi};
use crate::daemon::{ApplyFailure, ApplyRequest, Daemon};
use crate::metrics::{self, Format};
use crate::request::Request;
use fib::RouteQuery;
use serde::Serialize;

/// A complete answer.
pub(crate) struct Reply {
    pub status: u16,
    pub media: &'static str,
    pub body: Vec<u8>,
}

const JSON: &str = "application/json";

impl Reply {
    fn json(value: &impl Serialize) -> Reply {
        let mut body = serde_json::to_vec(value).expect("the types of the API have text keys only");
        body.push(b'\n');
        Reply { status: 200, media: JSON, body }
    }

    /// Builds a refusal.
    pub fn refusal(error: &ApiError) -> Reply {
        Reply { status: error.error.status(), ..Reply::json(error) }
    }

    fn of<T: Serialize>(result: Result<T, ApiError>) -> Reply {
        result.map_or_else(|error| Reply::refusal(&error), |value| Reply::json(&value))
    }

    fn of_apply<T: Serialize>(result: Result<T, ApplyFailure>) -> Reply {
        Reply::of(result.map_err(|failure| ApiError::from(&failure)))
    }
}

/// Answers every request except streams, whose answers grow. May wait for workers, for some seconds at most.
pub(crate) fn respond(daemon: &Daemon, caller: &Caller, request: Request, format: Format) -> Reply {
    match request {
        Request::Status => Reply::of(daemon.status()),
        Request::Ports => Reply::of(daemon.ports()),
        Request::Paths => Reply::of(daemon.paths()),
        Request::Queues => Reply::of(daemon.queues()),
        Request::Links { port, samples } => Reply::of(daemon.links(port.as_deref(), samples)),
        Request::Workers => Reply::of(Ok(daemon.workers())),
        Request::Tasks => Reply::of(daemon.tasks()),
        Request::Policies => Reply::of(daemon.policies()),
        Request::Routes { within, origin, vrf, limit } => {
            let wanted = RouteQuery { vrf: None, within, origin };
            Reply::of(daemon.routes(wanted, vrf.as_deref(), limit))
        }
        Request::Edit(text) => Reply::of_apply(daemon.edit(&text.text, &text.name)),
        Request::Editing => Reply::json(&daemon.editing()),
        Request::Sets => Reply::json(&daemon.sets()),
        Request::SetElements { set, first, limit } => Reply::of_apply(daemon.set_elements(&set, first, limit)),
        Request::SetEdit(set, command, text) => {
            Reply::of_apply(daemon.edit_set(&set, command, (&text.text, &text.name), &caller.author))
        }
        Request::Rules { list, unused, limit } => Reply::of_apply(daemon.rules(list.as_deref(), unused, limit)),
        Request::RuleEdit(list, text) => {
            Reply::of_apply(daemon.edit_rules(&list, (&text.text, &text.name), &caller.author))
        }
        Request::Shares(wanted) => Reply::of_apply(daemon.shares(&wanted)),
        Request::ShareEdit(port, text) => {
            Reply::of_apply(daemon.edit_shares(&port, (&text.text, &text.name), &caller.author))
        }
        Request::Slices(only) => Reply::of_apply(daemon.slices(caller.rights(), only.as_deref())),
        Request::SliceFilters(slice, from, limit) => {
            Reply::of_apply(daemon.slice_filters(caller.rights(), &slice, (from, limit)))
        }
        Request::SliceStats(slice) => Reply::of_apply(daemon.slice_stats(caller.rights(), &slice)),
        Request::SliceMemory(slice, offset, length) => {
            Reply::of_apply(daemon.slice_memory(caller.rights(), &slice, (offset, length)))
        }
        Request::SliceExceptions(slice, limit) => {
            Reply::of_apply(daemon.slice_exceptions(caller.rights(), &slice, limit))
        }
        Request::SliceReinject(slice, text) => {
            Reply::of_apply(daemon.reinject_slice(caller.rights(), &slice, (&text.text, &text.name)))
        }
        Request::SliceEdit(text) => Reply::of_apply(daemon.edit_slices(caller.rights(), (&text.text, &text.name))),
        Request::Flows(limit) => Reply::json(&daemon.flows(limit)),
        Request::FlowEdit(text, trial) => {
            Reply::of_apply(daemon.edit_flows((&text.text, &text.name), trial, &caller.author))
        }
        Request::Subscribers(order, limit) => Reply::json(&daemon.subscribers(order, limit)),
        Request::Sites(order, limit) => Reply::json(&daemon.sites(order, limit)),
        Request::ReloadSubscribers => Reply::of_apply(daemon.reload_subscribers(&caller.author)),
        Request::Functions => Reply::of(daemon.functions()),
        Request::Ephemeral => Reply::of(daemon.ephemeral()),
        Request::EphemeralEntries(port, limit) => Reply::of(daemon.ephemeral_entries(port.as_deref(), limit)),
        Request::Nat(limit) => Reply::of(daemon.nat(limit)),
        Request::Linux => Reply::json(&daemon.linux()),
        Request::Multicast => Reply::of(daemon.multicast()),
        Request::Counters => Reply::of(daemon.counters()),
        Request::Neighbours => Reply::of(daemon.neighbours()),
        Request::Drops => Reply::of(daemon.drops()),
        Request::Events { since } => Reply::json(&daemon.events(since)),
        Request::Ledger => Reply::of(daemon.ledger()),
        Request::Config(None) => Reply::json(&daemon.config()),
        Request::Config(Some(generation)) => Reply::of_apply(daemon.config_of(generation)),
        Request::History => Reply::json(&daemon.history()),
        Request::Check(text) => Reply::json(&daemon.check(&text.text, &text.name)),
        Request::Diff(text) => Reply::of_apply(daemon.diff(&text.text, &text.name)),
        Request::Apply(text, conditions) => {
            let order = ApplyRequest { text: text.text, name: text.name, ..caller.apply_request(conditions) };
            Reply::of_apply(daemon.apply_request(order))
        }
        Request::Confirm => Reply::of_apply(daemon.confirm(&caller.author)),
        Request::RollBack(back, conditions) => {
            Reply::of_apply(daemon.roll_back(back, caller.apply_request(conditions)))
        }
        Request::Explain(asked) => Reply::of(daemon.explain(&asked)),
        Request::Inject(inject) => Reply::of(daemon.inject(inject)),
        Request::Metrics => match metrics::page(daemon) {
            Ok(page) => Reply { status: 200, media: format.media(), body: format.write(page).into_bytes() },
            Err(error) => Reply::refusal(&error),
        },
        Request::OpenApi => Reply::json(&openapi()),
        Request::Capture(_) | Request::Trace(_) | Request::Schedule(_) | Request::SliceSlowPath(_) => {
            unreachable!("what grows is answered as it grows")
        }
    }
}
