//! The weights of classes.

/// The weights of classes from zero on. The last one holds for all higher classes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Weights([u8; 8]);

impl Weights {
    /// All weights are one.
    pub const EQUAL: Weights = Weights([1; 8]);

    /// From the value of an option ([`units::declare::Unit::Weights`]).
    pub fn new(packed: u64) -> Weights {
        let mut weights = packed.to_le_bytes();
        let mut last = 1;
        for weight in &mut weights {
            // A zero byte repeats the weight before it.
            last = if *weight == 0 { last } else { *weight };
            *weight = last;
        }
        Weights(weights)
    }

    /// The weight of a class.
    #[inline(always)]
    pub fn of(self, class: u8) -> u32 {
        self.0[usize::from(class.min(7))].into()
    }
}
