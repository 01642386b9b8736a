//! @NAME@: drops packets longer than a limit, and counts the length of the longest one.
//!
//! ```sh
//! switchpath guest build          # builds @NAME@.wasm and checks it
//! cargo test                      # tests it natively
//! ```

#![cfg_attr(not(test), no_std)]

use switchpath_guest::{Needs, Options, Packet, PacketFunction, String, Verdict, count, function};

function! {
    "summary Drops packets longer than a limit.\n\
    option limit size 1400b 20 65535 The longest packet, from its IP header on.\n\
    counter longest packet dropped",
    Limit
}

/// The options, in the order of the description.
const LIMIT: usize = 0;
/// The counters, in the order of the description.
const LONGEST: u32 = 0;

struct Limit {
    limit: usize,
}

impl PacketFunction for Limit {
    // The record of a packet suffices. `Needs { bytes: 128, ..Needs::NOTHING }` shows its first bytes, too.
    const NEEDS: Needs = Needs::NOTHING;
    /// The length of the longest packet so far. It survives a new build of this function.
    type State = usize;
    const INITIAL: usize = 0;

    fn start(options: &Options) -> Result<Limit, String> {
        Ok(Limit { limit: options.value(LIMIT) as usize })
    }

    fn process(&mut self, longest: &mut usize, packet: &mut Packet<'_>) -> Verdict {
        let length = packet.length();
        if length <= self.limit {
            return Verdict::Pass;
        }
        if length > *longest {
            count(LONGEST, (length - *longest) as u64);
            *longest = length;
        }
        Verdict::Drop
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchpath_guest::TestPacket;

    #[test]
    fn a_packet_above_the_limit_is_dropped_and_the_longest_one_is_kept() {
        let (mut limit, mut longest) = (Limit { limit: 100 }, 0);
        let mut verdict =
            |length: usize| limit.process(&mut longest, &mut TestPacket::new(&vec![0; length], (0, 0), 0).packet());
        assert_eq!(
            [100, 101, 300, 200].map(&mut verdict),
            [Verdict::Pass, Verdict::Drop, Verdict::Drop, Verdict::Drop]
        );
        assert_eq!(longest, 300);
    }
}
