//! Trials of the table of filters at its size: 128 K filters of some tenants, and keys whose result is known otherwise.
//!
//! The filters of a tenant are those of an IPv4 router: prefixes of both addresses, exact ports and protocols, in 45 combinations. The reference has a map for
//! each combination, from the bits that it compares to the lowest position. It shares no code with the table. A part of the keys is also tried filter by filter.
//! Filters with longer masks tend to have lower positions, as routes have, and half of the keys are those of a filter: otherwise a few short masks decided
//! about all keys.

use crate::Measurements;
use crate::random::RandomStream;
use classifier::{FilterChange, OpaqueKey, RuleResult, TenantFilter, TenantFilters, TenantId, TenantKey};
use serde::Deserialize;
use std::collections::{HashMap, HashSet};

/// Keys that are looked up at once.
const BATCH: usize = 256;
/// Filters that are moved to another position half-way.
const MOVED: usize = 1000;
/// The bits of a key: meta-interface, destination, source, ports and protocol in 14 bytes.
const DESTINATION: u32 = 72;
const SOURCE: u32 = 40;
const PORTS: u32 = 8;

/// A trial.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FiltersPlan {
    /// Tenants, which have equal parts of the table.
    pub tenants: u16,
    /// Filters of all tenants together.
    pub filters: u32,
    /// Keys.
    pub keys: u64,
    /// Those of them that are also tried filter by filter.
    pub tried: u64,
    /// The seed.
    pub seed: u64,
}

/// A filter as the reference has it.
#[derive(Clone, Copy)]
struct PlainFilter {
    value: u128,
    /// The number of its mask.
    mask: usize,
}

/// The filters of a tenant by position, and the lowest position for each mask and value.
#[derive(Default)]
struct PlainFilters {
    by_position: HashMap<u32, PlainFilter>,
    lowest: Vec<HashMap<u128, Vec<u32>>>,
}

impl PlainFilters {
    fn insert(&mut self, position: u32, filter: PlainFilter) {
        self.by_position.insert(position, filter);
        let positions = self.lowest[filter.mask].entry(filter.value).or_default();
        positions.push(position);
        positions.sort_unstable();
    }

    fn remove(&mut self, position: u32) -> Option<PlainFilter> {
        let filter = self.by_position.remove(&position)?;
        let positions = self.lowest[filter.mask].get_mut(&filter.value)?;
        positions.retain(|known| *known != position);
        Some(filter)
    }

    fn find(&self, masks: &[u128], key: u128) -> Option<u32> {
        let of_mask = |(mask, lowest): (&u128, &HashMap<u128, Vec<u32>>)| lowest.get(&(key & mask))?.first().copied();
        masks.iter().zip(&self.lowest).filter_map(of_mask).min()
    }

    fn try_each(&self, masks: &[u128], key: u128) -> Option<u32> {
        let matching = self.by_position.iter().filter(|(_, filter)| key & masks[filter.mask] == filter.value);
        matching.map(|(position, _)| *position).min()
    }
}

fn prefix(length: u32) -> u128 {
    if length == 0 { 0 } else { u128::from(u32::MAX << (32 - length)) }
}

/// The masks of filters: 5 prefixes of the destination, 3 of the source, and 3 sets of other fields.
fn masks() -> Vec<u128> {
    let mut all = Vec::new();
    for destination in [0, 8, 16, 24, 32] {
        for source in [0, 16, 32] {
            for rest in [0, 0xff, 0xff_ffff_u128] {
                all.push(prefix(destination) << DESTINATION | prefix(source) << SOURCE | rest);
            }
        }
    }
    all
}

/// A key of few networks, hosts and ports, so that many filters match.
fn random_key(chance: &mut RandomStream) -> u128 {
    let mut address = || 0x0a00_0000 | chance.below(64) << 16 | chance.below(64) << 8 | chance.below(64);
    let addresses = u128::from(address()) << DESTINATION | u128::from(address()) << SOURCE;
    let protocol = [6, 17][chance.below(2) as usize];
    let ports = chance.below(1 << 16) << 16 | chance.below(64);
    addresses | u128::from(ports) << PORTS | protocol
}

fn opaque(bits: u128) -> OpaqueKey {
    OpaqueKey::from_bytes(&bits.to_be_bytes()[2..])
}

fn tenant_filter(masks: &[u128], position: u32, filter: PlainFilter) -> TenantFilter {
    let result = RuleResult { action: position, ..RuleResult::default() };
    TenantFilter::new(opaque(filter.value), opaque(masks[filter.mask]), result)
}

struct Trial {
    plan: FiltersPlan,
    masks: Vec<u128>,
    table: TenantFilters,
    tenants: Vec<PlainFilters>,
    chance: RandomStream,
    /// The filters that have decided about a key: tenant and position.
    deciding: HashSet<(usize, u32)>,
}

impl Trial {
    fn new(plan: FiltersPlan) -> Trial {
        let masks = masks();
        let empty = || PlainFilters { lowest: vec![HashMap::new(); masks.len()], ..PlainFilters::default() };
        let tenants = (0..plan.tenants).map(|_| empty()).collect();
        let chance = RandomStream::new(plan.seed, "filters");
        let table = TenantFilters::default();
        Trial { plan, masks, table, tenants, chance, deciding: HashSet::new() }
    }

    /// Fills the quota of each tenant. Returns the filters that the table accepted.
    fn fill(&mut self) -> Result<u32, String> {
        let each = self.plan.filters / u32::from(self.plan.tenants);
        for tenant in 0..self.plan.tenants {
            let id = TenantId(tenant + 1);
            self.table.create(id, each as usize).map_err(|error| error.to_string())?;
            let mut changes = Vec::new();
            let mut masks: Vec<usize> =
                (0..each).map(|_| self.chance.below(self.masks.len() as u64) as usize).collect();
            masks.sort_by_cached_key(|mask| u64::from(self.masks[*mask].count_zeros()) + self.chance.below(24));
            for (number, mask) in (0..each).zip(masks) {
                let filter = PlainFilter { value: random_key(&mut self.chance) & self.masks[mask], mask };
                // Positions with gaps, for filters that are moved.
                let position = number * 8;
                self.tenants[usize::from(tenant)].insert(position, filter);
                changes.push(FilterChange::Insert(position, tenant_filter(&self.masks, position, filter)));
            }
            self.table.change(id, changes).map_err(|error| error.to_string())?;
        }
        Ok(each * u32::from(self.plan.tenants))
    }

    /// Moves filters of the first tenant to a position without one.
    fn shift_some(&mut self) -> Result<(), String> {
        let each = self.plan.filters / u32::from(self.plan.tenants);
        for _ in 0..MOVED {
            let from = self.chance.below(each.into()) as u32 * 8;
            let to = self.chance.below(each.into()) as u32 * 8 + 1 + self.chance.below(7) as u32;
            let plain = &mut self.tenants[0];
            if plain.by_position.contains_key(&to) {
                continue;
            }
            let Some(filter) = plain.remove(from) else { continue };
            plain.insert(to, filter);
            let insert = FilterChange::Insert(to, tenant_filter(&self.masks, to, filter));
            self.table.change(TenantId(1), [FilterChange::Delete(from), insert]).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// A tenant, and a random key or one of a filter with random bits outside of its mask.
    fn key(&mut self) -> (usize, u128) {
        let tenant = self.chance.below(self.plan.tenants.into()) as usize;
        let random = random_key(&mut self.chance);
        let position = self.chance.below(u64::from(self.plan.filters / u32::from(self.plan.tenants))) as u32 * 8;
        let near = self.tenants[tenant].by_position.get(&position).filter(|_| self.chance.below(2) == 0);
        (tenant, near.map_or(random, |filter| filter.value | random & !self.masks[filter.mask]))
    }

    /// Looks up keys, and counts results that differ: from those of the maps, and of the trial filter by filter.
    fn compare(&mut self, keys: u64, tried: u64) -> [u64; 3] {
        let (mut wrong, mut wrong_tried, mut found) = (0, 0, 0);
        let table = self.table.table();
        let mut done = 0;
        while done < keys {
            let batch: Vec<(usize, u128)> = (0..BATCH.min((keys - done) as usize)).map(|_| self.key()).collect();
            let key =
                |(tenant, key): &(usize, u128)| TenantKey { tenant: TenantId(*tenant as u16 + 1), key: opaque(*key) };
            let opaque: Vec<TenantKey> = batch.iter().map(key).collect();
            let mut results = vec![None; batch.len()];
            table.look_up(&opaque, &mut results);
            for ((tenant, key), result) in batch.iter().zip(results) {
                let position = result.map(|result| result.action);
                let plain = &self.tenants[*tenant];
                wrong += u64::from(position != plain.find(&self.masks, *key));
                found += u64::from(position.is_some());
                self.deciding.extend(position.map(|position| (*tenant, position)));
                if done < tried {
                    wrong_tried += u64::from(position != plain.try_each(&self.masks, *key));
                }
                done += 1;
            }
        }
        [wrong, wrong_tried, found]
    }
}

/// Runs the trial that `text`, of `file`, describes.
///
/// # Errors
///
/// The description is invalid, or the table refuses a filter.
pub fn run(text: &str, file: &str) -> Result<Measurements, String> {
    let plan: FiltersPlan = toml::from_str(text).map_err(|error| format!("{file}: {error}"))?;
    if plan.tenants == 0 || plan.tenants > 1024 || plan.filters < u32::from(plan.tenants) || plan.keys == 0 {
        return Err(format!("{file}: give 1 to 1024 tenants, a filter for each, and keys"));
    }
    let mut trial = Trial::new(plan);
    let FiltersPlan { keys, tried, .. } = trial.plan;
    let filled = trial.fill()?;
    let left = trial.table.free_entries();
    // One more than the quota is refused.
    let more = tenant_filter(&trial.masks, u32::MAX >> 8, PlainFilter { value: 0, mask: 0 });
    let refused = trial.table.insert(TenantId(1), u32::MAX >> 8, more).is_err();
    let before = trial.compare(keys / 2, tried / 2);
    trial.shift_some()?;
    let after = trial.compare(keys - keys / 2, tried - tried / 2);
    let mut measured = Measurements::default();
    let mut put = |name: &str, value: f64| _ = measured.values.insert(name.to_owned(), value);
    put("filters", filled.into());
    put("left", left as f64);
    put("refused", f64::from(u8::from(refused)));
    for (name, (before, after)) in ["wrong", "wrong_tried", "found"].into_iter().zip(before.into_iter().zip(after)) {
        put(name, (before + after) as f64);
    }
    put("deciding", trial.deciding.len() as f64);
    put("keys", keys as f64);
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_of_filters_agrees_with_maps() {
        let run = |tenants| {
            let text = format!("tenants = {tenants}\nfilters = 4000\nkeys = 4000\ntried = 200\nseed = 3");
            run(&text, "filters.toml").unwrap()
        };
        for tenants in [1, 8] {
            let measured = run(tenants);
            let get = |name: &str| measured.get(name).unwrap();
            assert_eq!((get("filters"), get("wrong"), get("wrong_tried")), (4000.0, 0.0, 0.0));
            assert!(get("deciding") > 500.0, "{}", get("deciding"));
            assert_eq!(get("refused"), 1.0);
        }
    }

    #[test]
    fn reference_finds_the_lowest_position() {
        let masks = masks();
        let mut plain = PlainFilters { lowest: vec![HashMap::new(); masks.len()], ..PlainFilters::default() };
        let key = random_key(&mut RandomStream::new(1, "key"));
        for (position, mask) in [(9, 0), (4, 12), (6, 44)] {
            plain.insert(position, PlainFilter { value: key & masks[mask], mask });
        }
        assert_eq!((plain.find(&masks, key), plain.try_each(&masks, key)), (Some(4), Some(4)));
        plain.remove(4);
        assert_eq!((plain.find(&masks, key), plain.try_each(&masks, key)), (Some(6), Some(6)));
        assert_eq!(plain.find(&masks, !key), Some(9), "the filter for all keys");
    }
}
