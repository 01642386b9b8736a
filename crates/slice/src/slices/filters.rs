//! The filters of slices. A tenant names its own queues and meta-interfaces; the physical queue is put into the row of the filter here.

use super::{Slice, Slices};
use crate::rows::{Hop, Row, RowAction};
use crate::spec::{FilterAction, FilterEdit, FilterSpec, SliceError};
use classifier::{FilterChange, FilterUse, OpaqueKey, RefusedChanges, RuleResult, TenantFilter};

/// A filter that workers use.
pub(super) struct Installed {
    spec: FilterSpec,
    pub row: u32,
    uses: FilterUse,
    /// The hits of its counter when the filter got it.
    base: u64,
}

/// A filter and its hits.
#[derive(Clone, Debug)]
pub struct FilterReport {
    /// Its position.
    pub position: u32,
    /// Its definition.
    pub spec: FilterSpec,
    /// The entries of the table that its ranges need.
    pub entries: u32,
    /// Packets that it decided about.
    pub hits: u64,
}

impl Slice {
    /// The position of a filter whose queue and meta-interface have a property.
    pub(super) fn filter_with(&self, has: impl Fn(u16, u16) -> bool) -> Option<u32> {
        let uses = |filter: &Installed| match filter.spec.action {
            FilterAction::Send { queue, interface, .. } => has(queue, interface),
            _ => false,
        };
        self.filters.iter().find(|(_, filter)| uses(filter)).map(|(position, _)| *position)
    }

    /// The filter that needs the longest key: its position, and the bytes of the key.
    pub(super) fn longest_key(&self) -> Option<(u32, usize)> {
        let length = |spec: &FilterSpec| {
            let ends = spec.ranges.iter().map(|range| usize::from(range.first_bit) + usize::from(range.width));
            spec.value.len().max(ends.max().unwrap_or(0).div_ceil(8))
        };
        let lengths = self.filters.iter().map(|(position, filter)| (*position, length(&filter.spec)));
        lengths.max_by_key(|(_, length)| *length)
    }

    /// The row of a filter, with the physical queue in place of the slice's own.
    fn row(&self, spec: &FilterSpec) -> Result<Row, SliceError> {
        if let Some(index) = spec.index.filter(|index| usize::from(*index) >= self.state.indices) {
            let hint = format!("use an index below {}", self.state.indices);
            return Err(SliceError::new(format!("the slice has no statistics index {index}"), hint));
        }
        let (action, data) = match spec.action {
            FilterAction::Drop => (RowAction::Drop, [0; _]),
            FilterAction::Exception(code) => (RowAction::Exception(code), [0; _]),
            FilterAction::Send { queue, interface, next, data } => {
                let Some((share, port)) = self.queues.get(&queue).map(|queue| queue.place) else {
                    let hint = "make it first: `switchpath slice queue`";
                    return Err(SliceError::new(format!("the slice has no queue {queue}"), hint));
                };
                let Some(from) = self.interfaces.get(&interface) else {
                    let hint = "make it first: `switchpath slice mi`";
                    return Err(SliceError::new(format!("the slice has no meta-interface {interface}"), hint));
                };
                if from.is_ipv4() != next.is_ipv4() {
                    let reason = format!("{from} of meta-interface {interface} cannot send to {next}");
                    return Err(SliceError::new(reason, "use addresses of one family"));
                }
                (RowAction::Send(Hop { queue, share, port, interface, next }), data)
            }
        };
        Ok(Row { action, index: spec.index, data })
    }

    /// The condition of a filter with this row.
    fn condition(&self, spec: &FilterSpec, row: u32) -> Result<TenantFilter, SliceError> {
        let most = self.state.code.key_bytes;
        if spec.value.len() != spec.mask.len() || spec.value.len() > most {
            let reason = format!("a value of {} and a mask of {} bytes", spec.value.len(), spec.mask.len());
            let hint = format!("keys of the code option '{}' have {most} bytes", self.state.code.name);
            return Err(SliceError::new(reason, hint));
        }
        if spec.ranges.iter().any(|range| usize::from(range.first_bit) + usize::from(range.width) > most * 8) {
            let hint = format!("keys of the code option '{}' have {} bits", self.state.code.name, most * 8);
            return Err(SliceError::new("a range ends beyond the key", hint));
        }
        let key = |bytes: &[u8]| OpaqueKey::from_bytes(bytes);
        let result = RuleResult { action: row, ..RuleResult::default() };
        let filter = TenantFilter::new(key(&spec.value), key(&spec.mask), result);
        Ok(TenantFilter { ranges: spec.ranges.clone(), ..filter })
    }
}

impl Slices {
    /// Makes all changes of a slice's filters in this order, or none. A packet sees the filters before or after all of them. Returns for each change the
    /// entries of the table that its filter uses, or has used.
    ///
    /// # Errors
    /// A filter names a queue, meta-interface or index that the slice does not have, a position is wrong, or the quota is used up. The error names the
    /// change.
    pub fn edit_filters(&mut self, name: &str, edits: &[FilterEdit]) -> Result<Vec<u32>, SliceError> {
        self.recover();
        let mut rows = Vec::new();
        let made = self.make_changes(name, edits, &mut rows);
        let uses = made.and_then(|changes| {
            let id = self.slice(name)?.state.id;
            self.filters.change(id, changes).map_err(|refused: RefusedChanges| {
                SliceError::new(refused.to_string(), "no filter has changed: correct the change")
            })
        });
        let uses = match uses {
            Ok(uses) => uses,
            Err(error) => {
                // No table refers to them.
                rows.into_iter().flatten().for_each(|row| self.rows.give_back(row));
                return Err(error);
            }
        };
        let mut freed = Vec::new();
        let slice = self.slice_mut(name)?;
        for ((edit, row), uses) in edits.iter().zip(rows).zip(&uses) {
            let (position, spec) = match edit {
                FilterEdit::Insert(position, spec) | FilterEdit::Replace(position, spec) => (*position, Some(spec)),
                FilterEdit::Delete(position) => (*position, None),
            };
            let before = slice.filters.remove(&position);
            freed.extend(before.as_ref().map(|before| before.row));
            if let Some((spec, row)) = spec.zip(row) {
                // Before the publication, so that no packet of the filter is in it.
                let base = before.map_or_else(|| slice.state.hits(uses.counter), |before| before.base);
                slice.filters.insert(position, Installed { spec: spec.clone(), row, uses: *uses, base });
            }
        }
        self.draft.filters = self.filters.table();
        let version = self.publish();
        self.rows.free(freed, version);
        Ok(uses.iter().map(|uses| uses.entries).collect())
    }

    /// Writes the rows of changes, and returns the changes for the classifier. `rows` has one row for each change, if it has a filter.
    fn make_changes(
        &mut self,
        name: &str,
        edits: &[FilterEdit],
        rows: &mut Vec<Option<u32>>,
    ) -> Result<Vec<FilterChange>, SliceError> {
        let mut changes = Vec::with_capacity(edits.len());
        for (number, edit) in edits.iter().enumerate() {
            let nth = |error: SliceError| match edits.len() {
                1 => error,
                _ => SliceError { reason: format!("change {}: {}", number + 1, error.reason), ..error },
            };
            let spec = match edit {
                FilterEdit::Insert(_, spec) | FilterEdit::Replace(_, spec) => spec,
                FilterEdit::Delete(position) => {
                    changes.push(FilterChange::Delete(*position));
                    rows.push(None);
                    continue;
                }
            };
            let row = self.slice(name)?.row(spec).map_err(nth)?;
            let Some(place) = self.rows.take() else {
                let hint = "try again when the workers have handled their packets";
                return Err(SliceError::new("the results of replaced filters are still in use", hint));
            };
            rows.push(Some(place));
            let condition = self.slice(name)?.condition(spec, place).map_err(nth)?;
            self.shared.rows.write(place, &row);
            changes.push(match edit {
                FilterEdit::Replace(position, _) => FilterChange::Replace(*position, condition),
                FilterEdit::Insert(position, _) | FilterEdit::Delete(position) => {
                    FilterChange::Insert(*position, condition)
                }
            });
        }
        Ok(changes)
    }

    /// At most `most` filters of a slice from a position on, in ascending order.
    ///
    /// # Errors
    /// There is no such slice.
    pub fn filters(&self, name: &str, from: u32, most: usize) -> Result<Vec<FilterReport>, SliceError> {
        let slice = self.slice(name)?;
        let report = |(position, filter): (&u32, &Installed)| FilterReport {
            position: *position,
            spec: filter.spec.clone(),
            entries: filter.uses.entries,
            hits: slice.state.hits(filter.uses.counter) - filter.base,
        };
        Ok(slice.filters.range(from..).take(most).map(report).collect())
    }
}
