//! The runtime of guests: a compiler, and a limit on the length of a call.
//!
//! On a machine the limit is processor time. A thread counts ticks, and a guest compares the tick number in each loop and function. When it has
//! changed, the guest's thread checks how much processor time the call has used; if it was only preempted, it continues. In a simulation the limit is
//! a number of instructions, so that every run ends at the same place.
//!
//! Memory accesses are checked by the MMU. Addresses outside of a guest's memory are never mapped, and a signal handler turns an access there into a
//! trap. Explicit bounds checks would make calls half as expensive again (adr/0031).

use std::fmt;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;
use units::Nanos;
use wasmtime::{Config, Engine, OptLevel, Store, UpdateDeadline};

/// The interval at which the time is checked.
const TICK: Duration = Duration::from_micros(50);
/// The processor time of a call, counted from its first tick.
const LIMIT: Nanos = Nanos::micros(75);
/// The same before a guest is at work. No packet waits for it then, and interruptions by the machine count too.
const LIMIT_TO_START: Nanos = Nanos::millis(10);
/// Ticks without a call after which the ticker thread sleeps.
const SILENCE: u32 = 2000;
/// The approximate number of instructions of a call in a simulation.
const FUEL: u64 = 2_000_000;
/// Address space reserved for the memory of an instance, in bytes: all that 32 bits can address.
const ADDRESSES: u64 = 1 << 32;
/// The most stack of a guest, in bytes.
const STACK: usize = 128 << 10;

/// Returns the processor time that the calling thread has used.
pub type CallClock = fn() -> Nanos;

/// See the [module](self). All guests of a process share it.
#[derive(Clone)]
pub struct Runtime {
    pub(crate) engine: Engine,
    bound: Arc<CallLimit>,
}

enum CallLimit {
    Time { clock: CallClock, ticker: Ticker },
    Fuel,
}

/// The processor time of the current call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallTime {
    /// The clock at the first tick of the call.
    since: Option<Nanos>,
    at_work: bool,
}

impl CallTime {
    /// From now on calls process packets, and the shorter limit applies.
    pub fn begin_work(&mut self) {
        self.at_work = true;
    }

    fn limit(&self) -> Nanos {
        if self.at_work { LIMIT } else { LIMIT_TO_START }
    }
}

/// The data of a store, with the processor time of the current call.
pub(crate) trait HasCallTime {
    fn call_time(&mut self) -> &mut CallTime;
}

impl Runtime {
    /// For a machine: a call ends after about 100 us of processor time, or 10 ms before the guest is at work. `clock` returns the processor time of
    /// the calling thread.
    pub fn timed(clock: CallClock) -> Result<Runtime, wasmtime::Error> {
        let engine = Engine::new(config().epoch_interruption(true))?;
        let ticker = Ticker { engine: engine.clone(), state: Arc::default() };
        Ok(Runtime { engine, bound: Arc::new(CallLimit::Time { clock, ticker }) })
    }

    /// For a simulation: a call ends after a number of instructions.
    pub fn counted() -> Result<Runtime, wasmtime::Error> {
        Ok(Runtime { engine: Engine::new(config().consume_fuel(true))?, bound: Arc::new(CallLimit::Fuel) })
    }

    /// Prepares a new store.
    pub(crate) fn prepare<T: HasCallTime + 'static>(&self, store: &mut Store<T>) {
        if let CallLimit::Time { clock, .. } = *self.bound {
            store.epoch_deadline_callback(move |mut store| {
                let (now, used) = (clock(), store.data_mut().call_time());
                // The first tick of a call starts its time. Reading the clock at each call would be too expensive.
                let since = *used.since.get_or_insert(now);
                if now.saturating_sub(since) >= used.limit() {
                    return Err(wasmtime::Trap::Interrupt.into());
                }
                Ok(UpdateDeadline::Continue(1))
            });
        }
    }

    /// Starts the limit of a call.
    #[inline]
    pub(crate) fn start_limit<T: HasCallTime + 'static>(&self, store: &mut Store<T>) -> Result<(), wasmtime::Error> {
        match &*self.bound {
            CallLimit::Time { ticker, .. } => {
                ticker.wake();
                store.data_mut().call_time().since = None;
                // The next tick is the first one that asks the callback.
                store.set_epoch_deadline(1);
                Ok(())
            }
            CallLimit::Fuel => store.set_fuel(FUEL),
        }
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self.bound {
            CallLimit::Time { .. } => "Runtime bounded by time",
            CallLimit::Fuel => "Runtime bounded by instructions",
        })
    }
}

fn config() -> Config {
    let mut config = Config::new();
    config.cranelift_opt_level(OptLevel::Speed);
    // The reservation covers every address of a 32-bit guest. It costs address space only, no memory.
    config.signals_based_traps(true).memory_reservation(ADDRESSES).memory_may_move(false);
    config.memory_init_cow(false).native_unwind_info(false).max_wasm_stack(STACK);
    config.wasm_multi_memory(false).wasm_relaxed_simd(false);
    config
}

/// Counts ticks while guests are called.
struct Ticker {
    engine: Engine,
    state: Arc<TickerState>,
}

#[derive(Default)]
struct TickerState {
    thread: OnceLock<Thread>,
    /// A guest was called since the last tick.
    called: AtomicBool,
    /// The ticker thread sleeps.
    asleep: AtomicBool,
    stopped: AtomicBool,
}

impl Ticker {
    /// Called before each call of a guest. Both sides write their flag before they read the other's. So either the thread sees the call before it
    /// goes to sleep, or the caller sees the thread asleep and wakes it.
    #[inline]
    fn wake(&self) {
        let pulse = &*self.state;
        if !pulse.called.load(Ordering::SeqCst) {
            pulse.called.store(true, Ordering::SeqCst);
            if pulse.asleep.load(Ordering::SeqCst) || pulse.thread.get().is_none() {
                self.unpark_thread();
            }
        }
    }

    #[cold]
    fn unpark_thread(&self) {
        let (engine, pulse) = (&self.engine, &self.state);
        let thread = pulse.thread.get_or_init(|| {
            let (engine, pulse) = (engine.clone(), pulse.clone());
            let spawned = thread::Builder::new().name("guests".into()).spawn(move || count(&engine, &pulse));
            // Without the thread a guest that never returns would block its worker for good.
            spawned.expect("a thread can be had").thread().clone()
        });
        thread.unpark();
    }
}

fn count(engine: &Engine, pulse: &TickerState) {
    // The default timer slack of 50 us would double the time of a guest that does not return. A seccomp filter may refuse the call; then the default
    // remains.
    let _refused = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let mut silent = 0;
    while !pulse.stopped.load(Ordering::Relaxed) {
        // The only store that guests see; each compares it with its deadline in loops and functions.
        engine.increment_epoch();
        silent = if pulse.called.swap(false, Ordering::SeqCst) { 0 } else { silent + 1 };
        if silent < SILENCE {
            thread::park_timeout(TICK);
            continue;
        }
        // The flag is set before `called` is read; see `wake` for the other side.
        pulse.asleep.store(true, Ordering::SeqCst);
        if !pulse.called.load(Ordering::SeqCst) && !pulse.stopped.load(Ordering::Relaxed) {
            thread::park();
        }
        pulse.asleep.store(false, Ordering::SeqCst);
        silent = 0;
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.state.thread.get() {
            thread.unpark();
        }
    }
}
