//! What holds for an epoch, at a router that forgets.

use super::{Place, packet};
use crate::host::Epochs;
use crate::site::{Fate, Location};
use crate::store::{LIFETIME, StoreSpec};
use crate::wire::Part;
use units::{Instant, Nanos};

/// A port, and what becomes of a part there.
fn pass(port: &mut Place, location: Location, part: &Part) -> Fate {
    port.pass(location, &mut packet(part))
}

/// Whatever moment receivers begin and end at: as long as they say so twice an epoch data passes, and two thirds of a lifetime later not.
#[test]
fn a_mark_lasts_as_long_as_it_is_repeated_and_two_epochs_more_at_most() {
    let epochs = Epochs::new(7, LIFETIME);
    for offset in [0, 1, 333, 3_333, 9_000] {
        let mut port = Place::new(StoreSpec::of(100));
        let begin = Instant::new(40_000_000_000) + Nanos::millis(offset);
        let step = Nanos::millis(100);
        let end = begin + LIFETIME * 3;
        let mut now = begin;
        while now < end + epochs.length() * 3 {
            port.now = now;
            let epoch = epochs.at(now);
            if now < end && (now.since(begin).get() / step.get()).is_multiple_of(15) {
                for epoch in [epoch, epoch + 1] {
                    pass(&mut port, Location::Input, &epochs.mark(epoch));
                }
            }
            let fate = pass(&mut port, Location::Output, &epochs.if_marked(epoch));
            if now < end {
                assert_eq!(fate, Fate::Forwarded, "{offset}: at {:?} of {:?}", now.since(begin), LIFETIME * 3);
            } else if now >= end + epochs.length() * 2 {
                assert_eq!(fate, Fate::Dropped);
            }
            now += step;
        }
    }
}

#[test]
fn a_port_allows_the_highest_layer_that_somebody_behind_it_wants() {
    let epochs = Epochs::new(7, LIFETIME);
    let mut port = Place::new(StoreSpec::of(100));
    let layers = |port: &mut Place, epoch| {
        let passes = |layer: &u64| pass(port, Location::Output, &epochs.if_wanted(epoch, *layer)) == Fate::Forwarded;
        (0..5).filter(passes).count()
    };
    assert_eq!(layers(&mut port, 3), 0);
    assert_eq!(pass(&mut port, Location::Input, &epochs.want(3, 1)), Fate::Forwarded);
    assert_eq!(pass(&mut port, Location::Input, &epochs.want(3, 3)), Fate::Forwarded);
    assert_eq!(pass(&mut port, Location::Input, &epochs.want(3, 2)), Fate::Dropped, "others want more");
    assert_eq!(pass(&mut port, Location::Input, &epochs.want(3, 3)), Fate::Forwarded, "it may have been lost");
    assert_eq!((layers(&mut port, 3), layers(&mut port, 4)), (4, 0));
}
