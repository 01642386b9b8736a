//! The thread that checks texts for callers with read access, one at a time.
//!
//! It is always the same thread, because the allocator keeps freed memory for the thread that freed it. With a thread for each check, each would keep
//! the memory of its largest text.

use super::serve::failed;
use crate::api::ApiError;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// The thread. It ends after its current check when this is dropped.
#[derive(Debug)]
pub(super) struct Checks(Sender<Job>);

impl Checks {
    pub fn start() -> io::Result<Checks> {
        let (sender, jobs) = channel::<Job>();
        thread::Builder::new().name("checks".into()).spawn(move || {
            for job in jobs {
                // After a panic the caller receives an error, and the log has the reason.
                let _ = catch_unwind(AssertUnwindSafe(job));
            }
        })?;
        Ok(Checks(sender))
    }

    /// Runs work on the thread when its turn comes.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
        let (sender, answer) = oneshot::channel();
        let job = move || {
            // The caller may have hung up.
            let _ = sender.send(work());
        };
        self.0.send(Box::new(job)).map_err(|_| failed())?;
        answer.await.map_err(|_| failed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::runtime::Builder;

    #[test]
    fn panic_in_check_does_not_end_other_checks() {
        let checks = Checks::start().unwrap();
        let runtime = Builder::new_current_thread().build().unwrap();
        assert_eq!(runtime.block_on(checks.run(|| 1)).unwrap(), 1);
        assert!(runtime.block_on(checks.run(|| panic!("this text"))).is_err());
        assert_eq!(runtime.block_on(checks.run(|| 2)).unwrap(), 2);
    }
}
