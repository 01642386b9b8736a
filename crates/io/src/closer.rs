//! Closes ports in the background.
//!
//! The kernel takes some 50 ms to close a packet or AF_XDP socket: it waits until no processor can be using it any more (synchronize_net). A worker
//! that waited would let its other ports fill up and lose packets, so a separate thread closes them.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

/// The time that the program waits at its end for the thread. The kernel, or the next start, closes the rest.
const PATIENCE: Duration = Duration::from_secs(5);

/// Drops values on a separate thread, in order of arrival. Clones share the thread; it ends with the last clone.
#[derive(Clone, Debug)]
pub(crate) struct Closer {
    jobs: Sender<Job>,
}

type Job = Box<dyn FnOnce() + Send>;

impl Closer {
    /// Starts the thread.
    pub(crate) fn start() -> io::Result<Closer> {
        let (jobs, inbox) = channel::<Job>();
        thread::Builder::new().name("closer".into()).spawn(move || inbox.into_iter().for_each(|job| job()))?;
        Ok(Closer { jobs })
    }

    /// Drops `what` later. Without the thread, drops it immediately.
    pub(crate) fn close(&self, what: impl Send + 'static) {
        let _ = self.jobs.send(Box::new(move || drop(what)));
    }

    /// Waits until everything passed before is closed.
    pub(crate) fn finish(&self) {
        let (sender, done) = channel();
        let say = move || {
            // The caller may have timed out.
            let _ = sender.send(());
        };
        if self.jobs.send(Box::new(say)).is_ok() {
            let _ = done.recv_timeout(PATIENCE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::mpsc::Receiver;

    /// Its drop blocks until the test signals it.
    struct Slow(Mutex<Receiver<()>>, Sender<&'static str>);

    impl Drop for Slow {
        fn drop(&mut self) {
            self.0.lock().unwrap().recv().unwrap();
            self.1.send("slow").unwrap();
        }
    }

    #[test]
    fn slow_close_blocks_no_caller_and_keeps_the_order() {
        let closer = Closer::start().unwrap();
        let ((go, told), (ends, ended)) = (channel(), channel());
        closer.close(Slow(Mutex::new(told), ends));
        assert!(ended.try_recv().is_err());
        go.send(()).unwrap();
        closer.finish();
        assert_eq!(ended.try_recv(), Ok("slow"));
    }
}
