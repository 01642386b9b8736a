//! The division of the machine's processors, and priority over its other sessions.

use anyhow::{Result, bail};
use io::cores;
use std::fs;
use std::thread;

/// The router's processor, and that of everything else: senders, receivers, and the threads that answer requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProcessorSplit {
    /// The processor of the router's worker.
    pub router: u16,
    /// The processor of the others.
    pub others: u16,
}

impl ProcessorSplit {
    /// The first and the last processor of this process.
    ///
    /// # Errors
    ///
    /// The process has only one.
    pub fn divide() -> Result<ProcessorSplit> {
        let allowed = cores::allowed()?;
        match allowed[..] {
            [others, .., router] => Ok(ProcessorSplit { router, others }),
            _ => bail!(
                "this needs two processors, one for the router and one for senders and receivers; this process has one"
            ),
        }
    }

    /// Runs `work` on the processor of the others, with all threads that it starts.
    ///
    /// # Errors
    ///
    /// The thread cannot be pinned.
    pub fn beside_router<R: Send>(self, work: impl FnOnce() -> R + Send) -> Result<R> {
        thread::scope(|scope| {
            let pinned = scope.spawn(|| cores::pin(self.others).map(|()| work()));
            match pinned.join() {
                Ok(result) => Ok(result?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }
}

/// The nice value of this process's session, where the kernel groups threads by session.
const SESSION: &str = "/proc/self/autogroup";

/// While this value lives, this process's session has nearly all of a processor shared with other sessions. The nice value of a thread
/// counts only within its session if the kernel groups threads by session (sched(7), "The autogroup feature").
pub struct SessionPriority {
    /// The previous nice value of the session.
    previous_nice: Option<String>,
}

impl SessionPriority {
    /// Does nothing where the kernel does not group threads, or without CAP_SYS_NICE.
    pub fn acquire() -> SessionPriority {
        let before = fs::read_to_string(SESSION).ok();
        let nice = before.as_deref().and_then(|text| text.split_whitespace().next_back()).map(str::to_owned);
        SessionPriority { previous_nice: nice.filter(|_| fs::write(SESSION, "-20").is_ok()) }
    }
}

impl Drop for SessionPriority {
    fn drop(&mut self) {
        // Lowering a priority needs no privilege.
        self.previous_nice.iter().for_each(|nice| _ = fs::write(SESSION, nice));
    }
}
