//! Servers of a LAN that are programs of their own: radvd and Kea, with clients of the kernel, of BusyBox and of ISC.

use crate::daemons::Process;
use crate::home::{Home, await_address, output};
use crate::network::{run_in, wait};
use std::fs;
use std::process::Command;

const PROGRAMS: [&str; 5] =
    ["/usr/sbin/radvd", "/usr/sbin/kea-dhcp4", "/usr/sbin/kea-dhcp6", "/usr/sbin/udhcpc", "/usr/sbin/dhclient"];

const CONFIGURATION: &str = "version = 1
[port.lan]
device = 'packet:to-lan'
address = ['192.168.7.1/24', '2001:db8:7::1/64']
[port.wan]
device = 'packet:to-wan'
address = ['203.0.113.2/24', '2001:db8:1::2/64']
[linux]
namespace = 'MIRROR'
";

const RADVD: &str = "interface lan {
  AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4; AdvManagedFlag on;
  prefix 2001:db8:7::/64 { AdvOnLink on; AdvAutonomous on; };
};
";

/// A configuration of Kea: what both families have, and the subnet.
fn kea(family: u8, subnet: &str) -> String {
    format!(
        r#"{{ "Dhcp{family}": {{
  "interfaces-config": {{ "interfaces": ["lan"] }},
  "lease-database": {{ "type": "memfile", "persist": false }},
  "valid-lifetime": 300,
  "loggers": [{{ "name": "kea-dhcp{family}", "severity": "INFO", "output_options": [{{ "output": "stdout" }}] }}],
  {subnet} }} }}"#
    )
}

const SUBNET_4: &str = r#""subnet4": [{ "subnet": "192.168.7.0/24", "pools": [{ "pool": "192.168.7.50-192.168.7.99" }],
    "option-data": [{ "name": "routers", "data": "192.168.7.1" }] }]"#;

const SUBNET_6: &str = r#""preferred-lifetime": 200,
  "server-id": { "type": "EN", "enterprise-id": 32473, "identifier": "01", "persist": false },
  "subnet6": [{ "subnet": "2001:db8:7::/64", "interface": "lan", "pools": [{ "pool": "2001:db8:7::50-2001:db8:7::99" }] }]"#;

#[test]
fn clients_of_radvd_and_kea_reach_the_provider() {
    let Some(home) = Home::new("servers", &PROGRAMS, CONFIGURATION) else { return };
    let router = home.start_router();
    let (mirror, client, provider) = (home.mirror(), home.client.namespace(), home.provider.namespace());
    for command in [
        "ip addr add 203.0.113.1/24 dev eth0",
        "ip addr add 2001:db8:1::1/64 dev eth0 nodad",
        "ip route add 192.168.7.0/24 via 203.0.113.2",
        "ip route add 2001:db8:7::/64 via 2001:db8:1::2",
    ] {
        run_in(provider, command);
    }
    // Kea listens on link-local addresses that exist when it starts.
    let links = || output(&mirror, &["ip", "-6", "addr", "show", "dev", "lan", "scope", "link"]);
    wait("a usable address", links, || links().contains("fe80") && !links().contains("tentative"));
    let path = |name: &str| home.place.path(name);
    let servers = [(4, SUBNET_4), (6, SUBNET_6)].map(|(family, subnet)| {
        let name = format!("kea{family}");
        home.place.write(&format!("{name}.conf"), &kea(family, subnet));
        let mut command = Command::new(format!("/usr/sbin/kea-dhcp{family}"));
        command.env("KEA_PIDFILE_DIR", path(".")).env("KEA_LOCKFILE_DIR", path("."));
        command.arg("-c").arg(path(&format!("{name}.conf")));
        Process::start(&mirror, &mut command, &path(&format!("{name}.log")))
    });
    home.place.write("radvd.conf", RADVD);
    let mut radvd = Command::new(PROGRAMS[0]);
    radvd.args(["-n", "-m", "stderr", "-C"]).arg(path("radvd.conf")).arg("-p").arg(path("radvd.pid"));
    let _radvd = Process::start(&mirror, &mut radvd, &path("radvd.log"));
    let started = |family: u8| {
        let log = fs::read_to_string(path(&format!("kea{family}.log"))).unwrap_or_default();
        log.contains(&format!("DHCP{family}_STARTED"))
    };
    wait("Kea", || home.logs(), || started(4) && started(6));
    // Stateless: the prefix and the default route of the kernel's own client.
    home.client.sysctl("net/ipv6/conf/eth0/accept_ra", "1").unwrap();
    await_address(&home, client, "eth0", "2001:db8:7:");
    let _four = home.udhcpc(client, "eth0");
    await_address(&home, client, "eth0", "192.168.7.");
    let mut six = Command::new("/usr/sbin/dhclient");
    six.args(["-6", "-d", "-v", "-1", "-sf", "/bin/true", "-pf"]).arg(path("six.pid"));
    six.arg("-lf").arg(path("six.leases")).arg("eth0");
    let _six = Process::start(client, &mut six, &path("dhclient6.log"));
    let has_lease = || fs::read_to_string(path("six.leases")).is_ok_and(|text| text.contains("iaaddr 2001:db8:7::"));
    wait("a lease of DHCPv6", || home.logs(), has_lease);
    for destination in ["203.0.113.1", "2001:db8:1::1"] {
        let ping = || output(client, &["ping", "-n", "-c", "1", "-W", "1", destination]);
        wait(destination, || format!("{}\n{}", ping(), home.logs()), || ping().contains("1 received"));
    }
    drop(servers);
    router.stop();
}
