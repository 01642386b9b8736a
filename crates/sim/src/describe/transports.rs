//! The ends of a flow: transports and applications, declared like schemes.

use super::FlowPlan;
use crate::tcp::application::{FlowSizes, TcpApplication, Web, WebDraws, WebSettings};
use crate::tcp::{AckPolicy, Bbr, CongestionControl, Cubic, Dctcp, IdleRestart, Reno, Sender, Settings};
use plan::Call;
use units::declare::{Declaration, DeclaredCost, OptionDeclaration, Unit};
use units::{Bytes, Nanos};

const LIKE: OptionDeclaration = OptionDeclaration {
    name: "like",
    unit: Unit::Choice(&["plain", "kernel"]),
    default: "plain",
    least: 0,
    most: 1,
    doc: "the model for all other settings: simulations in the literature (plain), or Linux (kernel)",
};

const WINDOW: OptionDeclaration = OptionDeclaration {
    name: "window",
    unit: Unit::Count,
    default: "0",
    least: 0,
    most: 1000,
    doc: "the initial window in packets; 0 for the usual one (2, Linux 10)",
};

const RECEIVE: OptionDeclaration = OptionDeclaration {
    name: "receive",
    unit: Unit::Count,
    default: "10000000",
    least: 1,
    most: 1_000_000_000,
    doc: "the receive window in packets",
};

/// The value of a setting that is not given.
const USUAL: &str = "usual";

const RESTART: OptionDeclaration = OptionDeclaration {
    name: "restart",
    unit: Unit::Choice(&[USUAL, "off", "acknowledged", "sent", "decay"]),
    default: USUAL,
    least: 0,
    most: 4,
    doc: "the window after an idle time of one time-out: off keeps it; acknowledged and sent restart with the initial window, \
          counted from the last acknowledgement or transmission; decay halves it for each time-out. Usual is acknowledged, \
          for Linux decay",
};

const SELECTIVE: OptionDeclaration = OptionDeclaration {
    name: "sack",
    unit: Unit::Choice(&[USUAL, "off", "on"]),
    default: USUAL,
    least: 0,
    most: 2,
    doc: "selective acknowledgements (RFC 2018)",
};

const DELAYED: OptionDeclaration = OptionDeclaration {
    name: "delayed",
    unit: Unit::Choice(&[USUAL, "off", "on"]),
    default: USUAL,
    least: 0,
    most: 2,
    doc: "delayed acknowledgements: every second packet, a single one after 40 ms (RFC 5681, 4.2)",
};

const ECN: OptionDeclaration = OptionDeclaration {
    name: "ecn",
    unit: Unit::Choice(&[USUAL, "off", "on"]),
    default: USUAL,
    least: 0,
    most: 2,
    doc: "packets are ECN-capable: schemes may mark them instead of dropping them (RFC 3168)",
};

const TIMEOUT: OptionDeclaration = OptionDeclaration {
    name: "timeout",
    unit: Unit::Time,
    default: "200ms",
    least: 1_000_000,
    most: 60_000_000_000,
    doc: "the shortest time-out",
};

const OPTIONS: &[OptionDeclaration] = &[LIKE, WINDOW, RECEIVE, RESTART, SELECTIVE, DELAYED, ECN, TIMEOUT];

const fn transport(name: &'static str, summary: &'static str, source: &'static str) -> Declaration {
    Declaration { name, summary, cost: DeclaredCost::None, source, options: OPTIONS }
}

/// The congestion controls of senders.
pub(super) const TRANSPORTS: &[Declaration] = &[
    transport("newreno", "adds a packet to the window each round trip, and halves it at a loss", "RFC 5681, RFC 6582"),
    transport(
        "cubic",
        "the window is a cubic function of the time since the last loss; a loss reduces it to seven tenths",
        "RFC 9438",
    ),
    transport(
        "bbr",
        "paces packets at the delivery rate of the path; a model of version 1",
        "Cardwell et al., ACM Queue 14(5), 2016",
    ),
    transport(
        "dctcp",
        "reduces the window in proportion to the marked packets; `ecn` is on unless switched off",
        "RFC 8257",
    ),
];

/// The application of a flow that is left out, for worlds in which a parameter sets the number of flows.
pub(super) const NOTHING: &str = "none";

/// The applications of flows.
pub(super) const APPLICATIONS: &[Declaration] = &[
    Declaration {
        name: NOTHING,
        summary: "the flow does not exist",
        cost: DeclaredCost::None,
        source: "",
        options: &[],
    },
    Declaration {
        name: "bulk",
        summary: "one endless transfer, whose objective is throughput",
        cost: DeclaredCost::None,
        source: "Sivaraman et al., HotNets 2013",
        options: &[],
    },
    Declaration {
        name: "interactive",
        summary: "one endless transfer, whose objective is throughput divided by delay",
        cost: DeclaredCost::None,
        source: "Sivaraman et al., HotNets 2013",
        options: &[],
    },
    Declaration {
        name: "web",
        summary: "transfers with pauses on one connection, whose objective is a short completion time",
        cost: DeclaredCost::None,
        source: "Sivaraman et al., HotNets 2013; sizes of Allman, CCR 43(1), 2013",
        options: &[
            OptionDeclaration {
                name: "pause",
                unit: Unit::Time,
                default: "200ms",
                least: 0,
                most: 1_000_000_000_000,
                doc: "the mean of the pause between two transfers, exponentially distributed",
            },
            OptionDeclaration {
                name: "extra",
                unit: Unit::Size,
                default: "16384b",
                least: 0,
                most: 1 << 30,
                doc: "added to each size",
            },
        ],
    },
];

/// The value of an option; none if it has its usual value.
fn option_value(call: &Call, name: &str) -> Option<u64> {
    call.option(name).filter(|value| *value > 0)
}

impl FlowPlan {
    /// The settings of both ends.
    pub fn settings(&self) -> Settings {
        let call = &self.transport;
        let usual = if call.option("like") == Some(1) { Settings::kernel() } else { Settings::plain() };
        let restarts = [IdleRestart::Off, IdleRestart::AfterAcknowledged, IdleRestart::AfterSent, IdleRestart::Decay];
        Settings {
            initial_window: option_value(call, "window").unwrap_or(usual.initial_window),
            receive_window: call.option("receive").unwrap_or(usual.receive_window),
            restart: option_value(call, "restart").map_or(usual.restart, |choice| restarts[choice as usize - 1]),
            selective: option_value(call, "sack").map_or(usual.selective, |choice| choice == 2),
            acknowledging: match option_value(call, "delayed") {
                None => usual.acknowledging,
                Some(1) => AckPolicy::Each,
                Some(_) => Settings::kernel().acknowledging,
            },
            marks: option_value(call, "ecn").map_or(usual.marks || call.name == "dctcp", |choice| choice == 2),
            least_timeout: call.option("timeout").map_or(usual.least_timeout, Nanos::new),
            ..usual
        }
    }

    /// Makes its sender.
    pub(crate) fn sender(&self) -> Sender {
        let settings = self.settings();
        let control: Box<dyn CongestionControl> = match self.transport.name {
            "cubic" => Box::new(Cubic::new(&settings)),
            "bbr" => Box::new(Bbr::new(&settings)),
            "dctcp" => Box::new(Dctcp::new(&settings)),
            _ => Box::new(Reno::new(&settings)),
        };
        Sender::new(settings, control)
    }

    /// Makes its application for a world with this seed; `sizes` are those of its file.
    pub(crate) fn application(&self, seed: u64, sizes: Option<FlowSizes>) -> TcpApplication {
        match self.application.name {
            "interactive" => TcpApplication::Interactive,
            "web" => TcpApplication::Web(Box::new(Web::new(self.draws(seed, sizes)))),
            _ => TcpApplication::Bulk,
        }
    }

    /// True if it sends finite transfers one after the other, not one endless transfer.
    pub fn is_web(&self) -> bool {
        self.application.name == "web"
    }

    /// The random draws of its web source in a world with this seed; `sizes` are those of its file.
    pub fn draws(&self, seed: u64, sizes: Option<FlowSizes>) -> WebDraws {
        let headers = 50;
        let payload = Bytes::new(u64::from(self.packet).saturating_sub(headers).max(1));
        let usual = WebSettings::new(sizes.unwrap_or_else(FlowSizes::fitted), payload);
        let option = |name| self.application.option(name);
        let settings = WebSettings {
            pause: option("pause").map_or(usual.pause, Nanos::new),
            extra: option("extra").map_or(usual.extra, Bytes::new),
            check_interval: self.rtt_interval,
            ..usual
        };
        WebDraws::new(settings, seed, &format!("flow {}", self.name))
    }
}
