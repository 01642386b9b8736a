//! Asks the router in a thread of its own, so that a router that does not answer cannot block the keys.

use anyhow::{Context, Result};
use control::{Client, ClientError};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Sends one request at a time.
pub struct RouterPoller<Q, A> {
    questions: Sender<Q>,
    answers: Receiver<Result<A, ClientError>>,
    is_waiting: bool,
}

impl<Q: Send + 'static, A: Send + 'static> RouterPoller<Q, A> {
    /// Starts the thread that sends each question to `client` with `put`. When the asker is dropped, the thread ends after its present request.
    pub fn start(client: Client, put: fn(&Client, Q) -> Result<A, ClientError>) -> Result<RouterPoller<Q, A>> {
        let (questions, asked) = channel();
        let (sender, answers) = channel();
        let work = move || {
            for known in asked {
                if sender.send(put(&client, known)).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("asker".into()).spawn(work).context("cannot start a thread")?;
        Ok(RouterPoller { questions, answers, is_waiting: false })
    }

    /// Asks, unless the previous request is still open. Returns whether it does.
    pub fn ask(&mut self, known: Q) -> bool {
        let asks = !self.is_waiting && self.questions.send(known).is_ok();
        self.is_waiting |= asks;
        asks
    }

    /// Returns the answer when it has arrived.
    pub fn answer(&mut self) -> Option<Result<A, ClientError>> {
        let answer = self.answers.try_recv().ok()?;
        self.is_waiting = false;
        Some(answer)
    }
}
