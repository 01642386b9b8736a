//! The kernel's router, configured like this one.

use crate::bench::{NARROW, VLAN, host_mac};
use crate::network::{self, Action};
use io::netns::LabHost;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Settings without which the two would differ by configuration.
const SETTINGS: &[(&str, &str)] = &[
    // No limits on ICMP errors: this router has none here either.
    ("net/ipv4/icmp_ratemask", "0"),
    ("net/ipv6/icmp/ratelimit", "0"),
    ("net/ipv6/icmp/ratemask", "\n"),
    // No redirects sent (in IPv6 this cannot be disabled), and none accepted.
    ("net/ipv4/conf/{}/send_redirects", "0"),
    ("net/ipv4/conf/{}/accept_redirects", "0"),
    ("net/ipv6/conf/{}/accept_redirects", "0"),
    // ARP for an address only on its own link (RFC 1122 3.3.4.2), and no packets accepted from link-layer broadcasts (RFC 1122 3.3.6).
    ("net/ipv4/conf/{}/arp_ignore", "1"),
    ("net/ipv4/conf/{}/arp_announce", "2"),
    ("net/ipv4/conf/{}/drop_unicast_in_l2_multicast", "1"),
    ("net/ipv6/conf/{}/drop_unicast_in_l2_multicast", "1"),
    // No limit on the number of options (RFC 8504 5.3 allows one).
    ("net/ipv6/max_hbh_opts_number", "1000"),
    ("net/ipv6/max_dst_opts_number", "1000"),
    // The flow labels of its own packets are zero.
    ("net/ipv6/auto_flowlabels", "0"),
    // Reassembly does not time out during the test.
    ("net/ipv4/ipfrag_time", "600"),
    ("net/ipv6/ip6frag_time", "600"),
    // Nor is it limited by memory or by the number of fragments of a sender.
    ("net/ipv4/ipfrag_high_thresh", "268435456"),
    ("net/ipv6/ip6frag_high_thresh", "268435456"),
    ("net/ipv4/ipfrag_max_dist", "0"),
];

/// A host whose kernel forwards.
pub struct KernelRouter {
    host: LabHost,
}

impl KernelRouter {
    /// Changes its configuration by ip(8) commands.
    pub fn change(&self, script: &str) -> Result<(), String> {
        batch(&self.host, script)
    }

    /// Makes the kernel send a single request for an unknown neighbour and wait for the duration of a test. By default it repeats the request after a
    /// second and gives up after three, in the middle of the comparison of a later frame.
    pub fn ask_once(&self) -> Result<(), String> {
        for (interface, _) in network::ADDRESSES {
            for family in ["ipv4", "ipv6"] {
                let setting = format!("net/{family}/neigh/{interface}/retrans_time_ms");
                self.host.sysctl(&setting, "600000").map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// Settings that links inherit when they are created.
    pub fn prepare(host: &LabHost, redirects: bool) -> Result<(), String> {
        host.forward_in_kernel().map_err(|error| error.to_string())?;
        // Only for next hops on the same subnet (RFC 1812 5.2.7.2).
        let told = [("net/ipv4/conf/{}/send_redirects", "1"), ("net/ipv4/conf/{}/shared_media", "0")];
        let more = if redirects { &told[..] } else { &[] };
        for (setting, value) in SETTINGS.iter().chain(more) {
            for links in ["all", "default"] {
                host.sysctl(&setting.replace("{}", links), value).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// Creates the VLAN interface. False if the kernel was built without VLANs; then a cable of that name replaces it, like an access port of a
    /// switch.
    pub fn add_vlan(host: &LabHost) -> bool {
        batch(host, &format!("link add link left name left.{VLAN} type vlan id {VLAN}\n")).is_ok()
    }

    /// Configures addresses, neighbours and routes on the links of `host`.
    pub fn configure(host: LabHost) -> Result<KernelRouter, String> {
        let mut script = format!("link set narrow mtu {NARROW}\nlink set left.{VLAN} up\n");
        for (interface, addresses) in network::ADDRESSES {
            for address in *addresses {
                let v6 = if address.contains(':') { " nodad" } else { "" };
                writeln!(script, "address add {address} dev {interface}{v6}").unwrap();
            }
        }
        for (interface, link, addresses) in network::NEIGHBOURS {
            for address in *addresses {
                let mac = host_mac(*link);
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

/// Runs an ip(8) script in a host.
fn batch(host: &LabHost, script: &str) -> Result<(), String> {
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
