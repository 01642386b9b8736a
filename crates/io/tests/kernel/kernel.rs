//! The kernel as a router, configured as ours is.

use crate::bench::{NARROW, VLAN, station_mac};
use crate::network::{self, Action};
use io::netns::Host;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Settings without which the two would differ by configuration, not by nature.
const SETTINGS: &[(&str, &str)] = &[
    // No limits to ICMP errors: ours has none here either.
    ("net/ipv4/icmp_ratemask", "0"),
    ("net/ipv6/icmp/ratelimit", "0"),
    ("net/ipv6/icmp/ratemask", "\n"),
    // No redirects (of IPv6 it cannot be told), and none believed.
    ("net/ipv4/conf/{}/send_redirects", "0"),
    ("net/ipv4/conf/{}/accept_redirects", "0"),
    ("net/ipv6/conf/{}/accept_redirects", "0"),
    // An address is answered for, and asked from, on its own link (RFC 1122 3.3.4.2), and packets in link-layer broadcasts are not for us
    // (RFC 1122 3.3.6).
    ("net/ipv4/conf/{}/arp_ignore", "1"),
    ("net/ipv4/conf/{}/arp_announce", "2"),
    ("net/ipv4/conf/{}/drop_unicast_in_l2_multicast", "1"),
    ("net/ipv6/conf/{}/drop_unicast_in_l2_multicast", "1"),
    // No limit to the number of options (RFC 8504 5.3 allows one).
    ("net/ipv6/max_hbh_opts_number", "1000"),
    ("net/ipv6/max_dst_opts_number", "1000"),
    // Flow labels of its own packets are zero.
    ("net/ipv6/auto_flowlabels", "0"),
    // What waits to be reassembled does not time out while the test runs.
    ("net/ipv4/ipfrag_time", "600"),
    ("net/ipv6/ip6frag_time", "600"),
    // Nor is it given up because it is much, or its sender sends more.
    ("net/ipv4/ipfrag_high_thresh", "268435456"),
    ("net/ipv6/ip6frag_high_thresh", "268435456"),
    ("net/ipv4/ipfrag_max_dist", "0"),
];

/// A host whose kernel routes.
pub struct KernelRouter {
    host: Host,
}

impl KernelRouter {
    /// Changes its configuration by commands of ip(8).
    pub fn change(&self, script: &str) -> Result<(), String> {
        batch(&self.host, script)
    }

    /// Has the kernel ask once for a neighbour that it does not know, and wait for as long as a test may take. It would
    /// ask again a second later, and give up after three, in the middle of what a later frame is compared with.
    pub fn ask_once(&self) -> Result<(), String> {
        for (interface, _) in network::ADDRESSES {
            for family in ["ipv4", "ipv6"] {
                let setting = format!("net/{family}/neigh/{interface}/retrans_time_ms");
                self.host.sysctl(&setting, "600000").map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// Settings that links take over when they are laid.
    pub fn prepare(host: &Host, redirects: bool) -> Result<(), String> {
        host.forward_in_kernel().map_err(|error| error.to_string())?;
        // Of hops on the same subnet only (RFC 1812 5.2.7.2).
        let told = [("net/ipv4/conf/{}/send_redirects", "1"), ("net/ipv4/conf/{}/shared_media", "0")];
        let more = if redirects { &told[..] } else { &[] };
        for (setting, value) in SETTINGS.iter().chain(more) {
            for links in ["all", "default"] {
                host.sysctl(&setting.replace("{}", links), value).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// Makes the interface of the VLAN. False where the kernel was built without VLANs; a cable of that name will do,
    /// as it would on a port of a switch.
    pub fn add_vlan(host: &Host) -> bool {
        batch(host, &format!("link add link left name left.{VLAN} type vlan id {VLAN}\n")).is_ok()
    }

    /// Gives the links of `host` their addresses, neighbours and routes.
    pub fn configure(host: Host) -> Result<KernelRouter, String> {
        let mut script = format!("link set narrow mtu {NARROW}\nlink set left.{VLAN} up\n");
        for (interface, addresses) in network::ADDRESSES {
            for address in *addresses {
                let v6 = if address.contains(':') { " nodad" } else { "" };
                writeln!(script, "address add {address} dev {interface}{v6}").unwrap();
            }
        }
        for (interface, link, addresses) in network::NEIGHBOURS {
            for address in *addresses {
                let mac = station_mac(*link);
                writeln!(script, "neighbour add {address} lladdr {mac} nud permanent dev {interface}").unwrap();
            }
        }
        for (prefix, action) in network::ROUTES {
            match action {
                Action::Via(gateway) => writeln!(script, "route add {prefix} via {gateway}").unwrap(),
                Action::Blackhole => writeln!(script, "route add blackhole {prefix}").unwrap(),
                Action::Unreachable => writeln!(script, "route add unreachable {prefix}").unwrap(),
            }
        }
        batch(&host, &script)?;
        Ok(KernelRouter { host })
    }
}

/// Has ip(8) run a script in a host.
fn batch(host: &Host, script: &str) -> Result<(), String> {
    let mut command = Command::new("ip");
    command.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let run = || -> std::io::Result<_> {
        let mut child = command.spawn()?;
        child.stdin.take().expect("it is piped").write_all(script.as_bytes())?;
        child.wait_with_output()
    };
    let output = host.run(run).map_err(|error| error.to_string())?.map_err(|error| format!("ip(8): {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("ip(8): {said}")) }
}
