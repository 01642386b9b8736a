//! All code options on bytes from outside, and the rules that hold for each.

use super::{CODE_OPTIONS, CodeEnv, CodeOption, CodeRegistration, DATA_BYTES, Diversion, InnerEdit, LookupResult};
use crate::memory::SliceMemory;
use packet::{Pool, Region};

/// Runs all code options on unchecked packets.
pub struct CodeExercise {
    codes: Vec<(&'static CodeRegistration, Box<dyn CodeOption>)>,
    memory: SliceMemory,
    pool: Pool,
}

impl Default for CodeExercise {
    fn default() -> Self {
        let memory = SliceMemory::new(CODE_OPTIONS.iter().map(|code| code.memory).max().unwrap_or(0));
        let make = |code: &'static CodeRegistration| {
            let mut made = (code.make)(&Default::default()).expect("a code option needs no settings");
            made.attach(&memory);
            (code, made)
        };
        CodeExercise { codes: CODE_OPTIONS.iter().map(make).collect(), memory, pool: Pool::new(Region::new(1)) }
    }
}

impl CodeExercise {
    /// Runs all code options on an input: data of a filter, then a packet. The formatter also gets packets that the parser refuses, as the slow path
    /// may send them.
    ///
    /// Panics if one does, uses more than its steps, accesses memory that it did not ask for, or changes a packet before it leaves it to the slow path.
    pub fn run(&mut self, input: &[u8]) {
        let (start, bytes) = input.split_at(input.len().min(DATA_BYTES));
        let mut data = [0; DATA_BYTES];
        data[..start.len()].copy_from_slice(start);
        for (code, option) in &mut self.codes {
            let mut env = CodeEnv::new(&self.memory, 3, code.parse_steps);
            let _ = option.parse(bytes, &mut env);
            assert_eq!(env.fault(), None, "the parser of {}", code.name);
            let Some(mut packet) = self.pool.take() else { panic!("each frame is given back") };
            if packet.fill(bytes) {
                let mut env = CodeEnv::new(&self.memory, 3, code.format_steps);
                let result = LookupResult { queue: 0, interface: 0, data };
                let formatted = option.format(&mut InnerEdit::new(&mut packet), &result, &mut env);
                assert_eq!(env.fault(), None, "the formatter of {}", code.name);
                let is_exception = matches!(formatted, Err(Diversion::Exception(_)));
                assert!(!is_exception || packet.bytes() == bytes, "{} changes an exception", code.name);
            }
            self.pool.give(packet);
        }
    }
}
