//! A virtual router of VRRP: keepalived on Switchpath and on a router of the kernel, with virtual MAC addresses.
//!
//! ```text
//!                  ┌─── Switchpath ───┐
//!   client (bridge)│                  │ far
//!                  └─── the kernel ───┘
//! ```

use crate::daemons::Process;
use crate::home::{Home, TWO_LINKS, output};
use crate::network::{run_in, wait};
use io::netns::{Lab, Namespace};
use std::fs;
use std::process::Command;

const KEEPALIVED: &str = "/usr/sbin/keepalived";

/// The far host's own addresses.
const ROUTES: &str = "[[route]]
to = '203.0.113.9/32'
via = '10.0.2.2'
[[route]]
to = '2001:db8:ffff::9/128'
via = '2001:db8:2::2'
";

/// A virtual router for each family on `lan`.
fn keepalived(home: &Home, namespace: &Namespace, name: &str, priority: u8) -> Process {
    let instance = |family: &str, address: &str| {
        format!(
            "vrrp_instance {family} {{\n state BACKUP\n interface lan\n virtual_router_id 7\n priority {priority}\n advert_int 0.1\n\
             \x20use_vmac\n vmac_xmit_base\n virtual_ipaddress {{ {address} }}\n}}\n"
        )
    };
    let text = format!(
        "global_defs {{\n router_id {name}\n vrrp_version 3\n}}\n{}{}",
        instance("four", "10.0.1.254/32"),
        instance("six", "fe80::254")
    );
    home.place.write(&format!("{name}.conf"), &text);
    let mut command = Command::new(KEEPALIVED);
    command.args(["--dont-fork", "--log-console", "--vrrp", "-f"]).arg(home.place.path(&format!("{name}.conf")));
    command.arg("-p").arg(home.place.path(&format!("{name}.pid")));
    command.arg("-r").arg(home.place.path(&format!("{name}-vrrp.pid")));
    Process::start(namespace, &mut command, &home.place.path(&format!("{name}.log")))
}

/// The longest time without an answer to pings every 20 ms, in milliseconds.
fn longest_gap(log: &str, count: u32) -> u32 {
    let sequence = |line: &str| line.split_once("icmp_seq=")?.1.split(' ').next()?.parse::<u32>().ok();
    let answered: Vec<u32> = log.lines().filter(|line| line.contains(" bytes from ")).filter_map(sequence).collect();
    let all: Vec<u32> = [0].into_iter().chain(answered).chain([count + 1]).collect();
    all.windows(2).map(|pair| pair[1].saturating_sub(pair[0] + 1)).max().unwrap() * 20
}

#[test]
fn virtual_router_of_keepalived_moves_to_a_kernel_router_and_back() {
    let Some(home) = Home::new("vrrp", &[KEEPALIVED], &format!("{TWO_LINKS}{ROUTES}")) else { return };
    let router = home.start_router();
    let (mirror, client, far) = (home.mirror(), home.client.namespace().clone(), home.provider.namespace().clone());
    let lab = Lab::new().unwrap();
    let backup = lab.host("backup").unwrap();
    backup.forward_in_kernel().unwrap();
    lab.cable(&home.client.plug("eth1"), &backup.plug("lan")).unwrap();
    lab.cable(&home.provider.plug("eth1"), &backup.plug("wan")).unwrap();
    for (namespace, commands) in [
        (
            &client,
            &[
                "ip link add name bridge type bridge",
                "ip link set dev eth0 master bridge",
                "ip link set dev eth1 master bridge",
                "ip link set bridge up",
                "ip addr add 10.0.1.2/24 dev bridge",
                "ip addr add 2001:db8:1::2/64 dev bridge nodad",
                "ip route add default via 10.0.1.254",
                "ip route add default via fe80::254 dev bridge",
            ][..],
        ),
        (
            backup.namespace(),
            &[
                "ip addr add 10.0.1.3/24 dev lan",
                "ip addr add 2001:db8:1::3/64 dev lan nodad",
                "ip addr add 10.0.3.1/24 dev wan",
                "ip addr add 2001:db8:3::1/64 dev wan nodad",
                "ip route add 203.0.113.9 via 10.0.3.2",
                "ip route add 2001:db8:ffff::9 via 2001:db8:3::2",
            ],
        ),
        (
            &far,
            // Answers return by the other router, which is always there.
            &[
                "ip addr add 10.0.2.2/24 dev eth0",
                "ip addr add 2001:db8:2::2/64 dev eth0 nodad",
                "ip addr add 10.0.3.2/24 dev eth1",
                "ip addr add 2001:db8:3::2/64 dev eth1 nodad",
                "ip addr add 203.0.113.9/32 dev lo",
                "ip addr add 2001:db8:ffff::9/128 dev lo",
                "ip route add 10.0.1.0/24 via 10.0.3.1",
                "ip route add 2001:db8:1::/64 via 2001:db8:3::1",
            ],
        ),
    ] {
        commands.iter().for_each(|command| drop(run_in(namespace, command)));
    }
    for (namespace, name) in [(&mirror, "preferred"), (backup.namespace(), "backup")] {
        // Without a link-local address keepalived has no address to send from.
        let links = || output(namespace, &["ip", "-6", "addr", "show", "dev", "lan", "scope", "link"]);
        wait(name, links, || links().contains("fe80") && !links().contains("tentative"));
    }
    let _preferred = keepalived(&home, &mirror, "preferred", 200);
    let _backup = keepalived(&home, backup.namespace(), "backup", 100);
    let log = |name: &str| fs::read_to_string(home.place.path(&format!("{name}.log"))).unwrap();
    // The state of both families in a log, the last first.
    let is_all = |name: &str, state: &str| {
        ["(four)", "(six)"].iter().all(|family| {
            let text = log(name);
            let last = text.lines().rev().find(|line| line.contains(&format!("{family} Entering")));
            last.is_some_and(|line| line.contains(state))
        })
    };
    let became = |name: &'static str, state: &'static str| wait(name, || home.logs(), || is_all(name, state));
    became("preferred", "MASTER");
    became("backup", "BACKUP");
    let destinations = ["203.0.113.9", "2001:db8:ffff::9"];
    let one = |to: &str| output(&client, &["ping", "-n", "-c", "1", "-W", "1", to]).contains("1 received");
    destinations.iter().for_each(|to| wait(to, || home.logs(), || one(to)));
    let neighbours = run_in(&client, "ip neigh");
    for station in ["10.0.1.254 dev bridge lladdr 00:00:5e:00:01:07", "fe80::254 dev bridge lladdr 00:00:5e:00:02:07"] {
        assert!(neighbours.contains(station), "{neighbours}");
    }
    let count = 400;
    let pings = destinations.map(|to| {
        let file = fs::File::create(home.place.path(&format!("{to}.pings"))).unwrap();
        let mut ping = Command::new("ping");
        ping.args(["-n", "-i", "0.02", "-W", "1", "-c", &count.to_string(), to]).stdout(file);
        client.run(|| ping.spawn()).unwrap().unwrap()
    });
    let read = |to: &str| fs::read_to_string(home.place.path(&format!("{to}.pings"))).unwrap();
    wait("pings", || read(destinations[1]), || read(destinations[1]).lines().count() > 20);
    router.kill();
    became("backup", "MASTER");
    let router = home.start_router();
    became("preferred", "MASTER");
    became("backup", "BACKUP");
    for mut ping in pings {
        ping.wait().unwrap();
    }
    for to in destinations {
        let gap = longest_gap(&read(to), count);
        println!("{to}: at most {gap} ms without an answer");
        assert!(gap < 2000, "{to}: {gap} ms\n{}\n{}", read(to), home.logs());
    }
    router.stop();
}
