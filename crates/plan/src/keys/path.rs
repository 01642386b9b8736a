//! The keys of a `[[path]]`.

use super::{Form, Key, Kind, key, required};
use crate::objective::Objective;

const QUEUE: Kind = Kind::Integer { least: 1, most: 65_536 };

pub(crate) const PATH: &[Key] = &[
    required("name", Kind::Text(Form::PathName), "\"voice\"", "The name of the path."),
    required(
        "match",
        Kind::Text(Form::Match),
        "\"ip dscp ef udp dport 5060\"",
        "The packets that take it; see Matches.",
    ),
    key("functions", Kind::Texts(Form::Function), "[\"ip\"]", "[\"ip\"]", "What is done to each packet, in order."),
    key(
        "filter",
        Kind::Texts(Form::FilterRule),
        "[]",
        "[\"tcp dport { 22, 443 } accept\", \"drop\"]",
        "The rules of the function `filter`: the first that holds decides; what none is about goes on.",
    ),
    key(
        "dispatch",
        Kind::Texts(Form::DispatchRule),
        "[]",
        "[\"tls name *.example.org video\", \"payload 0 0x16 secure\"]",
        "The rules of the function `dispatch`: what a packet carries (`tls name`, `http host`, `dns name`, or bytes of the \
         payload from an offset on), and the path it takes; what none is about stays.",
    ),
    key("queue", QUEUE, "512", "512", "Packets that wait at most in each queue of the path."),
    key("input_queue", QUEUE, "", "128", "Packets that wait at most for its functions; by default `queue`."),
    key("output_queue", QUEUE, "", "1024", "Packets that wait at most for its port; by default `queue`."),
    key(
        "class",
        Kind::Integer { least: 0, most: 255 },
        "",
        "2",
        "The class that queueing schemes see; by default 1 with `reserve` and 0 without. The router's own packets have 255.",
    ),
    key(
        "objective",
        Kind::Text(Form::Choice(Objective::NAMES)),
        "",
        "\"delay\"",
        "What its packets want, whatever their code points say: `throughput`, `delay`, `power`, `fct`, `tail`, `none`.",
    ),
    key(
        "reserve",
        Kind::Text(Form::Reserve),
        "",
        "\"49kpps\"",
        "The rate it is promised, in packets or in bits a second; without it the path is best effort.",
    ),
    key(
        "packet",
        Kind::Text(Form::Size),
        "",
        "\"200b\"",
        "With `reserve`: the size of its packets, Ethernet header included; needed where the rate is in bits.",
    ),
    key(
        "delay",
        Kind::Text(Form::Time),
        "",
        "\"2ms\"",
        "With `reserve`: how long a packet may take through the router.",
    ),
    key(
        "share",
        Kind::Text(Form::Part),
        "",
        "\"5%\"",
        "The forwarding task's part of the processor; by default it follows from the reservation, or best effort divides \
         what is left.",
    ),
    key(
        "max_wait",
        Kind::Text(Form::Wait),
        "",
        "\"500us\"",
        "Under `throttle`: how long it waits for more packets; `none` is as long as others have enough to do. By default \
         as `[cpu]` says.",
    ),
    key(
        "cost",
        Kind::Text(Form::Cost),
        "",
        "\"1us + 2ns/b\"",
        "What its functions take for a packet; by default as they declare, then as measured.",
    ),
    key(
        "limit",
        Kind::Text(Form::Time),
        "",
        "\"50us\"",
        "A packet whose functions take longer is dropped, and counted; by default it may take as long as it takes.",
    ),
    key(
        "preemptible",
        Kind::Boolean,
        "false",
        "true",
        "Whether its functions give the processor back when their slice is over, in the middle of a packet too: for those \
         that are dear, or not trusted to return.",
    ),
];
