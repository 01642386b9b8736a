//! Instructions of ephemeral state that an operator has registered, as far as the plane knows of them: who executes one sees
//! the packet's operands and what is under its tags, and answers with a verdict and what to write there.
//!
//! A guest is one (`extension`), and so is any type that implements [`Registered`]: what a program with the router inside gives
//! out as [`plan::Guests`]. Whoever calls them looks at what they answer before it is done (adr/0050).

use plan::Code;
use std::sync::Arc;
use units::Instant;

/// Tags of an instruction at most.
pub const TAGS: usize = 4;
/// Faults after which an instruction is not tried again.
pub const FAULTS: u32 = 3;

/// What a registered instruction sees, and what it leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call {
    /// The time.
    pub now: Instant,
    /// The number by which others know the router.
    pub node: u64,
    /// The packet's operator, 0 to 15.
    pub operator: u8,
    /// The packet's value. Another one goes on with the packet.
    pub value: u64,
    /// What is under its tags, in their order; none where nothing is.
    pub there: [Option<u64>; TAGS],
    /// What is to be there.
    pub written: [Option<u64>; TAGS],
}

impl Call {
    /// Entries that are created where all is written.
    pub fn created(&self) -> usize {
        self.written.iter().zip(&self.there).filter(|(written, there)| written.is_some() && there.is_none()).count()
    }

    /// Whether an instruction that has so many tags, and creates so many entries at most, may write this.
    ///
    /// # Errors
    ///
    /// What it may not.
    pub fn within(&self, tags: u8, creates: u8) -> Result<(), String> {
        if let Some(tag) = (usize::from(tags)..TAGS).find(|tag| self.written[*tag].is_some()) {
            return Err(format!("it writes tag {tag}, and has {tags}"));
        }
        match self.created() {
            created if created > creates.into() => {
                Err(format!("it creates {created} entries, and says that it creates {creates}"))
            }
            _ => Ok(()),
        }
    }
}

/// What becomes of the packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It goes on, with what the call has for a value.
    Forward,
    /// It ends, and nobody is told.
    Drop,
    /// It was not executed: something has to be there that is not. Nothing is written.
    Absent,
    /// It was not executed: it would take away more than there is. Nothing is written.
    Underflow,
}

/// An instruction at work, for one worker.
pub trait Registered: Send {
    /// Executes it once.
    ///
    /// # Errors
    ///
    /// What it did instead: nothing that it asked for is done then, and it is not called again.
    fn execute(&mut self, call: &mut Call) -> Result<Outcome, String>;
}

/// Makes instructions of a kind.
pub trait Instructs: Send + Sync {
    /// One more, or why it does not start.
    fn make(&self) -> Result<Box<dyn Registered>, String>;
}

/// What makes an instruction, for a configuration to carry. `digest` tells it from all others.
pub fn code(digest: u64, instructs: Arc<dyn Instructs>) -> Code {
    Code { digest, maker: Arc::new(instructs) }
}

/// What of a configuration makes an instruction; none where it makes something else.
pub fn instructs(code: &Code) -> Option<&dyn Instructs> {
    code.maker.downcast_ref::<Arc<dyn Instructs>>().map(|instructs| &**instructs)
}

/// What a registered instruction did wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InstructionTrouble {
    /// Which.
    pub instruction: &'static str,
    /// What.
    pub what: String,
    /// It is not tried again until there is another configuration.
    pub for_good: bool,
}
