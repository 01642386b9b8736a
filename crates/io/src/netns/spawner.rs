//! Starts programs in network namespaces.
//!
//! A program with PR_SET_PDEATHSIG dies with the *thread* that started it. Therefore one thread, which lives as long as the laboratory, starts all
//! programs.

use super::Namespace;
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

type Job = Box<dyn FnOnce() + Send>;

/// See the module.
#[derive(Debug)]
pub(super) struct Spawner {
    jobs: Sender<Job>,
}

impl Spawner {
    pub(super) fn start() -> io::Result<Self> {
        let (jobs, inbox) = channel::<Job>();
        // Ends when the last sender is dropped, and its children with it.
        thread::Builder::new().name("spawner".into()).spawn(move || inbox.into_iter().for_each(|job| job()))?;
        Ok(Spawner { jobs })
    }

    pub(super) fn spawn(&self, namespace: Arc<Namespace>, mut command: Command) -> io::Result<Child> {
        let (answer, answered) = channel();
        let parent = getpid();
        let before_start = move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            if getppid() != Some(parent) {
                return Err(io::Error::from_raw_os_error(libc::ECHILD)); // the parent died before the request
            }
            namespace.enter()
        };
        // SAFETY: between fork and exec only system calls are made (prctl, getppid, setns); no memory is allocated and no lock taken.
        unsafe { command.pre_exec(before_start) };
        let gone = |_| io::Error::other("the thread that starts programs has ended");
        let job = move || {
            // The caller waits for the answer.
            let _ = answer.send(command.spawn());
        };
        self.jobs.send(Box::new(job)).map_err(|_| io::Error::other("the thread that starts programs has ended"))?;
        answered.recv().map_err(gone)?
    }
}
