//! Panics of code that the router runs but does not trust: the caller of that code goes on, and reports the panic itself.
//!
//! A panic runs the hook of the process, which writes a message to the standard error, and perhaps a backtrace. Code that panics on each packet of an
//! attacker would make the worker write all the time. So the hook of [`silence_contained_panics`] writes nothing for panics within [`contain`], and
//! leaves all others to the hook before it.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// True while this thread runs contained code that has not panicked.
    static IS_CONTAINED: Cell<bool> = const { Cell::new(false) };
    /// The place in the source of the last silent panic.
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs `work`. If it panics, returns the message, and the place in the source if the panic was silent.
///
/// State that `work` changes must be discarded after a panic, or be consistent at each point where it may panic.
///
/// # Errors
///
/// The panic.
#[inline]
pub fn contain<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    // Contained code may contain other code.
    let outer = IS_CONTAINED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    IS_CONTAINED.set(outer);
    done.map_err(|panic| {
        let text = panic_text(&*panic);
        match PLACE.take() {
            place if place.is_empty() => text,
            place => format!("{text}, at {place}"),
        }
    })
}

/// The message of a panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    text.unwrap_or("it panicked").to_owned()
}

/// Makes panics within [`contain`] silent in this process.
pub fn silence_contained_panics() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let loud = take_hook();
        set_hook(Box::new(move |panic| {
            // Only the first panic: a second one, while the first one unwinds, aborts the process.
            if !IS_CONTAINED.replace(false) {
                return loud(panic);
            }
            PLACE.replace(panic.location().map(ToString::to_string).unwrap_or_default());
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contained_panics_return_message_and_place() {
        silence_contained_panics();
        assert_eq!(contain(|| 5), Ok(5));
        let expected = format!("at packet 7, at {}:{}:", file!(), line!() + 1);
        let panic = contain(|| panic!("at packet {}", 7));
        assert!(panic.as_ref().is_err_and(|text: &String| text.starts_with(&expected)), "{panic:?}");
    }

    #[test]
    fn code_stays_contained_after_a_panic_within_it() {
        silence_contained_panics();
        let outer = contain(|| {
            let inner = contain(|| panic!("inner"));
            assert!(inner.is_err_and(|text: String| text.starts_with("inner, at ")) && IS_CONTAINED.get());
            panic!("outer");
        });
        assert!(outer.is_err_and(|text: String| text.starts_with("outer, at ")) && !IS_CONTAINED.get());
    }
}
