//! The code option of a slice with its settings: what workers need to make instances of it.

use super::{CodeConfig, CodeOption, CodeRegistration, GuestCodeOption};
use crate::memory::SliceMemory;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

type MakeCode = dyn Fn(&SliceMemory) -> Result<Box<dyn CodeOption>, String> + Send + Sync;

/// See the [module](self). Clones share the instances that are ready.
#[derive(Clone)]
pub(crate) struct SliceCode {
    /// Its name.
    pub name: String,
    pub version: u32,
    /// A hash of a guest's module; `None` for a code option of this program.
    pub digest: Option<u64>,
    pub key_bytes: usize,
    pub parse_steps: u32,
    pub format_steps: u32,
    /// The bytes of slice memory that it needs at least.
    pub memory: usize,
    make: Arc<MakeCode>,
    ready: Arc<Mutex<Vec<Box<dyn CodeOption>>>>,
}

impl fmt::Debug for SliceCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SliceCode {} {}", self.name, self.version)
    }
}

impl SliceCode {
    /// A code option of this program.
    pub fn native(code: &'static CodeRegistration, config: CodeConfig) -> SliceCode {
        SliceCode {
            name: code.name.to_owned(),
            version: code.version,
            digest: None,
            key_bytes: code.key_bytes,
            parse_steps: code.parse_steps,
            format_steps: code.format_steps,
            memory: code.memory,
            make: Arc::new(move |memory| {
                let mut made = (code.make)(&config)?;
                made.attach(memory);
                Ok(made)
            }),
            ready: Arc::default(),
        }
    }

    /// A guest under this name, with the values of its options.
    pub fn guest(name: String, digest: u64, guest: Arc<dyn GuestCodeOption>, options: Vec<u64>) -> SliceCode {
        SliceCode {
            name,
            version: guest.version(),
            digest: Some(digest),
            key_bytes: super::KEY_BYTES,
            // A guest has a limit of its own for each call.
            parse_steps: 0,
            format_steps: 0,
            memory: guest.memory(),
            make: Arc::new(move |memory| guest.make(&options, memory)),
            ready: Arc::default(),
        }
    }

    /// The same description for another way to make instances.
    pub fn made_by(
        &self,
        make: impl Fn(&SliceMemory) -> Result<Box<dyn CodeOption>, String> + Send + Sync + 'static,
    ) -> SliceCode {
        SliceCode { make: Arc::new(make), ready: Arc::default(), ..self.clone() }
    }

    /// The same with instances that are made in advance for a slice with this memory. A guest is slow to start, and a worker must not wait for it.
    ///
    /// # Errors
    /// Why it does not start.
    pub fn prepared(&self, memory: &SliceMemory, count: usize) -> Result<SliceCode, String> {
        let made = (0..count).map(|_| self.start(memory)).collect::<Result<Vec<_>, String>>()?;
        Ok(SliceCode { ready: Arc::new(Mutex::new(made)), ..self.clone() })
    }

    /// Makes an instance that was not prepared.
    ///
    /// # Errors
    /// Why it does not start.
    pub fn start(&self, memory: &SliceMemory) -> Result<Box<dyn CodeOption>, String> {
        (self.make)(memory)
    }

    /// Makes an instance for a worker, with the memory that it was prepared for.
    ///
    /// # Errors
    /// Why it does not start.
    pub fn make(&self, memory: &SliceMemory) -> Result<Box<dyn CodeOption>, String> {
        let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner).pop();
        ready.map_or_else(|| self.start(memory), Ok)
    }
}
