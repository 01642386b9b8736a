//! A code option at work for a slice on one worker. It writes the packets of a batch into the block of a guest, calls the guest and checks its decisions.
//! The slice function asks for each of them later.
//!
//! A guest is not called again after a trap or an invalid decision, and its slice is suspended. One that does not return in time is started anew. The
//! first packet of that call is an exception, and the rest of the batch is dropped. After [`FAULTS`] of those its slice is suspended, too.

use crate::guest::FAULTS;
use crate::instance::Fault;
use crate::module::SLICE;
use crate::module_instance::{LinkedModule, ModuleInstance, block_of, block_of_mut};
use crate::slice_block::{self as block, EDITS, MOST, PASSES, SIZE, SliceNeeds, SliceRecord, VERSION};
use packet::BATCH;
use slice::SliceMemory;
use slice::code::{
    BatchPacket, CodeEnv, CodeOption, CodeStage, Diversion, ExceptionCode, Formatted, InnerEdit, LookupKey,
    LookupResult,
};
use wasmtime::TypedFunc;

/// A started guest.
struct Started {
    module: ModuleInstance,
    parse: TypedFunc<(), ()>,
    format: TypedFunc<(), ()>,
    /// The offset of the block.
    block: usize,
    needs: SliceNeeds,
}

/// The changes of a packet that is sent: its new first byte and length, and the place of the bytes in [`SliceInstance::bytes`] that the guest has seen.
#[derive(Clone, Copy, Debug, Default)]
struct PacketChange {
    front: i16,
    length: usize,
    at: usize,
    count: usize,
}

/// The decision about a packet that continues.
#[derive(Clone, Copy, Debug)]
enum Continued {
    LookUp(LookupKey),
    Send(Option<PacketChange>),
}

/// The decision about the packet at a position of the batch.
#[derive(Clone, Copy, Debug)]
struct Decision {
    position: usize,
    result: Result<Continued, Diversion>,
}

/// See the [module](self).
pub(crate) struct SliceInstance {
    code: LinkedModule,
    options: Box<[u64]>,
    guest: Started,
    /// The stage of the decisions.
    stage: CodeStage,
    decisions: Vec<Decision>,
    /// The decisions before it were carried out.
    next: usize,
    /// Bytes of changed packets, until the packets get them.
    bytes: Vec<u8>,
    /// Calls that did not return in time.
    overruns: u32,
    failure: Option<String>,
}

impl Started {
    fn new(code: &LinkedModule, options: &[u64], of_slice: &SliceMemory) -> Result<Started, Fault> {
        let mut module = code.instantiate_version(SLICE, VERSION)?;
        module.store.data_mut().slice.memory = of_slice.clone();
        let block = module.block::<SIZE>()?;
        let shared = block_of_mut(module.memory.data_mut(&mut module.store), block);
        block::put_start(shared, of_slice.size(), options);
        module.start()?;
        let parse = module.function("switchpath_parse")?;
        let format = module.function("switchpath_format")?;
        let needs = SliceNeeds::read(block_of(module.memory.data(&module.store), block), module.memory_size());
        let needs = needs.map_err(Fault::InvalidDecision)?;
        module.begin_work();
        Ok(Started { module, parse, format, block, needs })
    }

    /// Writes the first packets into the block. Returns their positions and number.
    fn show(
        &mut self,
        stage: CodeStage,
        packets: &mut dyn Iterator<Item = BatchPacket<'_>>,
    ) -> ([(usize, usize); MOST], usize) {
        let mut shown = [(0, 0); MOST];
        let mut count = 0;
        let memory = self.module.memory.data_mut(&mut self.module.store);
        for (which, packet) in packets.take(self.needs.most).enumerate() {
            let length = packet.bytes.len().min(self.needs.bytes);
            let at = self.needs.place(which);
            if let Some(place) = memory.get_mut(at..at + length) {
                place.copy_from_slice(&packet.bytes[..length]);
            }
            block::put_record(block_of_mut(memory, self.block), (which, length), &packet, stage == CodeStage::Format);
            shown[which] = (packet.position, packet.bytes.len());
            count += 1;
        }
        block::put_count(block_of_mut(memory, self.block), count);
        (shown, count)
    }

    /// One call of the guest.
    fn call(&mut self, stage: CodeStage) -> Result<(), Fault> {
        self.module.store.data_mut().slice.beyond = 0;
        self.module.call(if stage == CodeStage::Parse { &self.parse } else { &self.format })
    }

    /// The decision about a packet of the call that had `length` bytes. `bytes` gets its changed bytes.
    fn decision(
        &self,
        stage: CodeStage,
        (which, length): (usize, usize),
        bytes: &mut Vec<u8>,
    ) -> Result<Result<Continued, Diversion>, String> {
        let memory = self.module.memory.data(&self.module.store);
        let record = SliceRecord::read(block_of(memory, self.block), which);
        let diversion = record.diversion(stage == CodeStage::Format)?;
        if self.module.store.data().slice.beyond >> which & 1 != 0 {
            return Ok(Err(Diversion::OutOfMemory));
        }
        Ok(match diversion {
            Some(diversion) => Err(diversion),
            None if stage == CodeStage::Parse || record.is_again() => Ok(Continued::LookUp(record.key())),
            None if self.needs.has(EDITS) => Ok(Continued::Send(Some(self.change(record, (which, length), bytes)?))),
            None => Ok(Continued::Send(None)),
        })
    }

    /// Checks the changes of a packet, and keeps its bytes.
    fn change(
        &self,
        record: SliceRecord,
        (which, old): (usize, usize),
        bytes: &mut Vec<u8>,
    ) -> Result<PacketChange, String> {
        let (front, length) = (isize::from(record.front), record.length as usize);
        let end = front.saturating_add_unsigned(length);
        if front < -(self.needs.room as isize) || end > old as isize || front > old as isize {
            return Err(format!(
                "it moves the front of a packet of {old} bytes by {front}, with {length} bytes from there; it asked for \
                 {} bytes in front",
                self.needs.room
            ));
        }
        // The bytes in the area that belong to the new packet.
        let shown = (old.min(self.needs.bytes) as isize).min(end);
        let count = usize::try_from(shown - front).unwrap_or(0);
        let from = self.needs.place(which).wrapping_add_signed(front);
        let at = bytes.len();
        bytes
            .extend_from_slice(self.module.memory.data(&self.module.store).get(from..from + count).unwrap_or_default());
        Ok(PacketChange { front: record.front, length, at, count: bytes.len() - at })
    }
}

impl SliceInstance {
    /// Starts one for a slice with this memory.
    pub fn start(code: &LinkedModule, options: &[u64], memory: &SliceMemory) -> Result<SliceInstance, Fault> {
        let guest = Started::new(code, options, memory)?;
        let changed = if guest.needs.has(EDITS) { BATCH * (guest.needs.room + guest.needs.bytes) } else { 0 };
        Ok(SliceInstance {
            code: code.clone(),
            options: options.into(),
            guest,
            stage: CodeStage::Parse,
            decisions: Vec::with_capacity(BATCH),
            next: 0,
            bytes: Vec::with_capacity(changed),
            overruns: 0,
            failure: None,
        })
    }

    /// Bytes of memory that it has now, without that of its slice.
    pub fn memory(&self) -> usize {
        self.guest.module.memory_size()
    }

    /// Lets the guest decide about the packets of a call, and keeps its decisions. False if it must not be called again for this batch.
    fn decide(&mut self, packets: &mut dyn Iterator<Item = BatchPacket<'_>>) -> bool {
        let (shown, count) = self.guest.show(self.stage, packets);
        if count == 0 {
            return false;
        }
        let before = self.decisions.len();
        let fault = match self.guest.call(self.stage) {
            Ok(()) => self.keep(&shown[..count]).err().map(Fault::InvalidDecision),
            Err(fault) => Some(fault),
        };
        let Some(fault) = fault else { return true };
        let diversion = self.fail(&fault);
        self.decisions.truncate(before);
        let failed =
            shown[..count].iter().map(|(position, _)| Decision { position: *position, result: Err(diversion) });
        self.decisions.extend(failed);
        false
    }

    /// Checks and keeps the decisions of a call.
    fn keep(&mut self, shown: &[(usize, usize)]) -> Result<(), String> {
        for (which, (position, length)) in shown.iter().enumerate() {
            let result = self.guest.decision(self.stage, (which, *length), &mut self.bytes)?;
            self.decisions.push(Decision { position: *position, result });
        }
        Ok(())
    }

    /// The fate of the packets of a call that has failed.
    #[cold]
    fn fail(&mut self, fault: &Fault) -> Diversion {
        let mut failure = fault.to_string();
        if *fault == Fault::TimedOut {
            self.overruns += 1;
            if self.overruns < FAULTS {
                // The guest was interrupted at any place, so its own memory may be inconsistent. That of the slice stays.
                let memory = self.guest.module.store.data().slice.memory.clone();
                match Started::new(&self.code, &self.options, &memory) {
                    Ok(started) => {
                        self.guest = started;
                        return Diversion::Exception(ExceptionCode::OverBudget);
                    }
                    Err(fault) => failure = format!("it does not start again: {fault}"),
                }
            } else {
                failure = format!("{failure}, {FAULTS} times");
            }
        } else if let Some(line) = self.guest.module.store.data_mut().take_new_line() {
            failure = format!("{failure}; it logged: {line}");
        }
        self.failure = Some(failure);
        Diversion::Failed
    }

    /// The decision about a packet: one of the batch, or that of a call for it alone.
    fn result(
        &mut self,
        stage: CodeStage,
        position: Option<usize>,
        packet: BatchPacket<'_>,
    ) -> Result<Continued, Diversion> {
        if let Some(position) = position.filter(|_| self.stage == stage) {
            let left = self.decisions.get(self.next..).unwrap_or_default();
            if let Some(skipped) = left.iter().position(|decision| decision.position == position) {
                self.next += skipped + 1;
                return left[skipped].result;
            }
        }
        self.begin(stage, &mut std::iter::once(packet));
        self.next = self.decisions.len();
        self.decisions.first().map_or(Err(Diversion::Failed), |decision| decision.result)
    }
}

impl CodeOption for SliceInstance {
    fn parse(&mut self, packet: &[u8], env: &mut CodeEnv<'_>) -> Result<LookupKey, Diversion> {
        let (interface, result) = (env.interface(), LookupResult::default());
        let packet = BatchPacket { position: 0, interface, bytes: packet, result };
        match self.result(CodeStage::Parse, env.position(), packet)? {
            Continued::LookUp(key) => Ok(key),
            // No parser sends.
            Continued::Send(_) => Err(Diversion::Malformed),
        }
    }

    fn format(
        &mut self,
        packet: &mut InnerEdit<'_>,
        result: &LookupResult,
        env: &mut CodeEnv<'_>,
    ) -> Result<Formatted, Diversion> {
        if self.guest.needs.has(PASSES) {
            return Ok(Formatted::Send);
        }
        let (interface, result) = (env.interface(), *result);
        let shown = BatchPacket { position: 0, interface, bytes: packet.bytes(), result };
        let change = match self.result(CodeStage::Format, env.position(), shown)? {
            Continued::LookUp(key) => return Ok(Formatted::Again(key)),
            Continued::Send(change) => change,
        };
        if let Some(PacketChange { front, length, at, count }) = change {
            let moved = usize::from(front.unsigned_abs());
            if front < 0 {
                packet.add_front(moved)?
            } else {
                packet.remove_front(moved)?
            }
            packet.truncate(length)?;
            let bytes = packet.bytes_mut().iter_mut().zip(&self.bytes[at..at + count]);
            bytes.for_each(|(place, byte)| *place = *byte);
        }
        Ok(Formatted::Send)
    }

    fn is_batched(&self) -> bool {
        true
    }

    fn begin(&mut self, stage: CodeStage, packets: &mut dyn Iterator<Item = BatchPacket<'_>>) {
        self.decisions.clear();
        self.bytes.clear();
        (self.stage, self.next) = (stage, 0);
        let is_called = stage == CodeStage::Parse || !self.guest.needs.has(PASSES);
        while self.failure.is_none() && is_called && self.decide(packets) {}
    }

    fn failure(&self) -> Option<String> {
        self.failure.clone()
    }
}
