//! A code option that tenants of simulated worlds attack with: it routes IPv4 packets by their destination, and fails on some.

use slice::code::{CodeEnv, CodeOption, CodeRegistration, Diversion, Formatted, InnerEdit, LookupKey, LookupResult};

/// The second byte of the destination of packets on which it panics, and of those on which it takes more steps than it declares.
const PANIC: u8 = 255;
const ENDLESS: u8 = 254;

/// Its key is the destination.
pub(super) const FAULTY: CodeRegistration = CodeRegistration {
    name: "faulty",
    summary: "Looks up the destination of an IPv4 packet; it panics on those to 10.255.0.0/16, and does not end on those to 10.254.0.0/16.",
    version: 1,
    key_bytes: 4,
    parse_steps: 8,
    format_steps: 0,
    memory: 0,
    settings: &[],
    make: |_| Ok(Box::new(Faulty)),
};

struct Faulty;

impl CodeOption for Faulty {
    fn parse(&mut self, packet: &[u8], env: &mut CodeEnv<'_>) -> Result<LookupKey, Diversion> {
        let destination = packet.get(16..20).ok_or(Diversion::Malformed)?;
        match destination[1] {
            // Without the panic hook, which would print a message for each.
            PANIC => std::panic::resume_unwind(Box::new("a packet to 10.255.0.0/16")),
            // It ignores the error, as careless code would.
            ENDLESS => (0..100).for_each(|_| _ = env.step(1)),
            _ => {}
        }
        Ok(LookupKey::new(destination))
    }

    fn format(&mut self, _: &mut InnerEdit<'_>, _: &LookupResult, _: &mut CodeEnv<'_>) -> Result<Formatted, Diversion> {
        Ok(Formatted::Send)
    }
}
