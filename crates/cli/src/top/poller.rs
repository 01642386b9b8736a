//! Asks the router in a thread of its own, so that a router that does not answer cannot block the keys.

use super::sample::{SampleCursor, TopSample};
use anyhow::{Context, Result};
use control::{Client, ClientError};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Sends one request at a time.
pub struct RouterPoller {
    questions: Sender<SampleCursor>,
    answers: Receiver<Result<TopSample, ClientError>>,
    is_waiting: bool,
}

impl RouterPoller {
    /// Starts the thread for `client`. When the asker is dropped, the thread ends after its present request.
    pub fn start(client: Client) -> Result<RouterPoller> {
        let (questions, asked) = channel();
        let (sender, answers) = channel();
        let work = move || {
            for known in asked {
                if sender.send(TopSample::ask(&client, known)).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("asker".into()).spawn(work).context("cannot start a thread")?;
        Ok(RouterPoller { questions, answers, is_waiting: false })
    }

    /// Asks, unless the previous request is still open. Returns whether it does.
    pub fn ask(&mut self, known: SampleCursor) -> bool {
        let asks = !self.is_waiting && self.questions.send(known).is_ok();
        self.is_waiting |= asks;
        asks
    }

    /// Returns the answer when it has arrived.
    pub fn answer(&mut self) -> Option<Result<TopSample, ClientError>> {
        let answer = self.answers.try_recv().ok()?;
        self.is_waiting = false;
        Some(answer)
    }
}
