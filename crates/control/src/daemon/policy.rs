//! Evaluates policies periodically: ports get the schemes for the objectives of their packets ([`plane::policy`]).

use super::report::Answer;
use super::{Daemon, RUNNING};
use crate::api;
use crate::events::LoggedEvent;
use io::clock;
use plan::Objective;
use plane::PortReport;
use std::io::Result;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use units::Nanos;

/// The longest and the shortest interval between two checks for a policy with a complete window.
const SELDOM: Nanos = Nanos::secs(1);
const OFTEN: Nanos = Nanos::millis(10);

impl Daemon {
    /// Starts the thread that evaluates policies.
    pub(super) fn start_policies(self: &Arc<Self>) -> Result<()> {
        self.spawn_background("policy", Daemon::evaluate_policies, |pause: Nanos| thread::park_timeout(pause.into()))
    }

    /// Evaluates policies whose window is complete. Returns the time until the next check.
    fn evaluate_policies(&self) -> Nanos {
        let pause = |daemon: &Daemon| daemon.control.lock().router.policies_due_in(clock::now());
        match pause(self) {
            Some(Nanos::ZERO) => {}
            other => return other.unwrap_or(SELDOM).clamp(OFTEN, SELDOM),
        }
        let Ok(reports) = self.reports() else { return SELDOM };
        let now = clock::now();
        let choices = {
            let mut control = self.control.lock();
            // Policies of a generation that is still being adopted are evaluated later.
            if control.adopting.is_some() || self.state.load(Ordering::Acquire) != RUNNING {
                return OFTEN;
            }
            control.router.run_policies(now, &reports)
        };
        for choice in choices {
            self.log.push(now, LoggedEvent::Policy(Box::new(choice)));
        }
        pause(self).unwrap_or(SELDOM).clamp(OFTEN, SELDOM)
    }

    /// Returns the objectives of packets, and the schemes that serve them.
    pub fn policies(&self) -> Answer<api::Policies> {
        let ports = PortReport::sum_workers(&self.reports()?);
        let now = clock::now();
        let control = self.control.lock();
        let (snapshot, Some(plan)) = (control.router.snapshot(), control.router.plan()) else {
            let (ports, code_points, interfaces) = (Vec::new(), Vec::new(), Vec::new());
            return Ok(api::Policies { time_ns: self.now_ns(), ports, code_points, interfaces });
        };
        let told = |report: plane::PolicyReport| {
            let view = snapshot.port(report.port)?;
            let port = plan.ports.iter().find(|port| port.name == view.name)?;
            let counted =
                ports.iter().find(|port| port.port == report.port).map_or_else(Default::default, |p| p.demand);
            let wanted = |objective: &Objective| {
                let place = objective.index();
                api::ObjectiveReply {
                    objective: objective.to_string(),
                    scheme: plan.scheme(port, *objective).to_string(),
                    packets: counted.packets[place],
                    bytes: counted.bytes[place],
                    window_packets: report.last_window.packets[place],
                    window_bytes: report.last_window.bytes[place],
                }
            };
            Some(api::PortPolicy {
                port: view.name.to_string(),
                policy: port.policy.as_ref()?.to_string(),
                objective: report.objective.to_string(),
                scheme: view.scheme.to_string(),
                changes: report.changes,
                held_ns: report.dwell_left.get(),
                wanted: Objective::ALL.iter().map(wanted).collect(),
            })
        };
        let code_points = |objective: &Objective| api::CodePointsReply {
            objective: objective.to_string(),
            code_points: plan.objectives.of(*objective),
        };
        let says = |interface: &&plan::InterfacePlan| interface.trust || interface.objective != Objective::None;
        let interface = |interface: &plan::InterfacePlan| api::InterfaceObjective {
            interface: interface.name.to_string(),
            trust: interface.trust,
            objective: interface.objective.to_string(),
        };
        Ok(api::Policies {
            time_ns: self.now_ns(),
            ports: control.router.policies(now).into_iter().filter_map(told).collect(),
            code_points: Objective::ALL.iter().map(code_points).filter(|of| !of.code_points.is_empty()).collect(),
            interfaces: plan.interfaces().map(|(_, interface)| interface).filter(says).map(interface).collect(),
        })
    }
}
