//! Router advertisements for sending (RFC 4861 4.2, with the options of RFC 8106).

use super::Mac;
use super::cursor::Cursor;
use super::icmp6::{self, write_packet};
use super::ndp::{self, HOP_LIMIT, PrefixInformation, RouterParameters, mac_option};
use std::net::Ipv6Addr;

/// A router advertisement to write.
#[derive(Clone, Copy, Debug, Default)]
pub struct RouterAdvertisement<'a> {
    /// Its fixed part.
    pub parameters: RouterParameters,
    /// The sender's link address.
    pub mac: Option<Mac>,
    /// The MTU of the link, in bytes.
    pub mtu: Option<u32>,
    /// The prefixes of the link.
    pub prefixes: &'a [PrefixInformation],
    /// Recursive DNS servers; at most 127.
    pub servers: &'a [Ipv6Addr],
    /// DNS search domains as text. Domains with an empty label or one of more than 63 bytes do not fit.
    pub search: &'a [String],
    /// Lifetime of servers and domains in seconds; all ones for infinity.
    pub dns_lifetime_s: u32,
}

impl RouterAdvertisement<'_> {
    /// Writes the advertisement, including the IPv6 header, and returns its length, `None` if it does not fit.
    ///
    /// `source` must be link-local (RFC 4861 4.2). `destination` is [`super::ipv6::ALL_NODES`], or the address that solicited it.
    pub fn write(&self, buffer: &mut [u8], source: Ipv6Addr, destination: Ipv6Addr) -> Option<usize> {
        let says = &self.parameters;
        let flags = u8::from(says.managed) << 7 | u8::from(says.other) << 6 | says.preference.bits();
        let [l0, l1] = says.lifetime_s.to_be_bytes();
        write_packet(buffer, HOP_LIMIT, source, destination, |message| {
            message.put(&[icmp6::ROUTER_ADVERTISEMENT, 0, 0, 0, says.hop_limit, flags, l0, l1])?;
            message.put(&says.reachable_ms.to_be_bytes())?;
            message.put(&says.retransmit_ms.to_be_bytes())?;
            if let Some(mac) = self.mac {
                message.put(&mac_option(ndp::SOURCE_LINK_ADDRESS, mac))?;
            }
            if let Some(mtu) = self.mtu {
                message.put(&[ndp::MTU, 1, 0, 0])?;
                message.put(&mtu.to_be_bytes())?;
            }
            self.prefixes.iter().try_for_each(|prefix| put_prefix(message, prefix))?;
            self.put_servers(message)?;
            self.put_search(message)
        })
    }

    fn put_servers(&self, message: &mut Cursor<'_>) -> Option<()> {
        if self.servers.is_empty() {
            return Some(());
        }
        let units = u8::try_from(1 + 2 * self.servers.len()).ok()?;
        message.put(&[ndp::DNS_SERVERS, units, 0, 0])?;
        message.put(&self.dns_lifetime_s.to_be_bytes())?;
        self.servers.iter().try_for_each(|server| message.put(&server.octets()))
    }

    fn put_search(&self, message: &mut Cursor<'_>) -> Option<()> {
        if self.search.is_empty() {
            return Some(());
        }
        let length: usize = self.search.iter().map(|domain| domain.len() + 2).sum();
        let padding = length.next_multiple_of(8) - length;
        let units = u8::try_from(1 + (length + padding) / 8).ok()?;
        message.put(&[ndp::DNS_SEARCH, units, 0, 0])?;
        message.put(&self.dns_lifetime_s.to_be_bytes())?;
        for label in self.search.iter().flat_map(|domain| domain.split('.').map(Some).chain([None])) {
            let label = label.map_or(&[][..], str::as_bytes);
            message.put(&[u8::try_from(label.len()).ok().filter(|&length| length < 64)?])?;
            message.put(label)?;
        }
        message.put(&[0; 8][..padding])
    }
}

fn put_prefix(message: &mut Cursor<'_>, prefix: &PrefixInformation) -> Option<()> {
    let flags = u8::from(prefix.on_link) << 7 | u8::from(prefix.autonomous) << 6;
    message.put(&[ndp::PREFIX, 4, prefix.length, flags])?;
    message.put(&prefix.valid_s.to_be_bytes())?;
    message.put(&prefix.preferred_s.to_be_bytes())?;
    message.put(&[0; 4])?;
    message.put(&prefix.address.octets())
}
