//! The paths of a plan and their rules, by ids.

use super::Names;
use super::cpu_shares::CpuShares;
use super::shares::SharePlans;
use crate::filter::{RuleOrigin, filter_rule, path_rule};
use crate::function;
use crate::snapshot::{BEST_EFFORT, BEST_EFFORT_CAPACITY, BUILT_IN, CONTROL, GENERAL, PathSpec, RuleTreatment};
use classifier::{ListedRule, RuleList, SetStore};
use plan::admission::{CostEstimate, CostSource};
use plan::{Call, PathCpu, Plan};
use std::sync::Arc;
use units::{InterfaceId, PathId};

/// The maximum length of each queue of the built-in paths, in packets.
const OWN_CAPACITY: usize = 512;
/// The class of the router's own protocols, without which its neighbours would lose it: above all others.
const CONTROL_CLASS: u8 = u8::MAX;

/// The built-in paths, then those of the plan. A path whose filter has the same rules as in `old` keeps its table.
pub(super) fn paths(
    plan: &Plan,
    shares: &CpuShares,
    names: &mut Names,
    (old, sets): (&[PathSpec], &Arc<SetStore>),
) -> Vec<PathSpec> {
    let spec = |id, name: &str, functions, capacity, class| {
        let (name, cpu, cost) = (name.into(), PathCpu::default(), None);
        PathSpec {
            id,
            name,
            functions,
            capacity,
            output_capacity: capacity,
            class,
            objective: None,
            cpu,
            share: shares.built_in(id),
            cost,
            translates: false,
            receives_local: false,
            filter: Arc::default(),
            dispatch: Vec::new(),
            guest_rules: Vec::new(),
        }
    };
    let forward =
        || vec![Call::parse("ip", &function::Functions::default().declarations(), "function").expect("it is declared")];
    let mut paths = vec![
        spec(CONTROL, "control", Vec::new(), OWN_CAPACITY, CONTROL_CLASS),
        spec(GENERAL, "general", Vec::new(), OWN_CAPACITY, 0),
        spec(BEST_EFFORT, "best-effort", forward(), BEST_EFFORT_CAPACITY, 0),
    ];
    names.paths.retain(|name, _| plan.paths.iter().any(|path| path.name == *name));
    for path in &plan.paths {
        let next = names.next[2];
        let id = *names.paths.entry(path.name.clone()).or_insert_with(|| PathId::at(next));
        names.next[2] = next.max(id.index() + 1);
        let mut path_spec = spec(id, &path.name, path.functions.clone(), path.input_queue as usize, path.class);
        let rules = path.filter.iter().map(|rule| filter_rule(rule, came_by(&rule.matching, names))).collect();
        path_spec.filter = shared_list(rules, sets, old.iter().find(|old| old.id == id).map(|old| &old.filter));
        path_spec.translates = path.functions.iter().any(|call| call.name == "nat");
        path_spec.receives_local = path.functions.iter().any(|call| call.name == function::SLICE.name);
        // Its match may apply to packets for other hosts too, which are forwarded.
        if path_spec.receives_local && path.functions.iter().all(|call| call.name != "ip") {
            path_spec.functions.extend(forward());
        }
        path_spec.output_capacity = path.output_queue as usize;
        path_spec.objective = path.objective;
        (path_spec.cpu, path_spec.share) = (path.cpu, shares.of_path(path));
        path_spec.cpu.max_wait = shares.max_wait(path);
        let declared = Some(CostEstimate::sum(&path.functions)).filter(|figure| figure.source == CostSource::Declared);
        path_spec.cost = path.cpu.cost.or(declared.map(|figure| figure.cost)).map(|cost| cost.packet);
        paths.push(path_spec);
    }
    // Targets of rules are resolved when all paths have ids. The check of the plan ensures that they exist.
    let named = |path: &str| names.paths.get(path).copied().unwrap_or(BEST_EFFORT);
    let treatment = |rule: &plan::GuestRule| match &rule.treatment {
        plan::GuestTreatment::Pass => RuleTreatment::Pass,
        plan::GuestTreatment::Drop => RuleTreatment::Drop,
        plan::GuestTreatment::Path(path) => RuleTreatment::Path(named(path)),
    };
    for (spec, path) in paths.iter_mut().skip(BUILT_IN).zip(&plan.paths) {
        spec.dispatch = path.dispatch.iter().map(|rule| (rule.clone(), named(&rule.path))).collect();
        spec.guest_rules = path.guest_rules.iter().map(|rule| (rule.clone(), treatment(rule))).collect();
    }
    paths
}

/// The interface and the VRF that a match names. An interface that no longer exists matches no packet: this id is never given out.
pub(super) fn came_by(matching: &plan::Match, names: &Names) -> RuleOrigin {
    let id = |name: &String| names.interfaces.get(name.as_str()).copied().unwrap_or(InterfaceId(u16::MAX));
    (matching.iif.as_ref().map(id), matching.vrf.as_deref().map(|vrf| names.vrf(Some(&vrf.into()))))
}

/// The rules that select the configured paths, which come after the three built-in ones.
pub(super) fn rules(
    plan: &Plan,
    names: &Names,
    shares: &SharePlans,
    (old, sets): (&Arc<RuleList>, &Arc<SetStore>),
) -> Arc<RuleList> {
    let rule = |(position, path): (usize, &plan::PathPlan)| {
        let matching = path.matching.as_ref()?;
        // The check of the shares ensures that they exist.
        let share = path.link_share.as_ref().and_then(|share| Some((share, shares.id(share).ok()?)));
        let origin = came_by(matching, names);
        Some(path_rule(matching, origin, (position + BUILT_IN, &path.name), (None, share)))
    };
    shared_list(plan.paths.iter().enumerate().filter_map(rule).collect(), sets, Some(old))
}

/// The list of these rules: that of the last generation if it was made from the same, for a list of many rules takes time to make.
pub(super) fn shared_list(rules: Vec<ListedRule>, sets: &Arc<SetStore>, last: Option<&Arc<RuleList>>) -> Arc<RuleList> {
    // The check of a plan refuses what a list cannot have: too many combinations or rules, and unknown sets.
    RuleList::shared(rules, sets, last).unwrap_or_else(|(rule, error)| unreachable!("rule {rule}: {error}"))
}
