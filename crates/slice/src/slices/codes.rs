//! The code options of slices: built in or guests, and their replacement while packets flow.

use super::{Slice, Slices};
use crate::code::{CodeConfig, CodeRegistration, DoubleRunCounts, SliceCode, double_run, guest_of};
use crate::spec::SliceError;
use plan::{Call, Guests};
use std::sync::Arc;

/// The beginning of a guest's name.
const GUEST: &str = "guest:";

/// How a code option takes the place of another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CodeSwap {
    /// At once: batches under way end with the old one.
    Drain,
    /// Not yet: of each so many packets one is processed by both, and the results are compared.
    Double(u32),
}

impl Slice {
    /// Checks that its memory suffices for another code option, and that each filter fits the new keys.
    fn check_code(&self, code: &SliceCode) -> Result<(), SliceError> {
        let memory = self.state.memory.size();
        if memory < code.memory {
            let reason = format!("the code option '{}' needs {} bytes of memory", code.name, code.memory);
            return Err(SliceError::new(reason, format!("the slice has {memory}: make another slice")));
        }
        match self.longest_key() {
            Some((position, length)) if length > code.key_bytes => {
                let reason = format!("the filter at position {position} needs keys of {length} bytes");
                let hint = format!("keys of the code option '{}' have {}: delete it first", code.name, code.key_bytes);
                Err(SliceError::new(reason, hint))
            }
            _ => Ok(()),
        }
    }
}

/// The code options that slices may use.
pub(super) struct CodeCatalogue {
    pub codes: Vec<&'static CodeRegistration>,
    pub guests: Option<Arc<dyn Guests>>,
}

impl CodeCatalogue {
    /// The code option of this name with these settings. It was not started yet.
    pub fn find(&self, text: &str, config: &CodeConfig) -> Result<SliceCode, SliceError> {
        if let Some(guest) = text.strip_prefix(GUEST) {
            return self.guest(guest.split('(').next().unwrap_or_default(), text, config);
        }
        let Some(code) = self.codes.iter().copied().find(|code| code.name == text) else {
            let names = self.codes.iter().map(|code| code.name);
            let reason = format!("there is no code option '{text}'");
            return Err(SliceError::new(reason, plan::did_you_mean(text, names)));
        };
        for (setting, _) in &config.0 {
            if !code.settings.iter().any(|(known, _)| known == setting) {
                let reason = format!("the code option '{}' has no setting '{setting}'", code.name);
                let names = code.settings.iter().map(|(name, _)| *name);
                return Err(SliceError::new(reason, plan::did_you_mean(setting, names)));
            }
        }
        Ok(SliceCode::native(code, config.clone()))
    }

    fn guest(&self, name: &str, text: &str, config: &CodeConfig) -> Result<SliceCode, SliceError> {
        let Some(guests) = &self.guests else {
            let hint = "start it with `switchpath run --guests DIR`";
            return Err(SliceError::new("the router has no directory of guests", hint));
        };
        let (declaration, code) = guests.code_option(name).map_err(|(reason, hint)| SliceError::new(reason, hint))?;
        let settings: Vec<String> = config.0.iter().map(|(name, text)| format!("{name}={text}")).collect();
        let whole = if settings.is_empty() { text.to_owned() } else { format!("{text}({})", settings.join(",")) };
        let call = Call::parse(&whole, &[declaration], "guest");
        let call = call.map_err(|wrong| SliceError::new(wrong.reason, wrong.hint))?;
        let Some(guest) = guest_of(&code) else {
            return Err(SliceError::new(format!("'{name}' is no code option"), "see docs/operate/guest-slices.md"));
        };
        let options = call.options.iter().map(|(_, value)| *value).collect();
        Ok(SliceCode::guest(call.name.to_owned(), code.digest, guest.clone(), options))
    }
}

impl Slices {
    /// Makes guests available as code options.
    pub fn set_guests(&mut self, guests: Option<Arc<dyn Guests>>) {
        self.catalogue.guests = guests;
    }

    /// Gives a slice another code option, or compares one with the present. No packet is lost, and memory, filters and counters stay. A failed slice is
    /// started again.
    ///
    /// # Errors
    /// There is no such slice or code option, it refuses its settings or does not start, or the memory or a filter of the slice does not fit. The slice
    /// keeps its code option.
    pub fn set_code(
        &mut self,
        name: &str,
        (text, config): (&str, CodeConfig),
        swap: CodeSwap,
    ) -> Result<(), SliceError> {
        self.recover();
        let code = self.catalogue.find(text, &config)?;
        let slice = self.slice_mut(name)?;
        slice.check_code(&code)?;
        let memory = slice.state.memory.clone();
        let counts = Arc::new(DoubleRunCounts::default());
        let next = match swap {
            CodeSwap::Drain => code.clone(),
            CodeSwap::Double(0) => {
                return Err(SliceError::new("a sample of each 0 packets", "write `double 1` for all packets"));
            }
            CodeSwap::Double(sample) => {
                let copy = memory.copy().detached();
                double_run((&slice.code, code.clone()), (sample, copy), counts.clone())
            }
        };
        // One for each function instance, so that no worker waits for the start of a guest.
        let running = slice.state.running().max(1);
        let refused =
            |reason| SliceError::new(format!("{text}: {reason}"), "correct it; the slice keeps its code option");
        let next = next.prepared(&memory, running).map_err(refused)?;
        match swap {
            CodeSwap::Drain => {
                slice.spec.code = text.to_owned();
                slice.spec.config = config;
                slice.code = code;
                slice.double_run = None;
            }
            CodeSwap::Double(_) => slice.double_run = Some(counts),
        }
        self.renew(name, next, memory);
        Ok(())
    }
}
