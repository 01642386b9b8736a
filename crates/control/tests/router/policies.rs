//! The objective of packets changes, and their egress port gets another scheme while they pass.

use crate::rig::{Rig, config, until};
use control::api;
use plane::rig::UdpFrame;

const WANTS: &str = "[objectives]\ndelay = ['ef']\nthroughput = ['cs1']\n\
    [policy.edge]\nwindow = '100ms'\ndwell = '200ms'\npackets = 20\ndelay = 'fq{codel}'\nthroughput = 'fifo(limit=3000)'\n";
const EF: u8 = 46;
const CS1: u8 = 8;

/// Starts a router with a policy on `wan`, and these options of `lan`.
fn start(lan: &str) -> Rig {
    Rig::with("", |options| options).reconfigured(&text(lan, WANTS))
}

fn text(lan: &str, wants: &str) -> String {
    let text = config(wants).replace("[port.lan]\n", &format!("[port.lan]\n{lan}\n"));
    text.replace("[port.wan]\n", "[port.wan]\npolicy = 'edge'\nscheme = 'fifo(limit=2000)'\n")
}

impl Rig {
    fn reconfigured(self, text: &str) -> Rig {
        self.daemon.apply(text, "test.toml").unwrap_or_else(|failure| panic!("{failure}"));
        self
    }

    fn wan(&self) -> api::PortPolicy {
        let policies: api::Policies = self.client.get("/v1/policy").unwrap();
        policies.ports.into_iter().find(|port| port.port == "wan").unwrap()
    }
}

/// Packets from `lan` to `wan`, numbered in their source ports.
struct Flow {
    rig: Rig,
    sent: u32,
    seen: Vec<u16>,
}

impl Flow {
    /// Sends packets of a code point until the condition holds. No packet may be lost or overtake another.
    fn until(&mut self, dscp: u8, what: impl Fn(&api::PortPolicy) -> bool) -> api::PortPolicy {
        until(|| {
            for _ in 0..20 {
                let packet = |number: u32| UdpFrame { length: 62, ..UdpFrame::between_ports(number as u16, 53) };
                self.rig
                    .send_frames((self.sent..self.sent + 32).map(|number| packet(number).frame_with_dscp(dscp, &[])));
                self.sent += 32;
                // Never more packets in flight than a memory link and its queues hold.
                self.rig.await_delivery(&mut self.seen, self.sent as usize - 32);
            }
            Some(self.rig.wan()).filter(|wan| what(wan))
        })
    }

    fn finish(&mut self) {
        self.rig.await_delivery(&mut self.seen, self.sent as usize);
        let expected: Vec<u16> = (0..self.sent).map(|i| i as u16).collect();
        assert!(self.seen == expected, "{} of {} came in another order", self.seen.len(), self.sent);
    }
}

#[test]
fn another_code_point_changes_the_scheme_without_loss() {
    let mut flow = Flow { rig: start("trust = true"), sent: 0, seen: Vec::new() };
    let wan = flow.until(EF, |wan| wan.objective == "delay");
    assert!(wan.scheme.starts_with("fq(") && wan.changes == 1, "{wan:?}");
    let wan = flow.until(CS1, |wan| wan.objective == "throughput");
    assert!(wan.scheme.starts_with("fifo(limit=3000") && wan.changes == 2, "{wan:?}");
    let wan = flow.until(0, |wan| wan.objective == "none");
    assert!(wan.scheme.starts_with("fifo(limit=2000"), "{wan:?}");
    flow.finish();
    let Flow { rig, sent, .. } = flow;
    let wanted: u64 = rig.wan().wanted.iter().map(|wanted| wanted.packets).sum();
    assert!(wanted >= u64::from(sent), "{wanted} of {sent}");
    let events: api::Events = rig.client.get("/v1/events").unwrap();
    let of =
        |kind| events.events.iter().filter(|event| event.kind == kind).map(|e| e.text.as_str()).collect::<Vec<_>>();
    let told = of(api::EventKind::PolicyChanged);
    let changes = [
        "have the objective delay, which replaces none: the scheme is now fq(",
        "objective throughput, ",
        "objective none, ",
    ];
    assert!(told.len() == 3 && told.iter().zip(changes).all(|(text, change)| text.contains(change)), "{told:?}");
    // The worker reports the fates of the queued packets.
    assert!(of(api::EventKind::SchemeChanged).len() >= 3);
    let status: api::Status = rig.client.get("/v1/status").unwrap();
    assert!(status.generation == 2 && status.balanced, "what a policy does is no generation: {}", status.generation);
    let page = String::from_utf8(rig.client.fetch("GET", "/metrics", b"").unwrap()).unwrap();
    assert!(page.contains("switchpath_port_objective{port=\"wan\",objective=\"none\"} 1"), "{page}");
    assert!(page.contains("switchpath_port_objective_changes_total{port=\"wan\"} 3"), "{page}");
}

#[test]
fn untrusted_code_points_do_not_change_the_scheme() {
    let mut flow = Flow { rig: start(""), sent: 0, seen: Vec::new() };
    let wan = flow.until(EF, |wan| wan.wanted[0].window_packets > 100);
    assert_eq!((&*wan.objective, wan.changes, wan.wanted[2].packets), ("none", 0, 0));
    flow.finish();
}

#[test]
fn the_objective_in_force_survives_an_apply_and_a_rollback() {
    let mut flow = Flow { rig: start("trust = true"), sent: 0, seen: Vec::new() };
    flow.until(EF, |wan| wan.objective == "delay");
    let scheme = |rig: &Rig| rig.client.get::<api::Ports>("/v1/ports").unwrap().ports[1].scheme.clone();
    let other = WANTS.replace("'fq{codel}'", "'codel(target=7ms)'");
    flow.rig.daemon.apply(&text("trust = true", &other), "test.toml").unwrap();
    assert!(scheme(&flow.rig).starts_with("codel(target=7ms"), "{}", scheme(&flow.rig));
    let order = control::ApplyRequest::new("", "");
    flow.rig.daemon.roll_back(control::RollbackTarget::Steps(1), order).unwrap();
    assert!(scheme(&flow.rig).starts_with("fq("), "{}", scheme(&flow.rig));
    flow.finish();
}

#[test]
fn explain_reports_the_objective_of_a_packet() {
    let rig = start("trust = true\nobjective = 'fct'");
    let lines = |packet: &str| {
        let asked = [("packet", packet.to_owned())];
        let told: api::ExplainReply = rig.client.get_with("/v1/explain", &asked).unwrap();
        let about = told.steps.into_iter().filter(|step| ["objective", "policy"].contains(&&*step.step));
        about.map(|step| step.text).collect::<Vec<_>>()
    };
    let marked = lines("in lan daddr 198.51.100.9 udp dport 5060 dscp ef");
    assert_eq!(marked[0], "code points are trusted here: with ef it wants delay");
    assert!(
        marked[1].starts_with("counts as delay; the port's objective is none, with the scheme fifo(limit=2000"),
        "{marked:?}"
    );
    let plain = lines("in lan daddr 198.51.100.9 udp dport 5060");
    assert_eq!(plain[0], "the code point cs0 has no objective: by the interface it wants fct");
}
