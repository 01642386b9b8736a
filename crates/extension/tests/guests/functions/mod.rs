//! Packet functions as guests on the path of a router in virtual time: their verdicts, their rights, and the faults of those that exceed them.

mod examples;
mod faults;
mod services;
mod verdicts;

use extension::{Directory, Runtime};
use packet::event::{Event, Observer};
use plan::Catalogue;
use plane::rig::{LAN_AND_WAN, Rig, UdpFrame};
use plane::snapshot::Layout;
use std::sync::{Arc, Mutex};
use units::Instant;

/// The addresses of the block and of the area for packets in the guests of these tests.
const BLOCK: u32 = 1024;
const AREA: u32 = 4096;

/// A guest in text. For each packet it runs `verdict`, an expression of type `i32` that may use the addresses of the record `$r` and of the bytes `$b`.
struct Text {
    bytes: u32,
    most: u32,
    flags: u32,
    verdict: String,
    /// Imports, which come first, and anything else.
    imports: &'static str,
    rest: String,
    description: &'static str,
}

impl Default for Text {
    fn default() -> Text {
        Text {
            bytes: 0,
            most: 0,
            flags: 0,
            verdict: "(i32.const 0)".into(),
            imports: "",
            rest: String::new(),
            description: "summary Of a test.",
        }
    }
}

/// A number from the bytes of a packet: the low byte of its UDP destination port.
const PORT: &str = "(i32.load8_u offset=23 (local.get $b))";

impl Text {
    /// A guest that sees 40 bytes of each packet.
    fn seeing(verdict: &str) -> Text {
        Text { bytes: 40, verdict: verdict.into(), ..Text::default() }
    }

    fn text(&self) -> String {
        let Text { bytes, most, flags, verdict, imports, rest, description } = self;
        let stride = bytes.next_multiple_of(8);
        format!(
            r#"(module {imports} (memory (export "memory") 4)
            (data (i32.const 8) "{description}\0a\00")
            (func (export "switchpath_function") (result i32) (i32.const 1))
            (func (export "switchpath_describe") (result i32) (i32.const 8))
            (func (export "switchpath_block") (result i32) (i32.const {BLOCK}))
            (func (export "switchpath_start") (result i32)
                (i32.store (i32.const 1040) (i32.const {bytes})) (i32.store (i32.const 1044) (i32.const {AREA}))
                (i32.store (i32.const 1048) (i32.const {most})) (i32.store (i32.const 1052) (i32.const {flags}))
                (i32.const 0))
            (func (export "switchpath_process") (local $i i32) (local $r i32) (local $b i32)
                (block $end (loop $next
                    (br_if $end (i32.ge_u (local.get $i) (i32.load (i32.const 1032))))
                    (local.set $r (i32.add (i32.const 1344) (i32.shl (local.get $i) (i32.const 5))))
                    (local.set $b (i32.add (i32.const {AREA}) (i32.mul (local.get $i) (i32.const {stride}))))
                    (i32.store16 (i32.add (i32.const 1216) (i32.shl (local.get $i) (i32.const 1))) {verdict})
                    (local.set $i (i32.add (local.get $i) (i32.const 1)))
                    (br $next))))
            {rest})"#
        )
    }

    fn module(&self) -> Vec<u8> {
        wat::parse_str(self.text()).unwrap_or_else(|wrong| panic!("{wrong}"))
    }
}

/// The logged events.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Observer for Log {
    fn event(&mut self, _: Instant, event: &Event<'_>) {
        match event {
            Event::FunctionFailed { failure, .. } => self.0.lock().unwrap().push(format!("{failure:?}")),
            Event::GuestLogged { line, path: Some(_), .. } => self.0.lock().unwrap().push(format!("logged: {line}")),
            _ => {}
        }
    }
}

/// A router with guest functions, from `lan` to `wan`.
struct Line {
    place: tempfile::TempDir,
    runtime: Runtime,
    rig: Rig,
    log: Log,
}

impl Line {
    fn new() -> Line {
        Line::with(Runtime::counted().unwrap())
    }

    fn with(runtime: Runtime) -> Line {
        let log = Log::default();
        let rig = Rig::new(4096, Layout::Three, Box::new(log.clone()));
        Line { place: tempfile::tempdir().unwrap(), runtime, rig, log }
    }

    fn put(&self, name: &str, module: &[u8]) {
        std::fs::write(self.place.path().join(name).with_extension("wasm"), module).unwrap();
    }

    /// The configuration with these paths.
    fn try_apply(&mut self, paths: &str) -> Result<(), String> {
        let guests = Directory::new(self.place.path(), self.runtime.clone());
        let catalogue = Catalogue { guests: Some(Arc::new(guests)), ..plane::catalogue() };
        let text = format!("{LAN_AND_WAN}{paths}");
        let plan = plan::check(&text, "line.toml", &catalogue).map_err(|wrong| wrong.to_string())?;
        self.rig.run(&plan).map_err(|errors| format!("{errors:?}"))?;
        self.rig.settle();
        ["lan", "wan"].iter().for_each(|wire| drop(self.rig.received(wire)));
        Ok(())
    }

    fn apply(&mut self, paths: &str) {
        self.try_apply(paths).unwrap_or_else(|wrong| panic!("{wrong}"));
    }

    /// The guest in a file of this name, alone on the path of all packets, with these keys of the path.
    fn guest(module: &[u8], keys: &str) -> Line {
        let mut line = Line::new();
        line.put("mine", module);
        line.apply(&one("guest:mine", keys));
        line
    }

    /// Sends UDP packets to these ports. Returns the ports of those that have left, in order.
    fn pass(&mut self, ports: impl IntoIterator<Item = u16>) -> Vec<u16> {
        let frames: Vec<Vec<u8>> =
            ports.into_iter().map(|port| UdpFrame::between_ports(4000, port).frame(b"payload")).collect();
        let port = |frame: Vec<u8>| u16::from_be_bytes([frame[36], frame[37]]);
        self.pass_frames(&frames).into_iter().map(port).collect()
    }

    /// Sends frames from `lan`. Returns the IP packets that have left at `wan`, in order.
    fn pass_frames(&mut self, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        frames.iter().for_each(|frame| self.rig.send("lan", frame));
        self.rig.settle();
        self.rig.report();
        let mut left = self.rig.received("wan");
        left.retain(|frame| matches!(frame[12..14], [8, 0] | [0x86, 0xdd]));
        left
    }

    /// A counter of the functions of the path `all`, summed over its ports.
    fn counter(&self, name: &str) -> u64 {
        let path = self.rig.router.snapshot().paths.iter().find(|path| &*path.name == "all").unwrap().id;
        let report = self.rig.report();
        let path = report.paths.iter().find(|report| report.path == path).unwrap();
        path.functions.iter().flatten().filter(|counter| &*counter.name == name).map(|counter| counter.packets).sum()
    }

    /// The events so far. They are collected every tenth of a second.
    fn events(&mut self) -> Vec<String> {
        self.rig.advance(units::Nanos::millis(300));
        std::mem::take(&mut *self.log.0.lock().unwrap())
    }

    /// Packets dropped for this reason.
    fn dropped(&self, reason: packet::DropReason) -> u64 {
        self.rig.report().ledger.dropped_for(reason)
    }
}

/// A path of all packets with this guest and these keys.
fn one(guest: &str, keys: &str) -> String {
    format!("[[path]]\nname = 'all'\nmatch = 'any'\nfunctions = ['{guest}', 'ip']\n{keys}\n")
}
