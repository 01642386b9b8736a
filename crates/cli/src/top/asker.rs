//! Asks the router in a thread of its own, so that a router that does not answer cannot block the keys.

use super::sample::{Known, Sample};
use anyhow::{Context, Result};
use control::{Client, ClientError};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Sends one request at a time.
pub struct Asker {
    questions: Sender<Known>,
    answers: Receiver<Result<Sample, ClientError>>,
    waits: bool,
}

impl Asker {
    /// Starts the thread for `client`. When the asker is dropped, the thread ends after its present request.
    pub fn start(client: Client) -> Result<Asker> {
        let (questions, asked) = channel();
        let (sender, answers) = channel();
        let work = move || {
            for known in asked {
                if sender.send(Sample::ask(&client, known)).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("asker".into()).spawn(work).context("there can be no further thread")?;
        Ok(Asker { questions, answers, waits: false })
    }

    /// Asks, unless the previous request is still open. Returns whether it does.
    pub fn ask(&mut self, known: Known) -> bool {
        let asks = !self.waits && self.questions.send(known).is_ok();
        self.waits |= asks;
        asks
    }

    /// Returns the answer when it has arrived.
    pub fn answer(&mut self) -> Option<Result<Sample, ClientError>> {
        let answer = self.answers.try_recv().ok()?;
        self.waits = false;
        Some(answer)
    }
}
