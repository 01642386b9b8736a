//! A query to a group of members behind four routers whose ports lose frames (spec E-X14). Each member has a UDP socket of its own on one of eight
//! hosts.

use super::network::{Network, receive};
use super::{Values, sleep_until};
use anyhow::{Result, anyhow};
use esp::host::{Action, Computation, Reporter, RoundController, RoundOutcome, Schedule};
use esp::isa::StateInstruction;
use esp::store::Key;
use esp::wire::{Carriages, Locations, Part};
use io::clock;
use io::netns::LabHost;
use sim::ephemeral::{GroupPlan, GroupProtocol};
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;
use units::{Instant, Nanos};

/// Number of receiver hosts at each router of the last level.
const HOSTS: [usize; 3] = [3, 3, 2];
/// Delay from the end of the setup to the start.
const SOON: Nanos = Nanos::millis(100);
/// Time limit for packets in flight.
const FLIGHT_LIMIT: Nanos = Nanos::millis(300);

/// A member's schedule of packets.
trait MemberSchedule: Send {
    fn next(&mut self, now: Instant) -> Action<()>;
}

impl MemberSchedule for Reporter {
    fn next(&mut self, now: Instant) -> Action<()> {
        self.poll(now)
    }
}

/// A member that sends each packet once.
struct SendOnce(Vec<(Instant, Part)>);

impl MemberSchedule for SendOnce {
    fn next(&mut self, now: Instant) -> Action<()> {
        match self.0.first() {
            None => Action::Over(()),
            Some((at, _)) if *at > now => Action::Wait(*at),
            Some(_) => Action::Send(self.0.remove(0).1),
        }
    }
}

/// A member's socket and schedule.
type MemberSocket = (UdpSocket, Box<dyn MemberSchedule>);

/// The results received by the root.
#[derive(Default)]
struct RootResults {
    result: Option<u64>,
    result_at: Option<Instant>,
    packets_until_result: u64,
    packets: u64,
}

impl RootResults {
    fn record_result(&mut self, result: u64) {
        if self.result.is_none() {
            (self.result, self.result_at, self.packets_until_result) = (Some(result), Some(clock::now()), self.packets);
        }
    }
}

/// Runs the trial. Measurements have the same names as in virtual time.
pub fn run(plan: &GroupPlan) -> Result<Values> {
    let lifetime = plan.lifetime.get();
    let state = format!("[state]\ncapacity = 1000\ncentral = 10000\nlifetime = \"{lifetime}ns\"");
    let loss = f64::from(plan.lost) / 1e6;
    // A different seed per port, so that each loses different packets.
    let keys = |router: usize, port: usize| match plan.lost {
        0 => String::new(),
        _ => format!("faults = {{ loss = {loss}, seed = {} }}", plan.seed + 100 * router as u64 + port as u64),
    };
    let network = Network::new(&HOSTS, &state, keys)?;
    let of_host = |(first, host): (u64, &LabHost)| {
        let members = (first..plan.members).step_by(network.receivers.len());
        Network::sockets(host, members.count())
    };
    let sockets = (0..).zip(&network.receivers).map(of_host).collect::<Result<Vec<Vec<UdpSocket>>>>()?;
    let root = Network::socket(&network.root)?;
    let to = network.root_address();
    sockets.iter().flatten().try_for_each(|socket| socket.connect((to, Carriages::PORT)))?;
    let begin = clock::now() + SOON;
    let names = Key::new([plan.seed, begin.get()]);
    // Packets of members arrive by several ports of a router, so all of them use its central store.
    let computation = Computation::seeded([plan.seed, begin.get()]).at(Locations::CENTRAL);
    let round = computation.round(0, plan.operator());
    let schedule = Schedule::plan(begin, plan.lifetime, (plan.delay, Nanos::ZERO), plan.tries)?;
    let says = |n: u64| -> Box<dyn MemberSchedule> {
        let value = plan.value(n);
        match plan.by {
            GroupProtocol::Rcollect => Box::new(Reporter::new(round, schedule, names.hash(n), value)),
            GroupProtocol::Collect => {
                let (counter, result, operator) = (names.hash(0), names.hash(1), plan.operator());
                let setup = StateInstruction::Count { counter, threshold: 1, inclusive: true };
                let report = StateInstruction::Collect { counter, result, value, operator };
                Box::new(SendOnce(vec![
                    (begin, computation.part(setup)),
                    (begin + FLIGHT_LIMIT * 2, computation.part(report)),
                ]))
            }
        }
    };
    let end = if plan.by == GroupProtocol::Collect { begin + FLIGHT_LIMIT * 4 } else { schedule.end };
    let number = sockets.iter().map(Vec::len).sum::<usize>();
    let of_host = |(first, sockets): (u64, Vec<UdpSocket>)| -> Vec<MemberSocket> {
        sockets.into_iter().zip((first..).step_by(network.receivers.len()).map(&says)).collect()
    };
    let members: Vec<Vec<MemberSocket>> = (0..).zip(sockets).map(of_host).collect();
    let (sent, told) = thread::scope(|scope| {
        let speaking: Vec<_> =
            members.into_iter().map(|members| scope.spawn(move || send_reports(members, end))).collect();
        let told = listen(plan, &root, RoundController::new(round, schedule), end);
        let gone = |_| anyhow!("a host's thread panicked");
        let sent = speaking.into_iter().map(|thread| thread.join().map_err(gone)?).sum::<Result<u64>>()?;
        told.map(|told| (sent, told))
    })?;
    Ok([
        ("result", told.result.unwrap_or(0) as f64),
        ("expected", plan.expected() as f64),
        ("complete", f64::from(u8::from(told.result.is_some()))),
        ("routers", network.tree.routers.len() as f64),
        ("levels", 2.0),
        ("sent", sent as f64),
        ("real.sockets", number as f64),
        ("root_until_known", if told.result_at.is_some() { told.packets_until_result } else { told.packets } as f64),
        ("root_in_all", told.packets as f64),
        ("known_after_s", told.result_at.map_or(0.0, |at| at.since(begin).as_secs_f64())),
        ("real.lost", network.lost()? as f64),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into())
}

/// Sends the packets of a host's members on schedule. Returns how many packets.
fn send_reports(mut members: Vec<MemberSocket>, end: Instant) -> Result<u64> {
    let mut sent = 0;
    while clock::now() < end {
        let mut next = end;
        for (socket, member) in &mut members {
            loop {
                match member.next(clock::now()) {
                    Action::Send(part) => {
                        socket.send(&part.to_bytes())?;
                        sent += 1;
                    }
                    Action::Wait(until) => {
                        next = next.min(until);
                        break;
                    }
                    Action::Over(()) => break,
                }
            }
        }
        sleep_until(next)?;
    }
    Ok(sent)
}

/// Receives at the root until the end.
fn listen(plan: &GroupPlan, root: &UdpSocket, mut controller: RoundController, end: Instant) -> Result<RootResults> {
    let mut told = RootResults::default();
    while clock::now() < end {
        let patience = Duration::from(end.since(clock::now())).min(Duration::from_millis(20));
        let came = receive(root, patience)?;
        told.packets += u64::from(came.is_some());
        match (plan.by, came) {
            (GroupProtocol::Collect, Some((part, _))) => {
                if let (StateInstruction::Collect { value, .. }, false) = (part.instruction, part.error) {
                    told.record_result(value);
                }
            }
            (GroupProtocol::Rcollect, came) => {
                came.iter().for_each(|(part, _)| controller.received(part));
                if let Action::Over(RoundOutcome::Complete(result)) = controller.poll(clock::now()) {
                    told.record_result(result);
                }
            }
            (GroupProtocol::Collect, None) => {}
        }
    }
    Ok(told)
}
