//! The routes behind the forwarding tables: for each prefix the route of every origin. Packets use the best.

use super::fib6::Trie;
use super::route_cache::{Address, Starts, flatten_within};
use super::{Fib4, Outcome};
use prefix_trie::{Prefix, PrefixMap};

/// The origin of a route. Of the routes of one prefix the first in this order is used, with one exception. A neighbour's route replaces a `Connected`
/// outcome of any origin, because it resolves exactly that outcome.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Origin {
    /// An address of the router.
    Local,
    /// The broadcast or network address of a connected prefix.
    Broadcast,
    /// The configuration's routes.
    Static,
    /// Routes added by the API while the router runs, for example by a routing protocol.
    Api,
    /// The prefix of an interface's address.
    Connected,
    /// The kernel's routes, which routing daemons maintain.
    Kernel,
    /// A neighbour whose link-layer address is known.
    Neighbour,
}

impl Origin {
    /// All origins in order of preference.
    pub const ALL: [Origin; 7] = [
        Origin::Local,
        Origin::Broadcast,
        Origin::Static,
        Origin::Api,
        Origin::Connected,
        Origin::Kernel,
        Origin::Neighbour,
    ];

    /// The name in tables and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Origin::Local => "local",
            Origin::Broadcast => "broadcast",
            Origin::Static => "static",
            Origin::Api => "api",
            Origin::Connected => "connected",
            Origin::Kernel => "kernel",
            Origin::Neighbour => "neighbour",
        }
    }
}

/// The routes of one prefix.
#[derive(Clone, Copy, Default)]
pub(super) struct Candidates {
    /// An encoded outcome for each origin, 0 if the origin has none.
    words: [u32; Origin::ALL.len()],
    /// The program that added the kernel's route: see [`RouteReport::protocol`](crate::RouteReport::protocol).
    pub protocol: u8,
}

impl Candidates {
    pub fn get(&self, origin: Origin) -> u32 {
        self.words[origin as usize]
    }

    /// The outcome without neighbours' routes; 0 for none.
    pub fn governing(&self) -> u32 {
        self.iter().find(|(origin, _)| *origin != Origin::Neighbour).map_or(0, |(_, word)| word)
    }

    /// The route that packets use, if any.
    pub fn best(&self) -> Option<(Origin, u32)> {
        let neighbour = self.get(Origin::Neighbour);
        // Any other route to the same prefix decides alone, unless it says that the prefix is connected.
        let open = matches!(Outcome::decode(self.governing()), Outcome::NoRoute | Outcome::Connected(_));
        if neighbour != 0 && open { Some((Origin::Neighbour, neighbour)) } else { self.iter().next() }
    }

    /// The outcome of that route; 0 for none.
    pub fn word(&self) -> u32 {
        self.best().map_or(0, |(_, word)| word)
    }

    /// The routes and their origins in order of preference.
    pub fn iter(&self) -> impl Iterator<Item = (Origin, u32)> + '_ {
        Origin::ALL.into_iter().map(|origin| (origin, self.get(origin))).filter(|(_, word)| *word != 0)
    }
}

/// The changes that a forwarding table supports.
pub(super) trait Forwarding<A> {
    fn insert(&self, prefix: A, length: u8, word: u32);
    fn remove(&self, prefix: A, length: u8, covering: (u8, u32));
}

impl Forwarding<u32> for Fib4 {
    fn insert(&self, prefix: u32, length: u8, word: u32) {
        Fib4::insert(self, prefix, length, word);
    }
    fn remove(&self, prefix: u32, length: u8, covering: (u8, u32)) {
        Fib4::remove(self, prefix, length, covering);
    }
}

impl<const ROOT: u8> Forwarding<u128> for Trie<ROOT> {
    fn insert(&self, prefix: u128, length: u8, word: u32) {
        Trie::insert(self, prefix, length, word);
    }
    fn remove(&self, prefix: u128, length: u8, covering: (u8, u32)) {
        Trie::remove(self, prefix, length, covering);
    }
}

/// The routes of one family. `A` is `u32` or `u128`. Prefixes are (address, length) with no bit set after the length.
pub(super) struct Rib<A>
where
    (A, u8): Prefix,
{
    map: PrefixMap<(A, u8), Candidates>,
    /// Prefixes with a route of an origin other than `Neighbour`.
    said: usize,
}

impl<A: Copy> Rib<A>
where
    (A, u8): Prefix<R = A>,
{
    pub fn new() -> Self {
        Rib { map: PrefixMap::new(), said: 0 }
    }

    /// Sets the route of a prefix from one origin (0 clears it) and updates `fib` with the best route. Returns the origin's previous route.
    pub fn change(&mut self, fib: &impl Forwarding<A>, prefix: (A, u8), origin: Origin, word: u32) -> u32 {
        let mut candidates = self.get(prefix);
        let (old, best) = (candidates.get(origin), candidates.word());
        if old == word {
            return old;
        }
        // Counts the prefix at most once, however many origins have a route for it.
        let said = usize::from(candidates.governing() != 0);
        candidates.words[origin as usize] = word;
        if candidates.get(Origin::Kernel) == 0 {
            candidates.protocol = 0;
        }
        self.said = self.said + usize::from(candidates.governing() != 0) - said;
        if candidates.iter().next().is_some() {
            self.map.insert(prefix, candidates);
        } else {
            self.map.remove(&prefix);
        }
        match candidates.word() {
            // A change of a less preferred route does not concern the forwarding table.
            now if now == best => {}
            0 => fib.remove(prefix.0, prefix.1, self.covering(prefix).map_or((0, 0), |(length, c)| (length, c.word()))),
            now => fib.insert(prefix.0, prefix.1, now),
        }
        old
    }

    /// Notes the program that added the kernel's route of a prefix, if there is such a route.
    pub fn set_protocol(&mut self, prefix: (A, u8), protocol: u8) {
        if let Some(candidates) = self.map.get_mut(&prefix).filter(|routes| routes.get(Origin::Kernel) != 0) {
            candidates.protocol = protocol;
        }
    }

    /// The routes of exactly this prefix.
    pub fn get(&self, prefix: (A, u8)) -> Candidates {
        self.map.get(&prefix).copied().unwrap_or_default()
    }

    /// The outcome of a prefix by its own routes and those that cover it, without neighbours' routes.
    pub fn governing(&self, prefix: (A, u8)) -> u32 {
        match self.get(prefix).governing() {
            0 => self.covering(prefix).map_or(0, |(_, candidates)| candidates.governing()),
            word => word,
        }
    }

    /// The longest shorter prefix that covers this one: its length and routes.
    fn covering(&self, (address, length): (A, u8)) -> Option<(u8, Candidates)> {
        let shorter = <(A, u8)>::from_repr_len(address, length.checked_sub(1)?);
        // The prefixes of the map have no bit set after the length.
        let shorter = <(A, u8)>::from_repr_len(shorter.mask(), shorter.1);
        self.map.get_lpm(&shorter).map(|((_, length), candidates)| (length, *candidates))
    }

    /// The ranges within a prefix, each with the outcome of its packets.
    pub fn ranges_within(&self, prefix: (A, u8)) -> Starts<A>
    where
        A: Address,
    {
        let covering = || self.covering(prefix).map_or(0, |(_, candidates)| candidates.word());
        let word = Some(self.get(prefix).word()).filter(|&word| word != 0).unwrap_or_else(covering);
        let inside = self.map.iter_from(&prefix, true).take_while(|(longer, _)| prefix.contains(longer));
        let inside = inside.map(|((address, length), candidates)| (address, length, candidates.word()));
        flatten_within((prefix.0, prefix.1, word), A::BITS, inside)
    }

    /// The next `count` prefixes in order of address and length. `inclusive` says if `from` itself counts.
    pub fn page(&self, from: (A, u8), inclusive: bool, count: usize) -> Vec<((A, u8), Candidates)> {
        self.map.iter_from(&from, inclusive).take(count).map(|(prefix, c)| (prefix, *c)).collect()
    }

    /// Prefixes with a route.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Prefixes with a route of an origin other than `Neighbour`.
    pub fn configured_len(&self) -> usize {
        self.said
    }

    /// Bytes of memory used.
    pub fn bytes(&self) -> usize {
        self.map.mem_size()
    }
}
