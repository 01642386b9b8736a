//! Two code options on the same packets: the one of a slice, and one that may replace it. The results of the first count; those of the second are
//! compared with them, for a sample of the packets.

use super::{
    BatchPacket, CodeEnv, CodeOption, CodeStage, Diversion, Formatted, InnerEdit, LookupKey, LookupResult, SliceCode,
};
use crate::memory::SliceMemory;
use packet::containment::contain;
use packet::{Pool, Region};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// The results of a double run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DoubleRunReport {
    /// Calls of both code options with the same packet.
    pub compared: u64,
    /// Calls in which they decided otherwise, or made other packets.
    pub differences: u64,
    /// Why the second one failed. Its worker does not call it any more.
    pub failure: Option<String>,
}

/// The counters that the workers of a double run share.
#[derive(Debug, Default)]
pub(crate) struct DoubleRunCounts {
    compared: AtomicU64,
    differences: AtomicU64,
    failure: Mutex<Option<String>>,
}

impl DoubleRunCounts {
    pub fn report(&self) -> DoubleRunReport {
        DoubleRunReport {
            compared: self.compared.load(Relaxed),
            differences: self.differences.load(Relaxed),
            failure: self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    fn fail(&self, failure: String) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
    }
}

/// Both code options as one. Every `sample`th call of a stage is made twice. The second one has `memory`, so that it does not change that of the slice.
pub(crate) fn double_run(
    (old, new): (&SliceCode, SliceCode),
    (sample, memory): (u32, SliceMemory),
    counts: Arc<DoubleRunCounts>,
) -> SliceCode {
    let current = old.clone();
    old.made_by(move |of_slice| {
        Ok(Box::new(DoubleRun {
            old: current.start(of_slice)?,
            new: Some(new.start(&memory)?),
            steps: [new.parse_steps, new.format_steps],
            memory: memory.clone(),
            sample,
            until: [0; 2],
            counts: counts.clone(),
            spare: Pool::new(Region::new(1)),
        }))
    })
}

struct DoubleRun {
    old: Box<dyn CodeOption>,
    /// `None` after it has failed.
    new: Option<Box<dyn CodeOption>>,
    steps: [u32; 2],
    memory: SliceMemory,
    sample: u32,
    /// Calls of each stage before the next one that is made twice.
    until: [u32; 2],
    counts: Arc<DoubleRunCounts>,
    /// A frame for a copy of the packet.
    spare: Pool,
}

impl DoubleRun {
    fn is_due(&mut self, stage: CodeStage) -> bool {
        let until = &mut self.until[stage as usize];
        let is_due = *until == 0;
        *until = if is_due { self.sample.saturating_sub(1) } else { *until - 1 };
        is_due && self.new.is_some()
    }

    /// Calls the second code option. `None` if it fails.
    fn call_new<T>(
        &mut self,
        (stage, interface): (CodeStage, u16),
        call: impl FnOnce(&mut dyn CodeOption, &mut CodeEnv<'_>) -> Result<T, Diversion>,
    ) -> Option<Result<T, Diversion>> {
        let new = self.new.as_deref_mut()?;
        let mut env = CodeEnv::new(&self.memory, interface, self.steps[stage as usize]);
        let result = contain(|| call(new, &mut env));
        let failure = match result {
            Ok(Err(Diversion::Failed)) => new.failure().unwrap_or_default(),
            Ok(result) => return Some(env.fault().map_or(result, Err)),
            Err(panic) => panic,
        };
        self.counts.fail(failure);
        self.new = None;
        None
    }

    fn compare(&self, is_same: bool) {
        self.counts.compared.fetch_add(1, Relaxed);
        self.counts.differences.fetch_add(u64::from(!is_same), Relaxed);
    }
}

impl CodeOption for DoubleRun {
    fn parse(&mut self, packet: &[u8], env: &mut CodeEnv<'_>) -> Result<LookupKey, Diversion> {
        let parsed = self.old.parse(packet, env);
        if self.is_due(CodeStage::Parse) {
            let expected = env.fault().map_or(parsed, Err);
            let other = self.call_new((CodeStage::Parse, env.interface()), |new, env| new.parse(packet, env));
            self.compare(other == Some(expected));
        }
        parsed
    }

    fn format(
        &mut self,
        packet: &mut InnerEdit<'_>,
        result: &LookupResult,
        env: &mut CodeEnv<'_>,
    ) -> Result<Formatted, Diversion> {
        let copy = if self.is_due(CodeStage::Format) { self.spare.take() } else { None };
        let Some(mut copy) = copy else { return self.old.format(packet, result, env) };
        let is_copied = copy.fill(packet.bytes());
        let formatted = self.old.format(packet, result, env);
        if is_copied {
            let expected = env.fault().map_or(formatted, Err);
            let call = |new: &mut dyn CodeOption, env: &mut CodeEnv<'_>| {
                new.format(&mut InnerEdit::new(&mut copy), result, env)
            };
            let other = self.call_new((CodeStage::Format, env.interface()), call);
            let is_sent = expected == Ok(Formatted::Send);
            self.compare(other == Some(expected) && (!is_sent || copy.bytes() == packet.bytes()));
        }
        self.spare.give(copy);
        formatted
    }

    fn is_batched(&self) -> bool {
        self.old.is_batched()
    }

    fn begin(&mut self, stage: CodeStage, packets: &mut dyn Iterator<Item = BatchPacket<'_>>) {
        self.old.begin(stage, packets);
    }

    fn failure(&self) -> Option<String> {
        self.old.failure()
    }
}
