use super::sample::{SampleCursor, TopSample, TopSnapshot};
use super::state::{KeyAction, TopState};
use super::{lines, render_all, view};
use control::{ClientError, Target};
use expect_test::{Expect, expect};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::KeyCode;
use serde_json::{Value, json};

const SECOND: u64 = 1_000_000_000;

/// A port that has received and sent this many packets of 125 bytes, and dropped `dropped` of them.
fn port(name: &str, received: u64, sent: u64, dropped: u64) -> Value {
    json!({
        "name": name, "device": format!("packet:{name}0"), "mac": "02:00:00:00:00:01", "up": name != "dmz", "closing": false,
        "interfaces": [], "scheme": "fifo(limit=1000)", "received_packets": received, "received_bytes": received * 125,
        "sent_packets": sent, "sent_bytes": sent * 125, "offered_packets": sent, "dropped_packets": 0,
        "marked_packets": 0, "backlog_packets": sent / 1000, "backlog_bytes": sent / 8, "lost_before_receive_packets": 0,
        "lost_after_transmit_packets": 0, "drops": [{"port": name, "reason": "no_route", "packets": dropped}],
    })
}

/// A link at which half of the packets waited and every fourth was dropped.
fn link(port: &str, sent: u64) -> Value {
    let buckets = json!([{"most_ns": 4_000_000, "packets": sent / 2}, {"most_ns": 20_000_000, "packets": sent / 2}]);
    let sojourn = json!({"packets": sent, "sum_ns": sent, "p50_ns": 1, "p99_ns": 1, "p999_ns": 1, "max_ns": 19_500_000, "buckets": buckets});
    let drops = json!([{"reason": "scheme_front", "packets": sent / 4}]);
    let group = |name: &str, state: Value| {
        json!({
            "name": name, "queues": 1, "arrived_packets": sent, "sent_packets": sent, "dropped_packets": sent / 8, "drops": drops,
            "marked_packets": 0, "backlog_packets": 3, "backlog_bytes": 4500, "sojourn": sojourn, "state": state
        })
    };
    let codel = json!([{"name": "count", "value": 4.0}, {"name": "dropping", "value": 1.0}, {"name": "drop_next", "value": 0.0171}]);
    let rise: Vec<u64> = (0..300).map(|i| if i < 100 { 0 } else { i - 99 }).collect();
    let zero = vec![0; 300];
    json!({
        "port": port, "worker": 0, "scheme": "priority{codel}", "version": 1, "put_aside": null, "offered_packets": sent * 5 / 4, "sent_packets": sent, "sent_bytes": sent * 100,
        "passed_packets": sent / 2, "dropped_packets": sent / 4, "marked_packets": 0, "backlog_packets": 6, "backlog_bytes": 9000,
        "opportunities_wasted": 9, "opportunities_withheld": 2, "handler_ns": sent * 100, "handler_packets": sent, "sojourn": sojourn,
        "drops": drops, "groups": [group("class 1", codel), group("class 0", json!([]))],
        "longest": [{"queue": 0, "group": "class 1", "packets": 3, "bytes": 4500}],
        "series": {"time_ns": zero, "backlog_packets": rise, "backlog_bytes": zero, "most_packets": rise, "sent_packets": zero,
                   "mean_sojourn_ns": zero, "max_sojourn_ns": rise.iter().rev().map(|i| i * 100_000).collect::<Vec<u64>>(), "state": []}
    })
}

fn path(name: &str, entered: u64, queued: u64, dropped: u64) -> Value {
    json!({
        "name": name, "functions": ["ip"], "class": 0, "entered_packets": entered, "generated_packets": 0,
        "left_packets": entered, "dropped_packets": dropped, "consumed_packets": 0, "diverted_packets": 0,
        "queued_packets": queued,
    })
}

fn drop_of(reason: &str, packets: u64) -> Value {
    json!({"reason": reason, "explanation": "why it is so", "packets": packets,
           "ports": [{"port": "lan", "reason": reason, "packets": packets}]})
}

/// The answers of a router started at `started`, after this many seconds.
fn sample(started: u64, seconds: u64) -> TopSample {
    let (n, time) = (seconds, (started + seconds) * SECOND);
    let event = |sequence: u64, text: &str| json!({"sequence": sequence, "time_ns": sequence * SECOND, "kind": "applied", "subject": "lan", "text": text});
    let task = |worker: u16, used: u64| {
        json!({"worker": worker, "task": 0, "kind": "input", "port": "lan", "runs": 1, "packets": 1, "used_ns": used,
        "share_ppm": 250_000, "state": "idle", "cost_ns": 100, "deviation_ns": 0, "exceeds_declared_cost": false, "batch": 1, "timeouts": 0,
        "harvested": 0, "lag_ns": 0, "idle_ns": 0, "eligible_ns": 0, "active_ns": 0, "running_ns": used})
    };
    let core = |worker: u16| json!({"worker": worker, "useful_ns": n * 800, "polling_ns": n * 100, "switching_ns": n * 100, "switch_cost_ns": 50});
    let voice = |used: u64| {
        let mut task = task(0, used);
        (task["task"], task["kind"], task["path"]) = (json!(1), json!("forwarding"), json!("voice"));
        task
    };
    let read = |value: Value| serde_json::from_value(value).unwrap();
    TopSample {
        status: serde_json::from_value(json!({
            "version": "0.1.0", "name": "edge", "state": "running", "generation": 3, "config": "edge.toml", "pid": 1,
            "started_ns": started * SECOND, "uptime_ns": n * SECOND, "workers": 2, "frames": 16384,
            "frames_spare": 12288, "held_packets": 7, "routes": 1200, "neighbours": 4, "balanced": true, "captures": [],
        }))
        .unwrap(),
        ports: serde_json::from_value(json!({"time_ns": time, "ports": [
            port("dmz", 0, 0, 0), port("lan", n * 1000, n * 400, n * 10), port("wan", n * 500, n * 900, 0)]}))
        .unwrap(),
        links: read_links(json!({"time_ns": time, "links": [link("wan", n * 800)]})),
        paths: serde_json::from_value(json!({"time_ns": time, "paths": [
            path("control", n, 0, 0), path("best-effort", n * 1000, 2, n * 5), path("voice", n * 50, 9, 0)]}))
        .unwrap(),
        tasks: serde_json::from_value(json!({"time_ns": time, "cores": [core(0), core(1)], "tasks": [
            task(0, n * SECOND / 4), task(1, n * SECOND), voice(n * SECOND / 8)]}))
        .unwrap(),
        drops: serde_json::from_value(json!({"time_ns": time, "drops": [
            drop_of("blackhole", 5000), drop_of("no_route", n * 10), drop_of("ttl_expired", n * 20)]}))
        .unwrap(),
        events: read(json!({"next": 3, "missed": 0, "events": if n == 1 {
            vec![event(1, "started"), event(2, "generation 3 runs")]
        } else {
            vec![]
        }})),
    }
}

fn read_links(value: Value) -> control::api::Links {
    serde_json::from_value(value).unwrap()
}

/// Two samples, a second apart.
fn state() -> TopState {
    let mut state = TopState::new("1s".to_owned());
    state.record_answer(Ok(sample(100, 1)));
    state.record_answer(Ok(sample(100, 2)));
    state
}

fn screen(state: &mut TopState, width: u16, height: u16) -> String {
    let Ok(mut terminal) = Terminal::new(TestBackend::new(width, height));
    let Ok(drawn) = terminal.draw(|frame| view::draw(frame, state));
    lines(drawn.buffer)
}

fn check(state: &mut TopState, (width, height): (u16, u16), expected: Expect) {
    expected.assert_eq(&screen(state, width, height));
}

/// Returns the first words of the lines below the line that starts with `head`, up to the end of the table.
fn column(text: &str, head: &str) -> Vec<String> {
    let rows = text.lines().skip_while(|line| !line.starts_with(head)).skip(1);
    let rows = rows.take_while(|line| !line.contains('─'));
    rows.map_while(|line| line.split(' ').next().filter(|word| !word.is_empty())).map(str::to_owned).collect()
}

#[test]
fn top_fits_a_terminal_of_80_by_24() {
    check(
        &mut state(),
        (80, 24),
        expect![[r#"
            edge forwards  generation 3 (edge.toml)  up 2s  every 1s
            in 1.50kpps 1.50mbit  out 1.30kpps 1.30mbit  drops 30/s  held 7
            pool 25% of 16.4k  routes 1200  neighbours 4  ledger balances
            workers busy  0:  38% E 80/90%  1: 100% E 80/90%
            in, most 1.50kpps                                                              █
             ports by name ─────────────────────────────────────────────────────────────────
            port device          state         in               out          backlog   drops
            dmz  packet:dmz0     down        0pps     0bit     0pps     0bit       0     0/s
            lan  packet:lan0     up      1.00kpps 1.00mbit   400pps  400kbit       0    10/s
            wan  packet:wan0     up        500pps  500kbit   900pps  900kbit       1     0/s
             paths by order ────────────────────────────────────────────────────────────────
            path        functions               rate    cpu     p99  queued   drops   in all
            control     ip                      1pps   0.0%       -       0     0/s        0
            best-effort ip                  1.00kpps   0.0%       -       2     5/s       10
            voice       ip                     50pps  12.5%       -       9     0/s        0
             drops by rate ────────────────────────   events ───────────────────────────────
            reason      in all    new at             00:00:02 lan: generation 3 runs
            ttl_expired     40    +20 lan 40         00:00:01 lan: started
            no_route        20    +10 lan 20
            blackhole    5.00k     +0 lan 5000



            q quit  tab pane  s sort  p pause  d drops  b backlog  ? help
        "#]],
    );
}

#[test]
fn wide_terminal_shows_more_columns() {
    check(
        &mut state(),
        (130, 30),
        expect![[r#"
            edge forwards  generation 3 (edge.toml)  up 2s  every 1s
            in 1.50kpps 1.50mbit  out 1.30kpps 1.30mbit  drops 30/s  held 7
            pool 25% of 16.4k  routes 1200  neighbours 4  ledger balances
            workers busy  0:  38% E 80/90%  1: 100% E 80/90%
            in, most 1.50kpps                                                                                                                █
                                                                                                                                             █
                                                                                                                                             █
             ports by name ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────
            port device                          state         in               out          backlog   drops last 30s         p99 drops in all
            dmz  packet:dmz0                     down        0pps     0bit     0pps     0bit       0     0/s                    -            0
            lan  packet:lan0                     up      1.00kpps 1.00mbit   400pps  400kbit       0    10/s                    -           20
            wan  packet:wan0                     up        500pps  500kbit   900pps  900kbit       1     0/s     ▁▂▃▄▅▆▇█  19.5ms            0
             paths by order ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────
            path        functions                                                                 rate    cpu     p99  queued   drops   in all
            control     ip                                                                        1pps   0.0%       -       0     0/s        0
            best-effort ip                                                                    1.00kpps   0.0%       -       2     5/s       10
            voice       ip                                                                       50pps  12.5%       -       9     0/s        0
             drops by rate ─────────────────────────────────────────────────   events ────────────────────────────────────────────────────────
            reason      in all    new at                                      00:00:02 lan: generation 3 runs
            ttl_expired     40    +20 lan 40                                  00:00:01 lan: started
            no_route        20    +10 lan 20
            blackhole    5.00k     +0 lan 5000







            q quit  tab pane  s sort  p pause  d drops  b backlog  ? help
        "#]],
    );
}

#[test]
fn snapshot_prints_all_lines_without_keys() {
    expect![[r#"
        edge forwards  generation 3 (edge.toml)  up 2s  every 1s
        in 1.50kpps 1.50mbit  out 1.30kpps 1.30mbit  drops 30/s  held 7
        pool 25% of 16.4k  routes 1200  neighbours 4  ledger balances
        workers busy  0:  38% E 80/90%  1: 100% E 80/90%
         ports by name ─────────────────────────────────────────────────────────────────────────────────────
        port device                              state         in               out          backlog   drops
        dmz  packet:dmz0                         down        0pps     0bit     0pps     0bit       0     0/s
        lan  packet:lan0                         up      1.00kpps 1.00mbit   400pps  400kbit       0    10/s
        wan  packet:wan0                         up        500pps  500kbit   900pps  900kbit       1     0/s
         paths by order ────────────────────────────────────────────────────────────────────────────────────
        path        functions                                   rate    cpu     p99  queued   drops   in all
        control     ip                                          1pps   0.0%       -       0     0/s        0
        best-effort ip                                      1.00kpps   0.0%       -       2     5/s       10
        voice       ip                                         50pps  12.5%       -       9     0/s        0
         drops by rate ──────────────────────────────────   events ─────────────────────────────────────────
        reason      in all    new at                       00:00:02 lan: generation 3 runs
        ttl_expired     40    +20 lan 40                   00:00:01 lan: started
        no_route        20    +10 lan 20
        blackhole    5.00k     +0 lan 5000

         links ─────────────────────────────────────────────────────────────────────────────────────────────
        wan priority{codel}
          backlog                    ▁▁▁▁▂▂▂▃▃▃▃▄▄▄▅▅▅▅▆▆▆▇▇▇▇████| 6 packets, 9.00kb; most 200
          sojourn      ████▇▇▇▇▆▆▆▅▅▅▅▄▄▄▃▃▃▃▂▂▂▂▁▁▁              | p50 4.00ms p99 19.5ms; most 20.0ms
          dropped 200/s (scheme_front 200/s), marked 0/s, bypassed 400/s
          class 1: 3 packets, p99 19.5ms, dropped 100/s; count 4, dropping yes, drop_next 17.1ms
          class 0: 3 packets, p99 19.5ms, dropped 100/s
    "#]]
    .assert_eq(&render_all(&mut state(), 100));
}

#[test]
fn help_and_drops_cover_the_other_panes() {
    let mut state = state();
    state.key(KeyCode::Char('d'));
    check(
        &mut state,
        (80, 24),
        expect![[r#"
            edge forwards  generation 3 (edge.toml)  up 2s  every 1s
            in 1.50kpps 1.50mbit  out 1.30kpps 1.30mbit  drops 30/s  held 7
            pool 25% of 16.4k  routes 1200  neighbours 4  ledger balances
            workers busy  0:  38% E 80/90%  1: 100% E 80/90%
            in, most 1.50kpps                                                              █
             drops by rate ─────────────────────────────────────────────────────────────────
            ttl_expired  40, 20/s
              why it is so
              A traceroute or a routing loop: check `switchpath show routes` for a route
            back to the sender.
              at lan 40
            no_route  20, 10/s
              why it is so
              Add a route or a default route: `switchpath show routes` lists the present
            ones.
              at lan 20
            blackhole  5000, 0/s
              why it is so
              Intended by a route with `blackhole = true`.
              at lan 5000



            q quit  tab pane  s sort  p pause  d drops  b backlog  ? help
        "#]],
    );
    state.key(KeyCode::Char('?'));
    assert!(screen(&mut state, 80, 24).contains("pause and resume"));
    state.key(KeyCode::Char('x'));
    assert!(!screen(&mut state, 80, 24).contains("pause and resume"), "any key closes the help");
    assert_eq!(state.key(KeyCode::Esc), KeyAction::Draw, "back from the drops");
    assert_eq!(state.key(KeyCode::Esc), KeyAction::Quit);
}

#[test]
fn links_view_draws_backlog_sojourn_and_scheme_state() {
    let mut state = state();
    state.key(KeyCode::Char('b'));
    check(
        &mut state,
        (100, 24),
        expect![[r#"
        edge forwards  generation 3 (edge.toml)  up 2s  every 1s
        in 1.50kpps 1.50mbit  out 1.30kpps 1.30mbit  drops 30/s  held 7
        pool 25% of 16.4k  routes 1200  neighbours 4  ledger balances
        workers busy  0:  38% E 80/90%  1: 100% E 80/90%
        in, most 1.50kpps                                                                                  █
         links ─────────────────────────────────────────────────────────────────────────────────────────────
        wan priority{codel}
          backlog                    ▁▁▁▁▂▂▂▃▃▃▃▄▄▄▅▅▅▅▆▆▆▇▇▇▇████| 6 packets, 9.00kb; most 200
          sojourn      ████▇▇▇▇▆▆▆▅▅▅▅▄▄▄▃▃▃▃▂▂▂▂▁▁▁              | p50 4.00ms p99 19.5ms; most 20.0ms
          dropped 200/s (scheme_front 200/s), marked 0/s, bypassed 400/s
          class 1: 3 packets, p99 19.5ms, dropped 100/s; count 4, dropping yes, drop_next 17.1ms
          class 0: 3 packets, p99 19.5ms, dropped 100/s











        q quit  tab pane  s sort  p pause  d drops  b backlog  ? help
    "#]],
    );
    assert_eq!(state.key(KeyCode::Esc), KeyAction::Draw, "back from the links");
    state.key(KeyCode::Char('d'));
    state.key(KeyCode::Char('b'));
    assert!(screen(&mut state, 80, 24).contains(" links "), "they take the place of the drops");
}

#[test]
fn each_pane_is_sorted_by_its_selected_column() {
    let mut state = state();
    let ports = |state: &mut TopState| column(&screen(state, 100, 30), "port ");
    assert_eq!(ports(&mut state), ["dmz", "lan", "wan"]);
    state.key(KeyCode::Char('s'));
    assert_eq!(ports(&mut state), ["lan", "wan", "dmz"], "by what comes in");
    state.key(KeyCode::Char('s'));
    assert_eq!(ports(&mut state), ["wan", "lan", "dmz"], "by what goes out");
    state.key(KeyCode::Tab);
    state.key(KeyCode::Char('s'));
    assert_eq!(column(&screen(&mut state, 100, 30), "path "), ["best-effort", "voice", "control"]);
    state.key(KeyCode::Tab);
    assert_eq!(column(&screen(&mut state, 100, 30), "reason "), ["ttl_expired", "no_route", "blackhole"]);
    state.key(KeyCode::Char('s'));
    assert_eq!(column(&screen(&mut state, 100, 30), "reason "), ["blackhole", "ttl_expired", "no_route"]);
}

#[test]
fn pause_is_shown_and_resume_polls_at_once() {
    let mut state = state();
    assert_eq!(state.key(KeyCode::Char('p')), KeyAction::Draw);
    assert!(screen(&mut state, 80, 24).contains("PAUSED"));
    assert_eq!(state.key(KeyCode::Char('p')), KeyAction::Ask);
}

#[test]
fn top_reports_a_lost_router_and_starts_anew_when_it_returns() {
    let mut state = state();
    let gone = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
    state.record_answer(Err(ClientError::Unreachable(Target::Socket("/run/router.sock".into()), gone)));
    let text = screen(&mut state, 80, 24);
    assert!(
        text.contains("edge DOES NOT ANSWER") && text.contains("cannot connect to a router at /run/router.sock"),
        "{text}"
    );
    assert!(text.contains("lan"), "what was known last stays");
    assert_eq!(state.samples.cursor(), SampleCursor { started_ns: 100 * SECOND, next_event: 3 });
    state.record_answer(Ok(sample(200, 1)));
    let text = screen(&mut state, 80, 24);
    assert!(text.contains("edge forwards") && text.contains("in 0pps"), "no rate of two different routers: {text}");
    assert_eq!(state.samples.events.len(), 2, "the events are the new router's");
}

#[test]
fn top_draws_any_terminal_size_and_any_number_of_lines() {
    let mut state = state();
    let mut many = sample(100, 3);
    let names: Vec<String> = (0..200).map(|i| format!("p{i}")).collect();
    many.ports.ports = names.iter().map(|n| serde_json::from_value(port(n, 1, 1, 1)).unwrap()).collect();
    many.paths.paths = names.iter().map(|n| serde_json::from_value(path(n, 1, 1, 1)).unwrap()).collect();
    for round in 0..3 {
        for width in [1, 59, 60, 61, 80, 109, 110, 200] {
            for height in [1, 15, 16, 17, 24, 30, 50] {
                let text = screen(&mut state, width, height);
                assert_eq!(text.lines().count(), usize::from(height), "{width}x{height}");
            }
        }
        match round {
            0 => state.record_answer(Ok(many.clone())),
            _ => drop(state.key(KeyCode::Char('d'))),
        }
    }
    state.key(KeyCode::Char('d'));
    assert_eq!(render_all(&mut state, 80).lines().filter(|line| line.starts_with('p')).count(), 2 * 200 + 3);
}

#[test]
fn top_json_has_the_same_values_with_units_in_the_keys() {
    let snapshot = serde_json::to_value(TopSnapshot::of(&state().samples).unwrap()).unwrap();
    let both =
        |worker: u16, busy: f64| json!({"worker": worker, "busy": busy, "efficiency": 0.8, "efficiency_literal": 0.9});
    assert_eq!(snapshot["total"]["received_pps"], 1500.0);
    assert_eq!(snapshot["total"]["sent_bps"], 1_300_000.0);
    assert_eq!(snapshot["workers"], json!([both(0, 0.375), both(1, 1.0)]));
    assert_eq!(snapshot["ports"][1]["dropped_pps"], 10.0);
    assert_eq!(snapshot["drops"][0]["new_packets"], 0);
    assert_eq!(snapshot["paths"][2]["queued_packets"], 9);
    let link = &snapshot["links"][0];
    assert_eq!((&link["dropped_pps"], &link["p50_ns"]), (&json!(200.0), &json!(4_000_000)));
    assert_eq!((&link["p99_ns"], &link["passed_pps"]), (&json!(19_500_000), &json!(400.0)));
    assert_eq!(link["queues"][0]["state"][2], json!({"name": "drop_next", "value": 0.0171}));
}
