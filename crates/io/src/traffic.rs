//! A traffic generator for tests and benchmarks. The kernel itself makes numbered UDP packets, some ten million a second, and a program at the other
//! end counts them. A [`HeaderSource`] makes packets of up to 65536 given headers in place of numbered ones.
//!
//! The [`UdpSource`] is an XDP program that runs on its own frames (BPF_PROG_RUN with live frames, Linux 5.18). It sends them on a link like a driver
//! that carries out an XDP redirect. The frames return and are reused with the changes of the routers on the path, so the program rewrites the whole
//! packet each time. The [`UdpSink`] is a program at the end of the path.
//!
//! The source program is also attached to the link, in the stack, where it passes everything. For an unattached program the kernel rewrites its
//! dispatcher before and after each run, which takes some 15 ms.
//!
//! A virtual Ethernet link accepts redirected frames only if its other end polls for them (NAPI). It polls if it has an XDP program, or if GRO is on.
//! [`XdpPassProgram`] is an XDP program without effect, for ends that have neither.

mod headers;

pub use headers::{HeaderSource, PacketHeader};

use crate::bpf::instruction::{
    self, BpfInstruction, action, add, and, context, copy, exit, load16, load32, load64, set, set_map, set64,
    skip_if_different, skip_if_equal, skip_if_greater, store16, store32, store64,
};
use crate::bpf::{BpfAttachment, BpfHook, BpfProgram, BpfProgramKind, Map, MapKind};
use packet::wire::{Ipv4Spec, ethernet, ethertype, protocol};
use std::io;
use std::net::Ipv4Addr;
use units::Mac;

/// Bytes of a packet: 64 with the frame check sequence, which virtual links do not have.
pub const LENGTH: usize = 60;
/// The destination UDP port: discard (RFC 863).
pub const PORT: u16 = 9;
/// The number of flows, in turns: their source ports differ.
pub const FLOWS: u16 = 64;
/// The maximum number of frames made at once.
pub const BATCH: u32 = 64;

/// Ethernet, IPv4 and UDP headers.
const HEADERS: usize = 14 + 20 + 8;
/// Offset of a packet's number, and of the fields after it.
const NUMBER: i16 = 44;
const MARK: i16 = 52;
/// Marks packets of a source.
const MARKED: u32 = 0x5377_7068;
/// Offset of the UDP source port.
const SOURCE_PORT: i16 = 34;
/// The ingress link of a run's frames: the loopback, which is the first link of every network namespace.
const LOOPBACK: i32 = 1;

/// Registers that calls preserve, by their contents.
const DATA: u8 = 6;
const VALUE: u8 = 7;
const NUMBERED: u8 = 8;

/// The endpoints of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketAddresses {
    /// The sender's and the first router's link-layer addresses.
    pub link: (Mac, Mac),
    /// Source and destination.
    pub network: (Ipv4Addr, Ipv4Addr),
}

impl PacketAddresses {
    /// A packet with number zero.
    fn packet(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        ethernet::write_header(&mut bytes[..14], self.link.1, self.link.0, None, ethertype::IPV4);
        let spec = Ipv4Spec {
            type_of_service: 0,
            identification: 0,
            dont_fragment: true,
            ttl: 64,
            protocol: protocol::UDP,
            source: self.network.0,
            destination: self.network.1,
        };
        spec.write(&mut bytes[14..], LENGTH - 34);
        bytes[36..38].copy_from_slice(&PORT.to_be_bytes());
        bytes[38..40].copy_from_slice(&((LENGTH - 34) as u16).to_be_bytes());
        // The checksum stays zero: none (RFC 768).
        bytes
    }
}

/// A program under construction.
#[derive(Default)]
struct ProgramBuilder {
    code: Vec<BpfInstruction>,
    /// Instructions that jump to the end if a check fails.
    exit_jumps: Vec<usize>,
}

impl ProgramBuilder {
    /// The beginning of a source: the frame at [`DATA`], and its number at [`NUMBERED`].
    fn source(numbers: &Map) -> ProgramBuilder {
        let mut text = ProgramBuilder::default();
        // The program is also attached to the link: frames that arrive there have another ingress link and pass.
        text.put([load32(2, 1, context::XDP_LINK)]).exit_if(skip_if_different(2, LOOPBACK, 0));
        text.frame(context::XDP_DATA).count(numbers, 0);
        text
    }

    fn put(&mut self, instructions: impl IntoIterator<Item = BpfInstruction>) -> &mut Self {
        self.code.extend(instructions);
        self
    }

    fn exit_if(&mut self, jump: BpfInstruction) -> &mut Self {
        self.exit_jumps.push(self.code.len());
        self.put([jump])
    }

    /// Loads the address of the frame to [`DATA`] if it has at least [`LENGTH`] bytes. The offsets of its bounds are those in the context.
    fn frame(&mut self, (data, end): (i16, i16)) -> &mut Self {
        self.put([load32(DATA, 1, data), load32(3, 1, end)]);
        self.put([copy(4, DATA), add(4, LENGTH as i32)]).exit_if(skip_if_greater(4, 3, 0))
    }

    /// Loads the address of the value at `key` of `map` to [`VALUE`].
    fn value(&mut self, map: &Map, key: i32) -> &mut Self {
        self.put([set(2, key)]).value_at(map)
    }

    /// The same with the key in register 2.
    fn value_at(&mut self, map: &Map) -> &mut Self {
        // The kernel takes the key by address, so it lies on the stack.
        self.put([store32(10, -4, 2), copy(2, 10), add(2, -4)]).put(set_map(1, map));
        // An array has every key below its size, but the verifier insists on the test for zero.
        self.put([instruction::call(instruction::call::MAP_LOOKUP)])
            .exit_if(skip_if_equal(0, 0, 0))
            .put([copy(VALUE, 0)])
    }

    /// Increments the value at `key` of `map` and loads the sum to [`NUMBERED`].
    fn count(&mut self, map: &Map, key: i32) -> &mut Self {
        self.value(map, key).put([load64(NUMBERED, VALUE, 0), add(NUMBERED, 1), store64(VALUE, 0, NUMBERED)])
    }

    /// The program. After a failed check it returns `otherwise`.
    fn finish(mut self, otherwise: i32) -> Vec<BpfInstruction> {
        for at in self.exit_jumps {
            // A jump counts from the instruction after it.
            self.code[at] = self.code[at].over((self.code.len() - at - 1) as i16);
        }
        self.code.extend([set(0, otherwise), exit()]);
        self.code
    }
}

/// The packet generator.
#[derive(Debug)]
pub struct UdpSource {
    generator: PacketGenerator,
}

impl UdpSource {
    /// Makes packets that leave by the link with this index, in the network namespace of the calling thread. Needs CAP_BPF and CAP_NET_ADMIN.
    pub fn new(journey: &PacketAddresses, index: u32) -> io::Result<UdpSource> {
        let numbers = Map::create(MapKind::Array, 1)?;
        let mut text = ProgramBuilder::source(&numbers);
        // The headers without the UDP checksum are five words. The checksum and the bytes before the number are zero.
        for (word, bytes) in journey.packet()[..HEADERS - 2].as_chunks::<8>().0.iter().enumerate() {
            text.put(set64(1, u64::from_ne_bytes(*bytes))).put([store64(DATA, 8 * word as i16, 1)]);
        }
        text.put([set(1, 0), store32(DATA, HEADERS as i16 - 2, 1), store32(DATA, MARK + 4, 1)]);
        text.put([store64(DATA, NUMBER, NUMBERED), set(1, MARKED as i32), store32(DATA, MARK, 1)]);
        // FLOWS is a power of two. The port is not in network byte order: the flows only have to differ.
        text.put([copy(1, NUMBERED), and(1, i32::from(FLOWS) - 1), add(1, 0x4000), store16(DATA, SOURCE_PORT, 1)]);
        Ok(UdpSource { generator: PacketGenerator::load(text, (numbers, &[0; LENGTH]), index)? })
    }

    /// Sends `count` packets, at least one, from a thread in the network namespace of the link. Packets without room in the link's queue are lost.
    pub fn send(&self, count: u32) -> io::Result<()> {
        self.generator.send(count)
    }

    /// The number of packets sent.
    pub fn sent(&self) -> io::Result<u64> {
        self.generator.numbers.get(0)
    }
}

/// A program that makes packets, and the number of packets that it has made.
#[derive(Debug)]
struct PacketGenerator {
    program: BpfProgram,
    numbers: Map,
    /// The first content of each frame.
    frame: Vec<u8>,
    _attached: BpfAttachment,
}

impl PacketGenerator {
    /// Loads a program that begins with [`ProgramBuilder::source`] and sends its packets by the link with this index. The program writes over parts of
    /// a frame.
    fn load(mut text: ProgramBuilder, (numbers, frame): (Map, &[u8]), index: u32) -> io::Result<PacketGenerator> {
        text.put([set(1, index as i32), set(2, 0), instruction::call(instruction::call::REDIRECT), exit()]);
        let program = BpfProgram::load(BpfProgramKind::Xdp, "switchpath_src", &text.finish(action::PASS))?;
        let attached = program.attach(BpfHook::XdpGeneric, index)?;
        Ok(PacketGenerator { program, numbers, frame: frame.to_vec(), _attached: attached })
    }

    fn send(&self, count: u32) -> io::Result<()> {
        self.program.run_live(&self.frame, count, BATCH)
    }
}

/// The packets that arrived at a [`UdpSink`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SinkCounts {
    /// Packets.
    pub packets: u64,
    /// Those of them that were reordered or duplicated.
    pub late: u64,
}

/// Counts and drops the packets of a source; other packets pass.
#[derive(Debug)]
pub struct UdpSink {
    _attached: BpfAttachment,
    counts: Map,
}

/// The counters of a sink.
const PACKETS: i32 = 0;
const HIGHEST: i32 = 1;
const LATE: i32 = 2;

/// The kind of a program at a hook, the offsets of a frame's bounds in its context, and its results: to drop a frame, and to pass it on.
fn program_kind(hook: BpfHook) -> (BpfProgramKind, (i16, i16), i32, i32) {
    match hook {
        BpfHook::TcxIngress | BpfHook::TcxEgress => {
            (BpfProgramKind::Classifier, context::CLASSIFIER_DATA, action::CLASSIFIER_DROP, action::CLASSIFIER_NEXT)
        }
        BpfHook::XdpNative | BpfHook::XdpGeneric => {
            (BpfProgramKind::Xdp, context::XDP_DATA, action::DROP, action::PASS)
        }
    }
}

impl UdpSink {
    /// Attaches a sink to the link with this index, in the network namespace of the calling thread: in its driver, or at the start or the end of the
    /// host's stack. Needs CAP_BPF and CAP_NET_ADMIN.
    pub fn attach(index: u32, hook: BpfHook) -> io::Result<UdpSink> {
        const BEFORE: u8 = 9;
        let (_, data, drop, _) = program_kind(hook);
        let counts = Map::create(MapKind::Array, 3)?;
        let mut text = ProgramBuilder::default();
        text.frame(data).put([load32(1, DATA, MARK)]).exit_if(skip_if_different(1, MARKED as i32, 0));
        text.count(&counts, PACKETS);
        text.value(&counts, HIGHEST).put([load64(NUMBERED, DATA, NUMBER), load64(BEFORE, VALUE, 0)]);
        text.put([skip_if_greater(BEFORE, NUMBERED, 1), store64(VALUE, 0, NUMBERED)]);
        // A number that is not above the highest one before is late, or a duplicate.
        text.value(&counts, LATE).put([load64(1, VALUE, 0), skip_if_greater(NUMBERED, BEFORE, 1), add(1, 1)]);
        text.put([store64(VALUE, 0, 1), set(0, drop), exit()]);
        UdpSink::load(text, counts, (index, hook))
    }

    /// The same for all packets to a UDP port, which may come from anywhere. It does not see if they were reordered.
    pub fn attach_to_port(index: u32, hook: BpfHook, port: u16) -> io::Result<UdpSink> {
        let (_, data, drop, _) = program_kind(hook);
        let counts = Map::create(MapKind::Array, 3)?;
        let mut text = ProgramBuilder::default();
        let port = u16::from_ne_bytes(port.to_be_bytes());
        text.frame(data).put([load16(1, DATA, SOURCE_PORT + 2)]).exit_if(skip_if_different(1, port.into(), 0));
        text.count(&counts, PACKETS).put([set(0, drop), exit()]);
        UdpSink::load(text, counts, (index, hook))
    }

    fn load(text: ProgramBuilder, counts: Map, (index, hook): (u32, BpfHook)) -> io::Result<UdpSink> {
        let (kind, _, _, pass) = program_kind(hook);
        let program = BpfProgram::load(kind, "switchpath_sink", &text.finish(pass))?;
        Ok(UdpSink { _attached: program.attach(hook, index)?, counts })
    }

    /// The packets that arrived so far.
    pub fn counted(&self) -> io::Result<SinkCounts> {
        Ok(SinkCounts { packets: self.counts.get(PACKETS as u32)?, late: self.counts.get(LATE as u32)? })
    }
}

/// An XDP program that passes everything, in the driver of a link.
#[derive(Debug)]
pub struct XdpPassProgram {
    _attached: BpfAttachment,
}

impl XdpPassProgram {
    /// Attaches it to the link with this index, in the network namespace of the calling thread. Needs CAP_BPF and CAP_NET_ADMIN.
    pub fn attach(index: u32) -> io::Result<XdpPassProgram> {
        let program = BpfProgram::load(BpfProgramKind::Xdp, "switchpath_pass", &[set(0, action::PASS), exit()])?;
        Ok(XdpPassProgram { _attached: program.attach(BpfHook::XdpNative, index)? })
    }
}
