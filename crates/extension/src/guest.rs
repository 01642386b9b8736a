//! A guest at work on a link: a scheme whose decisions are made by a WebAssembly module.
//!
//! A guest's faults lose no packets. Packets wait in the link's queues, and a guest cannot access those. A guest is suspended if it traps, does not
//! return or makes an invalid decision; its queues are then served FIFO. It restarts a second later and learns of all queued packets. After
//! [`FAULTS`] faults it is not restarted.

use crate::apply::{self, QueueCounts};
use crate::block::{self, EVALUATIONS, FLOWS, GuestRequirements, HOSTS, MOST, PASSES, RANKS};
use crate::fallback::Fallback;
use crate::instance::Fault;
use crate::module::LoadError;
use crate::program::GuestProgram;
use crate::scheme_instance::SchemeInstance;
use schemes::{Ahead, Next, Progress, Record, Scheme, Size, Tell, Trouble};
use std::fmt;
use units::{Instant, Nanos, QueueId, Rate};

/// Faults after which a guest is not restarted.
pub const FAULTS: u32 = 3;
/// The names of its counters.
const COUNTERS: [&str; 8] =
    ["counter 0", "counter 1", "counter 2", "counter 3", "counter 4", "counter 5", "counter 6", "counter 7"];
/// How long a guest is suspended after a fault.
const REST: Nanos = Nanos::secs(1);

/// See the [module](self).
pub struct Guest {
    program: GuestProgram,
    instance: SchemeInstance,
    /// Instances for restarts after a fault. They are made in advance, because that takes longer than a packet may wait.
    spares: Vec<SchemeInstance>,
    /// Instances that have failed. Dropping one frees its memory, which is slow, so that happens together with the guest.
    failed: Vec<SchemeInstance>,
    /// A buffer for records.
    records: Vec<Record>,
    shape: GuestRequirements,
    counts: QueueCounts,
    /// When the guest wants to be called again, from its last call.
    next: Next,
    state: GuestState,
    faults: u32,
    trouble: Option<Trouble>,
}

#[derive(Clone, Copy, Debug)]
enum GuestState {
    Running,
    /// Suspended: until that time, or for good.
    Suspended(Fallback, Option<Instant>),
}

impl GuestProgram {
    /// Starts a guest with these values of its options, in their order.
    pub fn guest(&self, options: &[u64]) -> Result<Guest, LoadError> {
        Guest::start(self, options)
    }
}

impl Guest {
    fn start(program: &GuestProgram, options: &[u64]) -> Result<Guest, LoadError> {
        let started = || {
            let refused = |fault: Fault| LoadError::new(fault.to_string(), "give it other options, or correct it");
            program.instance(options).map_err(refused)
        };
        let instance = started()?;
        let shape = instance.view().shape();
        // The spares are started now and must ask for the same: after a fault there is no time to check one.
        let spares = (1..FAULTS).map(|_| started()).collect::<Result<Vec<SchemeInstance>, LoadError>>()?;
        if spares.iter().any(|spare| spare.view().shape() != shape) {
            return Err(LoadError::new("its demands differ from start to start", "mend it"));
        }
        Ok(Guest {
            program: program.clone(),
            instance,
            failed: Vec::with_capacity(spares.len()),
            spares,
            records: Vec::with_capacity(MOST),
            shape,
            counts: QueueCounts { queues: shape.queues as u16, backlog: 0, stale: false },
            next: Next::Idle,
            state: GuestState::Running,
            faults: 0,
            trouble: None,
        })
    }

    /// Bytes of memory that it has now; the limit is 1 MiB.
    pub fn memory(&self) -> usize {
        self.instance.memory()
    }

    /// The values of its counters.
    pub fn counters(&self) -> [u64; 8] {
        self.instance.counters()
    }

    /// The last line that it logged; empty if it logged none.
    pub fn line(&self) -> &str {
        self.instance.line()
    }

    /// True if it is running, not suspended.
    pub fn is_running(&self) -> bool {
        matches!(self.state, GuestState::Running)
    }

    fn has(&self, flag: u32) -> bool {
        self.shape.flags & flag != 0
    }

    /// Makes it ready for a call: a guest whose suspension is over is restarted and told the queued packets. Returns false if it cannot be called.
    #[inline]
    fn restart_if_due<W: Ahead>(&mut self, wires: &W) -> bool {
        match self.state {
            GuestState::Running if !self.counts.stale => return true,
            GuestState::Running => {}
            // The suspension is over: fall through to the restart.
            GuestState::Suspended(_, Some(until)) if until <= wires.now() => {}
            GuestState::Suspended(..) => return false,
        }
        match self.restart(wires) {
            Ok(()) => {
                self.state = GuestState::Running;
                true
            }
            Err(fault) => {
                self.fail(&fault, wires.now());
                false
            }
        }
    }

    #[cold]
    fn restart<W: Ahead>(&mut self, wires: &W) -> Result<(), Fault> {
        if let GuestState::Suspended(..) = self.state {
            let spare = self.spares.pop().ok_or_else(|| Fault::InvalidDecision("it has failed too often".into()))?;
            self.failed.push(std::mem::replace(&mut self.instance, spare));
        }
        let (now, rate) = (wires.now(), wires.link_rate());
        let Guest { instance, records, .. } = self;
        records.clear();
        let (mut part, mut backlog, mut failed) = (1, 0, None);
        for queue in 0..self.counts.queues {
            // Packets go to the guest in blocks of `MOST`. After an error the visit only counts them.
            wires.visit(QueueId(queue.into()), &mut |record| {
                if records.len() == MOST && failed.is_none() {
                    failed = instance.recount(now, rate, records, part).err();
                    part = 0;
                    records.clear();
                }
                if records.len() < MOST {
                    records.push(Record { queue: QueueId(queue.into()), ..record });
                }
                backlog += 1;
            });
        }
        self.counts = QueueCounts { backlog, stale: false, ..self.counts };
        match failed {
            Some(fault) => return Err(fault),
            None => instance.recount(now, rate, records, part | 2)?,
        }
        self.next = self.instance.view().next();
        self.check_next_call()
    }

    /// Suspends the guest.
    #[cold]
    fn fail(&mut self, fault: &Fault, now: Instant) {
        self.faults += 1;
        let for_good = self.faults >= FAULTS;
        let until = (!for_good).then(|| now + REST);
        self.state = GuestState::Suspended(Fallback::of(self.counts.queues), until);
        self.trouble = Some(Trouble { description: fault.to_string(), permanent: for_good });
    }

    /// Lets it decide on arriving packets, as many as one call can have. Returns false if there are none.
    #[inline]
    fn offer_arrivals<W: Ahead>(&mut self, wires: &mut W) -> Result<bool, Fault> {
        let mut sheet = self.instance.block_writer();
        let mut count = 0;
        while count < MOST
            && let Some(record) = wires.offered(count)
        {
            sheet.record(count, &record);
            count += 1;
        }
        if count == 0 {
            return Ok(false);
        }
        sheet.head(wires.now(), wires.link_rate(), count, 0);
        self.instance.arrive()?;
        let view = self.instance.view();
        self.next = view.next();
        apply::apply_verdicts(view, count, &mut self.counts, wires).map_err(Fault::InvalidDecision)?;
        self.check_next_call().map(|()| true)
    }

    /// Lets it do up to `most` evaluations. Returns the number of its commands.
    #[inline]
    fn evaluate<W: Ahead>(&mut self, most: usize, wires: &mut W) -> Result<usize, Fault> {
        let room = wires.room();
        self.instance.block_writer().head(wires.now(), wires.link_rate(), most, room);
        self.instance.ready()?;
        let view = self.instance.view();
        self.next = view.next();
        let made = apply::apply_evaluations(view, most, &mut self.counts, wires).map_err(Fault::InvalidDecision)?;
        self.check_next_call()?;
        // A ready link and queued packets without any decision: only a time in the future excuses that, as of a shaper.
        let stalls = made == 0 && room > 0 && self.counts.backlog > 0;
        if stalls && !matches!(self.next, Next::At(time) if time > wires.now()) {
            return Err(Fault::InvalidDecision(
                "it sends nothing although the link is ready, and states no time of the next attempt".into(),
            ));
        }
        Ok(made)
    }

    /// A guest that asks never to be called again while packets wait would block them for ever.
    fn check_next_call(&self) -> Result<(), Fault> {
        if self.next == Next::Idle && self.counts.backlog > 0 {
            let waiting = self.counts.backlog;
            return Err(Fault::InvalidDecision(format!("it reports empty queues, but {waiting} packets are queued")));
        }
        Ok(())
    }

    /// One call with at most `most` evaluations. Returns the number of its commands, or none if it is suspended.
    fn call<W: Ahead>(&mut self, most: usize, wires: &mut W) -> Option<usize> {
        if !self.restart_if_due(wires) {
            return None;
        }
        match self.evaluate(most, wires) {
            Ok(made) => Some(made),
            Err(fault) => {
                self.fail(&fault, wires.now());
                None
            }
        }
    }
}

impl<W: Ahead> Scheme<W> for Guest {
    fn arrival(&mut self, wires: &mut W) {
        while self.restart_if_due(wires) {
            match self.offer_arrivals(wires) {
                Ok(true) => {}
                Ok(false) => return,
                Err(fault) => self.fail(&fault, wires.now()),
            }
        }
        if let GuestState::Suspended(fallback, _) = &mut self.state {
            fallback.arrive(wires, &mut self.counts.backlog);
        }
    }

    fn link_ready(&mut self, wires: &mut W) -> Progress {
        match self.call(1, wires) {
            Some(0) => return Progress::None,
            Some(_) => return Progress::Made,
            None => {}
        }
        match &mut self.state {
            GuestState::Suspended(fallback, _) => fallback.evaluate(wires, &mut self.counts.backlog),
            GuestState::Running => Progress::None,
        }
    }

    fn next(&self, _wires: &W) -> Next {
        match self.state {
            _ if self.counts.backlog == 0 => Next::Idle,
            GuestState::Running if !self.counts.stale => self.next,
            _ => Next::Ready,
        }
    }

    /// A guest handles single packets only.
    fn splits_super_frames(&self, _: Rate) -> bool {
        true
    }

    fn wants_flow_hash(&self) -> bool {
        self.has(FLOWS)
    }

    fn wants_hosts(&self) -> bool {
        self.has(HOSTS)
    }

    fn passes_when_idle(&self) -> bool {
        self.has(PASSES)
    }

    fn queues(&self) -> u32 {
        self.counts.queues.into()
    }

    fn holds_at_most(&self) -> u32 {
        self.shape.max_packets
    }

    fn recount(&mut self, wires: &W) {
        let sizes = (0..self.counts.queues).map(|queue| wires.size(QueueId(queue.into())).packets);
        (self.counts.backlog, self.counts.stale) = (sizes.sum(), true);
        if let GuestState::Suspended(fallback, _) = &mut self.state {
            *fallback = Fallback::of(self.counts.queues);
        }
    }

    fn ranks_classes(&self) -> bool {
        self.has(RANKS)
    }

    fn next_fault(&mut self) -> Option<Trouble> {
        self.trouble.take()
    }

    fn next_message(&mut self) -> Option<String> {
        self.instance.take_new_line().map(str::to_string)
    }

    /// The counters and faults belong to the whole guest; they are reported with its first queue.
    fn state(&self, queue: QueueId, _: Instant, _: Size, tell: &mut Tell<'_>) {
        if queue == QueueId(0) {
            COUNTERS.iter().zip(self.counters()).for_each(|(name, count)| tell(name, count as f64));
            tell("faults", f64::from(self.faults));
        }
    }

    fn serve(&mut self, wires: &mut W) {
        while wires.link_ready() {
            match self.call(EVALUATIONS, wires) {
                Some(made) if made == EVALUATIONS => {}
                // It made fewer decisions than it might have: no packet may be sent now, or the link is full.
                Some(_) => return,
                None => break,
            }
        }
        while wires.link_ready() && Scheme::link_ready(self, wires) == Progress::Made {}
    }
}

impl fmt::Debug for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Guest { program, state, counts: books, .. } = self;
        write!(f, "Guest of {program:?}, {state:?}, {books:?}, block of {} bytes", block::SIZE)
    }
}
