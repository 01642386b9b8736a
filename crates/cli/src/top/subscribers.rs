//! `switchpath top subscribers`: the subscribers of an access network, those with the highest rates first.

use super::screen::{self, TopScreen};
use super::state::KeyAction;
use super::style::{alarm, bold, dim};
use crate::arguments::{LISTED, SubscriberSelection, TopArguments};
use crate::output::time_of_day;
use crate::show::{self, SUBSCRIBER_COLUMNS, subscriber_cells, subscribers_target};
use anyhow::Result;
use control::api::{ShareOrder, SubscriberOrder, SubscribersReply};
use control::{Client, ClientError};
use ratatui::Frame;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::{Constraint, Layout};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Paragraph, Row, Table};
use std::io::{IsTerminal, stdout};
use std::process::ExitCode;

/// The orders that the key `s` selects in turn.
const ORDERS: [SubscriberOrder; 6] = [
    SubscriberOrder::Traffic(ShareOrder::Rate),
    SubscriberOrder::Traffic(ShareOrder::Use),
    SubscriberOrder::Rtt,
    SubscriberOrder::Traffic(ShareOrder::Drops),
    SubscriberOrder::Traffic(ShareOrder::Sojourn),
    SubscriberOrder::Traffic(ShareOrder::Bytes),
];
/// The most subscribers asked for: enough to scroll through.
const MOST: u64 = 500;
/// The widest column of text.
const WIDEST: usize = 24;

const KEYS: &str = "q quit  s sort  p pause  arrows scroll";

/// Shows the subscribers until ended; without a terminal, once.
pub fn top(client: Client, arguments: &TopArguments) -> Result<ExitCode> {
    let mut view = SubscriberView::default();
    if arguments.once || arguments.json || !stdout().is_terminal() {
        let limit = (!arguments.json).then_some(LISTED);
        let selection = SubscriberSelection { worst: Some(view.order()), limit };
        return show::subscribers(&client, &selection, arguments.json);
    }
    // Before the screen is switched, so that the error of a router that does not answer stays readable.
    view.answer = Some(SubscriberView::ask(&client, view.order())?);
    screen::run(client, &mut view, arguments.interval)
}

/// The state of the view.
#[derive(Default)]
struct SubscriberView {
    answer: Option<SubscribersReply>,
    /// Why the previous request failed.
    error: Option<String>,
    order: usize,
    paused: bool,
    /// The first subscriber shown.
    from: usize,
}

impl SubscriberView {
    fn order(&self) -> SubscriberOrder {
        ORDERS[self.order % ORDERS.len()]
    }

    fn header(&self) -> Line<'static> {
        let Some(answer) = &self.answer else { return Line::from("") };
        let port = |port: &Option<String>| port.clone().unwrap_or_else(|| "-".into());
        let (down, up) = (port(&answer.inside), port(&answer.outside));
        let paused = if self.paused { ", paused" } else { "" };
        Line::from(format!(
            "{} subscribers by {}, down at {down}, up at {up}   {}{paused}",
            answer.total,
            self.order(),
            time_of_day(answer.time_ns)
        ))
    }
}

impl TopScreen for SubscriberView {
    type Question = SubscriberOrder;
    type Answer = SubscribersReply;

    fn ask(client: &Client, order: SubscriberOrder) -> Result<SubscribersReply, ClientError> {
        client.get(&subscribers_target(&SubscriberSelection { worst: Some(order), limit: Some(MOST) }, false))
    }

    fn question(&self) -> SubscriberOrder {
        self.order()
    }

    fn record(&mut self, answer: Result<SubscribersReply, ClientError>) {
        match answer {
            Ok(answer) => (self.answer, self.error) = (Some(answer), None),
            Err(error) => self.error = Some(error.to_string()),
        }
    }

    fn is_paused(&self) -> bool {
        self.paused
    }

    fn key(&mut self, code: KeyCode) -> KeyAction {
        let rows = self.answer.as_ref().map_or(0, |answer| answer.subscribers.len());
        match code {
            KeyCode::Char('q') | KeyCode::Esc => return KeyAction::Quit,
            KeyCode::Char('s') => {
                (self.order, self.from) = (self.order + 1, 0);
                return KeyAction::Ask;
            }
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Up => self.from = self.from.saturating_sub(1),
            KeyCode::Down => self.from += 1,
            KeyCode::PageUp => self.from = self.from.saturating_sub(10),
            KeyCode::PageDown => self.from += 10,
            KeyCode::Home => self.from = 0,
            _ => {}
        }
        self.from = self.from.min(rows.saturating_sub(1));
        KeyAction::Draw
    }

    fn draw(&mut self, frame: &mut Frame<'_>) {
        let parts = [Constraint::Length(1), Constraint::Min(1), Constraint::Length(1)];
        let [head, body, foot] = Layout::vertical(parts).areas(frame.area());
        frame.render_widget(Paragraph::new(self.header()).style(bold()), head);
        let room = usize::from(body.height.saturating_sub(1));
        let listed = self.answer.iter().flat_map(|answer| answer.subscribers.iter().skip(self.from).take(room));
        let rows: Vec<[String; SUBSCRIBER_COLUMNS.len()]> = listed.map(subscriber_cells).collect();
        let widths = SUBSCRIBER_COLUMNS.iter().enumerate().map(|(column, name)| {
            let widest = rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
            Constraint::Length(widest.max(name.trim_start_matches('>').len()).min(WIDEST) as u16)
        });
        let cell = |name: &str, text: String| {
            let text = Text::from(text);
            if name.starts_with('>') { text.right_aligned() } else { text }
        };
        let header = SUBSCRIBER_COLUMNS.map(|name| cell(name, name.trim_start_matches('>').to_owned()));
        let lines =
            rows.iter().map(|row| Row::new(SUBSCRIBER_COLUMNS.iter().zip(row).map(|(n, t)| cell(n, t.clone()))));
        let table = Table::new(lines.collect::<Vec<_>>(), widths.collect::<Vec<_>>());
        frame.render_widget(table.header(Row::new(header).style(bold())), body);
        let foot_line = match &self.error {
            Some(error) => Line::styled(error.clone(), alarm(true)),
            None => Line::styled(KEYS, dim()),
        };
        frame.render_widget(Paragraph::new(foot_line), foot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::api::{RttReply, RttSideReply, ShareTraffic, SubscriberReply};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn reply() -> SubscribersReply {
        let traffic = |sent: u64| ShareTraffic {
            ceiling_bps: Some(100_000_000),
            sent_bps: Some(sent),
            use_ppm: Some(sent / 100),
            dropped_packets: 7,
            p99_ns: Some(1_500_000),
            ..ShareTraffic::default()
        };
        let one = |number: u64| SubscriberReply {
            name: format!("c{number}"),
            title: "Jane".into(),
            site: Some("North".into()),
            down: Some(traffic(95_000_000 - number * 1_000_000)),
            up: None,
            rtt: Some(RttReply {
                subscriber: RttSideReply { p50_ns: Some(9_000_000), p95_ns: Some(31_000_000), weight: 8 },
                internet: RttSideReply::default(),
            }),
        };
        SubscribersReply {
            time_ns: 0,
            inside: Some("lan".into()),
            outside: Some("wan".into()),
            total: 900,
            subscribers: (0..30).map(one).collect(),
        }
    }

    fn drawn(view: &mut SubscriberView) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(150, 6)).unwrap();
        super::super::lines(terminal.draw(|frame| view.draw(frame)).unwrap().buffer)
            .lines()
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn subscribers_fill_screen_and_scroll() {
        let mut view = SubscriberView::default();
        view.record(Ok(reply()));
        let lines = drawn(&mut view);
        assert!(lines[0].starts_with("900 subscribers by rate, down at lan, up at wan"), "{lines:?}");
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        assert_eq!(
            words(&lines[2]),
            "c0 Jane North 9.00ms 31.0ms - - 95.0Mbit 95% 100mbit 1.50ms 7 0 - - - - - -".replace("Mb", "mb")
        );
        assert_eq!((lines.len(), lines[5].trim()), (6, KEYS));
        assert_eq!(view.key(KeyCode::PageDown), KeyAction::Draw);
        assert!(drawn(&mut view)[2].starts_with("c10 "), "{:?}", drawn(&mut view));
        (0..5).for_each(|_| assert_eq!(view.key(KeyCode::PageDown), KeyAction::Draw));
        assert!(drawn(&mut view)[2].starts_with("c29 "), "the last one stays in view");
        // The next order begins at its first subscriber.
        assert_eq!(
            (view.key(KeyCode::Char('s')), view.question()),
            (KeyAction::Ask, SubscriberOrder::Traffic(ShareOrder::Use))
        );
        view.key(KeyCode::Char('p'));
        let lines = drawn(&mut view);
        assert!(view.is_paused() && lines[0].contains("by use") && lines[0].contains("paused"), "{lines:?}");
        assert!(lines[2].starts_with("c0 "), "{lines:?}");
        assert_eq!(view.key(KeyCode::Char('q')), KeyAction::Quit);
    }
}
