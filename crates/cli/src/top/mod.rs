//! `switchpath top`: the live view of the running router.

mod links;
mod poller;
mod sample;
mod state;
mod style;
#[cfg(test)]
mod tests;
mod view;

use crate::arguments::TopArguments;
use crate::output::print_json;
use anyhow::{Context, Result};
use control::Client;
use io::clock;
use io::wait::{Sleeper, Waker};
use poller::RouterPoller;
use ratatui::DefaultTerminal;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use sample::{SampleCursor, TopSample, TopSnapshot};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use state::{KeyAction, TopState};
use std::io::{IsTerminal, Write, stdout};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use units::Nanos;

/// The interval at which answers and signals are checked.
const PATIENCE: Nanos = Nanos::millis(50);
/// The least width of a snapshot, and its width without a terminal.
const LEAST_WIDTH: u16 = 80;
const WIDTH: u16 = 120;

/// Shows the router until ended.
pub fn top(arguments: &TopArguments) -> Result<ExitCode> {
    let client = arguments.socket.client();
    if arguments.once || arguments.json || !stdout().is_terminal() {
        return once(&client, arguments);
    }
    // Before the screen is switched, so that the error of a router that does not answer stays readable.
    let mut state = TopState::new(arguments.interval.to_string());
    state.samples.add(TopSample::ask(&client, SampleCursor::default())?);
    let asker = RouterPoller::start(client)?;
    let ended = Arc::new(AtomicBool::new(false));
    end_with_signals(ended.clone()).context("cannot wait for signals")?;
    // Its panic hook restores the terminal before the message is printed.
    let mut terminal = ratatui::try_init().context("cannot open the terminal")?;
    let result = live(&mut terminal, asker, &mut state, arguments.interval, &ended);
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
fn live(
    terminal: &mut DefaultTerminal,
    mut asker: RouterPoller,
    state: &mut TopState,
    interval: Nanos,
    ended: &AtomicBool,
) -> Result<()> {
    let mut due = clock::now() + interval;
    terminal.draw(|frame| view::draw(frame, state))?;
    while !ended.load(Ordering::Relaxed) {
        let mut changed = false;
        let mut asks = !state.paused && clock::now() >= due;
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
            state.record_answer(answer);
            changed = true;
        }
        if asks && asker.ask(state.samples.cursor()) {
            due = clock::now() + interval;
        }
        if changed {
            terminal.draw(|frame| view::draw(frame, state))?;
        }
    }
    Ok(())
}

fn handle_event(state: &mut TopState, event: &Event) -> KeyAction {
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

/// Prints everything once. The rates are those of one interval.
fn once(client: &Client, arguments: &TopArguments) -> Result<ExitCode> {
    let mut state = TopState::new(arguments.interval.to_string());
    state.samples.add(TopSample::ask(client, SampleCursor::default())?);
    Sleeper::new(Waker::new()?).sleep([], arguments.interval)?;
    state.samples.add(TopSample::ask(client, state.samples.cursor())?);
    let mut out = stdout().lock();
    match TopSnapshot::of(&state.samples) {
        Some(snapshot) if arguments.json => print_json(&mut out, &snapshot)?,
        _ => {
            let size = ratatui::crossterm::terminal::size();
            let width = if stdout().is_terminal() { size.map_or(WIDTH, |(width, _)| width) } else { WIDTH };
            out.write_all(render_all(&mut state, width.max(LEAST_WIDTH)).as_bytes())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns everything as text, with as many lines as needed.
fn render_all(state: &mut TopState, width: u16) -> String {
    let height = view::height(state);
    // Text only: the test backend keeps the characters in its buffer.
    let Ok(mut terminal) = Terminal::new(TestBackend::new(width, height));
    let Ok(drawn) = terminal.draw(|frame| view::draw_whole(frame, state));
    lines(drawn.buffer)
}

fn lines(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width).max(1);
    let line = |cells: &[Cell]| {
        let text: String = cells.iter().map(Cell::symbol).collect();
        text.trim_end().to_owned() + "\n"
    };
    buffer.content.chunks(width).map(line).collect()
}
