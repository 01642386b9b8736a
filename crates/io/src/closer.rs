//! Closing things without keeping the worker that used them.
//!
//! The kernel closes a packet or AF_XDP socket in some 50 ms: it waits until no processor can be inside it any more
//! (synchronize_net). A worker that waited as long would leave its other ports to fill up and lose packets, so a thread of
//! its own does.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

/// How long the end of the program waits for what is closed; what is left then the kernel closes, or the next start.
const PATIENCE: Duration = Duration::from_secs(5);

/// Ends things on a thread of its own, in the order in which they come. Clones are the same thread; it ends with the last.
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

    /// Drops `what`, later. Without the thread, here and now.
    pub(crate) fn close(&self, what: impl Send + 'static) {
        let _ = self.jobs.send(Box::new(move || drop(what)));
    }

    /// Waits until everything that came before is closed.
    pub(crate) fn finish(&self) {
        let (sender, done) = channel();
        let say = move || {
            // Whoever asked may have lost patience.
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

    /// Cannot be dropped before it is told.
    struct Slow(Mutex<Receiver<()>>, Sender<&'static str>);

    impl Drop for Slow {
        fn drop(&mut self) {
            self.0.lock().unwrap().recv().unwrap();
            self.1.send("slow").unwrap();
        }
    }

    #[test]
    fn what_takes_long_to_close_keeps_nobody_and_comes_before_the_next() {
        let closer = Closer::start().unwrap();
        let ((go, told), (ends, ended)) = (channel(), channel());
        closer.close(Slow(Mutex::new(told), ends));
        assert!(ended.try_recv().is_err());
        go.send(()).unwrap();
        closer.finish();
        assert_eq!(ended.try_recv(), Ok("slow"));
    }
}
