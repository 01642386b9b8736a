//! Hosts on one machine: their cables, addresses, routes, programs and sockets, and their complete removal.

#![allow(clippy::print_stdout)]

use io::netlink::Netlink;
use io::netns::{Lab, LabHost, Permission, Plug, probe};
use io::offload::{Ethtool, EthtoolOffload};
use io::wait::{Sleeper, Waker};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;
use units::{Mac, Nanos};

/// A laboratory, or a message that the test is skipped.
fn lab() -> Option<Lab> {
    Lab::new().inspect_err(|forbidden| println!("skipped: {forbidden}")).ok()
}

fn v4(last: [u8; 2]) -> IpAddr {
    Ipv4Addr::new(10, 0, last[0], last[1]).into()
}

fn v6(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// True if a datagram from one host reaches an address of the other.
fn reaches(from: &LabHost, to: &LabHost, address: IpAddr) -> bool {
    let server = to.run(|| UdpSocket::bind(SocketAddr::new(address, 0)).unwrap()).unwrap();
    server.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let target = server.local_addr().unwrap();
    from.run(|| {
        let any = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { v6("::") };
        UdpSocket::bind(SocketAddr::new(any, 0)).unwrap().send_to(b"hello", target).is_ok()
    })
    .unwrap()
        && server.recv_from(&mut [0; 16]).is_ok_and(|(length, _)| length == 5)
}

#[test]
fn two_hosts_on_a_cable_reach_each_other_in_both_families() {
    let Some(lab) = lab() else { return };
    let (left, right) = (lab.host("left").unwrap(), lab.host("right").unwrap());
    let mac = Mac([2, 0, 0, 0, 0, 9]);
    lab.cable(&Plug { mac: Some(mac), ..left.plug("eth0") }, &right.plug("eth0")).unwrap();
    for (host, last) in [(&left, 1), (&right, 2)] {
        host.add_address("eth0", v4([0, last]), 24).unwrap();
        host.add_address("eth0", v6(&format!("fd00::{last}")), 64).unwrap();
    }
    assert!(reaches(&left, &right, v4([0, 2])));
    assert!(reaches(&right, &left, v6("fd00::1")));
    let link = left.run(|| Netlink::open().unwrap().link("eth0").unwrap()).unwrap();
    assert_eq!((link.mac, link.mtu, link.up, link.carrier, link.hardware), (mac, 1500, true, true, 1));
    let names = left.run(|| Netlink::open().unwrap().links().unwrap()).unwrap();
    assert!(names.iter().any(|l| l.name == "lo" && l.up) && names.contains(&link), "{names:?}");
}

#[test]
fn cable_ends_start_without_offloads() {
    let Some(lab) = lab() else { return };
    let (left, right) = (lab.host("left").unwrap(), lab.host("right").unwrap());
    lab.cable(&left.plug("a"), &right.plug("b")).unwrap();
    left.run(|| {
        let ethtool = Ethtool::open().unwrap();
        for offload in [
            EthtoolOffload::TransmitChecksum,
            EthtoolOffload::TcpSegmentation,
            EthtoolOffload::GenericSegmentation,
            EthtoolOffload::GenericReceive,
        ] {
            assert!(!ethtool.is_on("a", offload).unwrap(), "{}", offload.name());
        }
        assert!(ethtool.switch("a", EthtoolOffload::GenericReceive, true).unwrap());
        assert!(!ethtool.switch("a", EthtoolOffload::GenericReceive, true).unwrap(), "it is on already");
        assert!(ethtool.is_on("a", EthtoolOffload::GenericReceive).unwrap());
        assert_eq!(
            ethtool.is_on("none", EthtoolOffload::GenericReceive).unwrap_err().raw_os_error(),
            Some(libc::ENODEV)
        );
        assert_eq!(ethtool.link_rate("a"), Some(units::Rate::gbit(10)));
        assert_eq!(ethtool.link_rate("lo"), None);
    })
    .unwrap();
}

/// client (10.0.1.1) - (10.0.1.2) router (10.0.2.2) - (10.0.2.1) server, and the same in fd00:1:: and fd00:2::.
fn routed(lab: &Lab) -> [LabHost; 3] {
    let hosts = ["client", "router", "server"].map(|name| lab.host(name).unwrap());
    let [client, router, server] = &hosts;
    for (host, link, net) in [(client, "left", 1u8), (server, "right", 2)] {
        lab.cable(&host.plug("eth0"), &router.plug(link)).unwrap();
        for (at, link, last) in [(host, "eth0", 1u8), (router, link, 2)] {
            at.add_address(link, v4([net, last]), 24).unwrap();
            at.add_address(link, v6(&format!("fd00:{net}::{last}")), 64).unwrap();
        }
        host.add_default_route(v4([net, 2])).unwrap();
        host.add_default_route(v6(&format!("fd00:{net}::2"))).unwrap();
    }
    hosts
}

#[test]
fn host_forwards_only_if_enabled() {
    let Some(lab) = lab() else { return };
    let [client, router, server] = routed(&lab);
    let ping = |address: &str| {
        let mut command = Command::new("ping");
        command.args(["-c1", "-W1", address]).stdout(Stdio::null());
        Some(
            client
                .spawn(command)
                .inspect_err(|error| println!("skipped: ping: {error}"))
                .ok()?
                .wait()
                .unwrap()
                .success(),
        )
    };
    let Some(before) = ping("10.0.2.1") else { return };
    assert!(!before, "the router does not forward yet");
    router.forward_in_kernel().unwrap();
    assert_eq!(ping("10.0.2.1"), Some(true));
    assert_eq!(ping("fd00:2::1"), Some(true));
    assert!(reaches(&server, &client, v6("fd00:1::1")));
}

#[test]
fn errors_name_operation_object_and_cause() {
    let Some(lab) = lab() else { return };
    let host = lab.host("alone").unwrap();
    let error = host.add_address("eth7", v4([0, 1]), 24).unwrap_err().to_string();
    assert!(error.starts_with("asking for the link eth7 failed: No such device"), "{error}");
    host.add_address("lo", v4([0, 1]), 24).unwrap();
    // An address that the link has already is no error; one with an impossible prefix is.
    host.add_address("lo", v4([0, 1]), 24).unwrap();
    let error = host.add_address("lo", v4([0, 1]), 33).unwrap_err().to_string();
    assert!(error.starts_with("adding the address 10.0.0.1/33 of lo failed: Invalid argument"), "{error}");
    let error = host.add_default_route(v4([9, 9])).unwrap_err().to_string();
    assert!(error.contains("0.0.0.0/0 by 10.0.9.9 failed") && error.contains("gateway"), "the kernel's words: {error}");
}

#[test]
fn programs_end_with_the_laboratory() {
    let Some(lab) = lab() else { return };
    let host = lab.host("short").unwrap();
    let mut command = Command::new("sleep");
    command.arg("1000");
    let mut child = host.spawn(command).unwrap();
    assert!(child.try_wait().unwrap().is_none());
    drop((host, lab));
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
}

#[test]
fn unreferenced_namespace_is_removed() {
    let Some(lab) = lab() else { return };
    let outer = lab.host("outer").unwrap();
    let inner = lab.host("inner").unwrap();
    lab.cable(&outer.plug("out"), &inner.plug("in")).unwrap();
    drop(inner);
    // The kernel removes namespaces in the background, and the cable's other end with them.
    outer
        .run(|| {
            let mut netlink = Netlink::open().unwrap();
            let mut sleeper = Sleeper::new(Waker::new().unwrap());
            let gone = (0..5000).any(|_| {
                sleeper.sleep([], Nanos::millis(1)).unwrap();
                netlink.link("out").is_err()
            });
            assert!(gone, "the cable is still there");
        })
        .unwrap();
}

#[test]
fn successful_probe_allows_a_laboratory() {
    match probe() {
        Ok(Permission::Capability) => assert!(Lab::new().is_ok()),
        Ok(Permission::UserNamespace) => {
            let forbidden = Lab::new().unwrap_err();
            assert!(forbidden.reason.contains("CAP_SYS_ADMIN"), "{forbidden}");
        }
        Err(forbidden) => assert_eq!(Lab::new().unwrap_err(), forbidden),
    }
}
