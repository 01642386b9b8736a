//! Counters, each declared once with its name, its unit and a sentence. Reports, the JSON of the API, its schema, the metrics, the tables
//! and the reference page follow from the declaration.

/// A counter, as people and programs read it. It only grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counter {
    /// Its name with its unit, the same in JSON, in metrics and in tables: `received_packets`.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
}

/// Counters that are counted together, of a path, a port or something like it: made by [`counters!`](crate::counters!).
pub trait CounterSet: Copy + Default {
    /// The declarations, in the order of the fields.
    const COUNTERS: &'static [Counter];

    /// The value of each, in that order.
    fn values(&self) -> impl Iterator<Item = u64>;
    /// The same values, mutable.
    fn values_mut(&mut self) -> impl Iterator<Item = &mut u64>;

    /// Each counter with its value.
    fn each(&self) -> impl Iterator<Item = (&'static Counter, u64)> {
        Self::COUNTERS.iter().zip(self.values())
    }

    /// The difference to `before`, counter by counter; zero where a counter is smaller than it was.
    #[must_use]
    fn since(&self, before: &Self) -> Self {
        let mut since = *self;
        since.values_mut().zip(before.values()).for_each(|(now, before)| *now = now.saturating_sub(before));
        since
    }
}

/// Declares a set of counters: a structure with a `u64` field for each, which adds up and implements [`CounterSet`]. A new counter is one new line.
///
/// ```
/// units::counters! {
///     /// Counters of a bridge.
///     pub struct BridgeCounters {
///         /// Frames flooded.
///         flooded "flooded_packets";
///     }
/// }
/// use units::CounterSet;
/// assert_eq!(BridgeCounters::COUNTERS[0].help, "Frames flooded.");
/// let mut counters = BridgeCounters { flooded: 2 };
/// counters += BridgeCounters { flooded: 1 };
/// assert_eq!(counters.each().map(|(counter, value)| (counter.name, value)).next(), Some(("flooded_packets", 3)));
/// ```
#[macro_export]
macro_rules! counters {
    ($(#[$meta:meta])* pub struct $set:ident { $($(#[doc = $doc:literal])+ $field:ident $name:literal;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct $set { $($(#[doc = $doc])+ pub $field: u64,)* }

        impl $crate::CounterSet for $set {
            const COUNTERS: &'static [$crate::Counter] =
                &[$($crate::Counter { name: $name, help: concat!($($doc),+).trim_ascii() }),*];

            fn values(&self) -> impl Iterator<Item = u64> {
                [$(self.$field),*].into_iter()
            }

            fn values_mut(&mut self) -> impl Iterator<Item = &mut u64> {
                [$(&mut self.$field),*].into_iter()
            }
        }

        impl core::ops::AddAssign for $set {
            fn add_assign(&mut self, other: $set) {
                $(self.$field += other.$field;)*
            }
        }
    };
}
