//! The bench: the kernel's router and this router between ends with the same addresses, given the same frames.
//!
//! ```text
//!  left (198.18.1.0/24, fd00:1::/64; VLAN 20: 198.18.20.0/24, fd00:20::/64) --- router --- right (198.18.2.0/24, fd00:2::/64)
//!                                                                               `--- narrow, MTU 1300 (198.18.3.0/24, fd00:3::/64)
//! ```

use crate::kernel::KernelRouter;
use crate::link_ends::{Ends, Link, OutputFrame};
use crate::network;
use crate::this_router::TestRouter;
use io::clock;
use io::netlink::KernelError;
use io::netns::{Lab, LabHost, Plug};
use io::wait::{Sleeper, Waker};
use packet::wire::{Ipv4Spec, ethernet, ethertype};
use units::{Mac, Nanos};

/// The VLAN on the left link.
pub const VLAN: u16 = 20;
/// The MTU of the narrow link.
pub const NARROW: u16 = 1300;

/// The router's address on a link.
pub fn router_mac(link: Link) -> Mac {
    Mac([2, 0, 0, 0, link as u8 + 1, 1])
}

/// The link address of the host on a link; its IP addresses end in 2.
pub fn host_mac(link: Link) -> Mac {
    Mac([2, 0, 0, 0, link as u8 + 1, 2])
}

/// A router between its own ends.
struct RouterLinks<R> {
    ends: Ends,
    router: R,
    markers: u64,
}

/// The difference between the two routers in this test: if they must be run.
trait Settle {
    /// Runs it until it is idle. Does nothing if it runs by itself.
    fn settle(&mut self) {}
}

impl Settle for KernelRouter {}

impl Settle for TestRouter {
    fn settle(&mut self) {
        TestRouter::settle(self);
    }
}

/// The answers of both routers to a frame.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The kernel's output.
    pub kernel: Vec<OutputFrame>,
    /// This router's output.
    pub ours: Vec<OutputFrame>,
}

/// The two routers.
pub struct Bench {
    kernel: RouterLinks<KernelRouter>,
    ours: RouterLinks<TestRouter>,
}

impl Bench {
    /// Builds both with static neighbours, and discards the packets that they send at start.
    pub fn new(lab: &Lab, kind: &str) -> Result<Bench, String> {
        Bench::with_redirects(lab, kind, false)
    }

    /// Like [`Bench::new`]; with `redirects` both send redirects, in IPv4 too.
    pub fn with_redirects(lab: &Lab, kind: &str, redirects: bool) -> Result<Bench, String> {
        let host = lab.host("kernel").map_err(describe)?;
        KernelRouter::prepare(&host, redirects)?;
        let (stations, mut ends) = cables(lab, &host).map_err(describe)?;
        if !KernelRouter::add_vlan(&host) {
            let name = format!("left.{VLAN}");
            let near = Plug { mac: Some(router_mac(Link::Left)), ..host.plug(&name) };
            let far = Plug { mac: Some(host_mac(Link::Left)), ..stations.plug(&name) };
            lab.cable(&near, &far).map_err(describe)?;
            ends.open_access(&stations, &name);
        }
        let kernel = RouterLinks { ends, router: KernelRouter::configure(host)?, markers: 0 };
        let host = lab.host("switchpath").map_err(describe)?;
        host.silence_kernel().map_err(describe)?;
        let configuration = network::configuration(kind, redirects);
        let (ends, router) = if kind == "tap" {
            // The router creates the links, and the hosts have the other ends.
            let router = TestRouter::start(&host, &configuration)?;
            (Ends::open(&host), router)
        } else {
            let (_, ends) = cables(lab, &host).map_err(describe)?;
            (ends, TestRouter::start(&host, &configuration)?)
        };
        let ours = RouterLinks { ends, router, markers: 0 };
        let mut bench = Bench { kernel, ours };
        bench.kernel.finish();
        bench.ours.finish();
        Ok(bench)
    }

    /// Sends a frame on the same link to both routers and waits for all their output.
    pub fn exchange(&mut self, link: Link, frame: &[u8]) -> Outcome {
        Outcome { kernel: self.kernel.exchange(link, frame), ours: self.ours.exchange(link, frame) }
    }

    /// Lets time pass, real for the kernel's router and virtual for this one. Returns their output meanwhile, in order.
    pub fn pass_time(&mut self, span: Nanos) -> Outcome {
        let (tick, deadline) = (Nanos::millis(10), clock::now() + span);
        let mut out = Outcome { kernel: Vec::new(), ours: Vec::new() };
        let mut sleeper = Sleeper::new(Waker::new().unwrap());
        while clock::now() < deadline {
            sleeper.sleep([], tick).unwrap();
            out.kernel.extend(self.kernel.finish());
            self.ours.router.pass_time(tick);
            out.ours.extend(self.ours.finish());
        }
        out
    }

    /// Changes the configuration of the kernel's router by ip(8) commands.
    pub fn change_kernel(&self, script: &str) {
        self.kernel.router.change(script).unwrap();
    }

    /// The same bench for comparisons without passing time: see [`KernelRouter::ask_once`].
    pub fn timeless(self) -> Result<Bench, String> {
        self.kernel.router.ask_once()?;
        Ok(self)
    }

    /// This router, to examine its state.
    pub fn ours(&self) -> &TestRouter {
        &self.ours.router
    }
}

fn describe(error: KernelError) -> String {
    error.to_string()
}

/// The links of a router, and the host at their other ends.
fn cables(lab: &Lab, router: &LabHost) -> Result<(LabHost, Ends), KernelError> {
    let stations = lab.host("stations")?;
    stations.silence_kernel()?;
    for link in Link::ALL {
        let near = Plug { mac: Some(router_mac(link)), ..router.plug(link.name()) };
        let far = Plug { mac: Some(host_mac(link)), ..stations.plug(link.name()) };
        lab.cable(&near, &far)?;
    }
    let ends = Ends::open(&stations);
    Ok((stations, ends))
}

impl<R: Settle> RouterLinks<R> {
    fn exchange(&mut self, link: Link, frame: &[u8]) -> Vec<OutputFrame> {
        self.ends.send(link, frame);
        self.router.settle();
        self.finish()
    }

    /// The router's output before a marker that is sent through it now.
    ///
    /// The kernel processes frames one after the other on one core. So does this router, because it is run until it is idle before the marker is
    /// sent.
    fn finish(&mut self) -> Vec<OutputFrame> {
        self.markers += 1;
        let marker = marker(self.markers);
        self.ends.send(Link::Left, &marker);
        self.router.settle();
        let is_marker = |seen: &OutputFrame| seen.link == Link::Right && seen.frame.ends_with(&marker[34..]);
        let mut seen = self.ends.receive_until(is_marker);
        seen.retain(|seen| !is_marker(seen));
        // The order is only defined within a link, not between links.
        seen.sort_by_key(|seen| seen.link);
        seen
    }
}

/// A packet that both routers forward from left to right: protocol 253 is for experiments (RFC 3692).
fn marker(number: u64) -> Vec<u8> {
    let spec = Ipv4Spec {
        type_of_service: 0,
        identification: 0,
        dont_fragment: true,
        ttl: 64,
        protocol: 253,
        source: [198, 18, 1, 2].into(),
        destination: [198, 18, 2, 2].into(),
    };
    let mut frame = vec![0; 34];
    ethernet::write_header(&mut frame[..14], router_mac(Link::Left), host_mac(Link::Left), None, ethertype::IPV4);
    spec.write(&mut frame[14..], 24);
    frame.extend_from_slice(b"marker--");
    frame.extend_from_slice(&number.to_be_bytes());
    frame.extend_from_slice(&[0xa5; 8]);
    frame
}
