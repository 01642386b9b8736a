//! Slices through the API of a running router: made, used, read and deleted.

use crate::rig::{Rig, config, until};
use control::{ClientError, DaemonOptions, SliceClient, SlowPathPacket, api};
use extension::{Directory, Runtime};
use plane::rig::UdpFrame;
use slice::code::{
    CodeEnv, CodeOption, CodeRegistration, Diversion, ExceptionCode, Formatted, InnerEdit, LookupKey, LookupResult,
};
use slice::{FilterAction, FilterEdit, FilterSpec, Reinjection, SliceCommand};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// Both ports have a scheduler, and a path brings the packets to the slices.
pub fn sliced() -> String {
    let path = "[[path]]\nname = \"slices\"\nmatch = \"udp dport 20000-20999\"\nfunctions = [\"slice\"]\n";
    let scheme = "scheme = \"share(rate=1gbit)\"\nshares = [\"engine rate 800mbit ceiling 800mbit\"]\n";
    let text = config("").replace("[port.wan]\n", &format!("[port.wan]\n{scheme}"));
    format!("{text}{path}")
}

/// The lines that make a slice which sends all packets that begin with `6f6b` to the host at `wan`.
pub const OVERLAY: &str = "\
create overlay code raw filters 100 rate 100mbit exceptions 1000  # an overlay network
mi add overlay 0 192.0.2.1:20000
mi add overlay 1 198.51.100.1:20000
reserve overlay wan/engine rate 100mbit
queue set overlay 1 wan/engine weight 3 limit 100kb
filter insert overlay 10 value 6f6b send 1 1 198.51.100.9:9000 data 01 count 5
filter insert overlay 20 value 6e mask ff exception local
";

fn edit(rig: &Rig, text: &str) -> Result<api::SlicesEdited, ClientError> {
    rig.client.post("/v1/slices/batch", "overlay.slices", text)
}

fn overlay(rig: &Rig) -> api::SliceReply {
    let mut reply: api::SlicesReply = rig.client.get("/v1/slices?only=overlay").unwrap();
    reply.slices.remove(0)
}

fn frame(payload: &[u8]) -> Vec<u8> {
    let network = (Ipv4Addr::new(192, 0, 2, 7), Ipv4Addr::new(192, 0, 2, 1));
    UdpFrame { network, length: 42 + payload.len(), ..UdpFrame::between_ports(7, 20_000) }.frame(payload)
}

#[test]
fn slice_forwards_counts_and_ends() {
    let mut rig = Rig::of(sliced(), |options| options);
    assert_eq!(edit(&rig, OVERLAY).unwrap(), api::SlicesEdited { changes: 7, entries: 2 });
    rig.send_frames([&b"ok, forward"[..], b"no: slow path", b"ok"].into_iter().map(frame));
    assert_eq!(rig.wan.await_ports(2), [20_000; 2], "from the meta-interface of the slice");
    let reply = until(|| Some(overlay(&rig)).filter(|slice| slice.queues[0].packets == 2));
    assert_eq!((reply.counters.received, reply.counters.forwarded, reply.counters.exceptions), (3, 2, 1));
    assert_eq!((&*reply.state, &*reply.interfaces[1].address), ("running", "198.51.100.1:20000"));
    assert_eq!((reply.reservations[0].rate_bps, reply.queues[0].limit_bytes), (Some(100_000_000), Some(102_400)));
    let filters: api::SliceFiltersReply = rig.client.get("/v1/slices/filters?slice=overlay").unwrap();
    let texts: Vec<(&str, u64)> = filters.filters.iter().map(|filter| (&*filter.text, filter.hits)).collect();
    let send = "value 6f6b mask ffff send 1 1 198.51.100.9:9000 data 01 count 5";
    assert_eq!(texts, [(send, 2), ("value 6e mask ff exception local", 1)]);
    let stats: api::SliceStatsReply = rig.client.get("/v1/slices/stats?slice=overlay").unwrap();
    assert_eq!(stats.indices, [api::SliceIndexReply { index: 5, packets: 2, bytes: 13 }]);
    let take = || -> api::SliceExceptionsReply {
        rig.client.post_with("/v1/slices/exceptions", &[("slice", "overlay".to_owned())], "").unwrap()
    };
    let exceptions = take().exceptions;
    assert_eq!((exceptions.len(), &*exceptions[0].code, exceptions[0].interface), (1, "local", 0));
    assert!(exceptions[0].packet.starts_with("6e6f3a20"), "{}", exceptions[0].packet);
    assert_eq!(take().exceptions, [], "each packet is given out once");
    // A new configuration leaves the slice as it is.
    rig.daemon.apply(&sliced().replace("20999", "21999"), "wider.toml").unwrap();
    rig.send_frames([frame(b"ok again")].into_iter());
    assert_eq!(rig.wan.await_ports(1), [20_000]);
    assert_eq!(until(|| Some(overlay(&rig)).filter(|slice| slice.counters.received == 4)).counters.forwarded, 3);
    edit(&rig, "delete overlay\n").unwrap();
    let left: api::SlicesReply = rig.client.get("/v1/slices").unwrap();
    assert_eq!((left.slices.len(), left.free_filters), (0, 128 << 10));
}

#[test]
fn memory_of_a_slice_is_read_and_written() {
    let rig = Rig::of(sliced(), |options| options);
    edit(&rig, "create overlay code raw memory 64b\nmem write overlay 3 c0ffee\n").unwrap();
    let read = |query: &str| -> Result<api::SliceMemoryReply, ClientError> {
        rig.client.get(&format!("/v1/slices/memory?slice=overlay{query}"))
    };
    assert_eq!(read("&offset=2&length=5").unwrap().bytes, "00c0ffee00");
    assert_eq!(read("").unwrap().size_bytes, 64);
    let beyond = read("&offset=60&length=5").unwrap_err().to_string();
    assert!(beyond.contains("5 bytes at 60 end beyond the 64 bytes of the slice's memory"), "{beyond}");
    let beyond = edit(&rig, "mem write overlay 62 000000\n").unwrap_err().to_string();
    assert!(beyond.contains("3 bytes at 62 end beyond"), "{beyond}");
}

#[test]
fn wrong_lines_are_named() {
    let rig = Rig::of(sliced(), |options| options);
    // A line that cannot be read: nothing is changed.
    let error = edit(&rig, "create overlay code raw\n\ncreat other code raw\n").unwrap_err().to_string();
    assert!(error.contains("overlay.slices:3") && error.contains("did you mean 'create'?"), "{error}");
    let none: api::SlicesReply = rig.client.get("/v1/slices").unwrap();
    assert_eq!(none.slices, []);
    assert!(none.code_options.iter().any(|code| code.name == "ipv4"));
    // A line that is refused: those before it were made.
    let error = edit(&rig, "create overlay code raw\nqueue set overlay 1 wan/engine\n").unwrap_err().to_string();
    assert!(error.contains("overlay.slices:2") && error.contains("the slice has no part of engine"), "{error}");
    assert_eq!(overlay(&rig).name, "overlay");
    let error = rig.client.get::<api::SlicesReply>("/v1/slices?only=overlai").unwrap_err().to_string();
    assert!(error.contains("there is no slice 'overlai'") && error.contains("did you mean 'overlay'?"), "{error}");
}

fn slow_path(rig: &Rig) -> SliceClient {
    edit(rig, OVERLAY).unwrap();
    SliceClient::new(rig.client.clone(), "overlay")
}

#[test]
fn program_receives_exceptions_and_returns_packets() {
    // With several workers, the one that processes returned packets is not that of the other packets.
    for workers in [1, 3] {
        let text = sliced().replacen("version = 1\n", &format!("version = 1\n[router]\nworkers = {workers}\n"), 1);
        assert!(text.contains("workers"));
        exchange(Rig::of(text, |options| options));
    }
}

fn exchange(mut rig: Rig) {
    let slice = slow_path(&rig);
    edit(&rig, "queue set overlay 2 wan/engine\n").unwrap();
    let mut stream = slice.exceptions().unwrap();
    rig.send_frames([frame(b"no: to the slow path")].into_iter());
    let exception = stream.next().unwrap().unwrap();
    // The kernel's key of `raw` is the first 14 bytes.
    let expected = SlowPathPacket {
        code: ExceptionCode::Local,
        interface: 0,
        key: LookupKey::new(b"no: to the slow path".first_chunk::<14>().unwrap()),
        mtu: None,
        rounds: 0,
        packet: exception.packet.clone(),
    };
    assert_eq!((&exception, &exception.packet[..20]), (&expected, &b"no: to the slow path"[..]));
    // As it is, with another key, and with a queue.
    let as_it_is = exception.answer(exception.packet.clone());
    let keyed =
        Reinjection { key: Some(LookupKey::new(b"ok")), queue: Some(2), ..exception.answer(b"by key".to_vec()) };
    let new = Reinjection { interface: 1, key: None, queue: None, rounds: 0, packet: b"ok, new".to_vec() };
    let returned = slice.reinject(&[as_it_is, keyed, new]).unwrap();
    assert_eq!(returned, api::SliceReinjected { packets: 3, limited_packets: 0, lost_packets: 0 });
    assert_eq!(rig.wan.await_ports(2), [20_000; 2]);
    let again = stream.next().unwrap().unwrap();
    assert_eq!((again.rounds, again.interface, again.packet), (1, 0, exception.packet));
    let state = until(|| Some(slice.state().unwrap()).filter(|state| state.queues.iter().all(|q| q.packets == 1)));
    assert_eq!((state.counters.received, state.counters.reinjected, state.counters.exceptions), (4, 3, 2));
    // The stream ends with the slice.
    edit(&rig, "delete overlay\n").unwrap();
    assert!(stream.next().is_none());
}

#[test]
fn wrong_packets_of_a_slow_path_are_refused_with_their_line() {
    let rig = Rig::of(sliced(), |options| options);
    slow_path(&rig);
    let post = |text: &str| -> Result<api::SliceReinjected, ClientError> {
        rig.client.post_with("/v1/slices/reinject", &[("slice", "overlay".into()), ("name", "program".into())], text)
    };
    for (text, expected) in [
        ("mi 0 packet 00\n\nmi 0 paket 00\n", "program:3"),
        ("mi 0 packet 00\nmi 9 packet 00\n", "packet 2: the slice has no meta-interface 9"),
        ("mi 0 queue 3 packet 00\n", "the slice has no queue 3"),
        (&"mi 0 packet 00\n".repeat(257), "257 packets are too many"),
    ] {
        let error = post(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(overlay(&rig).counters.received, 0, "no packet of a refused request returns");
}

#[test]
fn second_program_is_refused_until_the_first_hangs_up() {
    let mut rig = Rig::of(sliced(), |options| options);
    let slice = slow_path(&rig);
    let first = slice.exceptions().unwrap();
    let error = slice.exceptions().unwrap_err().to_string();
    assert!(error.contains("a program receives the packets of the slow path of 'overlay' already"), "{error}");
    // It disconnects in the middle: the next program receives the packets that were not sent yet.
    drop(first);
    let mut second = until(|| slice.exceptions().ok());
    rig.send_frames([frame(b"no")].into_iter());
    assert_eq!(second.next().unwrap().unwrap().code, ExceptionCode::Local);
    let stop = second.stopper();
    stop();
    assert!(second.next().is_none());
}

/// A client that does not read stops neither the router nor other clients. The packets wait in a bounded queue, and those beyond it are counted.
#[test]
fn client_that_does_not_read_loses_counted_packets() {
    let mut rig = Rig::of(sliced(), |options| options);
    let slice = slow_path(&rig);
    edit(
        &rig,
        &OVERLAY.lines().next().unwrap().replace("exceptions 1000", "exceptions 1000000").replace("overlay", "fast"),
    )
    .unwrap();
    edit(&rig, "mi add fast 0 192.0.2.1:20100\nfilter insert fast 0 exception slice_1\n").unwrap();
    let fast = SliceClient::new(rig.client.clone(), "fast");
    let mut silent = fast.exceptions().unwrap();
    let long = [7; 1200];
    let network = (Ipv4Addr::new(192, 0, 2, 7), Ipv4Addr::new(192, 0, 2, 1));
    let to_fast = UdpFrame { network, length: 42 + long.len(), ..UdpFrame::between_ports(7, 20_100) }.frame(&long);
    let mut sent = 0;
    let state = until(|| {
        rig.send_frames(std::iter::repeat_n(to_fast.clone(), 100));
        sent += 100;
        Some(fast.state().unwrap()).filter(|state| state.counters.lost_exceptions > 300)
    });
    assert!(state.counters.exceptions > 256, "some are on their way to the client: {state:?}");
    // The other slice is served meanwhile.
    let mut other = slice.exceptions().unwrap();
    rig.send_frames([frame(b"no")].into_iter());
    assert_eq!(other.next().unwrap().unwrap().packet[..2], *b"no");
    // When the client reads again, it receives all that were not lost.
    let state = until(|| Some(fast.state().unwrap()).filter(|state| state.counters.received == sent));
    let received = (0..state.counters.exceptions).map(|_| silent.next().unwrap().unwrap().packet.len()).sum::<usize>();
    assert_eq!(received as u64, state.counters.exceptions * 1200);
}

#[test]
fn typed_client_changes_and_reads_a_slice() {
    let rig = Rig::of(sliced(), |options| options);
    let slice = slow_path(&rig);
    let action = FilterAction::Exception(ExceptionCode::Own(3));
    let spec = FilterSpec { value: vec![1], mask: vec![0xff], ranges: Vec::new(), action, index: Some(9) };
    let name = slice.name().to_owned();
    let changes = [
        SliceCommand::Filter(name.clone(), FilterEdit::Insert(30, spec.clone())),
        SliceCommand::Write(name.clone(), 8, vec![1, 2, 3]),
        SliceCommand::Filter(name, FilterEdit::Delete(10)),
    ];
    assert_eq!(slice.change(&changes).unwrap(), api::SlicesEdited { changes: 3, entries: 2 });
    let filters = slice.filters(11).unwrap();
    assert_eq!((filters.len(), &filters[1]), (2, &(30, spec)));
    assert_eq!((slice.memory(7, 5).unwrap(), slice.stats().unwrap()), (vec![0, 1, 2, 3, 0], vec![]));
    let unknown = SliceClient::new(rig.client.clone(), "overlai").state().unwrap_err().to_string();
    assert!(unknown.contains("did you mean 'overlay'?"), "{unknown}");
    let events: api::Events = rig.client.get("/v1/events").unwrap();
    let changed: Vec<&str> =
        events.events.iter().filter(|event| event.kind == api::EventKind::SlicesEdited).map(|e| &*e.text).collect();
    assert!(changed.len() == 2 && changed[1].starts_with("3 changes; by "), "{changed:?}");
}

/// Panics on packets that begin with zero.
const FRAGILE: CodeRegistration = CodeRegistration {
    name: "fragile",
    summary: "panics on packets that begin with zero",
    version: 1,
    key_bytes: 1,
    parse_steps: 0,
    format_steps: 0,
    memory: 0,
    settings: &[],
    make: |_| Ok(Box::new(Fragile)),
};

struct Fragile;

impl CodeOption for Fragile {
    fn parse(&mut self, packet: &[u8], _: &mut CodeEnv<'_>) -> Result<LookupKey, Diversion> {
        assert_ne!(packet.first(), Some(&0), "a zero");
        Ok(LookupKey::new(&packet[..1]))
    }

    fn format(&mut self, _: &mut InnerEdit<'_>, _: &LookupResult, _: &mut CodeEnv<'_>) -> Result<Formatted, Diversion> {
        Ok(Formatted::Send)
    }
}

#[test]
fn each_failure_of_a_slice_is_an_event() {
    let mut rig = Rig::of(sliced(), |options| DaemonOptions { code_options: vec![&FRAGILE], ..options });
    edit(&rig, "create a code fragile rate 1mbit\nmi add a 0 192.0.2.1:20000\n").unwrap();
    let events = |rig: &Rig| {
        let events: api::Events = rig.client.get("/v1/events").unwrap();
        events.events.into_iter().filter(|event| event.kind == api::EventKind::SliceFailed).collect::<Vec<_>>()
    };
    for failures in 1..3 {
        rig.send_frames([frame(&[0])].into_iter());
        until(|| Some(()).filter(|()| SliceClient::new(rig.client.clone(), "a").state().unwrap().state == "failed"));
        // The first one is reported by the upkeep, the second one before the slice is started again.
        if failures == 1 {
            until(|| Some(()).filter(|()| !events(&rig).is_empty()));
        }
        edit(&rig, "resume a\n").unwrap();
        let events = events(&rig);
        assert_eq!(events.len(), failures, "{events:?}");
        let event = &events[failures - 1];
        assert_eq!(event.subject.as_deref(), Some("a"));
        assert!(event.text.contains("a zero") && event.text.contains("slices.rs:"), "{event:?}");
    }
}

#[test]
fn guest_of_a_slice_is_compared_and_replaced_while_packets_flow() {
    let place = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| std::fs::write(place.path().join(name), wat::parse_str(text).unwrap()).unwrap();
    let text = include_str!("../../../../examples/guests/null-slice.wat");
    put("mine.wasm", text);
    let guests = Directory::new(place.path(), Runtime::timed(io::clock::processor_time).unwrap());
    let mut rig = Rig::of(sliced(), |options| DaemonOptions { guests: Some(Arc::new(guests)), ..options });
    edit(&rig, &OVERLAY.replace("code raw", "code guest:mine").replace("value 6f6b ", "")).unwrap();
    rig.send_frames((0..10).map(|_| frame(b"by a guest")));
    assert_eq!(rig.wan.await_ports(10), [20_000; 10]);
    let first = overlay(&rig);
    assert_eq!((&*first.code, first.double_run), ("guest:mine", None));
    let hash = first.guest.map(|guest| (guest.version, guest.hash));
    assert_eq!(hash.as_ref().map(|(version, hash)| (*version, hash.len())), Some((1, 16)));
    // A new build, which drops all packets: both are compared, and the old one decides.
    put(
        "mine.wasm",
        &text.replace("Looks at no packet", "Drops all").replace(
            "(func (export \"switchpath_parse\"))",
            "(func (export \"switchpath_parse\") (i32.store16 (i32.const 1228) (i32.const 2)))",
        ),
    );
    edit(&rig, "code overlay guest:mine double 1\n").unwrap();
    rig.send_frames((0..10).map(|_| frame(b"by a guest")));
    assert_eq!(rig.wan.await_ports(10), [20_000; 10]);
    let compared = until(|| overlay(&rig).double_run.filter(|double| double.compared == 20));
    assert_eq!((compared.differences, compared.failure), (10, None));
    edit(&rig, "code overlay guest:mine\n").unwrap();
    rig.send_frames([frame(b"dropped")].into_iter());
    let last = until(|| Some(overlay(&rig)).filter(|slice| slice.counters.policy_drops == 1));
    assert_ne!(last.guest.map(|guest| (guest.version, guest.hash)), hash);
    assert_eq!(last.counters.forwarded, 20);
    let error = edit(&rig, "code overlay guest:his\n").unwrap_err().to_string();
    assert!(error.contains("there is no his.wasm"), "{error}");
}

#[test]
fn exported_slices_can_be_made_again() {
    let mut rig = Rig::of(sliced(), |options| options);
    edit(&rig, OVERLAY).unwrap();
    edit(&rig, "create other code null owner 4001\nmem write overlay 300 0a00ff\nsuspend other\n").unwrap();
    rig.send_frames([frame(b"ok")].into_iter());
    assert_eq!(rig.wan.await_ports(1), [20_000]);
    let export = |only: &str| -> String {
        let exported: api::SliceDefinitions = rig.client.get(&format!("/v1/slices/definitions{only}")).unwrap();
        exported.lines.iter().map(|line| format!("{line}\n")).collect()
    };
    let whole = export("");
    assert_eq!(export("?only=overlay"), whole[whole.find("create overlay").unwrap()..]);
    assert_eq!((whole.lines().count(), whole.lines().nth(1)), (10, Some("suspend other")), "{whole}");
    edit(&rig, "delete overlay\ndelete other\n").unwrap();
    edit(&rig, &whole).unwrap();
    assert_eq!(export(""), whole);
    rig.send_frames([frame(b"ok")].into_iter());
    assert_eq!(rig.wan.await_ports(1), [20_000]);
    let unknown: Result<api::SliceDefinitions, _> = rig.client.get("/v1/slices/definitions?only=overlai");
    assert!(unknown.unwrap_err().to_string().contains("did you mean 'overlay'?"));
}
