//! Functions that give the processor back in the middle of a packet (spec Q-41): a vector and the functions of its path go to
//! somebody else who works on them while the worker lends its core, a slice at a time.
//!
//! The plane owns no thread: the daemon passes in who makes one ([`Asides`]). In virtual time the functions run at once and
//! what they cost is spent in slices, as a [`cpu::meter::Meter`] foretells it.

use crate::function::{Context, Counter, Function};
use crate::snapshot::Snapshot;
use fib::Tables;
use link::words;
use packet::{Batch, Meta, Packet};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use units::{Instant, Nanos, PortId};

/// How old what functions have counted may be where it is told while they are away.
const AGE: Nanos = Nanos::secs(1);

/// A vector of packets and what is to be done to them, on its way to somebody who does it, and back.
pub struct Errand {
    batch: Batch,
    functions: Vec<Box<dyn Function>>,
    snapshot: Arc<Snapshot>,
    tables: Arc<Tables>,
    now: Instant,
    /// Whether somebody follows packets.
    follows: bool,
    passed: Vec<Passed>,
    /// Whether some packets do not simply go on.
    odd: bool,
    asked: Nanos,
    panic: Option<String>,
}

/// A function has worked on a packet that somebody follows.
pub(crate) struct Passed {
    /// Its position in the vector.
    pub packet: usize,
    /// That of the function on its path.
    pub function: usize,
    /// The frame before and after.
    pub frames: (Vec<u8>, Vec<u8>),
}

impl Errand {
    /// Nothing to do yet.
    fn new(snapshot: Arc<Snapshot>, tables: Arc<Tables>) -> Errand {
        Errand {
            batch: Batch::new(),
            functions: Vec::new(),
            snapshot,
            tables,
            now: Instant::START,
            follows: false,
            passed: Vec::new(),
            odd: false,
            asked: Nanos::ZERO,
            panic: None,
        }
    }

    /// Runs the functions on the packets. Where one panics, that is kept for the worker to find.
    pub fn run(&mut self) {
        let done = catch_unwind(AssertUnwindSafe(|| self.process()));
        self.panic = done.err().map(|panic| words(&*panic));
    }

    fn process(&mut self) {
        let asked = Cell::default();
        let context = Context {
            now: self.now,
            snapshot: &self.snapshot,
            tables: &self.tables,
            nat: &self.snapshot.translations,
            // Somebody else keeps it, for those that do not keep it themselves.
            limit: None,
            asked: &asked,
        };
        for (index, function) in self.functions.iter_mut().enumerate() {
            let packets = self.batch.as_mut_slice();
            let before = if self.follows { frames(packets) } else { Vec::new() };
            self.odd |= !function.process(context, packets);
            let passed = before.into_iter().map(|(packet, before)| {
                let after = self.batch.as_slice()[packet].bytes().to_vec();
                Passed { packet, function: index, frames: (before, after) }
            });
            self.passed.extend(passed);
        }
        self.asked = asked.get();
    }

    /// The time its functions want spent besides: whoever runs them on a real processor spends it there, and takes it.
    pub fn take_asked(&mut self) -> Nanos {
        std::mem::take(&mut self.asked)
    }
}

/// The frames of packets that somebody follows.
#[cold]
fn frames(packets: &[Packet]) -> Vec<(usize, Vec<u8>)> {
    let followed = |(_, packet): &(usize, &Packet)| packet.meta().flags & Meta::FOLLOWED != 0;
    packets.iter().enumerate().filter(followed).map(|(index, packet)| (index, packet.bytes().to_vec())).collect()
}

/// Somebody who works on one errand at a time while the core is lent.
pub trait Aside: Send {
    /// Takes an errand, to be begun when the core is lent next. Gives it back where nobody can take it.
    fn give(&mut self, errand: Box<Errand>) -> Result<(), Box<Errand>>;
    /// Lends the core until the errand is done, and no longer than `slice`.
    fn lend(&mut self, slice: Nanos) -> Lent;
    /// Nobody waits for the errand any more: what it holds goes home when it ends. The next is somebody else's.
    fn forsake(&mut self);
}

/// What has become of an errand.
pub enum Lent {
    /// It is done.
    Done(Box<Errand>),
    /// It is not, and has used so much of a processor since it was given.
    Away(Nanos),
}

/// Makes those who work aside, for one worker.
pub trait Asides: Send {
    /// One more.
    fn open(&mut self) -> Box<dyn Aside>;
}

/// Runs functions at once, in the worker: where time is not real.
#[derive(Default)]
pub struct AtOnce(Option<Box<Errand>>);

impl Aside for AtOnce {
    fn give(&mut self, mut errand: Box<Errand>) -> Result<(), Box<Errand>> {
        errand.run();
        self.0 = Some(errand);
        Ok(())
    }

    fn lend(&mut self, _: Nanos) -> Lent {
        self.0.take().map_or(Lent::Away(Nanos::ZERO), Lent::Done)
    }

    fn forsake(&mut self) {
        self.0 = None;
    }
}

/// Makes [`AtOnce`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Virtual;

impl Asides for Virtual {
    fn open(&mut self) -> Box<dyn Aside> {
        Box::<AtOnce>::default()
    }
}

/// What an instance has of who works for it aside.
pub(crate) struct Side {
    pub aside: Box<dyn Aside>,
    /// The errand while nothing is out: its memory is kept.
    errand: Option<Box<Errand>>,
    pub out: Option<Out>,
    /// The ports that the packets came in by which are out.
    pub came: Vec<PortId>,
    /// What the functions had counted when they were last looked at, for while they are away.
    counted: Option<(Instant, Vec<Vec<Counter>>)>,
    /// When something was last told of its functions.
    pub told: Option<Instant>,
}

/// A vector that is out.
pub(crate) struct Out {
    pub packets: usize,
    pub bytes: u64,
    /// Whether something may be left to be done to its packets, besides the functions.
    pub offloads: bool,
    /// When it was given.
    pub since: Instant,
    /// When the core was last lent to it.
    pub lent: Instant,
    /// What it has used of a processor.
    pub used: Nanos,
    /// It is back, and what it costs is yet to be spent: virtual time.
    pub back: Option<(Box<Errand>, Nanos)>,
}

/// What comes back with a vector.
pub(crate) struct Returned {
    pub odd: bool,
    pub passed: Vec<Passed>,
    pub panic: Option<String>,
}

impl Side {
    pub fn new(aside: Box<dyn Aside>) -> Side {
        Side { aside, errand: None, out: None, came: Vec::new(), counted: None, told: None }
    }

    /// Packets that are out.
    pub fn away(&self) -> usize {
        self.out.as_ref().map_or(0, |out| out.packets)
    }

    /// What the functions had counted, where they are away.
    pub fn counted(&self) -> Option<Vec<Vec<Counter>>> {
        let (_, counted) = self.counted.as_ref().filter(|_| self.out.is_some())?;
        Some(counted.clone())
    }

    /// Gives out what is in `batch`. Where nobody takes it, it is in `batch` again: false.
    pub fn give(
        &mut self,
        batch: &mut Batch,
        functions: &mut Vec<Box<dyn Function>>,
        world: (&Arc<Snapshot>, &Arc<Tables>),
        (now, follows, out): (Instant, bool, Out),
    ) -> bool {
        if self.counted.as_ref().is_none_or(|(then, _)| now.since(*then) >= AGE) {
            self.counted = Some((now, functions.iter().map(|function| function.counters()).collect()));
        }
        let (snapshot, tables) = (world.0.clone(), world.1.clone());
        let mut errand = match self.errand.take() {
            Some(errand) => errand,
            None => Box::new(Errand::new(snapshot.clone(), tables.clone())),
        };
        (errand.snapshot, errand.tables, errand.now, errand.follows) = (snapshot, tables, now, follows);
        (errand.odd, errand.asked, errand.panic) = (false, Nanos::ZERO, None);
        self.came.clear();
        self.came.extend(batch.as_slice().iter().map(|packet| packet.meta().in_port));
        std::mem::swap(&mut errand.batch, batch);
        std::mem::swap(&mut errand.functions, functions);
        match self.aside.give(errand) {
            Ok(()) => {
                self.out = Some(out);
                true
            }
            Err(errand) => {
                self.take(errand, batch, functions);
                false
            }
        }
    }

    /// Takes what came back out of `errand`, and keeps that.
    pub fn take(
        &mut self,
        mut errand: Box<Errand>,
        batch: &mut Batch,
        functions: &mut Vec<Box<dyn Function>>,
    ) -> Returned {
        std::mem::swap(&mut errand.batch, batch);
        std::mem::swap(&mut errand.functions, functions);
        let passed = std::mem::take(&mut errand.passed);
        let returned = Returned { odd: errand.odd, passed, panic: errand.panic.take() };
        self.errand = Some(errand);
        returned
    }
}

impl Out {
    pub fn new((packets, bytes): (usize, u64), offloads: bool, now: Instant) -> Out {
        Out { packets, bytes, offloads, since: now, lent: now, used: Nanos::ZERO, back: None }
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        self.aside.forsake();
    }
}
