//! Changes of slices as lines of text: what the API and the command line pass on.
//!
//! ```text
//! create NAME code CODE [filters N] [queues N] [interfaces N] [stats N] [memory 64kb] [buffers 16mb] [rate 100mbit] [exceptions N]
//!        [cpu 10%] [unmatched drop] [owner USER] [set KEY=TEXT]...
//! code NAME CODE [set KEY=TEXT]... [drain | double [N]]
//! delete NAME | suspend NAME | resume NAME
//! mi add NAME NUMBER ADDRESS:PORT | mi delete NAME NUMBER
//! reserve NAME PORT[/SHARE] [rate R] [ceiling R] [weight N]
//! queue set NAME NUMBER PORT[/SHARE] [weight N] [limit B] | queue delete NAME NUMBER
//! filter insert|replace NAME POSITION [value HEX] [mask HEX] [range FIRST WIDTH LOW HIGH]...
//!        (send QUEUE MI ADDRESS:PORT [data HEX] | exception CODE | drop) [count INDEX]
//! filter delete NAME POSITION
//! mem write NAME OFFSET HEX
//! ```
//!
//! A packet that the slow path returns is a line, too: `mi NUMBER [key HEX] [queue NUMBER] [rounds N] packet HEX`.

use crate::code::{CodeConfig, DATA_BYTES, ExceptionCode, LookupKey};
use crate::reinjection::Reinjection;
use crate::slices::{CodeSwap, Slices};
use crate::spec::{
    FilterAction, FilterEdit, FilterSpec, QueueSpec, SchedulerId, SliceError, SliceOwner, SliceQuota, SliceRates,
    SliceSpec,
};
use classifier::KeyRange;
use plan::ShareName;
use plane::Router;
use std::net::SocketAddr;
use std::str::FromStr;
use units::{Bytes, PacketRate, Parts, Rate, UnitError};

/// A double run compares each so many packets.
const SAMPLE: u32 = 16;

/// A change of slices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SliceCommand {
    /// Makes a slice.
    Create(Box<SliceSpec>),
    /// Gives a slice another code option, with settings.
    SetCode(String, String, CodeConfig, CodeSwap),
    /// Deletes a slice.
    Delete(String),
    /// Stops a slice, or starts it again.
    Suspend(String, bool),
    /// Adds a meta-interface.
    AddInterface(String, u16, SocketAddr),
    /// Deletes a meta-interface.
    DeleteInterface(String, u16),
    /// Gives a slice a part of a scheduler.
    Reserve(String, SchedulerId, SliceRates),
    /// Makes or changes a queue.
    SetQueue(String, u16, QueueSpec),
    /// Deletes a queue.
    DeleteQueue(String, u16),
    /// Changes a filter.
    Filter(String, FilterEdit),
    /// Prepares a write of the memory, which [`SliceCommand::Commit`] makes.
    Stage(String, usize, Vec<u8>),
    /// Makes the prepared writes at once.
    Commit(String),
    /// Writes the memory of the code option.
    Write(String, usize, Vec<u8>),
}

/// The words of a line that were not read yet.
struct Line<'l>(std::iter::Peekable<std::str::SplitWhitespace<'l>>);

impl<'l> Line<'l> {
    fn word(&mut self, what: &str) -> Result<&'l str, SliceError> {
        self.0.next().ok_or_else(|| SliceError::new(format!("{what} is missing"), "see docs/operate/slices.md"))
    }

    /// A number, an address, or another text that its type reads.
    fn value<T: FromStr>(&mut self, what: &str, example: &str) -> Result<T, SliceError> {
        let word = self.word(what)?;
        let wrong = |_| SliceError::new(format!("'{word}' is no {what}"), format!("write one like {example}"));
        word.parse().map_err(wrong)
    }

    /// A quantity with a unit.
    fn quantity<T: FromStr<Err = UnitError>>(&mut self, what: &str) -> Result<T, SliceError> {
        self.word(what)?.parse().map_err(|wrong: UnitError| SliceError::new(wrong.reason, wrong.hint))
    }

    fn bytes(&mut self, what: &str) -> Result<Vec<u8>, SliceError> {
        let word = self.word(what)?;
        let digits: Option<Vec<u8>> = word.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect();
        let pairs = digits.filter(|digits| digits.len().is_multiple_of(2));
        let pairs = pairs.ok_or_else(|| {
            SliceError::new(format!("'{word}' is no {what}"), "write two hexadecimal digits for each byte: 0a00ff")
        })?;
        Ok(pairs.as_chunks::<2>().0.iter().map(|[high, low]| high << 4 | low).collect())
    }

    fn scheduler(&mut self) -> Result<SchedulerId, SliceError> {
        let word = self.word("the scheduler")?;
        let (port, share) = match word.split_once('/') {
            Some((port, share)) => (port, Some(share)),
            None => (word, None),
        };
        let share = share.map(ShareName::new).transpose();
        let share = share.map_err(|wrong| SliceError::new(wrong.reason, wrong.hint))?;
        Ok(SchedulerId { port: port.into(), share })
    }

    fn setting(&mut self) -> Result<(String, String), SliceError> {
        let word = self.word("the setting")?;
        let wrong = || SliceError::new(format!("'{word}' is no setting"), "write its name, '=' and its text");
        let (name, text) = word.split_once('=').ok_or_else(wrong)?;
        Ok((name.to_owned(), text.to_owned()))
    }

    fn unknown(word: &str, known: &[&str]) -> SliceError {
        SliceError::new(format!("'{word}' is unknown here"), plan::did_you_mean(word, known.iter().copied()))
    }
}

impl FromStr for SliceCommand {
    type Err = SliceError;

    fn from_str(text: &str) -> Result<SliceCommand, SliceError> {
        let mut line = Line(text.split_whitespace().peekable());
        let verb = line.word("the change")?;
        let command = match verb {
            "create" => SliceCommand::Create(Box::new(create(&mut line)?)),
            "code" => set_code(&mut line)?,
            "delete" => SliceCommand::Delete(line.word("the name of the slice")?.to_owned()),
            "suspend" | "resume" => {
                SliceCommand::Suspend(line.word("the name of the slice")?.to_owned(), verb == "suspend")
            }
            "mi" => interface(&mut line)?,
            "reserve" => reserve(&mut line)?,
            "queue" => queue(&mut line)?,
            "filter" => filter(&mut line)?,
            "mem" => memory(&mut line)?,
            other => {
                let known =
                    ["create", "code", "delete", "suspend", "resume", "mi", "reserve", "queue", "filter", "mem"];
                return Err(Line::unknown(other, &known));
            }
        };
        match line.0.next() {
            None => Ok(command),
            Some(word) => Err(SliceError::new(format!("'{word}' is one word too many"), "remove it")),
        }
    }
}

fn create(line: &mut Line<'_>) -> Result<SliceSpec, SliceError> {
    let mut spec = SliceSpec {
        name: line.word("the name of the slice")?.into(),
        code: String::new(),
        config: CodeConfig::default(),
        quota: SliceQuota::default(),
        drops_unmatched: false,
        owner: None,
    };
    while let Some(word) = line.0.next() {
        let quota = &mut spec.quota;
        match word {
            "code" => spec.code = line.word("the code option")?.to_owned(),
            "filters" => quota.filters = line.value("number", "1000")?,
            "queues" => quota.queues = line.value("number", "16")?,
            "interfaces" => quota.interfaces = line.value("number", "4")?,
            "stats" => quota.indices = line.value("number", "256")?,
            "memory" => quota.memory = line.quantity::<Bytes>("the size of the memory")?,
            "buffers" => quota.buffers = line.quantity::<Bytes>("the size of the buffers")?,
            "rate" => quota.rate = line.quantity::<Rate>("the rate")?,
            "cpu" => quota.cpu = Some(line.quantity::<Parts>("the part of a processor")?),
            "exceptions" => quota.exceptions = PacketRate::pps(line.value("number of packets a second", "1000")?),
            "unmatched" => match line.word("`drop` or `exception`")? {
                "drop" => spec.drops_unmatched = true,
                "exception" => spec.drops_unmatched = false,
                other => return Err(Line::unknown(other, &["drop", "exception"])),
            },
            "owner" => {
                let word = line.word("the owner")?;
                let uid = word.parse().map(SliceOwner::Uid);
                spec.owner = Some(uid.unwrap_or_else(|_| SliceOwner::Name(word.to_owned())));
            }
            "set" => spec.config.0.push(line.setting()?),
            other => {
                let known = [
                    "code",
                    "filters",
                    "queues",
                    "interfaces",
                    "stats",
                    "memory",
                    "buffers",
                    "rate",
                    "exceptions",
                    "cpu",
                    "unmatched",
                    "owner",
                    "set",
                ];
                return Err(Line::unknown(other, &known));
            }
        }
    }
    if spec.code.is_empty() {
        return Err(SliceError::new("the code option is missing", "write `code ipv4`, or another one"));
    }
    Ok(spec)
}

fn set_code(line: &mut Line<'_>) -> Result<SliceCommand, SliceError> {
    let (name, code) = (line.word("the name of the slice")?.to_owned(), line.word("the code option")?.to_owned());
    let (mut config, mut swap) = (CodeConfig::default(), CodeSwap::Drain);
    while let Some(word) = line.0.next() {
        match word {
            "set" => config.0.push(line.setting()?),
            "drain" => swap = CodeSwap::Drain,
            "double" => {
                let sample = line.0.next_if(|word| word.starts_with(|first: char| first.is_ascii_digit()));
                let wrong = |_| SliceError::new("the sample is too large", "write `double 16` for each 16th packet");
                let sample = sample.map_or(Ok(SAMPLE), |sample| sample.parse().map_err(wrong))?;
                swap = CodeSwap::Double(sample);
            }
            other => return Err(Line::unknown(other, &["set", "drain", "double"])),
        }
    }
    Ok(SliceCommand::SetCode(name, code, config, swap))
}

fn interface(line: &mut Line<'_>) -> Result<SliceCommand, SliceError> {
    let verb = line.word("`add` or `delete`")?;
    let name = line.word("the name of the slice")?.to_owned();
    let number = line.value("number of a meta-interface", "0")?;
    match verb {
        "add" => Ok(SliceCommand::AddInterface(name, number, line.value("address and port", "192.0.2.1:20000")?)),
        "delete" => Ok(SliceCommand::DeleteInterface(name, number)),
        other => Err(Line::unknown(other, &["add", "delete"])),
    }
}

fn reserve(line: &mut Line<'_>) -> Result<SliceCommand, SliceError> {
    let (name, scheduler) = (line.word("the name of the slice")?.to_owned(), line.scheduler()?);
    let mut rates = SliceRates::default();
    while let Some(word) = line.0.next() {
        match word {
            "rate" => rates.rate = Some(line.quantity("the rate")?),
            "ceiling" => rates.ceiling = Some(line.quantity("the ceiling")?),
            "weight" => rates.weight = Some(line.value("weight", "10")?),
            other => return Err(Line::unknown(other, &["rate", "ceiling", "weight"])),
        }
    }
    Ok(SliceCommand::Reserve(name, scheduler, rates))
}

fn queue(line: &mut Line<'_>) -> Result<SliceCommand, SliceError> {
    let verb = line.word("`set` or `delete`")?;
    let (name, number) = (line.word("the name of the slice")?.to_owned(), line.value("number of a queue", "1")?);
    match verb {
        "set" => {}
        "delete" => return Ok(SliceCommand::DeleteQueue(name, number)),
        other => return Err(Line::unknown(other, &["set", "delete"])),
    }
    let mut spec = QueueSpec { scheduler: line.scheduler()?, weight: 1, limit: None };
    while let Some(word) = line.0.next() {
        match word {
            "weight" => spec.weight = line.value("weight", "10")?,
            "limit" => spec.limit = Some(line.quantity("the limit")?),
            other => return Err(Line::unknown(other, &["weight", "limit"])),
        }
    }
    Ok(SliceCommand::SetQueue(name, number, spec))
}

fn memory(line: &mut Line<'_>) -> Result<SliceCommand, SliceError> {
    let verb = line.word("`write`, `stage` or `commit`")?;
    let name = line.word("the name of the slice")?.to_owned();
    let make = match verb {
        "write" => SliceCommand::Write,
        "stage" => SliceCommand::Stage,
        "commit" => return Ok(SliceCommand::Commit(name)),
        other => return Err(Line::unknown(other, &["write", "stage", "commit"])),
    };
    Ok(make(name, line.value("offset", "64")?, line.bytes("text of bytes")?))
}

fn filter(line: &mut Line<'_>) -> Result<SliceCommand, SliceError> {
    let verb = line.word("`insert`, `replace` or `delete`")?;
    let (name, position) = (line.word("the name of the slice")?.to_owned(), line.value("position", "100")?);
    match verb {
        "insert" | "replace" => {}
        "delete" => return Ok(SliceCommand::Filter(name, FilterEdit::Delete(position))),
        other => return Err(Line::unknown(other, &["insert", "replace", "delete"])),
    }
    let spec = filter_spec(line)?;
    let edit = if verb == "insert" { FilterEdit::Insert(position, spec) } else { FilterEdit::Replace(position, spec) };
    Ok(SliceCommand::Filter(name, edit))
}

impl FromStr for FilterSpec {
    type Err = SliceError;

    fn from_str(text: &str) -> Result<FilterSpec, SliceError> {
        // All words are read.
        filter_spec(&mut Line(text.split_whitespace().peekable()))
    }
}

fn filter_spec(line: &mut Line<'_>) -> Result<FilterSpec, SliceError> {
    let (mut value, mut mask, mut ranges, mut action, mut index) = (Vec::new(), None, Vec::new(), None, None);
    while let Some(word) = line.0.next() {
        match word {
            "value" => value = line.bytes("value")?,
            "mask" => mask = Some(line.bytes("mask")?),
            "range" => ranges.push(KeyRange {
                first_bit: line.value("number of a bit", "88")?,
                width: line.value("number of bits", "16")?,
                low: line.value("number", "1024")?,
                high: line.value("number", "65535")?,
            }),
            "send" => action = Some(send(line)?),
            "exception" => {
                let word = line.word("the code of the exception")?;
                let code = ExceptionCode::from_name(word).ok_or_else(|| {
                    SliceError::new(
                        format!("'{word}' is no code of an exception"),
                        "write `local`, or `slice_0` to `slice_15`",
                    )
                })?;
                action = Some(FilterAction::Exception(code));
            }
            "drop" => action = Some(FilterAction::Drop),
            "count" => index = Some(line.value("statistics index", "0")?),
            other => {
                let known = ["value", "mask", "range", "send", "exception", "drop", "count"];
                return Err(Line::unknown(other, &known));
            }
        }
    }
    let action = action.ok_or_else(|| {
        SliceError::new("the filter does nothing", "write `send QUEUE MI ADDRESS:PORT`, `exception CODE` or `drop`")
    })?;
    // Without a mask the whole value is compared.
    let mask = mask.unwrap_or_else(|| vec![0xff; value.len()]);
    Ok(FilterSpec { value, mask, ranges, action, index })
}

fn send(line: &mut Line<'_>) -> Result<FilterAction, SliceError> {
    let queue = line.value("number of a queue", "1")?;
    let interface = line.value("number of a meta-interface", "0")?;
    let next = line.value("address and port", "198.51.100.9:20000")?;
    let mut data = [0; DATA_BYTES];
    if line.0.next_if_eq(&"data").is_some() {
        let bytes = line.bytes("text of data")?;
        let Some(place) = data.get_mut(..bytes.len()) else {
            let reason = format!("{} bytes are more than the {DATA_BYTES} of a filter's data", bytes.len());
            return Err(SliceError::new(reason, "shorten them"));
        };
        place.copy_from_slice(&bytes);
    }
    Ok(FilterAction::Send { queue, interface, next, data })
}

impl FromStr for Reinjection {
    type Err = SliceError;

    fn from_str(text: &str) -> Result<Reinjection, SliceError> {
        let mut line = Line(text.split_whitespace().peekable());
        let (mut interface, mut packet) = (None, None);
        let mut returned = Reinjection { interface: 0, key: None, queue: None, rounds: 0, packet: Vec::new() };
        while let Some(word) = line.0.next() {
            match word {
                "mi" => interface = Some(line.value("number of a meta-interface", "0")?),
                "key" => returned.key = Some(LookupKey::new(&line.bytes("key")?)),
                "queue" => returned.queue = Some(line.value("number of a queue", "1")?),
                "rounds" => returned.rounds = line.value("number of rounds", "0")?,
                "packet" => packet = Some(line.bytes("packet")?),
                other => return Err(Line::unknown(other, &["mi", "key", "queue", "rounds", "packet"])),
            }
        }
        let missing = |what: &str| {
            SliceError::new(format!("{what} is missing"), "write `mi NUMBER [key HEX] [queue NUMBER] packet HEX`")
        };
        returned.interface = interface.ok_or_else(|| missing("the meta-interface"))?;
        returned.packet = packet.ok_or_else(|| missing("the packet"))?;
        Ok(returned)
    }
}

impl SliceCommand {
    /// The slice that it changes.
    pub fn slice(&self) -> &str {
        match self {
            SliceCommand::Create(spec) => &spec.name,
            SliceCommand::Delete(name)
            | SliceCommand::SetCode(name, ..)
            | SliceCommand::Suspend(name, _)
            | SliceCommand::AddInterface(name, ..)
            | SliceCommand::DeleteInterface(name, _)
            | SliceCommand::Reserve(name, ..)
            | SliceCommand::SetQueue(name, ..)
            | SliceCommand::DeleteQueue(name, _)
            | SliceCommand::Filter(name, _)
            | SliceCommand::Write(name, ..)
            | SliceCommand::Stage(name, ..)
            | SliceCommand::Commit(name) => name,
        }
    }

    /// True if the owner of the slice may do it. Slices, ports and rates belong to the operator.
    pub fn is_for_owner(&self) -> bool {
        use SliceCommand::{Commit, DeleteQueue, Filter, SetQueue, Stage, Write};
        matches!(self, SetQueue(..) | DeleteQueue(..) | Filter(..) | Write(..) | Stage(..) | Commit(_))
    }
}

impl Slices {
    /// Makes changes in their order. Neighbouring changes of one slice's filters are one change of its table. Returns the number of entries that their
    /// filters use.
    ///
    /// # Errors
    /// The position of the first change that is refused. Those before it were made.
    pub fn run(&mut self, router: &mut Router, commands: &[SliceCommand]) -> Result<u64, (usize, SliceError)> {
        let (mut at, mut entries) = (0, 0);
        while let Some(command) = commands.get(at) {
            let wrong = |error| (at, error);
            let mut count = 1;
            match command.clone() {
                SliceCommand::Create(spec) => self.create(*spec).map_err(wrong)?,
                SliceCommand::SetCode(name, code, config, swap) => {
                    self.set_code(&name, (&code, config), swap).map_err(wrong)?;
                }
                SliceCommand::Delete(name) => self.delete(router, &name).map_err(wrong)?,
                SliceCommand::Suspend(name, is_suspended) => self.suspend(&name, is_suspended).map_err(wrong)?,
                SliceCommand::AddInterface(name, number, place) => {
                    self.create_interface(router, &name, (number, place)).map_err(wrong)?;
                }
                SliceCommand::DeleteInterface(name, number) => self.delete_interface(&name, number).map_err(wrong)?,
                SliceCommand::Reserve(name, scheduler, rates) => {
                    self.reserve(router, &name, &scheduler, rates).map_err(wrong)?;
                }
                SliceCommand::SetQueue(name, number, spec) => {
                    self.set_queue(router, &name, (number, spec)).map_err(wrong)?;
                }
                SliceCommand::DeleteQueue(name, number) => self.delete_queue(router, &name, number).map_err(wrong)?,
                SliceCommand::Filter(name, _) => {
                    let of_slice =
                        |command: &&SliceCommand| matches!(command, SliceCommand::Filter(other, _) if *other == name);
                    let edits: Vec<FilterEdit> = commands[at..]
                        .iter()
                        .take_while(of_slice)
                        .filter_map(|command| match command {
                            SliceCommand::Filter(_, edit) => Some(edit.clone()),
                            _ => None,
                        })
                        .collect();
                    count = edits.len();
                    entries += self.edit_filters(&name, &edits).map_err(wrong)?.into_iter().map(u64::from).sum::<u64>();
                }
                SliceCommand::Write(name, offset, bytes) => {
                    let written = self.memory(&name).map_err(wrong)?.write(offset, &bytes);
                    written.map_err(|bounds| wrong(SliceError::beyond(bounds)))?;
                }
                SliceCommand::Stage(name, offset, bytes) => self.stage_memory(&name, offset, bytes).map_err(wrong)?,
                SliceCommand::Commit(name) => self.commit_memory(&name).map_err(wrong)?,
            }
            at += count;
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> SliceCommand {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn lines_become_commands() {
        let SliceCommand::Create(spec) = read(
            "create a code ipv4 filters 5 queues 2 interfaces 3 stats 7 memory 1kb buffers 2mb rate 3mbit exceptions 9 \
             cpu 15% unmatched drop owner 4001 set mtu=1400 set x=",
        ) else {
            panic!("it creates a slice")
        };
        let quota = SliceQuota {
            filters: 5,
            queues: 2,
            interfaces: 3,
            indices: 7,
            memory: "1kb".parse().expect("a size"),
            buffers: "2mb".parse().expect("a size"),
            rate: Rate::mbit(3),
            exceptions: PacketRate::pps(9),
            cpu: Some(Parts::percent(15)),
        };
        assert_eq!((spec.quota, spec.drops_unmatched, &*spec.code), (quota, true, "ipv4"));
        assert_eq!(spec.owner.as_ref().and_then(SliceOwner::uid), Some(4001));
        let SliceCommand::Create(named) = read("create a code raw owner alice") else { panic!("it creates a slice") };
        assert_eq!(named.owner, Some(SliceOwner::Name("alice".to_owned())));
        assert_eq!((spec.config.get("mtu"), spec.config.get("x")), (Some("1400"), Some("")));
        let scheduler =
            SchedulerId { port: "wan".into(), share: Some(ShareName::new("engine").expect("it is a name")) };
        let rates = SliceRates { rate: Some(Rate::mbit(5)), ceiling: None, weight: Some(3) };
        assert_eq!(
            read("reserve a wan/engine rate 5mbit weight 3"),
            SliceCommand::Reserve("a".into(), scheduler.clone(), rates)
        );
        let spec = QueueSpec { scheduler: SchedulerId { share: None, ..scheduler }, weight: 1, limit: None };
        assert_eq!(read("queue set a 1 wan"), SliceCommand::SetQueue("a".into(), 1, spec));
        let place = "[2001:db8::1]:20000".parse().expect("an address");
        assert_eq!(read("mi add a 7 [2001:db8::1]:20000"), SliceCommand::AddInterface("a".into(), 7, place));
        let mut data = [0; DATA_BYTES];
        data[..2].copy_from_slice(&[0xde, 0xad]);
        let next = "198.51.100.9:9".parse().expect("an address");
        let filter = FilterSpec {
            value: vec![0x0a, 0xff],
            mask: vec![0xff, 0x0f],
            ranges: vec![KeyRange { first_bit: 88, width: 16, low: 1, high: 2 }],
            action: FilterAction::Send { queue: 1, interface: 0, next, data },
            index: Some(4),
        };
        let text = "filter insert a 10 value 0aFF mask ff0f range 88 16 1 2 send 1 0 198.51.100.9:9 data dead count 4";
        assert_eq!(read(text), SliceCommand::Filter("a".into(), FilterEdit::Insert(10, filter)));
        assert_eq!(read("mem write a 8 00ff"), SliceCommand::Write("a".into(), 8, vec![0, 255]));
        assert_eq!(read("mem stage a 8 00ff"), SliceCommand::Stage("a".into(), 8, vec![0, 255]));
        assert_eq!(read("mem commit a"), SliceCommand::Commit("a".into()));
        assert_eq!(read("filter delete a 3"), SliceCommand::Filter("a".into(), FilterEdit::Delete(3)));
    }

    #[test]
    fn returned_packets_are_lines() {
        let read = |text: &str| text.parse::<Reinjection>().map_err(|error| error.to_string());
        let plain = Reinjection { interface: 3, key: None, queue: None, rounds: 0, packet: vec![0x45, 0] };
        assert_eq!(read("mi 3 packet 4500"), Ok(plain.clone()));
        let keyed = Reinjection { key: Some(LookupKey::new(&[0, 0xff])), queue: Some(7), rounds: 2, ..plain };
        assert_eq!(read("mi 3 key 00ff queue 7 rounds 2 packet 4500"), Ok(keyed));
        for (text, expected) in [
            ("", "the meta-interface is missing"),
            ("mi 0", "the packet is missing"),
            ("mi 0 packet 4", "'4' is no packet; write two hexadecimal digits"),
            ("mi 0 paket 45", "'paket' is unknown here; did you mean 'packet'?"),
            ("mi 70000 packet 45", "'70000' is no number of a meta-interface"),
            ("mi 0 rounds 256 packet 45", "'256' is no number of rounds"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    #[test]
    fn wrong_lines_are_refused_with_a_hint() {
        for (text, expected) in [
            ("", "the change is missing; see docs/operate/slices.md"),
            ("creat a", "'creat' is unknown here; did you mean 'create'?"),
            ("create a", "the code option is missing; write `code ipv4`, or another one"),
            ("create a code raw filters x", "'x' is no number; write one like 1000"),
            ("create a code raw set mtu", "'mtu' is no setting; write its name, '=' and its text"),
            ("delete a b", "'b' is one word too many; remove it"),
            ("mi add a 0 192.0.2.1", "'192.0.2.1' is no address and port; write one like 192.0.2.1:20000"),
            ("queue drop a 1", "'drop' is unknown here; use one of set, delete"),
            ("filter insert a 1 value 0", "'0' is no value; write two hexadecimal digits for each byte: 0a00ff"),
            (
                "filter insert a 1 value 00",
                "the filter does nothing; write `send QUEUE MI ADDRESS:PORT`, `exception CODE` or `drop`",
            ),
            (
                "filter insert a 1 exception lokal",
                "'lokal' is no code of an exception; write `local`, or `slice_0` to `slice_15`",
            ),
        ] {
            let error = text.parse::<SliceCommand>().expect_err(text);
            assert_eq!(error.to_string(), expected, "{text}");
        }
    }
}
