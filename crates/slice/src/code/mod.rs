//! Code options: the segments of the pipeline that know the format of a slice's packets. Each slice uses one of them.
//!
//! A code option makes a key of a packet ([`CodeOption::parse`]), and rewrites the packet once the filters of the slice have decided about it
//! ([`CodeOption::format`]). It sees the packet without its outer headers, the memory of its slice, and nothing else. It does not allocate or block.
//!
//! A new code option is a file here with its `REGISTRATION`, and a line in [`CODE_OPTIONS`].

mod double_run;
mod edit;
mod env;
mod esp;
mod exercise;
mod guest;
pub mod i3;
mod ip;
pub mod ipv4;
pub mod ipv6;
mod plain;
mod slice_code;

pub use double_run::DoubleRunReport;
pub(crate) use double_run::{DoubleRunCounts, double_run};
pub use edit::InnerEdit;
pub use env::CodeEnv;
pub use exercise::CodeExercise;
pub(crate) use guest::guest_of;
pub use guest::{GuestCodeOption, guest_code};
pub(crate) use ip::data_mtu;
pub use ip::mtu_data;
pub(crate) use slice_code::SliceCode;

use crate::memory::SliceMemory;
use classifier::OpaqueKey;
use std::fmt;

/// The bytes of a key in the paper: 112 bits (Turner et al. 2007, section 4).
pub const KEY_BYTES: usize = 14;

/// The bytes of opaque data that a filter passes to [`CodeOption::format`].
pub const DATA_BYTES: usize = 32;

/// The key by which the filters of a slice are searched. Its meaning is known to the code option and to the tenant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct LookupKey(OpaqueKey);

impl LookupKey {
    /// A key of at most [`OpaqueKey::MOST_BYTES`] bytes. The rest is zero.
    pub fn new(bytes: &[u8]) -> LookupKey {
        LookupKey(OpaqueKey::from_bytes(bytes))
    }

    /// A key that begins with these words, each with its most significant byte first. The rest is zero.
    #[inline(always)]
    pub fn from_words(words: [u64; 2]) -> LookupKey {
        let mut key = OpaqueKey::default();
        (key.0[0], key.0[1]) = (words[0], words[1]);
        LookupKey(key)
    }

    /// The key as the classifier compares it.
    pub fn opaque(self) -> OpaqueKey {
        self.0
    }

    /// Its first `N` bytes.
    pub fn bytes<const N: usize>(self) -> [u8; N] {
        let mut words = self.0.0.iter().flat_map(|word| word.to_be_bytes());
        std::array::from_fn(|_| words.next().unwrap_or(0))
    }
}

/// Why a packet leaves the fast path for the slow path of its slice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ExceptionCode {
    /// No filter matches its key.
    NoMatch,
    /// Its time to live has expired.
    Ttl,
    /// It has options that the fast path does not process.
    Options,
    /// It is for the node itself.
    Local,
    /// Several filters apply, and the fast path may not select one.
    MultiMatch,
    /// Its header is unusual, but not wrong.
    SoftHeader,
    /// It exceeds the MTU of the link to its next hop.
    Mtu,
    /// The code option has used up its steps.
    OverBudget,
    /// A code of the slice's own, 0 to 15. Higher numbers count as 15.
    Own(u8),
}

/// The number of different codes.
pub const EXCEPTION_CODES: usize = 24;

impl ExceptionCode {
    /// Its number, below [`EXCEPTION_CODES`].
    pub fn number(self) -> u8 {
        match self {
            ExceptionCode::NoMatch => 0,
            ExceptionCode::Ttl => 1,
            ExceptionCode::Options => 2,
            ExceptionCode::Local => 3,
            ExceptionCode::MultiMatch => 4,
            ExceptionCode::SoftHeader => 5,
            ExceptionCode::Mtu => 6,
            ExceptionCode::OverBudget => 7,
            ExceptionCode::Own(own) => 8 + own.min(15),
        }
    }

    /// The code of a number.
    pub fn of(number: u8) -> Option<ExceptionCode> {
        Some(match number {
            0 => ExceptionCode::NoMatch,
            1 => ExceptionCode::Ttl,
            2 => ExceptionCode::Options,
            3 => ExceptionCode::Local,
            4 => ExceptionCode::MultiMatch,
            5 => ExceptionCode::SoftHeader,
            6 => ExceptionCode::Mtu,
            7 => ExceptionCode::OverBudget,
            8..24 => ExceptionCode::Own(number - 8),
            _ => return None,
        })
    }

    /// The code of a name, as [`Display`](fmt::Display) writes it.
    pub fn from_name(name: &str) -> Option<ExceptionCode> {
        (0..EXCEPTION_CODES as u8).filter_map(ExceptionCode::of).find(|code| code.to_string() == name)
    }
}

impl fmt::Display for ExceptionCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ExceptionCode::NoMatch => "no_match",
            ExceptionCode::Ttl => "ttl",
            ExceptionCode::Options => "options",
            ExceptionCode::Local => "local",
            ExceptionCode::MultiMatch => "multi_match",
            ExceptionCode::SoftHeader => "bad_header_soft",
            ExceptionCode::Mtu => "mtu",
            ExceptionCode::OverBudget => "over_budget",
            ExceptionCode::Own(own) => return write!(f, "slice_{}", own.min(&15)),
        })
    }
}

/// Why a packet does not continue on the fast path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Diversion {
    /// It goes to the slow path of its slice.
    Exception(ExceptionCode),
    /// Its header is wrong: it is dropped as `slice_malformed`.
    Malformed,
    /// The code option does not want it: it is dropped as `slice_policy`.
    Policy,
    /// The code option accessed memory beyond that of its slice. The packet is dropped as `slice_fault`, and the slice's faults are counted.
    OutOfMemory,
    /// The code option cannot process another packet: see [`CodeOption::failure`]. The packet is dropped as `slice_fault`, and the slice is suspended.
    Failed,
}

/// The decision of [`CodeOption::format`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Formatted {
    /// The packet is sent to the next hop of the result.
    Send,
    /// The filters are to be searched once more, by this key. A second time the packet is dropped as `slice_fault`.
    Again(LookupKey),
}

/// The result of the filter that decided about a packet, as far as a code option may know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LookupResult {
    /// The number of the slice's own queue.
    pub queue: u16,
    /// The meta-interface by which the packet leaves.
    pub interface: u16,
    /// Data for the code option, which nothing else reads.
    pub data: [u8; DATA_BYTES],
}

/// The two stages of a code option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CodeStage {
    /// [`CodeOption::parse`].
    Parse,
    /// [`CodeOption::format`].
    Format,
}

/// A packet of a batch, before a stage.
#[derive(Clone, Copy, Debug)]
pub struct BatchPacket<'p> {
    /// Its position in the batch: that of [`CodeEnv::position`] in the call for the packet.
    pub position: usize,
    /// The meta-interface by which it arrived.
    pub interface: u16,
    /// The packet without its outer headers.
    pub bytes: &'p [u8],
    /// The result of its look-up; all zero before [`CodeStage::Parse`].
    pub result: LookupResult,
}

/// A code option of one slice on one worker. All its state that must survive lies in the memory of the slice.
pub trait CodeOption: Send {
    /// Makes the key of a packet. `packet` begins with the first byte behind the outer UDP header.
    ///
    /// # Errors
    /// The packet does not continue.
    fn parse(&mut self, packet: &[u8], env: &mut CodeEnv<'_>) -> Result<LookupKey, Diversion>;

    /// Rewrites a packet by the result of its look-up. The outer headers are written afterwards.
    ///
    /// # Errors
    /// The packet does not continue. It goes to the slow path as it is now, so decide before you change it.
    fn format(
        &mut self,
        packet: &mut InnerEdit<'_>,
        result: &LookupResult,
        env: &mut CodeEnv<'_>,
    ) -> Result<Formatted, Diversion>;

    /// Gets the memory of its slice, before the first packet.
    fn attach(&mut self, _memory: &SliceMemory) {}

    /// True if it wants the packets of a batch together: see [`CodeOption::begin`].
    fn is_batched(&self) -> bool {
        false
    }

    /// Gets the packets of a batch before the calls of a stage, so that a guest is entered once for many packets. Some of the calls may be left out.
    fn begin(&mut self, _stage: CodeStage, _packets: &mut dyn Iterator<Item = BatchPacket<'_>>) {}

    /// The reason of a [`Diversion::Failed`].
    fn failure(&self) -> Option<String> {
        None
    }
}

/// The settings of a slice for its code option: pairs of a name and a text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CodeConfig(pub Vec<(String, String)>);

impl CodeConfig {
    /// The text of a setting.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, text)| text.as_str())
    }
}

/// A code option that slices may use.
#[derive(Clone, Copy, Debug)]
pub struct CodeRegistration {
    /// Its name.
    pub name: &'static str,
    /// A sentence for users.
    pub summary: &'static str,
    /// A change of the meaning of keys, data or memory increases it.
    pub version: u32,
    /// The bytes of its keys, at most [`OpaqueKey::MOST_BYTES`]. Filters with longer values are refused.
    pub key_bytes: usize,
    /// The most steps that one call of [`CodeOption::parse`] may take.
    pub parse_steps: u32,
    /// The most steps that one call of [`CodeOption::format`] may take.
    pub format_steps: u32,
    /// The bytes of slice memory that it needs at least.
    pub memory: usize,
    /// The names of its settings, each with a sentence.
    pub settings: &'static [(&'static str, &'static str)],
    /// Makes one for a slice.
    ///
    /// # Errors
    /// Which setting is wrong, and what to write instead.
    pub make: fn(&CodeConfig) -> Result<Box<dyn CodeOption>, String>,
}

/// The code options of this build.
pub const CODE_OPTIONS: &[CodeRegistration] =
    &[esp::REGISTRATION, i3::REGISTRATION, ipv4::REGISTRATION, ipv6::REGISTRATION, plain::NULL, plain::RAW];

/// The code option of this name.
pub fn code_option(name: &str) -> Option<&'static CodeRegistration> {
    CODE_OPTIONS.iter().find(|code| code.name == name)
}
