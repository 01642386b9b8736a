//! Axes: their ticks, and the position of a value.

/// Approximate number of ticks.
const TICKS: f64 = 6.0;
/// An axis with at most this many distinct values has a tick for each of them.
const FEW: usize = 7;

/// Maps values to positions from 0 to 1, with ticks.
#[derive(Clone, PartialEq, Debug)]
pub struct Scale {
    from: f64,
    to: f64,
    log: bool,
    /// The values that have a tick.
    pub ticks: Vec<f64>,
}

impl Scale {
    /// A scale for these values, from `min` to `max` if given. A logarithmic scale skips values that are not positive.
    pub fn new(values: &[f64], min: Option<f64>, max: Option<f64>, log: bool) -> Scale {
        let usable: Vec<f64> = values.iter().copied().filter(|v| v.is_finite() && (!log || *v > 0.0)).collect();
        let least = usable.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = usable.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (least, greatest) = if least > greatest { (0.1, 1.0) } else { (least, greatest) };
        let positive = |bound: Option<f64>| bound.filter(|b| !log || *b > 0.0);
        if log {
            Scale::logarithmic(&usable, positive(min).unwrap_or(least), positive(max).unwrap_or(greatest))
        } else {
            // Start at zero if the values start near it: lengths are then comparable.
            let from = min.unwrap_or(if least >= 0.0 && least < 0.6 * greatest { 0.0 } else { least });
            Scale::linear(from, max.unwrap_or(greatest), min.is_some(), max.is_some())
        }
    }

    fn linear(from: f64, to: f64, keep_from: bool, keep_to: bool) -> Scale {
        let to = if to > from { to } else { from + from.abs().max(1.0) * 0.1 };
        let rough = (to - from) / TICKS;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|n| n * power).find(|s| *s >= rough).unwrap_or(rough);
        let from = if keep_from { from } else { (from / step + 1e-9).floor() * step };
        let to = if keep_to { to } else { (to / step - 1e-9).ceil() * step };
        let first = (from / step - 1e-9).ceil() as i64;
        let last = (to / step + 1e-9).floor() as i64;
        Scale { from, to, log: false, ticks: (first..=last).map(|n| n as f64 * step).collect() }
    }

    fn logarithmic(values: &[f64], from: f64, to: f64) -> Scale {
        let to = if to > from { to } else { from * 10.0 };
        let mut different = values.to_vec();
        different.sort_by(f64::total_cmp);
        different.dedup();
        let within = |v: &f64| *v >= from * (1.0 - 1e-9) && *v <= to * (1.0 + 1e-9);
        let ticks = if different.len() <= FEW {
            different.into_iter().filter(within).collect()
        } else {
            let decades = (from.log10().floor() as i32)..=(to.log10().ceil() as i32);
            let steps: &[f64] = if to / from > 2000.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
            decades.flat_map(|d| steps.iter().map(move |s| s * 10f64.powi(d))).filter(within).collect()
        };
        // A small margin, so that the outermost points do not lie on the frame.
        let air = (to / from).powf(0.03);
        Scale { from: from / air, to: to * air, log: true, ticks }
    }

    /// The position of a value: from 0 to 1 within the axis, outside of that beyond it.
    pub fn place(&self, value: f64) -> f64 {
        if self.log {
            (value.max(f64::MIN_POSITIVE) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        }
    }

    /// The text of a tick: just enough digits to distinguish neighbours, with thousands separated.
    pub fn written(&self, tick: f64) -> String {
        let exact = |digits: usize| {
            let shown: Vec<f64> =
                self.ticks.iter().map(|t| format!("{t:.digits$}").parse().unwrap_or(f64::NAN)).collect();
            self.ticks.iter().zip(shown).all(|(t, s)| (t - s).abs() <= 1e-6 * t.abs().max(1e-9))
        };
        let digits = (0..6).find(|&digits| exact(digits)).unwrap_or(6);
        let text = if self.log { format!("{}", (tick * 1e9).round() / 1e9) } else { format!("{tick:.digits$}") };
        thousands(&text)
    }
}

/// `20000` as `20 000`, with a narrow space.
fn thousands(text: &str) -> String {
    let (whole, fraction) = text.split_once('.').map_or((text, None), |(w, f)| (w, Some(f)));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("\u{2212}", digits));
    let mut out = String::from(sign);
    for (at, digit) in digits.char_indices() {
        if at > 0 && digits.len() > 4 && (digits.len() - at) % 3 == 0 {
            out.push('\u{2009}');
        }
        out.push(digit);
    }
    fraction.map_or(out.clone(), |fraction| format!("{out}.{fraction}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[f64], min: Option<f64>, max: Option<f64>, log: bool, ticks: &str) {
        let scale = Scale::new(values, min, max, log);
        let written: Vec<String> = scale.ticks.iter().map(|tick| scale.written(*tick)).collect();
        assert_eq!(written.join(" | "), ticks, "{values:?}");
    }

    #[test]
    fn ticks_are_round_and_few() {
        check(&[3.0, 420.0], None, None, false, "0 | 100 | 200 | 300 | 400 | 500");
        check(&[0.58, 0.95], None, None, false, "0.5 | 0.6 | 0.7 | 0.8 | 0.9 | 1.0");
        check(&[0.2, 0.95], Some(0.0), Some(1.0), false, "0.0 | 0.2 | 0.4 | 0.6 | 0.8 | 1.0");
        check(&[0.0, 61_000.0], None, None, false, "0 | 20\u{2009}000 | 40\u{2009}000 | 60\u{2009}000 | 80\u{2009}000");
        check(&[1.0, 8.0, 16.0, 32.0, 64.0], None, None, true, "1 | 8 | 16 | 32 | 64");
        check(&[0.0, 5.0], None, None, true, "5");
        let many: Vec<f64> = (1..100).map(f64::from).collect();
        check(&many, None, None, true, "1 | 2 | 5 | 10 | 20 | 50");
    }

    #[test]
    fn axis_covers_all_values() {
        for values in [&[][..], &[0.0], &[-5.0, -5.0], &[1e-12, 1e12], &[f64::NAN, f64::INFINITY]] {
            for log in [false, true] {
                let scale = Scale::new(values, None, None, log);
                assert!(scale.ticks.len() <= 30, "{scale:?}");
                for value in values.iter().filter(|v| v.is_finite() && (!log || **v > 0.0)) {
                    assert!((0.0..=1.0).contains(&scale.place(*value)), "{value} {scale:?}");
                }
            }
        }
    }
}
