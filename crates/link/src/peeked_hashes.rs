//! Flow hashes that were computed before the turn of their packets, so that they are not computed twice.

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct PeekedHashes {
    hashes: [u32; 32],
    /// The index of the first hash, which only grows, and the number of hashes.
    first: usize,
    count: usize,
}

impl PeekedHashes {
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.count
    }

    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.count == self.hashes.len()
    }

    #[inline(always)]
    pub fn add(&mut self, hash: u32) {
        self.hashes[(self.first + self.count) % self.hashes.len()] = hash;
        self.count += 1;
    }

    #[inline(always)]
    pub fn pop(&mut self) -> Option<u32> {
        self.count = self.count.checked_sub(1)?;
        let hash = self.hashes[self.first % self.hashes.len()];
        // 2^64 is a multiple of the 32 places, so the places stay in order when the index wraps.
        self.first = self.first.wrapping_add(1);
        Some(hash)
    }
}
