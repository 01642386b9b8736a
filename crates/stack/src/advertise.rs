//! Router advertisements: their times and contents (RFC 4861 6.2, RFC 4191, RFC 8106).

use super::output::packet_with;
use super::{LocalProtocols, TimedAction, World};
use packet::event::Event;
use packet::wire::ndp::{self, NdpOption, NdpOptions, RouterParameters};
use packet::wire::{RouterAdvertisement, ipv6};
use plan::{RaPlan, RouterPreference};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use units::{Instant, InterfaceId, Nanos};

/// RFC 4861 10: the first few advertisements are frequent, because hosts wait for them.
const INITIAL: u8 = 3;
const INITIAL_INTERVAL: Nanos = Nanos::secs(16);
/// RFC 4861 10: a solicitation is answered within the first time, but not sooner than the second after the last advertisement.
const ANSWER_DELAY: Nanos = Nanos::millis(500);
const LEAST_DELAY: Nanos = Nanos::secs(3);
/// RFC 4861 10: the number of advertisements with a zero lifetime when the router stops advertising.
const FINAL: u8 = 3;
/// The number of contradicting routers that are remembered, and the time before one is reported again.
const OTHERS: usize = 16;
const CONTRADICTION_INTERVAL: Nanos = Nanos::secs(600);

/// The advertisements of an interface.
#[derive(Clone, Debug)]
pub(super) struct Advertiser {
    plan: Arc<RaPlan>,
    /// The number of initial advertisements left.
    initial: u8,
    /// The number of final advertisements left, if advertising was switched off.
    final_left: Option<u8>,
    last: Option<Instant>,
    /// Routers that have contradicted this one, and when.
    contradicting: BTreeMap<Ipv6Addr, Instant>,
}

impl Advertiser {
    fn new(plan: Arc<RaPlan>) -> Advertiser {
        Advertiser { plan, initial: INITIAL, final_left: None, last: None, contradicting: BTreeMap::new() }
    }

    /// The time to the next unsolicited advertisement. `draw` returns a random time below its argument (RFC 4861 6.2.4).
    fn pause(&mut self, draw: impl FnOnce(Nanos) -> Nanos) -> Nanos {
        let most = self.plan.interval;
        // MinRtrAdvInterval (RFC 4861 6.2.1, with erratum 3154).
        let least = if most < Nanos::secs(9) { most.get() / 4 * 3 } else { most.get() / 3 };
        let least = Nanos::new(least).max(LEAST_DELAY);
        let pause = least + draw(most.saturating_sub(least));
        if self.initial == 0 {
            return pause;
        }
        self.initial -= 1;
        if self.initial > 0 { pause.min(INITIAL_INTERVAL) } else { pause }
    }
}

impl LocalProtocols {
    /// Applies the advertising configuration of the interface.
    pub(super) fn adopt_advertiser(&mut self, id: InterfaceId, now: Instant) {
        let Some(attachment) = self.interfaces.get_mut(&id) else { return };
        match (attachment.interface.ra.clone(), attachment.advertiser.as_mut()) {
            (Some(plan), None) => attachment.advertiser = Some(Advertiser::new(plan)),
            (Some(plan), Some(old)) if old.plan != plan || old.final_left.is_some() => {
                // The least delay between advertisements also holds across a change of the configuration.
                let last = old.last;
                attachment.advertiser = Some(Advertiser { last, ..Advertiser::new(plan) });
            }
            (None, Some(old)) if old.final_left.is_none() => old.final_left = Some(FINAL),
            _ => return,
        }
        let last = attachment.advertiser.as_ref().and_then(|advertiser| advertiser.last);
        self.schedule_advertisement(id, last.map_or(now, |last| now.max(last + LEAST_DELAY)));
    }

    /// The link is up again: hosts on it receive an advertisement soon.
    pub(super) fn restart_advertiser(&mut self, id: InterfaceId, now: Instant) {
        let Some(advertiser) = self.interfaces.get_mut(&id).and_then(|a| a.advertiser.as_mut()) else { return };
        advertiser.initial = INITIAL;
        let at = advertiser.last.map_or(now, |last| now.max(last + LEAST_DELAY));
        self.schedule_advertisement(id, at);
    }

    fn schedule_advertisement(&mut self, id: InterfaceId, at: Instant) {
        let Some(attachment) = self.interfaces.get_mut(&id) else { return };
        if let Some(old) = attachment.advertise_at.replace(at) {
            self.timers.remove(&(old, id, TimedAction::Advertise));
        }
        self.timers.insert((at, id, TimedAction::Advertise));
    }

    /// The advertisement timer has expired.
    pub(super) fn advertise(&mut self, id: InterfaceId, world: &mut impl World) {
        let now = world.now();
        let Some(attachment) = self.interfaces.get_mut(&id) else { return };
        attachment.advertise_at = None;
        let sure = attachment.interface.link_local().is_some_and(|own| !attachment.detections.contains_key(&own));
        let Some(advertiser) = attachment.advertiser.as_mut() else { return };
        if !sure {
            // Do not advertise an address that may be a duplicate (RFC 4429 3.3).
            return self.schedule_advertisement(id, now + Nanos::secs(1));
        }
        advertiser.last = Some(now);
        let next = match &mut advertiser.final_left {
            None => None,
            Some(left) => {
                *left = left.saturating_sub(1);
                Some(*left)
            }
        };
        self.send_advertisement(id, world);
        match next {
            Some(0) => {
                if let Some(attachment) = self.interfaces.get_mut(&id) {
                    attachment.advertiser = None;
                }
            }
            Some(_) => self.schedule_advertisement(id, now + LEAST_DELAY),
            None => {
                let drawn = self.draw();
                let Some(advertiser) = self.interfaces.get_mut(&id).and_then(|a| a.advertiser.as_mut()) else {
                    return;
                };
                let pause = advertiser.pause(|span| Nanos::new(drawn % span.get().max(1)));
                self.schedule_advertisement(id, now + pause);
            }
        }
    }

    /// Answers a router solicitation by multicast (RFC 4861 6.2.6).
    pub(super) fn receive_router_solicitation(&mut self, id: InterfaceId, world: &impl World) {
        let now = world.now();
        let delay = self.jitter(ANSWER_DELAY);
        let Some(attachment) = self.interfaces.get(&id) else { return };
        let (Some(advertiser), Some(next)) = (&attachment.advertiser, attachment.advertise_at) else { return };
        if advertiser.final_left.is_some() {
            return;
        }
        let soonest = advertiser.last.map_or(now, |last| last + LEAST_DELAY);
        let at = (now + delay).max(soonest);
        // An advertisement that is due earlier anyway answers the solicitation too.
        if at < next {
            self.schedule_advertisement(id, at);
        }
    }

    /// Sends a final advertisement on every link: the router is about to exit.
    pub fn send_final_advertisements(&mut self, world: &mut impl World) {
        let advertising = self.interfaces.iter_mut().filter_map(|(&id, attachment)| {
            attachment.advertiser.as_mut()?.final_left = Some(0);
            Some(id)
        });
        let ids: Vec<InterfaceId> = advertising.collect();
        for id in ids {
            self.send_advertisement(id, world);
        }
    }

    fn send_advertisement(&mut self, id: InterfaceId, world: &mut impl World) {
        let Some(attachment) = self.interfaces.get(&id) else { return };
        let Some(advertiser) = &attachment.advertiser else { return };
        let Some(source) = attachment.interface.link_local() else { return };
        let (mac, mtu) = (attachment.interface.mac, world.mtu(id).unwrap_or(attachment.interface.mtu));
        let (plan, ends) = (advertiser.plan.clone(), advertiser.final_left.is_some());
        let prefixes: Vec<ndp::PrefixInformation> = plan.prefixes.iter().filter_map(wire_prefix).collect();
        let message = RouterAdvertisement {
            parameters: RouterParameters {
                lifetime_s: if ends { 0 } else { seconds(plan.lifetime) as u16 },
                ..advertised_parameters(&plan)
            },
            mac: Some(mac),
            mtu: plan.mtu.then_some(mtu.into()),
            prefixes: &prefixes,
            servers: &plan.dns,
            search: &plan.search,
            // A router that stops advertising withdraws its DNS servers too (RFC 8106 5.1).
            dns_lifetime_s: if ends { 0 } else { seconds(plan.dns_lifetime) },
        };
        let write = |buffer: &mut [u8]| message.write(buffer, source, ipv6::ALL_NODES);
        if let Some(packet) = packet_with(ipv6::MINIMUM_MTU, world, write) {
            self.transmit_ip(id, packet, ipv6::multicast_mac(ipv6::ALL_NODES), world);
        }
    }

    /// Checks an advertisement of another router. Its contents are for hosts, but a contradiction to this router's advertisements is a configuration
    /// error (RFC 4861 6.2.7).
    pub(super) fn receive_router_advertisement(
        &mut self,
        id: InterfaceId,
        router: Ipv6Addr,
        says: RouterParameters,
        told: NdpOptions<'_>,
        world: &mut impl World,
    ) {
        let now = world.now();
        let Some(attachment) = self.interfaces.get_mut(&id) else { return };
        let mtu = world.mtu(id).unwrap_or(attachment.interface.mtu);
        let Some(advertiser) = attachment.advertiser.as_mut() else { return };
        let Some(about) = contradiction(&advertiser.plan, mtu, says, told) else { return };
        // One report a router in ten minutes, and a bound on the routers: forged sources cannot flood the log.
        advertiser.contradicting.retain(|_, &mut when| now.since(when) < CONTRADICTION_INTERVAL);
        if advertiser.contradicting.contains_key(&router) || advertiser.contradicting.len() >= OTHERS {
            return;
        }
        advertiser.contradicting.insert(router, now);
        world.event(Event::RouterContradicts { interface: id, router, about });
    }
}

fn seconds(time: Nanos) -> u32 {
    u32::try_from(time.get() / 1_000_000_000).unwrap_or(u32::MAX)
}

fn advertised_parameters(plan: &RaPlan) -> RouterParameters {
    let preference = match plan.preference {
        RouterPreference::High => ndp::Preference::High,
        RouterPreference::Medium => ndp::Preference::Medium,
        RouterPreference::Low => ndp::Preference::Low,
    };
    let RaPlan { hop_limit, managed, other, .. } = *plan;
    // A router that is no default router has no preference (RFC 4191 2.2).
    let preference = if plan.lifetime == Nanos::ZERO { ndp::Preference::Medium } else { preference };
    RouterParameters {
        hop_limit,
        managed,
        other,
        preference,
        lifetime_s: seconds(plan.lifetime) as u16,
        ..RouterParameters::default()
    }
}

fn wire_prefix(prefix: &plan::RaPrefix) -> Option<ndp::PrefixInformation> {
    let IpAddr::V6(address) = prefix.prefix.address else { return None };
    Some(ndp::PrefixInformation {
        address,
        length: prefix.prefix.length,
        on_link: prefix.on_link,
        autonomous: prefix.autonomous,
        valid_s: seconds(prefix.valid),
        preferred_s: seconds(prefix.preferred),
    })
}

/// The first difference between both advertisements. Unspecified values do not count.
fn contradiction(plan: &RaPlan, mtu: u16, theirs: RouterParameters, told: NdpOptions<'_>) -> Option<&'static str> {
    let ours = advertised_parameters(plan);
    if theirs.hop_limit != 0 && ours.hop_limit != 0 && theirs.hop_limit != ours.hop_limit {
        return Some("the hop limit");
    }
    if theirs.managed != ours.managed {
        return Some("whether addresses come by DHCPv6");
    }
    if theirs.other != ours.other {
        return Some("whether other settings come by DHCPv6");
    }
    told.into_iter().find_map(|option| match option {
        NdpOption::Mtu(theirs) if plan.mtu && theirs != u32::from(mtu) => Some("the MTU"),
        NdpOption::Prefix(theirs) => {
            let same = |ours: &ndp::PrefixInformation| (ours.address, ours.length) == (theirs.address, theirs.length);
            let ours = plan.prefixes.iter().filter_map(wire_prefix).find(same)?;
            let other = (ours.valid_s, ours.preferred_s) != (theirs.valid_s, theirs.preferred_s);
            other.then_some("the lifetime of a prefix")
        }
        _ => None,
    })
}
