//! The declarations of all API addresses. The OpenAPI document and the reference page are generated from this table, and tests compare the request
//! parser and the answers with it.

use super::endpoint::{AnswerType, get, json, post};
use super::*;

const NAME: &[Parameter] = &[Parameter {
    name: "name",
    example: "router.toml",
    doc: "The name of the file in messages. The default is `request`.",
}];

const SET: Parameter = Parameter { name: "set", example: "bad", doc: "The name of the set." };

const LIST: Parameter =
    Parameter { name: "list", example: "guests", doc: "`paths`, or the name of a path with the function `filter`." };

const EDIT_RULES: &[Parameter] = &[LIST, NAME[0]];

const SHARE_PORT: Parameter = Parameter { name: "port", example: "lan", doc: "The port with the shares." };

const EDIT_SHARES: &[Parameter] = &[SHARE_PORT, NAME[0]];

const EDIT_FLOWS: &[Parameter] = &[
    NAME[0],
    Parameter { name: "trial", example: "true", doc: "Changes nothing, and says whether the batch would fit." },
];

const SLICE: Parameter = Parameter { name: "slice", example: "overlay", doc: "The name of the slice." };

const REINJECT: &[Parameter] = &[SLICE, NAME[0]];

const EDIT_SET: &[Parameter] = &[SET, NAME[0]];

const INJECT: &[Parameter] = &[
    Parameter { name: "port", example: "lan", doc: "The input port of the frames. With a single port it is optional." },
    Parameter {
        name: "ours",
        example: "true",
        doc: "Treats the frames as addressed to that port, regardless of their destination address.",
    },
];

const CONFIRM: Parameter = Parameter {
    name: "confirm",
    example: "60s",
    doc: "The router rolls back unless it receives `/v1/confirm` within this time (1s to 86400s), even if the caller is gone.",
};

const LOGIN: Parameter = Parameter {
    name: "login",
    example: "192.0.2.7,192.0.2.1",
    doc: "The login of the caller: its source and destination address, a dash if one is unknown. The router refuses a port that \
          would use the interface of this login. Over the remote API the connection itself counts as a login.",
};

const FORCE: Parameter =
    Parameter { name: "force", example: "true", doc: "Accepts ports that use the interface of the login." };

const APPLY: &[Parameter] = &[NAME[0], CONFIRM, LOGIN, FORCE];

const ROLLBACK: &[Parameter] = &[
    Parameter { name: "steps", example: "1", doc: "The number of configurations to go back." },
    Parameter { name: "to", example: "3", doc: "The generation to go back to." },
    CONFIRM,
    LOGIN,
    FORCE,
];

/// All addresses of the API.
pub const ENDPOINTS: &[Endpoint] = &[
    get("/v1/status", "The router as a whole.", json::<Status>("Status")),
    get("/v1/ports", "The ports, their interfaces and links.", json::<Ports>("Ports")),
    get("/v1/paths", "The switching paths.", json::<Paths>("Paths")),
    get("/v1/queues", "The queues of paths and links.", json::<QueuesReply>("QueuesReply")),
    Endpoint {
        parameters: &[
            Parameter { name: "port", example: "lan", doc: "Only those of this port." },
            Parameter {
                name: "samples",
                example: "10",
                doc: "The number of latest values of each series, 0 for none. The default is all 300.",
            },
        ],
        ..get(
            "/v1/links",
            "The link of each port: backlog, sojourn times, drops and marks by group of queues, and the state of the scheme.",
            json::<Links>("Links"),
        )
    },
    get("/v1/workers", "The workers and their progress.", json::<Workers>("Workers")),
    get("/v1/tasks", "The tasks of the CPU scheduler of each worker.", json::<TasksReply>("TasksReply")),
    Endpoint {
        parameters: &[
            Parameter {
                name: "prefix",
                example: "192.0.2.0/24",
                doc: "Only routes to destinations within this prefix.",
            },
            Parameter { name: "limit", example: "100", doc: "The limit of entries. The default is 1000." },
            Parameter { name: "origin", example: "api", doc: "Only routes of this origin." },
            Parameter { name: "vrf", example: "main", doc: "Only routes of this VRF; `main` is the default VRF." },
        ],
        ..get("/v1/routes", "The routes.", json::<Routes>("Routes"))
    },
    post(
        "/v1/routes",
        "Adds and removes routes and neighbours: all of a batch, or nothing. The body has one change a line; \
         `docs/operate/routes.md` describes them.",
        NAME,
        json::<Edited>("Edited"),
    ),
    get("/v1/routes/batch", "The progress of a running batch.", json::<Editing>("Editing")),
    get("/v1/sets", "The named sets.", json::<SetsReply>("SetsReply")),
    Endpoint {
        parameters: &[
            SET,
            Parameter { name: "first", example: "10.0.0.0/8", doc: "Only elements from this one on." },
            Parameter { name: "limit", example: "100", doc: "The limit of elements. The default is 1000." },
        ],
        ..get("/v1/sets/elements", "The elements of a set.", json::<SetElements>("SetElements"))
    },
    post(
        "/v1/sets/add",
        "Adds elements to a set, or changes their lifetimes: all, or none. The body has one element a line; \
         `docs/operate/sets.md` describes them.",
        EDIT_SET,
        json::<SetEdited>("SetEdited"),
    ),
    post(
        "/v1/sets/remove",
        "Removes elements of a set. The body has one element a line.",
        EDIT_SET,
        json::<SetEdited>("SetEdited"),
    ),
    post(
        "/v1/sets/replace",
        "Replaces all elements of a set at once. The body has one element a line.",
        EDIT_SET,
        json::<SetEdited>("SetEdited"),
    ),
    Endpoint {
        takes_text: false,
        ..post("/v1/sets/flush", "Removes all elements of a set.", &[SET], json::<SetEdited>("SetEdited"))
    },
    Endpoint {
        parameters: &[
            Parameter { doc: "Only this list: `paths`, or the name of a path with the function `filter`.", ..LIST },
            Parameter { name: "unused", example: "true", doc: "Only rules that have decided about no packet." },
            Parameter { name: "limit", example: "100", doc: "The limit of rules of each list. The default is 1000." },
        ],
        ..get(
            "/v1/rules",
            "The rules that select paths and those of filters, with their counters.",
            json::<RuleLists>("RuleLists"),
        )
    },
    post(
        "/v1/rules/batch",
        "Adds, removes and replaces rules of a list: all, or none. The body has one change a line; \
         `docs/operate/rules.md` describes them.",
        EDIT_RULES,
        json::<RulesEdited>("RulesEdited"),
    ),
    Endpoint {
        parameters: &[
            Parameter { doc: "Only the shares of this port.", ..SHARE_PORT },
            Parameter { name: "leaves", example: "true", doc: "Only shares without others below them." },
            Parameter {
                name: "sort",
                example: "drops",
                doc: "The shares with most `bytes`, `drops`, `sojourn` (99th percentile), `rate` or `use` of their ceiling first. \
                      The default is the order of the tree.",
            },
            Parameter { name: "limit", example: "100", doc: "The limit of shares of each port. The default is 1000." },
        ],
        ..get("/v1/shares", "The shares of ports, with their counters and rates.", json::<SharesReply>("SharesReply"))
    },
    post(
        "/v1/shares/batch",
        "Adds, changes, moves and removes shares of a port: all, or none. The body has one change a line; \
         `docs/operate/shares.md` describes them. Answers when the worker has carried them out, after 1 s at the latest.",
        EDIT_SHARES,
        json::<SharesEdited>("SharesEdited"),
    ),
    Endpoint {
        parameters: &[Parameter { name: "only", example: "overlay", doc: "Only the slice of this name." }],
        needs: AccessLevel::Slice,
        ..get("/v1/slices", "The slices of tenants, with their counters.", json::<SlicesReply>("SlicesReply"))
    },
    Endpoint {
        parameters: &[Parameter { name: "only", example: "overlay", doc: "Only the slice of this name." }],
        needs: AccessLevel::Slice,
        ..get(
            "/v1/slices/definitions",
            "The changes that make the slices as they are, for `/v1/slices/batch` after a restart or on another router.",
            json::<SliceDefinitions>("SliceDefinitions"),
        )
    },
    Endpoint {
        parameters: &[
            SLICE,
            Parameter { name: "from", example: "100", doc: "Only filters from this position on." },
            Parameter { name: "limit", example: "100", doc: "The limit of filters. The default is 1000." },
        ],
        needs: AccessLevel::Slice,
        ..get("/v1/slices/filters", "The filters of a slice.", json::<SliceFiltersReply>("SliceFiltersReply"))
    },
    Endpoint {
        parameters: &[SLICE],
        needs: AccessLevel::Slice,
        ..get("/v1/slices/stats", "The statistics of a slice.", json::<SliceStatsReply>("SliceStatsReply"))
    },
    Endpoint {
        parameters: &[
            SLICE,
            Parameter { name: "offset", example: "64", doc: "The first byte. The default is 0." },
            Parameter {
                name: "length",
                example: "8",
                doc: "The number of bytes, 65536 at most. By default all that follow.",
            },
        ],
        needs: AccessLevel::Slice,
        ..get("/v1/slices/memory", "The memory of a slice.", json::<SliceMemoryReply>("SliceMemoryReply"))
    },
    Endpoint {
        parameters: &[
            SLICE,
            Parameter { name: "limit", example: "10", doc: "The limit of packets. The default is 256." },
        ],
        takes_text: false,
        needs: AccessLevel::Slice,
        ..post(
            "/v1/slices/exceptions",
            "Gives out the packets for the slow path of a slice: each of them once.",
            &[],
            json::<SliceExceptionsReply>("SliceExceptionsReply"),
        )
    },
    Endpoint {
        parameters: &[SLICE],
        needs: AccessLevel::Slice,
        ..get(
            "/v1/slices/slow-path",
            "The packets for the slow path of a slice as they arrive, for one program of its owner or a caller with full access. The \
             answer ends when the client closes the connection, or with the slice.",
            AnswerType::Lines("SliceExceptionReply", |generator| {
                drop(generator.subschema_for::<SliceExceptionReply>());
            }),
        )
    },
    Endpoint {
        needs: AccessLevel::Slice,
        ..post(
            "/v1/slices/reinject",
            "Returns packets of the slow path of a slice to its fast path. The body has one packet a line; \
             `docs/operate/slices.md` describes them. If a line is wrong, no packet returns.",
            REINJECT,
            json::<SliceReinjected>("SliceReinjected"),
        )
    },
    Endpoint {
        needs: AccessLevel::Slice,
        ..post(
            "/v1/slices/batch",
            "Makes and changes slices. The body has one change a line; `docs/operate/slices.md` describes them. Lines before one \
             that is refused have taken effect. The owner of a slice may change its filters, queues and memory.",
            NAME,
            json::<SlicesEdited>("SlicesEdited"),
        )
    },
    Endpoint {
        parameters: &[Parameter { name: "limit", example: "100", doc: "The limit of flows. The default is 1000." }],
        ..get(
            "/v1/reservations",
            "The reserved flows, with what they were promised and the packets of their shares.",
            json::<FlowsReply>("FlowsReply"),
        )
    },
    post(
        "/v1/reservations/batch",
        "Reserves flows, renews and ends reservations: all, or none. The body has one change a line; \
         `docs/operate/reservations.md` describes them. Answers when the workers have carried them out, after 1 s at the latest.",
        EDIT_FLOWS,
        json::<FlowsEdited>("FlowsEdited"),
    ),
    Endpoint {
        parameters: &[
            Parameter {
                name: "worst",
                example: "drops",
                doc: "The subscribers with most `bytes`, `drops`, `sojourn`, `rate` or `use` in a direction first, or with the \
                      longest 95th percentile of round-trip times toward them (`rtt`). The default is the order of their file.",
            },
            Parameter { name: "limit", example: "100", doc: "The limit of subscribers. The default is 1000." },
        ],
        ..get(
            "/v1/subscribers",
            "The subscribers of the access network, with the counters and rates of both directions, and round-trip times.",
            json::<SubscribersReply>("SubscribersReply"),
        )
    },
    Endpoint {
        parameters: &[
            Parameter {
                name: "worst",
                example: "use",
                doc: "The sites that are worst in this order first, as for subscribers. The default is the order of the tree.",
            },
            Parameter { name: "limit", example: "100", doc: "The limit of sites. The default is 1000." },
        ],
        ..get(
            "/v1/sites",
            "The sites of the access network, each with the counters, rates and round-trip times of all subscribers below it.",
            json::<SitesReply>("SitesReply"),
        )
    },
    Endpoint {
        takes_text: false,
        ..post(
            "/v1/subscribers/reload",
            "Reads the files of subscribers again, and changes shares and circuits: all, or none.",
            &[],
            json::<SubscribersReloaded>("SubscribersReloaded"),
        )
    },
    get("/v1/functions", "The functions of paths and their counters.", json::<FunctionsReply>("FunctionsReply")),
    Endpoint {
        parameters: &[Parameter {
            name: "limit",
            example: "100",
            doc: "The limit of connections. The default is 1000.",
        }],
        ..get("/v1/nat", "Address translation and its connections.", json::<NatReply>("NatReply"))
    },
    get("/v1/state", "Ephemeral state: its stores, and the requests of packets.", json::<Ephemeral>("Ephemeral")),
    Endpoint {
        needs: AccessLevel::Full,
        parameters: &[
            Parameter { name: "port", example: "lan", doc: "Only entries of this port's store, or of `central`." },
            Parameter { name: "limit", example: "100", doc: "The limit of entries. The default is 1000." },
        ],
        ..get("/v1/state/entries", "The entries of its stores.", json::<EphemeralEntries>("EphemeralEntries"))
    },
    get(
        "/v1/policy",
        "The objectives of packets, and the schemes that policies selected.",
        json::<Policies>("Policies"),
    ),
    get("/v1/multicast", "The forwarded multicast groups.", json::<Multicast>("Multicast")),
    get(
        "/v1/linux",
        "The interfaces of the kernel, and the packets for programs of the machine.",
        json::<Linux>("Linux"),
    ),
    get("/v1/counters", "Every counter with a description.", json::<CountersReply>("CountersReply")),
    get("/v1/neighbours", "The neighbours.", json::<Neighbours>("Neighbours")),
    get("/v1/drops", "Drops by reason.", json::<Drops>("Drops")),
    Endpoint {
        parameters: &[Parameter { name: "since", example: "17", doc: "Only events with this number or a later one." }],
        ..get("/v1/events", "The last 500 events of each kind.", json::<Events>("Events"))
    },
    get(
        "/v1/accounting",
        "The packet ledgers, which check that every packet has exactly one fate.",
        json::<Ledgers>("Ledgers"),
    ),
    Endpoint {
        parameters: &[Parameter {
            name: "generation",
            example: "3",
            doc: "The generation, from the history. The default is the running one.",
        }],
        ..get("/v1/config", "The running configuration.", json::<Config>("Config"))
    },
    get("/v1/history", "The history of configurations, at most a hundred.", json::<History>("History")),
    Endpoint {
        needs: AccessLevel::Read,
        ..post("/v1/check", "Checks a configuration. Changes nothing.", NAME, json::<CheckReply>("CheckReply"))
    },
    Endpoint {
        needs: AccessLevel::Read,
        ..post(
            "/v1/diff",
            "Returns the changes that a configuration would cause. Changes nothing.",
            NAME,
            json::<Changes>("Changes"),
        )
    },
    post(
        "/v1/apply",
        "Applies a configuration: all of it, or nothing. Answers when every worker runs it. Refused while another one is \
         unconfirmed.",
        APPLY,
        json::<Applied>("Applied"),
    ),
    Endpoint {
        takes_text: false,
        ..post(
            "/v1/confirm",
            "Confirms the configuration that was applied with `confirm`.",
            &[],
            json::<Confirmed>("Confirmed"),
        )
    },
    Endpoint {
        takes_text: false,
        ..post(
            "/v1/rollback",
            "Applies an earlier configuration again, as a new generation. The default is the previous one.",
            ROLLBACK,
            json::<Applied>("Applied"),
        )
    },
    Endpoint {
        parameters: &[
            Parameter {
                name: "packet",
                example: "in lan ip saddr 192.0.2.7 daddr 198.51.100.9 udp dport 5060",
                doc: "The packet in words, as for `switchpath explain`. Missing fields have defaults.",
            },
            Parameter {
                name: "frame",
                example: "0200000000010200000000020806",
                doc: "The frame in hexadecimal, instead of `packet`.",
            },
            Parameter {
                name: "port",
                example: "lan",
                doc: "The input port of the frame. With a single port it is optional.",
            },
            Parameter {
                name: "ours",
                example: "true",
                doc: "Treats the frame as addressed to the port, regardless of its destination address.",
            },
        ],
        ..get(
            "/v1/explain",
            "Explains step by step how the router would handle a packet, and why. Sends nothing and counts nothing.",
            json::<ExplainReply>("ExplainReply"),
        )
    },
    Endpoint {
        needs: AccessLevel::Full,
        parameters: &[
            Parameter { name: "match", example: "ip dscp ef udp", doc: "Only these packets. The default is all." },
            Parameter { name: "limit", example: "1000", doc: "Ends after this number of packets." },
            Parameter { name: "snaplen", example: "128", doc: "The limit of bytes of each packet." },
            Parameter {
                name: "arrivals",
                example: "true",
                doc: "Captures each packet also as it arrived. Such a file can be replayed.",
            },
        ],
        ..get(
            "/v1/capture",
            "Captures every packet from now on, when its fate is known: a pcapng file that grows until its reader hangs up. The \
             comment of a packet is its fate, `sent PORT`, `consumed` or `dropped REASON`, then its path and its input port: `, \
             path NAME, in PORT`, or `, generated`. The trailer `switchpath-missed` counts packets that a slow reader missed.",
            AnswerType::Other("application/x-pcapng"),
        )
    },
    Endpoint {
        needs: AccessLevel::Full,
        parameters: &[
            Parameter { name: "match", example: "ip dscp ef udp", doc: "Only these packets. The default is all." },
            Parameter { name: "port", example: "lan", doc: "Only packets received by this port." },
            Parameter { name: "limit", example: "10", doc: "Ends after this number of packets." },
            Parameter {
                name: "rate",
                example: "100",
                doc: "The limit of traced packets per second. The default is 100.",
            },
            Parameter {
                name: "injected",
                example: "true",
                doc: "Traces exactly the packets of `/v1/inject`. Without it these are not traced.",
            },
        ],
        ..get(
            "/v1/trace",
            "Traces packets through the router from now on: a line of JSON (TracedPacket) for each packet with a known fate, \
             until the reader hangs up. Packets beyond the rate are not traced. The trailer `switchpath-missed` counts packets \
             that could not be traced, or that a slow reader missed.",
            AnswerType::Lines("TracedPacket", |generator| drop(generator.subschema_for::<TracedPacket>())),
        )
    },
    Endpoint {
        parameters: &[
            Parameter {
                name: "time",
                example: "200ms",
                doc: "The length of the trace, 1ms to 60s. The default is 1s.",
            },
            Parameter {
                name: "events",
                example: "1000000",
                doc: "The number of latest events to keep of each worker, at most 2000000. The default is 100000.",
            },
        ],
        ..get(
            "/v1/schedule",
            "Traces the CPU scheduler of each worker from now on, as a file of trace events for ui.perfetto.dev: runs with \
             their packets, bytes and cost, waits, time-outs, drops, queues, and the efficiency index. Answers at the end of the \
             time. Only one such trace can run at a time. The trailer `switchpath-missed` counts the oldest events, which were \
             overwritten.",
            AnswerType::Other("application/json"),
        )
    },
    post(
        "/v1/inject",
        "Injects frames at a port as if its device had received them. The body has a frame a line, in hexadecimal, at most 256 \
         of them. `/v1/trace` with `injected` reports their fates.",
        INJECT,
        json::<Injected>("Injected"),
    ),
    get(
        "/metrics",
        "All counters for Prometheus: OpenMetrics, or the older text format 0.0.4 if `Accept` asks for that.",
        AnswerType::Other("application/openmetrics-text; version=1.0.0; charset=utf-8"),
    ),
    get(
        "/v1/openapi.json",
        "The description of the API for programs (OpenAPI 3.1).",
        AnswerType::Other("application/json"),
    ),
];
