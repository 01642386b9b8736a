//! Rates as LibreQoS writes them: numbers of megabits a second.

use crate::share::SHARE_RATES;
use crate::text::quote;
use units::Rate;

/// A rate in megabits a second, of any number of decimals. `None` for zero and below; the error has a reason and a hint.
pub(super) fn megabits(text: &str) -> Result<Option<Rate>, (String, String)> {
    let hint = || "write megabits a second, like 100 or 2.5".to_string();
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite());
    let value = value.ok_or_else(|| (format!("{} is no number", quote(text)), hint()))?;
    if value <= 0.0 {
        return Ok(None);
    }
    // Exact for all rates in range: a float has 53 bits, and 1 Tbit/s has 40.
    let rate = Rate::bits((value * 1e6).round() as u64);
    match SHARE_RATES.contains(&rate) {
        true => Ok(Some(rate)),
        false => Err((format!("{value} Mbit/s is out of range"), "give 0.001 to 1000000".to_string())),
    }
}
