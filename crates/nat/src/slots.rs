//! Reusable slots, and hash tables of slot numbers. All memory is allocated at creation, never per packet.

/// No slot.
pub const NONE: u32 = u32::MAX;

/// The hash of a protocol and two keys of 48 bits. `secret` keeps peers, who choose ports, from choosing hashes.
#[inline]
pub(super) fn keyed_hash(secret: u64, protocol: u8, one: u64, other: u64) -> u64 {
    let mix = |mut z: u64| {
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    };
    // An end has 48 bits, so the protocol does not overlap it.
    mix(mix(one ^ u64::from(protocol) << 56 ^ secret) ^ other)
}

/// A chained hash table of slot numbers.
#[derive(Clone, Debug)]
pub(super) struct Index {
    heads: Box<[u32]>,
    next: Box<[u32]>,
}

impl Index {
    pub fn new(slots: usize) -> Index {
        // A power of two, so that a mask selects the bucket. At least a bucket per slot, so that chains are short.
        let heads = vec![NONE; slots.next_power_of_two().max(2)].into_boxed_slice();
        Index { heads, next: vec![NONE; slots].into_boxed_slice() }
    }

    fn bucket(&self, hash: u64) -> usize {
        hash as usize & (self.heads.len() - 1)
    }

    #[inline]
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut slot = self.heads[self.bucket(hash)];
        while slot != NONE {
            if is_it(slot) {
                return Some(slot);
            }
            slot = self.next[slot as usize];
        }
        None
    }

    pub fn insert(&mut self, hash: u64, slot: u32) {
        let bucket = self.bucket(hash);
        self.next[slot as usize] = self.heads[bucket];
        self.heads[bucket] = slot;
    }

    pub fn remove(&mut self, hash: u64, slot: u32) {
        let bucket = self.bucket(hash);
        let next = self.next[slot as usize];
        if self.heads[bucket] == slot {
            self.heads[bucket] = next;
            return;
        }
        let mut at = self.heads[bucket];
        while at != NONE {
            if self.next[at as usize] == slot {
                self.next[at as usize] = next;
                return;
            }
            at = self.next[at as usize];
        }
    }
}

/// Values in reusable slots.
#[derive(Debug)]
pub(super) struct Slots<T> {
    pub values: Vec<T>,
    pub free: Vec<u32>,
    pub most: usize,
}

impl<T: Copy> Slots<T> {
    pub fn new(most: usize) -> Slots<T> {
        Slots { values: Vec::with_capacity(most), free: Vec::with_capacity(most), most }
    }

    pub fn take(&mut self, value: T) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            self.values[slot as usize] = value;
            return Some(slot);
        }
        // Within the capacity reserved at creation: this never allocates.
        if self.values.len() == self.most {
            return None;
        }
        self.values.push(value);
        Some(self.values.len() as u32 - 1)
    }

    pub fn used(&self) -> usize {
        self.values.len() - self.free.len()
    }
}
