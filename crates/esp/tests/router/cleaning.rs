//! Cleaning of expired entries, in each mode.

use super::{
    CARRIAGES, COUNT, EVERYWHERE, LAN, PORTS, THERE, config, executed, frame, part, rig, send_through, state_report,
    store,
};
use esp::isa::StateInstruction;
use esp::wire::{Locations, dedicated};
use esp::{Cleaners, Executor};
use packet::event::Silent;
use plane::rig::Rig;
use plane::snapshot::Layout;
use std::sync::Arc;
use units::{Instant, Nanos};

/// Expired entries are freed even if no packet arrives.
#[test]
fn stores_are_cleaned_without_packets() {
    for cleaner in ["inline", "assist"] {
        let mut rig = rig(&format!("cleaner = '{cleaner}'\nlifetime = '1s'\n"));
        for tag in 0..50 {
            assert!(send_through(&mut rig, &part(EVERYWHERE, StateInstruction::Mark { tag, value: 1 })).is_some());
        }
        let told = state_report(&rig);
        assert_eq!(store(&told, None).live, 50);
        // The worker that cleans for all reports how many instructions it executed besides (spec E-33). With inline cleaning no worker assists.
        let assisting: Vec<u64> = told.stores.iter().map(|store| store.assisting).collect();
        assert_eq!(assisting, if cleaner == "assist" { [50; 3] } else { [0; 3] }, "{cleaner}");
        rig.advance(Nanos::millis(1100));
        let told = state_report(&rig);
        assert!(told.stores.iter().all(|store| (store.live, store.expired) == (0, 0)), "{cleaner}: {told:?}");
        let lag = store(&told, None).lag.unwrap();
        assert!(lag <= Nanos::millis(20), "{cleaner}: {lag}");
    }
}

/// The holder of the cleaners frees expired entries. A cleaner ends with its store.
#[test]
fn dedicated_thread_cleans_stores() {
    let cleaners = Cleaners::default();
    let mut rig = Rig::new(512, Layout::Three, Box::new(Silent));
    rig.router.set_hook_maker(Arc::new(Executor::new().cleaned_by(cleaners.clone())));
    rig.apply(&config("lifetime = '1s'\ncleaner = 'dedicated'\n")).unwrap();
    rig.settle();
    assert_eq!(cleaners.count(), 3, "of two ports and the centre");
    assert!(send_through(&mut rig, &part(Locations::INPUT, COUNT)).is_some());
    let told = |rig: &Rig| {
        let store = store(&state_report(rig), Some(0)).clone();
        (store.live, store.expired, store.freed)
    };
    assert_eq!((told(&rig), cleaners.clean(|| rig.now) > rig.now), ((1, 0, 0), true));
    rig.advance(Nanos::secs(2));
    rig.settle();
    assert_eq!(told(&rig), (0, 1, 0), "no worker does it");
    let time = std::cell::Cell::new(rig.now);
    let ticking = || time.replace(time.get() + Nanos::micros(1));
    assert_eq!(cleaners.clean(ticking), Instant::NEVER);
    assert_eq!(told(&rig), (0, 0, 1));
    assert_eq!(
        store(&state_report(&rig), Some(0)).cleaning,
        Nanos::micros(1),
        "from one look at the clock to the next"
    );
    let lags = store(&state_report(&rig), Some(0)).lags.clone();
    assert_eq!((lags.count(), lags.most() >= Nanos::millis(999)), (1, true), "{lags:?}");
    // A change that does not concern the stores keeps their cleaners.
    rig.apply(&config("lifetime = '1s'\ncleaner = 'dedicated'\non_abort = 'drop'\n")).unwrap();
    cleaners.clean(|| rig.now);
    assert_eq!(cleaners.count(), 3);
    rig.apply(PORTS).unwrap();
    cleaners.clean(|| rig.now);
    assert_eq!(cleaners.count(), 0);
}

/// Even with a short lifetime, expired entries are free within a quarter of it (spec E-33), so a store sized by the bound is never full.
#[test]
fn stores_of_short_lifetimes_are_cleaned_in_time() {
    for cleaner in ["inline", "assist"] {
        let mut rig = rig(&format!("lifetime = '4ms'\ncleaner = '{cleaner}'\n"));
        let mut tag = 0;
        for _ in 0..40 {
            for _ in 0..240 {
                tag += 1;
                let put = part(Locations::INPUT, StateInstruction::Put { tag, value: 1 });
                rig.send("lan", &frame(LAN, &dedicated(&CARRIAGES, THERE, &put)));
                rig.settle();
                rig.received("wan");
            }
            rig.advance(Nanos::millis(1));
        }
        let told = state_report(&rig);
        let (lan, created) = (store(&told, Some(0)), 40 * 240);
        assert_eq!((executed(lan, "input", "put"), lan.created), ((created, 0), created), "{cleaner}");
        assert!(lan.lag.is_some_and(|lag| lag <= Nanos::millis(1)), "{cleaner}: {:?}", lan.lag);
    }
}
