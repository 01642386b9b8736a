//! `switchpath top`: the live view of the running router.

mod links;
mod poller;
mod sample;
mod screen;
mod state;
mod style;
mod subscribers;
#[cfg(test)]
mod tests;
mod view;

use crate::arguments::{TopArguments, TopView};
use crate::output::print_json;
use anyhow::Result;
use control::{Client, ClientError};
use io::wait::{Sleeper, Waker};
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::crossterm::event::KeyCode;
use ratatui::{Frame, Terminal};
use sample::{SampleCursor, TopSample, TopSnapshot};
use screen::TopScreen;
use state::{KeyAction, TopState};
use std::io::{IsTerminal, Write, stdout};
use std::process::ExitCode;

/// The least width of a snapshot, and its width without a terminal.
const LEAST_WIDTH: u16 = 80;
const WIDTH: u16 = 120;

/// Shows the router until ended.
pub fn top(arguments: &TopArguments) -> Result<ExitCode> {
    let client = arguments.socket.client();
    if let Some(TopView::Subscribers) = arguments.view {
        return subscribers::top(client, arguments);
    }
    if arguments.once || arguments.json || !stdout().is_terminal() {
        return once(&client, arguments);
    }
    // Before the screen is switched, so that the error of a router that does not answer stays readable.
    let mut state = TopState::new(arguments.interval.to_string());
    state.samples.add(TopSample::ask(&client, SampleCursor::default())?);
    screen::run(client, &mut state, arguments.interval)
}

impl TopScreen for TopState {
    type Question = SampleCursor;
    type Answer = TopSample;

    fn ask(client: &Client, question: SampleCursor) -> Result<TopSample, ClientError> {
        TopSample::ask(client, question)
    }

    fn question(&self) -> SampleCursor {
        self.samples.cursor()
    }

    fn record(&mut self, answer: Result<TopSample, ClientError>) {
        self.record_answer(answer);
    }

    fn is_paused(&self) -> bool {
        self.paused
    }

    fn key(&mut self, code: KeyCode) -> KeyAction {
        TopState::key(self, code)
    }

    fn draw(&mut self, frame: &mut Frame<'_>) {
        view::draw(frame, self);
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
