//! An unconfigured host configures itself from the router's advertisements and communicates through it. Duplicate addresses are detected by the
//! kernel and by the router.

use crate::hosts::{Stop, ping};
use crate::this_router::TestRouter;
use io::clock;
use io::netns::{Lab, LabHost};
use io::wait::{Sleeper, Waker};
use packet::event::{Event, Observer, Silent};
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread;
use units::{Instant, Nanos};

const PATIENCE: Nanos = Nanos::secs(10);

/// The output of ip(8) in a host.
fn ip(host: &LabHost, arguments: &str) -> String {
    let mut command = Command::new("ip");
    command.args(arguments.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = host.spawn(command).and_then(|child| child.wait_with_output()).unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Repeats a query until the answer is correct.
fn retry_until(what: &str, mut asked: impl FnMut() -> String, right: impl Fn(&str) -> bool) -> String {
    let (end, mut sleeper) = (clock::now() + PATIENCE, Sleeper::new(Waker::new().unwrap()));
    loop {
        let answer = asked();
        if right(&answer) {
            return answer;
        }
        assert!(clock::now() < end, "{what}: {answer}");
        sleeper.sleep([], Nanos::millis(50)).unwrap();
    }
}

fn lab() -> Option<Lab> {
    Lab::new().inspect_err(|forbidden| println!("skipped: {forbidden}")).ok()
}

/// Runs a router during `work`, and then stops it in order.
fn while_running(ours: &mut TestRouter, work: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stopped = Stop(&stop);
        let running = scope.spawn(|| {
            ours.run(&stop);
            ours.audit();
            ours.end();
        });
        work();
        drop(stopped);
        running.join().unwrap();
    });
}

#[test]
fn host_autoconfigures_from_router_advertisements_and_communicates() {
    let Some(lab) = lab() else { return };
    let (router, host, far) = (lab.host("router").unwrap(), lab.host("host").unwrap(), lab.host("far").unwrap());
    router.silence_kernel().unwrap();
    for station in [&host, &far] {
        station.sysctl("net/ipv6/conf/default/dad_transmits", "0").unwrap();
    }
    host.sysctl("net/ipv6/conf/default/accept_ra", "2").unwrap();
    lab.cable(&router.plug("lan"), &host.plug("eth0")).unwrap();
    lab.cable(&router.plug("wan"), &far.plug("eth0")).unwrap();
    let there: IpAddr = "fd00:2::2".parse().unwrap();
    far.add_address("eth0", there, 64).unwrap();
    far.add_default_route("fd00:2::1".parse().unwrap()).unwrap();
    let configuration = "version = 1\n\
        [port.lan]\ndevice = 'packet:lan'\naddress = ['fd00:1::1/64']\nmtu = 1400\n\
        [port.lan.ra]\ninterval = '4s'\nlifetime = '900s'\npreference = 'high'\nhop_limit = 77\n\
        dns = ['fd00:2::53']\nsearch = ['example.org']\n\
        [port.wan]\ndevice = 'packet:wan'\naddress = ['fd00:2::1/64']\n";
    let mut ours = TestRouter::start_with_observer(&router, configuration, Box::new(Silent)).unwrap();
    while_running(&mut ours, || {
        let addresses = retry_until(
            "an address",
            || ip(&host, "-6 -o address show dev eth0 scope global"),
            |text| text.contains("fd00:1::") && !text.contains("tentative"),
        );
        assert!(addresses.contains("dynamic"), "{addresses}");
        let routes = ip(&host, "-6 route show default");
        for part in ["proto ra", "pref high", "mtu 1400", "hoplimit 77"] {
            assert!(routes.contains(part), "{part}: {routes}");
        }
        if let Some((answered, printed)) = ping(&host, "", there) {
            assert!(answered, "{printed}");
        }
        // The longest packets that the advertised MTU permits.
        if let Some((answered, printed)) = ping(&host, "-s 1352 -M do", there) {
            assert!(answered, "{printed}");
        }
    });
    retry_until("no router any more", || ip(&host, "-6 route show default"), str::is_empty);
}

/// Records conflicts.
struct Conflicts(Arc<Mutex<Vec<String>>>);

impl Observer for Conflicts {
    fn event(&mut self, _now: Instant, event: &Event<'_>) {
        if let Event::AddressConflict { address, .. } = event {
            self.0.lock().unwrap().push(address.to_string());
        }
    }
}

#[test]
fn duplicate_addresses_are_detected_by_kernel_and_router() {
    let Some(lab) = lab() else { return };
    let (router, host) = (lab.host("router").unwrap(), lab.host("host").unwrap());
    router.silence_kernel().unwrap();
    lab.cable(&router.plug("lan"), &host.plug("eth0")).unwrap();
    host.sysctl("net/ipv6/conf/eth0/dad_transmits", "0").unwrap();
    for address in ["fd00:1::1", "fd00:1::2"] {
        host.add_address("eth0", address.parse().unwrap(), 64).unwrap();
    }
    for setting in ["dad_transmits", "accept_dad"] {
        host.sysctl(&format!("net/ipv6/conf/eth0/{setting}"), "1").unwrap();
    }
    let configuration = "version = 1\n[port.lan]\ndevice = 'packet:lan'\naddress = ['fd00:1::1/64', 'fd00:1::9/64']\n";
    let conflicts = Arc::new(Mutex::new(Vec::new()));
    let mut ours =
        TestRouter::start_with_observer(&router, configuration, Box::new(Conflicts(conflicts.clone()))).unwrap();
    while_running(&mut ours, || {
        retry_until("a conflict", || format!("{:?}", conflicts.lock().unwrap()), |text| text.contains("fd00:1::1"));
        let Some((answered, printed)) = ping(&host, "", "fd00:1::9".parse().unwrap()) else { return };
        assert!(answered, "{printed}");
        // The kernel probes too and learns that the router's other address is taken. It waits until the router's own probe is over: with simultaneous
        // probes neither would get the address.
        Sleeper::new(Waker::new().unwrap()).sleep([], Nanos::millis(1500)).unwrap();
        ip(&host, "address add fd00:1::9/64 dev eth0");
        retry_until(
            "the kernel gives up",
            || ip(&host, "-6 -o address show dev eth0"),
            |text| text.contains("dadfailed"),
        );
    });
    assert_eq!(*conflicts.lock().unwrap(), ["fd00:1::1"]);
}
