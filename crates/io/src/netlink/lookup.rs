//! Searches of the kernel's tables: the link with an address, the route to an address, the links of default routes.

use super::message::{ACK, Message, attributes, family, octets, u32_at};
use super::{KernelError, Netlink, NextHopTarget, RouteHops, RouteKind};
use std::net::IpAddr;

impl Netlink {
    /// The link with this address.
    pub fn link_with_address(&mut self, address: IpAddr) -> Result<Option<u32>, KernelError> {
        let found = self.addresses()?.into_iter().find(|own| own.address == address || own.peer == Some(address));
        Ok(found.map(|own| own.link))
    }

    /// The link that the kernel would send to this address on. `None` without a route, and for the host's own addresses.
    pub fn link_towards(&mut self, address: IpAddr) -> Result<Option<u32>, KernelError> {
        let octets = octets(address);
        let mut header = [0; 12]; // struct rtmsg
        (header[0], header[1]) = (family(address), octets.len() as u8 * 8);
        let mut message = Message::new(libc::RTM_GETROUTE, ACK, &header);
        message.put(libc::RTA_DST, &octets);
        let mut found = None;
        let asked = self.exchange(message, "asking for the route to", &address.to_string(), |_, body| {
            // The answer is a copy of the route with the one hop that the kernel selects.
            let unicast = body.get(7) == Some(&libc::RTN_UNICAST);
            let mut rest = attributes(body.get(12..).filter(|_| unicast).unwrap_or(&[]));
            found = rest.find(|(kind, _)| *kind == libc::RTA_OIF).and_then(|(_, value)| u32_at(value, 0));
        });
        match asked {
            Err(error)
                if matches!(
                    error.error.raw_os_error(),
                    // No route, an unreachable route, a blackhole.
                    Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EINVAL)
                ) =>
            {
                Ok(None)
            }
            other => other.map(|_| found),
        }
    }

    /// The links of the default routes of both families.
    pub fn default_route_links(&mut self) -> Result<Vec<u32>, KernelError> {
        let (mut hops, mut objects) = (Vec::new(), Vec::new());
        self.routes(Some(u32::from(libc::RT_TABLE_MAIN)), None, |route| {
            if route.prefix == 0 && route.kind == RouteKind::Unicast {
                hops.extend_from_slice(route.hops.own());
                objects.extend(if let RouteHops::Object(id) = route.hops { Some(id.get()) } else { None });
            }
        })?;
        if !objects.is_empty() {
            let all = self.next_hops()?;
            // A group has no groups as members.
            for object in all.iter().filter(|object| objects.contains(&object.id)) {
                let ids =
                    if let NextHopTarget::Group(members) = &object.target { &members[..] } else { &[(object.id, 1)] };
                let members = all.iter().filter(|object| ids.iter().any(|(id, _)| *id == object.id));
                hops.extend(members.filter_map(|member| match member.target {
                    NextHopTarget::Hop(hop) => Some(hop),
                    _ => None,
                }));
            }
        }
        let mut links: Vec<u32> = hops.iter().filter_map(|hop| hop.link).map(Into::into).collect();
        links.sort_unstable();
        links.dedup();
        Ok(links)
    }
}
