//! The values of a router's ephemeral state.

use esp::report::{PlaceReport, StateReport, StoreReport};
use std::collections::BTreeMap;
use units::PortId;

/// Adds the values by name, as differences to `was`.
pub(super) fn report(
    now: &StateReport,
    was: &StateReport,
    name: impl Fn(PortId) -> Option<String>,
    mut put: impl FnMut(String, f64),
) {
    let mut reasons: BTreeMap<&str, f64> = BTreeMap::new();
    for store in &now.stores {
        let Some(of) = store.port.map_or(Some("central".to_owned()), &name) else { continue };
        let before = was.stores.iter().find(|before| before.port == store.port).cloned().unwrap_or_default();
        // A store that was created anew has smaller counts than before, so the difference saturates.
        let since = |of: &dyn Fn(&StoreReport) -> u64| of(store).saturating_sub(of(&before)) as f64;
        put(format!("{of}.executed"), since(&|store| executed(store, |(_, on, ended)| on + ended)));
        put(format!("{of}.dropped"), since(&|store| executed(store, |(_, _, ended)| ended)));
        put(format!("{of}.aborted"), since(&|store| aborted(store, |_| true)));
        put(format!("{of}.overloaded"), since(&|store| store.places.iter().map(|place| place.overloaded).sum()));
        put(format!("{of}.created"), since(&|store| store.created));
        put(format!("{of}.live"), store.live as f64);
        put(format!("{of}.high_water"), store.high_water as f64);
        store.lag.into_iter().for_each(|lag| put(format!("{of}.lag_us"), lag.get() as f64 / 1e3));
        for (why, ..) in store.places.iter().flat_map(|place: &PlaceReport| &place.aborted) {
            reasons.entry(why).or_default();
        }
        for (why, sum) in &mut reasons {
            *sum += since(&|store| aborted(store, |of| of == *why));
        }
    }
    for (why, count) in reasons.into_iter().filter(|(_, count)| *count > 0.0) {
        put(format!("aborted.{why}"), count);
    }
    put("handed".to_owned(), now.handed_off.saturating_sub(was.handed_off) as f64);
}

fn executed(store: &StoreReport, of: impl Fn((&str, u64, u64)) -> u64) -> u64 {
    store.places.iter().flat_map(|place| &place.executed).map(|one| of(*one)).sum()
}

fn aborted(store: &StoreReport, which: impl Fn(&str) -> bool) -> u64 {
    let all = store.places.iter().flat_map(|place| &place.aborted);
    all.filter(|(why, ..)| which(why)).map(|(.., count)| count).sum()
}
