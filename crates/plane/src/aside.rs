//! Preemptible functions (spec Q-41). A vector and the functions of its path go to another thread, which processes them while the worker lends
//! it the core, one slice at a time.
//!
//! The plane owns no thread: the daemon passes in a maker of threads ([`Asides`]). In virtual time the functions run at once, and their cost is
//! spent in slices, as a [`cpu::meter::Meter`] predicts it.

use crate::function::{Context, Counter, Function};
use crate::snapshot::Snapshot;
use fib::Tables;
use link::words;
use packet::{Batch, Meta, Packet};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use units::{Instant, Nanos, PortId};

/// The maximum age of the functions' counters that are reported while the functions are away.
const AGE: Nanos = Nanos::secs(1);

/// A vector of packets and the functions to apply to it, on its way to a function thread and back.
pub struct Errand {
    batch: Batch,
    functions: Vec<Box<dyn Function>>,
    snapshot: Arc<Snapshot>,
    tables: Arc<Tables>,
    now: Instant,
    /// True if packets are traced.
    follows: bool,
    passed: Vec<Passed>,
    /// True if some packets do not simply continue.
    odd: bool,
    asked: Nanos,
    panic: Option<String>,
}

/// A function has processed a traced packet.
pub(crate) struct Passed {
    /// Its position in the vector.
    pub packet: usize,
    /// The function's position on its path.
    pub function: usize,
    /// The frame before and after.
    pub frames: (Vec<u8>, Vec<u8>),
}

impl Errand {
    /// An empty errand.
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

    /// Runs the functions on the packets. If one panics, the message is kept for the worker.
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
            // The thread that runs the errand enforces the limit, for functions that do not do so themselves.
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

    /// Takes the extra time that the functions requested. The thread that runs them on a real processor spends it there.
    pub fn take_asked(&mut self) -> Nanos {
        std::mem::take(&mut self.asked)
    }
}

/// The frames of the traced packets.
#[cold]
fn frames(packets: &[Packet]) -> Vec<(usize, Vec<u8>)> {
    let followed = |(_, packet): &(usize, &Packet)| packet.meta().flags & Meta::FOLLOWED != 0;
    packets.iter().enumerate().filter(followed).map(|(index, packet)| (index, packet.bytes().to_vec())).collect()
}

/// A function thread: works on one errand at a time while the core is lent to it.
pub trait Aside: Send {
    /// Accepts an errand. It begins when the core is lent next. Returns it if the thread cannot accept it.
    fn give(&mut self, errand: Box<Errand>) -> Result<(), Box<Errand>>;
    /// Lends the core until the errand is done, and no longer than `slice`.
    fn lend(&mut self, slice: Nanos) -> Lent;
    /// Abandons the errand: its packets and functions are freed when it ends. The next errand goes to another thread.
    fn forsake(&mut self);
}

/// The state of an errand.
pub enum Lent {
    /// It is done.
    Done(Box<Errand>),
    /// It is unfinished, and has used this much processor time since it was given.
    Away(Nanos),
}

/// Makes function threads for one worker.
pub trait Asides: Send {
    /// Makes one more.
    fn open(&mut self) -> Box<dyn Aside>;
}

/// Runs functions at once, in the worker: for virtual time.
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

/// An instance's use of a function thread.
pub(crate) struct Side {
    pub aside: Box<dyn Aside>,
    /// The errand while no vector is out: its memory is reused.
    errand: Option<Box<Errand>>,
    pub out: Option<Out>,
    /// The input ports of the packets that are out.
    pub came: Vec<PortId>,
    /// The functions' counters when they were last read, reported while the functions are away.
    counted: Option<(Instant, Vec<Vec<Counter>>)>,
    /// The time of the last report about its functions.
    pub told: Option<Instant>,
}

/// A vector that is being processed by a function thread.
pub(crate) struct Out {
    pub packets: usize,
    pub bytes: u64,
    /// True if its packets may need segmentation, fragmentation or checksums behind the functions.
    pub offloads: bool,
    /// When it was given.
    pub since: Instant,
    /// When the core was last lent to it.
    pub lent: Instant,
    /// The processor time it has used.
    pub used: Nanos,
    /// The finished errand and the cost still to be spent: virtual time.
    pub back: Option<(Box<Errand>, Nanos)>,
}

/// The results that return with a vector.
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

    /// The functions' last known counters, if the functions are away.
    pub fn counted(&self) -> Option<Vec<Vec<Counter>>> {
        let (_, counted) = self.counted.as_ref().filter(|_| self.out.is_some())?;
        Some(counted.clone())
    }

    /// Gives `batch` and `functions` to the function thread. If it does not accept them, both are back in their places and the result is false.
    pub fn give(
        &mut self,
        batch: &mut Batch,
        functions: &mut Vec<Box<dyn Function>>,
        world: (&Arc<Snapshot>, &Arc<Tables>),
        (now, follows, out): (Instant, bool, Out),
    ) -> bool {
        // Read before the functions leave: nothing may read them while another thread runs them.
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
        // If the vector is given up, its drops are counted at these ports.
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

    /// Moves the packets and functions out of `errand`, and keeps its memory.
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
