//! The router's own packets respect the MTU of their path, not only of its first link.

use crate::hosts::{Stop, ping};
use crate::this_router::TestRouter;
use io::netns::{Lab, Plug};
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::thread;

#[test]
fn replies_respect_the_path_mtu() {
    let lab = match Lab::new() {
        Ok(lab) => lab,
        Err(forbidden) => return println!("skipped: {forbidden}"),
    };
    let (router, middle, far) = (lab.host("router").unwrap(), lab.host("middle").unwrap(), lab.host("far").unwrap());
    router.silence_kernel().unwrap();
    middle.forward_in_kernel().unwrap();
    lab.cable(&router.plug("lan"), &middle.plug("near")).unwrap();
    // The narrow link: known to the kernel in the middle and to the host at its end.
    let narrow = |plug: Plug<'_>| plug.link.to_string();
    lab.cable(&middle.plug("narrow"), &far.plug("eth0")).unwrap();
    for (host, link) in [(&middle, narrow(middle.plug("narrow"))), (&far, narrow(far.plug("eth0")))] {
        let mut command = std::process::Command::new("ip");
        command.args(["link", "set", &link, "mtu", "1300"]);
        assert!(host.spawn(command).and_then(|mut child| child.wait()).unwrap().success());
    }
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    for (host, link, addresses) in [
        (&middle, "near", ["198.18.1.2", "fd00:1::2"]),
        (&middle, "narrow", ["198.18.9.1", "fd00:9::1"]),
        (&far, "eth0", ["198.18.9.2", "fd00:9::2"]),
    ] {
        host.add_address(link, ip(addresses[0]), 24).unwrap();
        host.add_address(link, ip(addresses[1]), 64).unwrap();
    }
    far.add_default_route(ip("198.18.9.1")).unwrap();
    far.add_default_route(ip("fd00:9::1")).unwrap();
    let configuration = "version = 1\n\
        [port.lan]\ndevice = 'packet:lan'\naddress = ['198.18.1.1/24', 'fd00:1::1/64']\n\
        [[route]]\nto = '198.18.9.0/24'\nvia = '198.18.1.2'\n[[route]]\nto = 'fd00:9::/64'\nvia = 'fd00:1::2'\n";
    let mut ours = TestRouter::start(&router, configuration).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stopped = Stop(&stop);
        let running = scope.spawn(|| {
            ours.run(&stop);
            ours.audit();
        });
        // IPv4 is fragmented on the path.
        let Some((answered, printed)) = ping(&far, "-s 3000", ip("198.18.1.1")) else { return };
        assert!(answered, "{printed}");
        // The first IPv6 reply exceeds the narrow link. The router receives an error, and the next reply fits.
        let (answered, _) = ping(&far, "-s 3000 -W1", ip("fd00:1::1")).unwrap();
        assert!(!answered, "nobody could have known");
        let (answered, printed) = ping(&far, "-s 3000", ip("fd00:1::1")).unwrap();
        assert!(answered, "{printed}");
        drop(stopped);
        running.join().unwrap();
    });
}
