//! System calls on every thread of the process.
//!
//! User, capabilities, "no new privileges" and Landlock are attributes of a thread. Each thread therefore gets a signal, one after the other, whose
//! handler makes the calls and does nothing else, because a handler may interrupt any code (signal-safety(7)). Threads started meanwhile are handled
//! in another round.

use rustix::process::getpid;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// The time limit for interrupting a thread, in milliseconds.
const PATIENCE: u32 = 5000;
/// The maximum number of rounds, for threads that start threads.
const ROUNDS: usize = 16;

/// A system call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    name: &'static str,
    number: libc::c_long,
    /// Numbers, and addresses of memory that is never freed.
    arguments: [usize; 5],
    /// The error number that does not count as a failure.
    tolerated: i32,
}

impl Call {
    pub fn new(name: &'static str, number: libc::c_long, arguments: [usize; 5]) -> Call {
        Call { name, number, arguments, tolerated: 0 }
    }

    pub fn tolerating(self, errno: i32) -> Call {
        Call { tolerated: errno, ..self }
    }

    /// Makes the call. Returns the error number, or zero.
    fn make(&self) -> i32 {
        let [a, b, c, d, e] = self.arguments;
        // SAFETY: only this module's siblings make calls. Their addresses are of leaked memory in the right format, which the kernel only reads. None
        // affects Rust's memory model or the ownership of descriptors.
        let result = unsafe { libc::syscall(self.number, a, b, c, d, e) };
        // SAFETY: the address is that of this thread's own error number.
        let errno = unsafe { *libc::__errno_location() };
        if result >= 0 || errno == self.tolerated { 0 } else { errno }
    }
}

/// The calls for the handler; none unless [`every_thread`] is running.
static CALLS: AtomicPtr<Call> = AtomicPtr::new(ptr::null_mut());
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// The last thread that has made its calls.
static DONE: AtomicI32 = AtomicI32::new(0);
/// The failed call, and its error.
static FAILED: AtomicUsize = AtomicUsize::new(usize::MAX);
static ERRNO: AtomicI32 = AtomicI32::new(0);
/// Only one run at a time.
static BUSY: Mutex<()> = Mutex::new(());

/// Makes the calls on every thread, the calling one last. Returns the first failure; then some threads have made the calls and others have not.
pub(super) fn every_thread(calls: Vec<Call>) -> Result<(), String> {
    let _busy = BUSY.lock().map_err(|_| "another thread failed to do so".to_owned())?;
    // Never freed: a thread that is interrupted late can still read them.
    let calls: &'static [Call] = Box::leak(calls.into_boxed_slice());
    let signal = install().map_err(|error| format!("cannot install a signal handler: {error}"))?;
    COUNT.store(calls.len(), Ordering::Relaxed);
    FAILED.store(usize::MAX, Ordering::Relaxed);
    // Stored last: without it the handler does nothing.
    CALLS.store(calls.as_ptr().cast_mut(), Ordering::Release);
    let result = interrupt_all(signal);
    CALLS.store(ptr::null_mut(), Ordering::Release);
    // Fails before the calling thread has changed itself.
    result?;
    let errno = calls.iter().map(Call::make).enumerate().find(|(_, errno)| *errno != 0);
    let failed = FAILED.load(Ordering::Acquire);
    let failure = errno.or((failed != usize::MAX).then(|| (failed, ERRNO.load(Ordering::Relaxed))));
    match failure {
        None => Ok(()),
        Some((at, errno)) => Err(format!("{}: {}", calls[at].name, io::Error::from_raw_os_error(errno))),
    }
}

fn interrupt_all(signal: libc::c_int) -> Result<(), String> {
    // SAFETY: gettid has no arguments.
    let own = unsafe { libc::syscall(libc::SYS_gettid) } as i32;
    let mut done = BTreeSet::from([own]);
    for _ in 0..ROUNDS {
        // A thread may have started others before it was interrupted, so the list is read until it has no new thread.
        let there = threads().map_err(|error| format!("cannot list the threads: {error}"))?;
        let open: Vec<i32> = there.difference(&done).copied().collect();
        if open.is_empty() {
            return Ok(());
        }
        for thread in open {
            interrupt(thread, signal)?;
            done.insert(thread);
        }
    }
    Err("new threads start faster than the router can confine them".into())
}

fn interrupt(thread: i32, signal: libc::c_int) -> Result<(), String> {
    DONE.store(0, Ordering::Relaxed);
    let process = getpid().as_raw_nonzero().get();
    // SAFETY: the arguments are numbers; the handler of the signal is installed.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal) };
    for _ in 0..PATIENCE {
        // A thread that has ended needs no signal.
        let gone = sent < 0 || !fs::exists(format!("/proc/self/task/{thread}")).unwrap_or(true);
        if gone || DONE.load(Ordering::Acquire) == thread {
            return Ok(());
        }
        // Polled, because a signal handler may not wake a thread up.
        thread::park_timeout(Duration::from_millis(1));
    }
    Err(format!("the thread {thread} does not answer"))
}

fn threads() -> io::Result<BTreeSet<i32>> {
    let names = fs::read_dir("/proc/self/task")?.map(|entry| Ok(entry?.file_name()));
    names.map(|name: io::Result<_>| Ok(name?.to_string_lossy().parse().unwrap_or(0))).collect()
}

/// Installs the handler of a real-time signal without other users. The handler stays, because the signal's default would end the process.
fn install() -> io::Result<libc::c_int> {
    let signal = libc::SIGRTMIN() + 7;
    // SAFETY: all zeros is a valid `sigaction`.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handle as extern "C" fn(libc::c_int) as usize;
    // Interrupted system calls restart.
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: `action` is complete, and its handler only makes system calls and atomic accesses.
    let result = unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(signal) }
}

extern "C" fn handle(_: libc::c_int) {
    let calls = CALLS.load(Ordering::Acquire);
    if calls.is_null() {
        return;
    }
    // SAFETY: the address is that of this thread's own error number, which the interrupted code may be about to read.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    for at in 0..COUNT.load(Ordering::Relaxed) {
        // SAFETY: CALLS points to COUNT calls that are never freed or changed.
        let failed = unsafe { (*calls.add(at)).make() };
        if failed != 0 {
            ERRNO.store(failed, Ordering::Relaxed);
            FAILED.store(at, Ordering::Release);
            break;
        }
    }
    // SAFETY: gettid has no arguments.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) } as i32;
    // SAFETY: as above.
    unsafe { *errno = before };
    // Last: the waiting thread may continue as soon as it reads this.
    DONE.store(thread, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// Setting a thread's name (PR_SET_NAME) is per thread, and harmless.
    #[test]
    fn every_thread_makes_the_calls_wherever_it_waits() {
        let (sender, receiver) = channel::<()>();
        let waiting = thread::spawn(move || receiver.recv());
        let spinning = thread::spawn(|| (0..200_000_000u64).fold(1u64, |a, i| a.wrapping_mul(i | 1)));
        let name: &'static [u8; 16] = b"told by signal\0\0";
        let call = Call::new("prctl", libc::SYS_prctl, [libc::PR_SET_NAME as usize, name.as_ptr().addr(), 0, 0, 0]);
        every_thread(vec![call]).unwrap();
        // Other threads may have ended or begun meanwhile; this one waits.
        let names: Vec<String> = threads()
            .unwrap()
            .iter()
            .filter_map(|thread| fs::read_to_string(format!("/proc/self/task/{thread}/comm")).ok())
            .collect();
        assert!(names.iter().filter(|name| name.trim() == "told by signal").count() >= 2, "{names:?}");
        drop(sender);
        assert!(waiting.join().unwrap().is_err());
        assert_ne!(spinning.join().unwrap(), 1);
        let wrong = Call::new("prctl(wrong)", libc::SYS_prctl, [usize::MAX, 0, 0, 0, 0]);
        assert!(every_thread(vec![wrong]).unwrap_err().contains("prctl(wrong)"));
        every_thread(vec![wrong.tolerating(libc::EINVAL)]).unwrap();
    }
}
