//! Runs a live view on the terminal: asks the router, reads keys, and draws.

use super::poller::RouterPoller;
use super::state::KeyAction;
use anyhow::{Context, Result};
use control::{Client, ClientError};
use io::clock;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, Frame};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use units::Nanos;

/// The interval at which answers and signals are checked.
const PATIENCE: Nanos = Nanos::millis(50);

/// A live view.
pub trait TopScreen {
    /// A request to the router.
    type Question: Send + 'static;
    /// Its answer.
    type Answer: Send + 'static;

    /// Sends a request.
    fn ask(client: &Client, question: Self::Question) -> Result<Self::Answer, ClientError>;
    /// The next request.
    fn question(&self) -> Self::Question;
    /// Shows an answer from now on, or why there is none.
    fn record(&mut self, answer: Result<Self::Answer, ClientError>);
    /// True if the router is not asked.
    fn is_paused(&self) -> bool;
    /// Handles a key.
    fn key(&mut self, code: KeyCode) -> KeyAction;
    /// Draws one frame.
    fn draw(&mut self, frame: &mut Frame<'_>);
}

/// Shows a view until ended.
pub fn run<S: TopScreen>(client: Client, state: &mut S, interval: Nanos) -> Result<ExitCode> {
    let asker = RouterPoller::start(client, S::ask)?;
    let ended = Arc::new(AtomicBool::new(false));
    end_with_signals(ended.clone()).context("cannot wait for signals")?;
    // Its panic hook restores the terminal before the message is printed.
    let mut terminal = ratatui::try_init().context("cannot open the terminal")?;
    let result = live(&mut terminal, asker, state, interval, &ended);
    ratatui::restore();
    result.map(|()| ExitCode::SUCCESS)
}

/// A signal ends the loop. SIGHUP ends the whole process, because the terminal is gone: crossterm reads its end again and again and never returns.
fn end_with_signals(ended: Arc<AtomicBool>) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let wait = move || {
        for signal in signals.forever() {
            if signal == SIGHUP {
                ratatui::restore();
                std::process::exit(1);
            }
            ended.store(true, Ordering::Relaxed);
        }
    };
    thread::Builder::new().name("signals".into()).spawn(wait)?;
    Ok(())
}

/// Draws, asks and reads keys until ended.
fn live<S: TopScreen>(
    terminal: &mut DefaultTerminal,
    mut asker: RouterPoller<S::Question, S::Answer>,
    state: &mut S,
    interval: Nanos,
    ended: &AtomicBool,
) -> Result<()> {
    let mut due = clock::now() + interval;
    terminal.draw(|frame| state.draw(frame))?;
    while !ended.load(Ordering::Relaxed) {
        let mut changed = false;
        let mut asks = !state.is_paused() && clock::now() >= due;
        let mut patience = due.since(clock::now()).clamp(Nanos::millis(1), PATIENCE).into();
        while event::poll(patience)? {
            match handle_event(state, &event::read()?) {
                KeyAction::Quit => return Ok(()),
                KeyAction::Ask => asks = true,
                KeyAction::Draw => {}
            }
            (changed, patience) = (true, Duration::ZERO);
        }
        if let Some(answer) = asker.answer() {
            state.record(answer);
            changed = true;
        }
        if asks && asker.ask(state.question()) {
            due = clock::now() + interval;
        }
        if changed {
            terminal.draw(|frame| state.draw(frame))?;
        }
    }
    Ok(())
}

fn handle_event<S: TopScreen>(state: &mut S, event: &Event) -> KeyAction {
    match event {
        Event::Key(key) if key.kind == KeyEventKind::Release => KeyAction::Draw,
        Event::Key(key) if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) => {
            KeyAction::Quit
        }
        Event::Key(key) => state.key(key.code),
        // A resized terminal is drawn again.
        _ => KeyAction::Draw,
    }
}
