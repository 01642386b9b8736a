//! The code options `raw` and `null`: they leave packets as they are.

use super::{
    CodeEnv, CodeOption, CodeRegistration, Diversion, Formatted, InnerEdit, KEY_BYTES, LookupKey, LookupResult,
};

/// The key is the beginning of the packet. A shorter packet ends in zeros.
pub const RAW: CodeRegistration = CodeRegistration {
    name: "raw",
    summary: "Looks up the first 14 bytes of a packet, and changes nothing.",
    version: 1,
    key_bytes: KEY_BYTES,
    parse_steps: 0,
    format_steps: 0,
    memory: 0,
    settings: &[],
    make: |_| Ok(Box::new(Unchanged { key_bytes: KEY_BYTES })),
};

/// All packets have the same key, so the first filter decides about all.
pub const NULL: CodeRegistration = CodeRegistration {
    name: "null",
    summary: "Looks at no byte of a packet: the first filter decides about all.",
    make: |_| Ok(Box::new(Unchanged { key_bytes: 0 })),
    ..RAW
};

struct Unchanged {
    key_bytes: usize,
}

impl CodeOption for Unchanged {
    fn parse(&mut self, packet: &[u8], _: &mut CodeEnv<'_>) -> Result<LookupKey, Diversion> {
        Ok(LookupKey::new(&packet[..packet.len().min(self.key_bytes)]))
    }

    fn format(&mut self, _: &mut InnerEdit<'_>, _: &LookupResult, _: &mut CodeEnv<'_>) -> Result<Formatted, Diversion> {
        Ok(Formatted::Send)
    }
}
