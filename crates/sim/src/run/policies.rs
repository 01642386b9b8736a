//! Policies of routers, consulted in virtual time by the same controllers as in a real router.

use super::{RunError, RunningWorld, instant};
use plane::WorkerReport;

impl RunningWorld<'_> {
    /// Steps cores until all have reached `time`, and consults policies at the end of each of their windows.
    pub(super) fn consult_until(&mut self, time: u64) -> Result<(), RunError> {
        while let Some((at, node)) = self.next_consultation().filter(|(at, _)| *at < time) {
            self.until(at);
            self.consulted = at;
            if self.outside.lock().violations.is_empty() {
                self.consult(node, at)?;
            } else {
                return Ok(());
            }
        }
        self.until(time);
        self.consulted = time;
        Ok(())
    }

    /// The end of the next policy window, and its router. Routers with a pending generation are skipped.
    fn next_consultation(&self) -> Option<(u64, usize)> {
        let settled = self.nodes.iter().enumerate().filter(|(_, node)| node.pending.is_none());
        let waits =
            settled.filter_map(|(index, node)| Some((node.router.policies_due_in(instant(self.consulted))?, index)));
        waits.map(|(wait, index)| (self.consulted + wait.get(), index)).min()
    }

    fn consult(&mut self, node: usize, time: u64) -> Result<(), RunError> {
        let reports: Vec<WorkerReport> = self.reports(node).map(|(report, _)| report).collect();
        let choices = self.nodes[node].router.run_policies(instant(time), &reports);
        let named = || self.nodes[node].plan.name.clone();
        if let Some(error) = choices.iter().find_map(|choice| choice.failed.clone()) {
            return Err(RunError::Apply(named(), vec![error]));
        }
        if !choices.is_empty() {
            self.cores.iter_mut().filter(|core| core.node == node).for_each(|core| core.wake_at(time));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::NoCaptures;
    use crate::run::{RunningWorld, instant, test_router};
    use plan::Objective;

    /// Calls from the start, a backup from the third second on.
    const WORLD: &str = r#"
duration = "8s"
sample = "1s"
[[link]]
between = ["out", "s"]
rate = "10mbit"
[[source]]
name = "calls"
card = "in"
kind = "constant"
rate = "500pps"
size = "200b"
dscp = "ef"
destination = "10.0.0.1"
[[source]]
name = "backup"
card = "in"
kind = "constant"
rate = "500pps"
size = "1200b"
dscp = "cs1"
start = "3s"
destination = "10.0.0.1"
[[sink]]
name = "s"
[router.r.cost]
input = "1us"
[router.r]
config = '''
version = 1
[objectives]
delay = ["ef"]
throughput = ["cs1"]
[policy.edge]
window = "500ms"
dwell = "2s"
delay = "fq{codel}"
throughput = "fifo(limit=3000)"
{ports}'''
"#;

    /// The objective at the end, the number of changes, the scheme, and the sink's share of the calls.
    fn outcome() -> (Objective, u64, String, Option<f64>) {
        let world =
            test_router::world(&WORLD.replace("{ports}", &test_router::ports("trust = true", "policy = \"edge\"")));
        let mut live = RunningWorld::new(&world, &mut NoCaptures).unwrap();
        live.run(&mut |_| {}).unwrap();
        let router = &live.nodes[0].router;
        let report = router.policies(instant(8_000_000_000)).remove(0);
        let scheme = router.snapshot().port(report.port).unwrap().scheme.to_string();
        let measured = live.finish().unwrap();
        (report.objective, report.changes, scheme, measured.get("source.calls.delivery"))
    }

    #[test]
    fn policies_decide_in_virtual_time_and_equally_in_every_run() {
        let (objective, changes, scheme, delivery) = outcome();
        assert_eq!((objective, changes, delivery), (Objective::Throughput, 2, Some(1.0)));
        assert!(scheme.starts_with("fifo(limit=3000"), "{scheme}");
        assert_eq!(outcome(), (objective, changes, scheme, delivery));
    }
}
