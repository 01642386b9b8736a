//! Faulty guests: they are refused when they are loaded, or suspended while they run. No packet is lost.

use extension::{FAULTS, GuestProgram, Runtime};
use schemes::model::{Model, ModelFate};
use schemes::{Next, Scheme, Size, Trouble};
use std::time::Duration;
use units::{Instant, Nanos, QueueId};

/// A guest as text, with these functions besides the usual ones. Its block is at 1024, its description at 8.
fn text(arrive: &str, ready: &str) -> String {
    module_text(
        r#"(memory (export "memory") 2)"#,
        &format!(
            r#"(func (export "switchpath_arrive") {arrive})
            (func (export "switchpath_ready") {ready})"#
        ),
    )
}

fn module_text(memory: &str, rest: &str) -> String {
    format!(
        r#"(module {memory}
        (data (i32.const 8) "summary It errs.\n\00")
        (func (export "switchpath_version") (result i32) (i32.const 1))
        (func (export "switchpath_describe") (result i32) (i32.const 8))
        (func (export "switchpath_block") (result i32) (i32.const 1024))
        (func (export "switchpath_start") (result i32)
            (i32.store (i32.const 1060) (i32.const 2)) (i32.store (i32.const 1064) (i32.const 100)) (i32.const 0))
        (func (export "switchpath_recount") (i64.store (i32.const 1048) (i64.const 1)))
        {rest})"#
    )
}

fn load(text: &str) -> Result<GuestProgram, String> {
    let module = wat::parse_str(text).expect("it is WebAssembly");
    GuestProgram::load(&module, &Runtime::counted().expect("it runs here")).map_err(|error| error.to_string())
}

/// Admits every packet, up to 8 of them, to queue 1, and sends nothing until 1 ns after the start.
const ADMIT_ALL: &str = "(i64.store (i32.const 1048) (i64.const 1))
    (i64.store (i32.const 3264) (i64.const 0x0002000200020002)) (i64.store (i32.const 3272) (i64.const 0x0002000200020002))";

fn numbers(model: &Model) -> Vec<usize> {
    let sent = |fate: &ModelFate| match fate {
        ModelFate::Sent(number) => *number,
        other => panic!("{other:?}"),
    };
    model.fates.iter().map(sent).collect()
}

/// A guest that admits packets and runs `ready` when the link is ready. Returns the reason for its suspension.
fn suspension_reason(ready: &str) -> String {
    let mut guest = load(&text(ADMIT_ALL, ready)).unwrap().guest(&[]).unwrap();
    let mut model = Model::with_queues(2);
    model.arrive(&mut guest, &[100, 200, 300]);
    assert_eq!((model.waiting(), guest.is_running()), (3, true));
    model.now += Nanos::new(5);
    model.ready(&mut guest, 2);
    assert!(!guest.is_running());
    assert_eq!(numbers(&model), [0, 1], "its queues are served first come, first served");
    model.arrive(&mut guest, &[400]);
    assert_eq!(Scheme::<Model>::next(&guest, &model), Next::Ready);
    model.ready(&mut guest, 9);
    assert_eq!(numbers(&model), [0, 1, 2, 3], "nothing is lost, and nothing overtakes");
    let trouble: Trouble = Scheme::<Model>::next_fault(&mut guest).expect("it is told");
    assert!(Scheme::<Model>::next_fault(&mut guest).is_none(), "once");
    assert!(!trouble.permanent);
    trouble.description
}

#[test]
fn faulty_guest_is_suspended_and_its_queues_are_served_fifo() {
    assert_eq!(suspension_reason("unreachable"), "it trapped: wasm trap: wasm `unreachable` instruction executed");
    assert_eq!(suspension_reason("(loop (br 0))"), "it did not return in time");
    assert!(suspension_reason("(i32.store (i32.const -8) (i32.const 1))").contains("out of bounds"));
    let one = |command: &str| {
        format!("(i32.store (i32.const 1056) (i32.const 1)) (i32.store (i32.const 1216) (i32.const {command}))")
    };
    assert_eq!(suspension_reason(&one("0x01000000")), "it sends from queue 0, which is empty");
    assert_eq!(suspension_reason(&one("0x0100ffff")), "it sends from queue 65535, which is empty");
    assert_eq!(suspension_reason(&one("0x03000000")), "it drops from queue 0, which is empty");
    assert_eq!(suspension_reason(&one("0x09000000")), "it returns an unknown command");
    assert_eq!(
        suspension_reason("(i32.store (i32.const 1056) (i32.const 33))"),
        "it returns 33 commands, more than 32"
    );
    assert_eq!(
        suspension_reason("(i64.store (i32.const 1048) (i64.const -1))"),
        "it reports empty queues, but 3 packets are queued"
    );
    assert_eq!(
        suspension_reason(""),
        "it sends nothing although the link is ready, and states no time of the next attempt"
    );
}

#[test]
fn invalid_decision_on_arrival_loses_no_packet() {
    let at = |arrive: &str, what: &str| {
        let mut guest = load(&text(arrive, "")).unwrap().guest(&[]).unwrap();
        let mut model = Model::with_queues(2);
        model.arrive(&mut guest, &[100, 200, 300]);
        assert_eq!((model.waiting(), guest.is_running()), (3, false));
        model.ready(&mut guest, 9);
        assert_eq!(numbers(&model), [0, 1, 2]);
        assert_eq!(Scheme::<Model>::next_fault(&mut guest).unwrap().description, what);
    };
    at("(i32.store (i32.const 3264) (i32.const 0x00090001))", "it enqueues a packet to queue 8, but has 2 queues");
    at("(i32.store (i32.const 1056) (i32.const 600))", "it returns 600 commands, more than 512");
    let send = "(i32.store (i32.const 1056) (i32.const 1)) (i32.store (i32.const 1216) (i32.const 0x01000000))";
    at(send, "it sends when packets arrive");
    at("unreachable", "it trapped: wasm trap: wasm `unreachable` instruction executed");
}

#[test]
fn guest_is_not_restarted_after_repeated_faults() {
    let mut guest = load(&text(ADMIT_ALL, "unreachable")).unwrap().guest(&[]).unwrap();
    let mut model = Model::with_queues(2);
    for fault in 1..=FAULTS {
        model.arrive(&mut guest, &[100]);
        assert!(guest.is_running(), "it begins anew");
        model.ready(&mut guest, 1);
        assert!(!guest.is_running());
        let trouble = Scheme::<Model>::next_fault(&mut guest).expect("each fault is told");
        assert_eq!(trouble.permanent, fault == FAULTS);
        model.arrive(&mut guest, &[100]);
        assert!(!guest.is_running(), "not at once");
        model.now += Nanos::secs(2);
    }
    model.arrive(&mut guest, &[100]);
    assert!(!guest.is_running() && Scheme::<Model>::next_fault(&mut guest).is_none());
    model.ready(&mut guest, 9);
    assert_eq!(numbers(&model).len(), model.offered());
}

#[test]
fn modules_that_are_no_guests_are_refused_with_a_hint() {
    let refused = |text: &str| load(text).expect_err("it is none");
    let whole = text("", "");
    let import = whole.replace("(module", r#"(module (import "env" "fopen" (func))"#);
    assert!(
        refused(&import)
            .starts_with("it imports 'fopen' of 'env', which guests do not get; remove the import; guests may import")
    );
    let wasi = whole.replace("(module", r#"(module (import "wasi_snapshot_preview1" "fd_write" (func))"#);
    assert!(refused(&wasi).contains("build it for wasm32-unknown-unknown"));
    let log = whole.replace("(module", r#"(module (import "switchpath" "log" (func (param i64)))"#);
    assert!(refused(&log).starts_with("it cannot be linked: "));
    let large = whole.replace(") 2)", ") 17)");
    assert!(refused(&large).starts_with("it needs 1088 KiB of memory; the limit is 1024 KiB; give it a smaller stack"));
    let without = whole.replace("switchpath_ready", "switchpath_reddy");
    assert!(refused(&without).starts_with("it exports no 'switchpath_ready'"));
    let typed = whole.replace(r#""switchpath_ready")"#, r#""switchpath_ready") (param i32)"#);
    assert_eq!(
        refused(&typed),
        "its export 'switchpath_ready' has the wrong type; 'switchpath_ready' has no parameters and no result"
    );
    let newer = whole.replace("(result i32) (i32.const 1))\n", "(result i32) (i32.const 2))\n");
    assert!(refused(&newer).contains("it is built for version 2 of the interface"));
    let silent = whole.replace("It errs.\\n\\00", "");
    assert!(refused(&silent.replace(") 2)", ") 1)").replace("summary ", "nothing")).contains("description"));
    let endless = whole.replace("(i32.const 8))\n", "(loop (br 0)) (i32.const 8))\n");
    assert_eq!(refused(&endless), "its description failed: it did not return in time; see docs/operate/guests.md");
    let runtime = Runtime::counted().expect("it runs here");
    let none = |bytes: &[u8]| GuestProgram::load(bytes, &runtime).expect_err("it is none").reason;
    assert_eq!(none(b"[ports]\n"), "it is no WebAssembly module");
    assert_eq!(none(b"\0asm\x0d\0\x01\0"), "it is a component");
    assert!(none(b"\0asm\x01\0\0\0\x01").starts_with("it cannot be compiled: "));
}

#[test]
fn block_outside_of_guest_memory_is_refused() {
    for block in ["200000", "-8", "1028"] {
        let module = text("", "").replace("(i32.const 1024))", &format!("(i32.const {block}))"));
        let error = load(&module).unwrap().guest(&[]).expect_err("it has no block");
        assert_eq!(error.reason, "its block is not in its memory, or not at a multiple of 8");
    }
    let many = text("", "").replace("(i32.const 1060) (i32.const 2)", "(i32.const 1060) (i32.const 40000)");
    let error = load(&many).unwrap().guest(&[]).expect_err("so many there are not");
    assert_eq!(error.reason, "it asks for 40000 queues; a guest has 1 to 32766");
}

#[test]
fn guest_can_count_log_and_draw_random_numbers() {
    let imports = r#"(import "switchpath" "log" (func $log (param i32 i32)))
        (import "switchpath" "counter" (func $counter (param i32 i64)))
        (import "switchpath" "random" (func $random (result i64)))"#;
    let arrive = format!(
        "(call $log (i32.const 8) (i32.const 7)) (call $log (i32.const -1) (i32.const -1))
        (call $counter (i32.const 3) (i64.const 5)) (call $counter (i32.const 9) (i64.const 1))
        (call $counter (i32.const 0) (call $random)) {ADMIT_ALL}"
    );
    let module = text(&arrive, "").replace("(module", &format!("(module {imports}"));
    let program = load(&module).unwrap();
    let drawn = || {
        let mut guest = program.guest(&[]).unwrap();
        Model::with_queues(2).arrive(&mut guest, &[100]);
        assert_eq!((guest.line(), guest.counters()[3]), ("summary", 5));
        let mut remark = || Scheme::<Model>::next_message(&mut guest);
        assert_eq!([remark(), remark()], [Some("summary".into()), None], "it is told once");
        let mut told = Vec::new();
        Scheme::<Model>::state(&guest, QueueId(0), Instant::START, Size::default(), &mut |name, value| {
            told.push((name, value));
        });
        assert_eq!((told[3], told[8], told.len()), (("counter 3", 5.0), ("faults", 0.0), 9));
        guest.counters()[0]
    };
    assert_eq!(drawn(), drawn(), "every run is the same");
    assert_ne!(drawn(), 0);
}

/// Starting may take longer than any packet may wait.
#[test]
fn start_limit_of_a_guest_exceeds_its_call_limit() {
    let long = "(local $i i32) (loop (br_if 0 (i32.ne (i32.const 1000000) (local.tee $i (i32.add (local.get $i) (i32.const 1))))))";
    let start = r#"(func (export "switchpath_start") (result i32)"#;
    let text = text(ADMIT_ALL, long).replace(start, &format!("{start} {long}"));
    let runtime = Runtime::timed(clock).expect("it runs here");
    let program = GuestProgram::load(&wat::parse_str(text).expect("it is WebAssembly"), &runtime).unwrap();
    // On a busy machine the ticker thread may be late, and the call then returns in time. It is not late in all 10,000 tries.
    let refused = (0..10_000).find_map(|_| {
        let mut guest = program.guest(&[]).expect("it has the time to start, however often");
        let mut model = Model::with_queues(2);
        model.arrive(&mut guest, &[100]);
        model.ready(&mut guest, 1);
        Scheme::<Model>::next_fault(&mut guest).map(|trouble| (trouble.description, numbers(&model)))
    });
    assert_eq!(refused, Some(("it did not return in time".into(), vec![0])));
}

/// The processor time that the calling thread has used.
fn clock() -> Nanos {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Nanos::new(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[test]
fn endless_guest_call_is_stopped_at_its_time_limit() {
    let module = wat::parse_str(text(ADMIT_ALL, "(loop (br 0))")).expect("it is WebAssembly");
    let runtime = Runtime::timed(clock).expect("it runs here");
    let program = GuestProgram::load(&module, &runtime).unwrap();
    let mut used: Vec<Nanos> = (0..9)
        .map(|round| {
            if round == 4 {
                // Long enough for the ticker thread to go to sleep. The next call wakes it.
                std::thread::park_timeout(Duration::from_millis(250));
            }
            let mut guest = program.guest(&[]).unwrap();
            let mut model = Model::with_queues(2);
            model.arrive(&mut guest, &[100]);
            let before = clock();
            model.ready(&mut guest, 1);
            assert_eq!(Scheme::<Model>::next_fault(&mut guest).unwrap().description, "it did not return in time");
            assert_eq!(numbers(&model), [0]);
            clock().saturating_sub(before)
        })
        .collect();
    used.sort();
    assert!(used[4] < Nanos::millis(2), "{used:?}: a hundred microseconds, and what a busy machine adds");
}
