//! The function `nat`. Packets of a path that leave for the outside get one of the router's addresses as their source, and replies to it are
//! translated back to the inside. The translation is in [`nat`]; its rules are the configuration's `[nat]`.

use super::{Context, Function, FunctionRegistration};
use ::nat::apply_verdict;
use packet::{Meta, Packet};
use units::Nanos;
use units::declare::{Declaration, DeclaredCost};

pub(super) const REGISTRATION: FunctionRegistration =
    FunctionRegistration { declaration: Translation::DECLARATION, make: |_, _| Box::new(Translation) };

/// The function `nat`.
#[derive(Clone, Copy, Debug)]
pub struct Translation;

impl Translation {
    /// Its declaration.
    pub const DECLARATION: Declaration = Declaration {
        name: "nat",
        summary: "IPv4 address and port translation, by the rules of [nat]",
        cost: DeclaredCost::Measured { packet: Nanos::new(60), kilobyte: Nanos::ZERO },
        source: "RFC 4787, 5382, 5508",
        options: &[],
    };
}

impl Function for Translation {
    fn process(&mut self, context: Context<'_>, packets: &mut [Packet]) -> bool {
        let Some(rules) = &context.snapshot.nat else { return true };
        let concerned = |packet: &Packet| {
            let meta = packet.meta();
            meta.refused | meta.exception == 0 && meta.flags & (Meta::IPV6 | Meta::TRANSLATED) == 0
        };
        // Locked once for the batch: all workers share the state.
        let done = context.nat.with(|state| {
            state.expire_batch(rules, context.now);
            let mut all = true;
            for packet in packets.iter_mut() {
                if concerned(packet) {
                    let verdict = state.translate(rules, packet, context.now);
                    all &= apply_verdict(packet, verdict);
                }
                // Also for packets that an earlier function has diverted.
                all &= packet.meta().refused | packet.meta().exception == 0;
            }
            all
        });
        // Without state nothing is translated. Workers do not see this: the state exists from before `[nat]` is adopted until it is left.
        done.unwrap_or(true)
    }
}
