//! What a class counts for.

/// The weights of classes from zero on; the last counts for those above, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Weights([u8; 8]);

impl Weights {
    /// All count the same.
    pub const EQUAL: Weights = Weights([1; 8]);

    /// As an option has them ([`units::declare::Unit::Weights`]).
    pub fn new(packed: u64) -> Weights {
        let mut weights = packed.to_le_bytes();
        let mut last = 1;
        for weight in &mut weights {
            last = if *weight == 0 { last } else { *weight };
            *weight = last;
        }
        Weights(weights)
    }

    /// That of a class.
    #[inline(always)]
    pub fn of(self, class: u8) -> u32 {
        self.0[usize::from(class.min(7))].into()
    }
}
