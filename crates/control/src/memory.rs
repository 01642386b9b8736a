//! Compares the memory that a configuration may need with this machine. Stores use memory as they fill, so a store that is too large is not refused.
//! A warning comes before the kernel has to kill the router.

use plan::Plan;
use plan::state::ExecutionPlaces;
use units::Bytes;

/// Returns the most memory of each store of ephemeral state, by the name of its port; the central one is last.
pub fn store_limits(plan: &Plan) -> Vec<(String, Bytes)> {
    let Some(state) = &plan.state else { return Vec::new() };
    let shards = usize::from(state.shards.unwrap_or(plan.workers));
    let memory = |capacity: u64| esp::bound::memory(capacity, shards);
    let ports = plan.ports.iter().filter(|port| port.state.at != ExecutionPlaces::None && !state.single_store);
    let of_port =
        |port: &plan::PortPlan| (port.name.to_string(), memory(port.state.capacity.unwrap_or(state.capacity)));
    let central = (state.central > 0).then(|| ("central".to_owned(), memory(state.central)));
    ports.map(of_port).chain(central).collect()
}

/// Returns the most memory of a port's tree of shares, of which so many are leaves; zero if the port has another scheme.
pub fn share_limit(port: &plan::PortPlan, shares: usize, leaves: usize) -> Bytes {
    link::share_memory(&port.scheme, shares, leaves).unwrap_or(Bytes::ZERO)
}

/// Returns the most memory of round-trip times with so many subscribers, among so many names of shares; zero if they are not measured.
pub fn round_trip_limit(plan: &Plan, subscribers: usize, names: usize) -> Bytes {
    let measured = plan.subscribers.as_ref().is_some_and(|section| section.rtt);
    if measured { subscribers::RoundTrips::memory_limit(subscribers, names) } else { Bytes::ZERO }
}

/// Returns a warning if the stores of a configuration may need more memory than this machine has left.
pub fn warning(plan: &Plan) -> Option<String> {
    exceeding(&store_limits(plan), io::memory::available()?)
}

fn exceeding(stores: &[(String, Bytes)], available: Bytes) -> Option<String> {
    let total = stores.iter().fold(Bytes::ZERO, |sum, (_, memory)| sum + *memory);
    let (name, largest) = stores.iter().max_by_key(|(_, memory)| *memory)?;
    (total > available).then(|| {
        let gigabytes = |bytes: Bytes| format!("{:.1} GB", bytes.get() as f64 / 1e9);
        format!(
            "the stores of ephemeral state can use {} of memory ({} of it at '{name}'), but this machine has {} left: lower \
             `capacity` in [state]",
            gigabytes(total),
            gigabytes(*largest),
            gigabytes(available)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_beyond_available_memory_cause_warning() {
        let stores = [("lan".to_owned(), Bytes::new(3_000_000_000)), ("wan".to_owned(), Bytes::new(1_500_000_000))];
        assert_eq!(exceeding(&stores, Bytes::new(4_500_000_000)), None);
        let said = exceeding(&stores, Bytes::new(4_499_999_999)).unwrap();
        assert!(said.contains("4.5 GB of memory (3.0 GB of it at 'lan')"), "{said}");
        assert_eq!(exceeding(&[], Bytes::ZERO), None);
    }
}
