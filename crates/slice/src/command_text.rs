//! Changes of slices as the lines that [`SliceCommand`] reads: what a program writes for the API.

use crate::code::CodeConfig;
use crate::command::SliceCommand;
use crate::reinjection::Reinjection;
use crate::slices::CodeSwap;
use crate::spec::{FilterAction, FilterEdit, FilterSpec, SchedulerId, SliceOwner, SliceRates, SliceSpec};
use classifier::OpaqueKey;
use std::fmt;

/// Bytes as two hexadecimal digits each.
struct Hex<'b>(&'b [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// `PORT` or `PORT/SHARE`.
struct Scheduler<'s>(&'s SchedulerId);

impl fmt::Display for Scheduler<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SchedulerId { port, share } = self.0;
        match share {
            Some(share) => write!(f, "{port}/{}", share.as_str()),
            None => write!(f, "{port}"),
        }
    }
}

struct Settings<'a>(&'a CodeConfig);

impl fmt::Display for Settings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.0.iter().try_for_each(|(name, text)| write!(f, " set {name}={text}"))
    }
}

/// The line that inserts the filter has this behind its position.
impl fmt::Display for FilterSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.value.is_empty() {
            write!(f, "value {} mask {} ", Hex(&self.value), Hex(&self.mask))?;
        }
        for range in &self.ranges {
            write!(f, "range {} {} {} {} ", range.first_bit, range.width, range.low, range.high)?;
        }
        match &self.action {
            FilterAction::Drop => f.write_str("drop")?,
            FilterAction::Exception(code) => write!(f, "exception {code}")?,
            FilterAction::Send { queue, interface, next, data } => {
                write!(f, "send {queue} {interface} {next}")?;
                if let Some(last) = data.iter().rposition(|byte| *byte != 0) {
                    write!(f, " data {}", Hex(&data[..=last]))?;
                }
            }
        }
        self.index.map_or(Ok(()), |index| write!(f, " count {index}"))
    }
}

fn create(f: &mut fmt::Formatter<'_>, spec: &SliceSpec) -> fmt::Result {
    let SliceSpec { name, code, config, quota, drops_unmatched, owner } = spec;
    write!(f, "create {name} code {code} filters {} queues {} ", quota.filters, quota.queues)?;
    write!(f, "interfaces {} stats {} memory {}b ", quota.interfaces, quota.indices, quota.memory.get())?;
    write!(f, "buffers {}b rate {}bit exceptions ", quota.buffers.get(), quota.rate.get())?;
    write!(f, "{} unmatched {}", quota.exceptions.get(), if *drops_unmatched { "drop" } else { "exception" })?;
    quota.cpu.map_or(Ok(()), |part| write!(f, " cpu {}ppm", part.get()))?;
    match owner {
        Some(SliceOwner::Uid(uid)) => write!(f, " owner {uid}")?,
        Some(SliceOwner::Name(name)) => write!(f, " owner {name}")?,
        None => {}
    }
    write!(f, "{}", Settings(config))
}

impl fmt::Display for SliceCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SliceCommand::Create(spec) => create(f, spec),
            SliceCommand::SetCode(name, code, config, swap) => {
                write!(f, "code {name} {code}{}", Settings(config))?;
                match swap {
                    CodeSwap::Drain => f.write_str(" drain"),
                    CodeSwap::Double(sample) => write!(f, " double {sample}"),
                }
            }
            SliceCommand::Delete(name) => write!(f, "delete {name}"),
            SliceCommand::Suspend(name, true) => write!(f, "suspend {name}"),
            SliceCommand::Suspend(name, false) => write!(f, "resume {name}"),
            SliceCommand::AddInterface(name, number, place) => write!(f, "mi add {name} {number} {place}"),
            SliceCommand::DeleteInterface(name, number) => write!(f, "mi delete {name} {number}"),
            SliceCommand::Reserve(name, scheduler, SliceRates { rate, ceiling, weight }) => {
                write!(f, "reserve {name} {}", Scheduler(scheduler))?;
                rate.map_or(Ok(()), |rate| write!(f, " rate {}bit", rate.get()))?;
                ceiling.map_or(Ok(()), |ceiling| write!(f, " ceiling {}bit", ceiling.get()))?;
                weight.map_or(Ok(()), |weight| write!(f, " weight {weight}"))
            }
            SliceCommand::SetQueue(name, number, spec) => {
                write!(f, "queue set {name} {number} {} weight {}", Scheduler(&spec.scheduler), spec.weight)?;
                spec.limit.map_or(Ok(()), |limit| write!(f, " limit {}b", limit.get()))
            }
            SliceCommand::DeleteQueue(name, number) => write!(f, "queue delete {name} {number}"),
            SliceCommand::Filter(name, FilterEdit::Insert(position, spec)) => {
                write!(f, "filter insert {name} {position} {spec}")
            }
            SliceCommand::Filter(name, FilterEdit::Replace(position, spec)) => {
                write!(f, "filter replace {name} {position} {spec}")
            }
            SliceCommand::Filter(name, FilterEdit::Delete(position)) => write!(f, "filter delete {name} {position}"),
            SliceCommand::Write(name, offset, bytes) => write!(f, "mem write {name} {offset} {}", Hex(bytes)),
            SliceCommand::Stage(name, offset, bytes) => write!(f, "mem stage {name} {offset} {}", Hex(bytes)),
            SliceCommand::Commit(name) => write!(f, "mem commit {name}"),
        }
    }
}

impl fmt::Display for Reinjection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mi {}", self.interface)?;
        if let Some(key) = self.key {
            write!(f, " key {}", Hex(&key.bytes::<{ OpaqueKey::MOST_BYTES }>()))?;
        }
        self.queue.map_or(Ok(()), |queue| write!(f, " queue {queue}"))?;
        write!(f, " rounds {} packet {}", self.rounds, Hex(&self.packet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::LookupKey;

    #[test]
    fn written_lines_are_read_as_the_same_changes() {
        for line in [
            "create a code ipv4 filters 5 queues 2 interfaces 3 stats 7 memory 1kb buffers 2mb rate 3mbit exceptions 9 \
             cpu 15% unmatched drop owner 4001 set mtu=1400 set x=",
            "create a code raw owner alice",
            "code a guest:mine set x=1 double 100",
            "code a ipv4",
            "delete a",
            "suspend a",
            "resume a",
            "mi add a 7 [2001:db8::1]:20000",
            "mi delete a 7",
            "reserve a wan/engine rate 5mbit ceiling 6mbit weight 3",
            "reserve a wan",
            "queue set a 1 wan weight 3 limit 100kb",
            "queue set a 1 wan/engine",
            "queue delete a 1",
            "filter insert a 10 value 0aFF mask ff0f range 88 16 1 2 send 1 0 198.51.100.9:9 data dead count 4",
            "filter insert a 10 send 1 0 198.51.100.9:9",
            "filter replace a 3 range 0 8 1 9 exception slice_3",
            "filter replace a 3 value 00 mask 00 drop count 0",
            "filter delete a 3",
            "mem write a 8 00ff",
            "mem stage a 8 00ff",
            "mem commit a",
        ] {
            let command: SliceCommand = line.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(command.to_string().parse(), Ok(command), "{line}");
        }
        let plain = Reinjection { interface: 3, key: None, queue: None, rounds: 0, packet: vec![0x45, 0] };
        let keyed = Reinjection { key: Some(LookupKey::new(&[0, 1])), queue: Some(7), rounds: 3, ..plain.clone() };
        for returned in [plain, keyed] {
            assert_eq!(returned.to_string().parse(), Ok(returned));
        }
    }
}
