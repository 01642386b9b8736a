//! A code option for tests: the first byte of a packet selects its behaviour. The key is the first 14 bytes.

use slice::code::{
    CodeConfig, CodeEnv, CodeOption, CodeRegistration, Diversion, ExceptionCode, Formatted, InnerEdit, LookupKey,
    LookupResult,
};

pub const PANIC_IN_PARSE: u8 = 0xe0;
pub const PANIC_IN_FORMAT: u8 = 0xe1;
pub const ENDLESS: u8 = 0xe2;
pub const BEYOND_MEMORY: u8 = 0xe3;
pub const POLICY: u8 = 0xe4;
pub const MALFORMED: u8 = 0xe5;
pub const EXCEPTION: u8 = 0xe6;
/// The second byte becomes the first of the key of a second look-up, and of a third one if the filter's data ask for it.
pub const AGAIN: u8 = 0xe7;

pub const TRIAL: CodeRegistration = CodeRegistration {
    name: "trial",
    summary: "does what the first byte of a packet asks for",
    version: 1,
    key_bytes: 14,
    parse_steps: 8,
    format_steps: 8,
    memory: 16,
    settings: &[("refuse", "refuses to start")],
    make: |config: &CodeConfig| match config.get("refuse") {
        None => Ok(Box::new(Trial)),
        Some(text) => Err(format!("'{text}' is refused")),
    },
};

struct Trial;

impl CodeOption for Trial {
    fn parse(&mut self, packet: &[u8], env: &mut CodeEnv<'_>) -> Result<LookupKey, Diversion> {
        match packet.first() {
            Some(&PANIC_IN_PARSE) => panic!("parse met {PANIC_IN_PARSE:#x}"),
            // It ignores the error, as a careless code option would.
            Some(&ENDLESS) => (0..100).for_each(|_| _ = env.step(1)),
            Some(&BEYOND_MEMORY) => _ = env.load(1 << 20),
            Some(&POLICY) => return Err(Diversion::Policy),
            Some(&MALFORMED) | None => return Err(Diversion::Malformed),
            Some(&EXCEPTION) => return Err(Diversion::Exception(ExceptionCode::Own(3))),
            Some(_) => {}
        }
        Ok(LookupKey::new(&packet[..packet.len().min(14)]))
    }

    fn format(
        &mut self,
        packet: &mut InnerEdit<'_>,
        result: &LookupResult,
        env: &mut CodeEnv<'_>,
    ) -> Result<Formatted, Diversion> {
        let first = packet.bytes().first_chunk::<2>().copied();
        match first {
            Some([PANIC_IN_FORMAT, _]) => panic!("format met {PANIC_IN_FORMAT:#x}"),
            Some([AGAIN, second]) if result.queue != 7 => return Ok(Formatted::Again(LookupKey::new(&[second]))),
            _ => {}
        }
        // The slice counts its sent packets in its memory, and the last byte of the data marks the packet.
        env.add(0, 1)?;
        if let Some(last) = packet.bytes_mut().last_mut() {
            *last = result.data[31];
        }
        Ok(Formatted::Send)
    }
}
