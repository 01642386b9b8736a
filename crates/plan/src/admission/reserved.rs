//! The shares of the ports' tasks that reservations need.

use super::demand::{Load, ReservationDemand, WHOLE};
use super::division::LEAST;
use super::error::Warning;
use crate::Plan;

/// The shares of each port's tasks for reservations. A reservation that may enter or leave by several ports counts in full for each of them. If the
/// total does not fit then, it is divided equally among its ports.
#[derive(Clone, Debug)]
pub(super) struct ReservationShares {
    pub inputs: Vec<Load>,
    pub outputs: Vec<Load>,
    /// The total for reservations, in nanoseconds per second.
    pub reserved: u64,
}

impl ReservationShares {
    pub fn of(claims: &[ReservationDemand], warnings: &mut Vec<Warning>, plan: &Plan) -> ReservationShares {
        let full = ReservationShares::with(claims, plan.ports.len(), |_| 1);
        if full.reserved <= WHOLE - LEAST {
            return full;
        }
        let several = claims.iter().filter(|claim| claim.entries.len() > 1 || claim.exits.len() > 1);
        warnings.extend(several.map(|claim| Warning {
            about: format!("path.{}", plan.paths[claim.path].name),
            reason: "its packets may enter or leave by several ports, and the processor cannot serve its full rate at each".into(),
            hint: "match the input interface (`iif`) and the destination (`ip daddr`)".into(),
        }));
        ReservationShares::with(claims, plan.ports.len(), |ports| ports as u64)
    }

    fn with(claims: &[ReservationDemand], ports: usize, divisor: impl Fn(usize) -> u64) -> ReservationShares {
        let mut spread = ReservationShares {
            inputs: vec![Load::default(); ports],
            outputs: vec![Load::default(); ports],
            reserved: 0,
        };
        let add = |loads: &mut [Load], ports: &[usize], load: Load| {
            let each = load.part(1, divisor(ports.len()).max(1));
            ports.iter().for_each(|&port| loads[port] = loads[port].plus(each));
            each.total() * ports.len() as u64
        };
        for claim in claims {
            spread.reserved += claim.forwarding.total() + claim.tax;
            spread.reserved += add(&mut spread.inputs, &claim.entries, claim.input);
            spread.reserved += add(&mut spread.outputs, &claim.exits, claim.output);
        }
        spread
    }
}
