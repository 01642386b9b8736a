//! Asks the router from a thread of its own, so that one that hangs does not hold up the keys.

use super::sample::{Known, Sample};
use anyhow::{Context, Result};
use control::{Client, ClientError};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Asks when it is told to; one question at a time.
pub struct Asker {
    questions: Sender<Known>,
    answers: Receiver<Result<Sample, ClientError>>,
    waits: bool,
}

impl Asker {
    /// Will ask `client`. Its thread ends after the question it is at when this is dropped.
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

    /// Asks, unless the last question is still open; true where it does.
    pub fn ask(&mut self, known: Known) -> bool {
        let asks = !self.waits && self.questions.send(known).is_ok();
        self.waits |= asks;
        asks
    }

    /// The answer, once it is there.
    pub fn answer(&mut self) -> Option<Result<Sample, ClientError>> {
        let answer = self.answers.try_recv().ok()?;
        self.waits = false;
        Some(answer)
    }
}
