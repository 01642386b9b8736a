//! The function `dispatch`: classifies packets by their payload, and gives each to the path for its content (spec Q-06).
//!
//! The classifier is cheap: it sends all packets here that may match. This path pays for reading payloads, out of its own CPU share. The
//! server's name is in one packet of a connection. Later TCP packets follow that one by a table of flows. Earlier packets of the connection,
//! such as its handshake, use this path, and a later packet on the other path may overtake them.

use super::{Context, Function, FunctionRegistration, NamedCounter};
use packet::wire::application::{self, MOST_NAME};
use packet::wire::{PacketFields, flow_hash, protocol};
use packet::{Exception, Packet};
use plan::{Call, DispatchRule, PayloadCondition};
use units::declare::{Declaration, DeclaredCost, OptionDeclaration, Unit};
use units::{Nanos, PathId};

/// A rule with its counters.
#[derive(Clone, Debug)]
struct Rule {
    rule: DispatchRule,
    path: PathId,
    packets: u64,
    bytes: u64,
}

pub(super) const REGISTRATION: FunctionRegistration = FunctionRegistration {
    declaration: Dispatching::DECLARATION,
    make: |call, path| Box::new(Dispatching::of(call, &path.dispatch)),
};

/// The function `dispatch`.
#[derive(Clone, Debug)]
pub struct Dispatching {
    rules: Vec<Rule>,
    /// Packets and bytes that matched no rule.
    others: (u64, u64),
    /// TCP flows with a known path, by their hash. A later flow replaces an earlier one with the same hash.
    flows: Box<[Flow]>,
}

/// A flow and its rule, counted from 1. Zero: no rule.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    hash: u32,
    rule: u16,
}

/// The part of a packet that rules match.
enum L4Payload<'a> {
    Tcp(&'a [u8]),
    Udp(&'a [u8]),
}

/// Flags of TCP: the first begins a connection, the other ends it at once (RFC 9293 3.1).
const SYN: u8 = 2;
const RST: u8 = 4;

impl Dispatching {
    /// Its declaration.
    pub const DECLARATION: Declaration = Declaration {
        name: "dispatch",
        summary: "inspect the payload, and send the packet to the path named by a rule in `dispatch` of the path",
        cost: DeclaredCost::Measured { packet: Nanos::new(100), kilobyte: Nanos::ZERO },
        source: "Qie et al. 2001, section 3.1; RFC 6066, RFC 9112, RFC 1035",
        options: &[OptionDeclaration {
            name: "flows",
            unit: Unit::Count,
            default: "4096",
            least: 1,
            most: 1 << 20,
            doc: "TCP connections whose path is remembered at each port, rounded up to a power of two",
        }],
    };

    /// Builds the function from `call` and these rules, each with its target path.
    pub fn of(call: &Call, rules: &[(DispatchRule, PathId)]) -> Dispatching {
        let rule =
            |(rule, path): &(DispatchRule, PathId)| Rule { rule: rule.clone(), path: *path, packets: 0, bytes: 0 };
        let flows = call.option("flows").unwrap_or(1) as usize;
        Dispatching {
            rules: rules.iter().map(rule).collect(),
            others: (0, 0),
            // The default matches no flow: rule zero is none.
            flows: vec![Flow::default(); flows.next_power_of_two()].into(),
        }
    }

    /// The index of the rule that a packet matches.
    fn match_rule(&mut self, key: u64, packet: &Packet) -> Option<usize> {
        let bytes = packet.bytes();
        let fields = PacketFields::of(bytes)?;
        let upper = bytes.get(fields.l4_offset?..)?;
        let payload = application::payload(fields.protocol, upper)?;
        if fields.protocol != protocol::TCP {
            return self.find(&L4Payload::Udp(payload));
        }
        let hash = flow_hash(bytes, fields.l3_offset, key);
        // A mask suffices, because the table's size is a power of two.
        let place = hash as usize & (self.flows.len() - 1);
        let flags = upper.get(13).copied().unwrap_or(0);
        let known = self.flows[place];
        // A SYN begins a new connection, whose rule is not known yet.
        if flags & SYN == 0 && known.rule > 0 && known.hash == hash {
            // After a reset the same ports may carry another connection.
            if flags & RST != 0 {
                self.flows[place] = Flow::default();
            }
            return Some(usize::from(known.rule) - 1);
        }
        let found = self.find(&L4Payload::Tcp(payload));
        if let Some(found) = found {
            self.flows[place] = Flow { hash, rule: found as u16 + 1 };
        } else if known.hash == hash {
            // A new connection between the same endpoints.
            self.flows[place] = Flow::default();
        }
        found
    }

    fn find(&self, seen: &L4Payload<'_>) -> Option<usize> {
        let mut text = [0; MOST_NAME];
        let (payload, tls, http, dns) = match seen {
            // A handshake or a pure acknowledgement has no payload.
            L4Payload::Tcp([]) => return None,
            L4Payload::Tcp(payload) => {
                (payload, application::tls_server_name(payload), application::http_host(payload), None)
            }
            L4Payload::Udp(payload) => (payload, None, None, application::dns_question(payload, &mut text)),
        };
        let holds = |rule: &Rule| match &rule.rule.condition {
            PayloadCondition::TlsName(pattern) => tls.is_some_and(|name| pattern.matches(name)),
            PayloadCondition::HttpHost(pattern) => http.is_some_and(|name| pattern.matches(name)),
            PayloadCondition::DnsName(pattern) => dns.is_some_and(|name| pattern.matches(name)),
            PayloadCondition::Bytes(at, bytes) => payload.get(*at..).is_some_and(|rest| rest.starts_with(bytes)),
        };
        self.rules.iter().position(holds)
    }
}

impl Function for Dispatching {
    fn process(&mut self, context: Context<'_>, packets: &mut [Packet]) -> bool {
        let (mut all, key) = (true, context.tables.flow_key());
        for packet in packets {
            if packet.meta().refused | packet.meta().exception != 0 {
                all = false;
                continue;
            }
            let length = packet.len() as u64;
            let Some(rule) = self.match_rule(key, packet) else {
                self.others = (self.others.0 + 1, self.others.1 + length);
                continue;
            };
            let rule = &mut self.rules[rule];
            (rule.packets, rule.bytes) = (rule.packets + 1, rule.bytes + length);
            let meta = packet.meta_mut();
            // `Classifier::classify_again` reads the path of a dispatched packet from its record.
            (meta.path, meta.exception) = (rule.path, Exception::Dispatched as u8);
            all = false;
        }
        all
    }

    fn counters(&self) -> Vec<NamedCounter> {
        let rule =
            |rule: &Rule| NamedCounter { name: rule.rule.to_string().into(), packets: rule.packets, bytes: rule.bytes };
        let (packets, bytes) = self.others;
        let others = NamedCounter { name: "no rule".into(), packets, bytes };
        self.rules.iter().map(rule).chain([others]).collect()
    }
}
