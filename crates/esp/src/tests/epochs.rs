//! Epochs at a router whose entries expire.

use super::hook::{LEFT, RIGHT, router};
use super::{Place, packet};
use crate::hook::{self, StateHook};
use crate::host::{Action, Epochs, Layers};
use crate::site::{InstructionFate, Location};
use crate::store::{LIFETIME, StoreSpec, mix};
use crate::wire::Part;
use units::{Instant, Nanos, PortId};

/// The fate of a part at a port.
fn pass(port: &mut Place, location: Location, part: &Part) -> InstructionFate {
    port.pass(location, &mut packet(part))
}

/// Data passes as long as a receiver repeats its mark twice per epoch, whenever it starts. Two thirds of a lifetime after the last mark data is
/// dropped.
#[test]
fn mark_expires_at_most_two_epochs_after_its_last_repetition() {
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
                assert_eq!(
                    fate,
                    InstructionFate::Forwarded,
                    "{offset}: at {:?} of {:?}",
                    now.since(begin),
                    LIFETIME * 3
                );
            } else if now >= end + epochs.length() * 2 {
                assert_eq!(fate, InstructionFate::Dropped);
            }
            now += step;
        }
    }
}

/// A router, two routers below it, and two receivers at each of those. Packets arrive without delay.
struct Branches {
    top: StateHook,
    below: [StateHook; 2],
    now: Instant,
}

/// The ports of a router towards the routers below it.
const DOWN: [PortId; 2] = [LEFT, RIGHT];
const RECEIVERS: usize = 4;
const LAYERS: u64 = 4;

impl Branches {
    fn new() -> Branches {
        let made = |node| {
            let mut spec = router(1);
            spec.rules.node = node;
            spec.make().hooks.remove(0)
        };
        Branches { top: made(1), below: [made(2), made(3)], now: Instant::new(40_000_000_000) }
    }

    /// True if a packet leaves a place of a router.
    fn leaves(station: &mut StateHook, place: hook::HookPoint, now: Instant, packet: &mut Vec<u8>) -> bool {
        let mut fates = [InstructionFate::Dropped];
        station.visit(place, now, std::slice::from_mut(packet), &mut fates);
        matches!(fates[0], InstructionFate::Forwarded | InstructionFate::PassedThrough)
    }

    /// True if a receiver's packet reaches the source.
    fn up(&mut self, receiver: usize, part: &Part) -> bool {
        let (mut packet, now) = (packet(part), self.now);
        let (below, at) = (receiver / 2, hook::HookPoint::Input(DOWN[receiver % 2]));
        let beneath = Branches::leaves(&mut self.below[below], at, now, &mut packet);
        beneath && Branches::leaves(&mut self.top, hook::HookPoint::Input(DOWN[below]), now, &mut packet)
    }

    /// Sends all parts that a receiver has to send now.
    fn send_layers(&mut self, receiver: usize, layers: &mut Layers) {
        while let Action::Send(part) = layers.poll(self.now) {
            self.up(receiver, &part);
        }
    }

    /// The receivers that get data of a layer, and the number of copies that leave the top router.
    fn data(&mut self, epochs: &Epochs, layer: u64) -> ([bool; RECEIVERS], usize) {
        let (now, mut got, mut copies) = (self.now, [false; RECEIVERS], 0);
        let data = packet(&epochs.if_subscribed(epochs.at(now), layer));
        for below in 0..2 {
            let out = |receiver: usize| hook::HookPoint::Output(DOWN[receiver % 2]);
            if Branches::leaves(&mut self.top, out(below), now, &mut data.clone()) {
                copies += 1;
                for receiver in [2 * below, 2 * below + 1] {
                    let below = &mut self.below[below];
                    got[receiver] = Branches::leaves(below, out(receiver), now, &mut data.clone());
                }
            }
        }
        (got, copies)
    }
}

/// A layer stops on a branch with the packet of the last receiver that leaves it. Other branches are not affected (spec E-47).
#[test]
fn layer_stops_on_a_branch_when_its_last_receiver_leaves() {
    let epochs = Epochs::new(7, LIFETIME);
    let mut tree = Branches::new();
    tree.now = epochs.start(9);
    let mut all: Vec<Layers> = (0..RECEIVERS as u64).map(|n| Layers::new(epochs, mix(n, 99), LAYERS)).collect();
    for (receiver, layers) in all.iter_mut().enumerate() {
        tree.send_layers(receiver, layers);
    }
    assert_eq!(tree.data(&epochs, 3), ([true; RECEIVERS], 2));
    assert_eq!(tree.data(&epochs, 4), ([false; RECEIVERS], 0), "nobody wants as many");
    let shed = |tree: &mut Branches, receiver: usize| {
        let part = epochs.unsubscribe(9, 3, mix(receiver as u64, 99));
        tree.up(receiver, &part)
    };
    // Receiver 2 registered the branch upstream, but the router still knows that another one is behind the port.
    assert!(!shed(&mut tree, 2));
    assert_eq!(tree.data(&epochs, 3), ([true, true, false, true], 2));
    assert!(!shed(&mut tree, 2), "repeated, as it may have been lost");
    assert_eq!(tree.data(&epochs, 3), ([true, true, false, true], 2));
    assert!(shed(&mut tree, 3), "nobody behind that port wants it any more, and who is before the router may know");
    assert_eq!(tree.data(&epochs, 3), ([true, true, false, false], 1));
    assert_eq!(tree.data(&epochs, 2), ([true; RECEIVERS], 2));
    assert!(!shed(&mut tree, 0));
    assert!(shed(&mut tree, 1));
    assert_eq!(tree.data(&epochs, 3), ([false; RECEIVERS], 0));
}

/// Receivers change their layers at random times. None gets a layer it has left, and each gets the layers it has wanted for an epoch.
#[test]
fn receivers_get_the_layers_that_they_want() {
    let epochs = Epochs::new(7, LIFETIME);
    let mut tree = Branches::new();
    let mut all: Vec<Layers> = (0..RECEIVERS as u64).map(|n| Layers::new(epochs, mix(n, 77), 0)).collect();
    let mut wants = [(0, tree.now); RECEIVERS];
    let step = Nanos::new(epochs.length().get() / 13);
    let mut seen = [0; 2];
    for drawn in 0..2000 {
        tree.now += step;
        for (receiver, layers) in all.iter_mut().enumerate() {
            let chance = mix(drawn, receiver as u64);
            if chance.is_multiple_of(30) {
                wants[receiver] = (chance >> 8 & 3, tree.now);
                layers.set_layers(wants[receiver].0);
            }
            tree.send_layers(receiver, layers);
        }
        for layer in 0..3 {
            let (got, copies) = tree.data(&epochs, layer);
            for (receiver, (wanted, since)) in wants.into_iter().enumerate() {
                assert!(!got[receiver] || layer < wanted, "{receiver} has done without {layer}");
                let long = tree.now.since(since) >= epochs.length() * 2;
                assert!(got[receiver] || layer >= wanted || !long, "{receiver} has wanted {layer} for long");
                seen[usize::from(got[receiver])] += 1;
            }
            let branch = |below: usize| (0..2).any(|n| wants[2 * below + n].0 > layer);
            assert!(copies <= (0..2).filter(|below| branch(*below)).count(), "no branch carries what nobody wants");
        }
    }
    assert!(seen.into_iter().all(|times| times > 3000), "{seen:?}");
}
