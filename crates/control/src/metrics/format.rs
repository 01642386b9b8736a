//! The two text formats of metrics: OpenMetrics, and the older format of Prometheus (version 0.0.4). The `Accept` field of the request selects one
//! (RFC 9110 12.5.1).

use crate::api::{ApiError, ErrorKind};
use hyper::header::HeaderValue;

/// A format of metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Format {
    /// OpenMetrics 1.0.
    #[default]
    OpenMetrics,
    /// The text format 0.0.4.
    Text,
}

/// All formats, the preferred one first.
const ALL: [Format; 2] = [Format::OpenMetrics, Format::Text];

impl Format {
    /// Returns its media type with parameters.
    pub const fn media(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Returns the preferred format of a caller, from all `Accept` fields of a request.
    pub fn accepted<'a>(fields: impl Iterator<Item = &'a HeaderValue>) -> Result<Format, ApiError> {
        let ranges: Vec<Range> =
            fields.flat_map(|field| field.as_bytes().split(|byte| *byte == b',')).filter_map(Range::parse).collect();
        if ranges.is_empty() {
            return Ok(Format::default());
        }
        let quality = |format: &Format| {
            // The most specific range decides; of equally specific ones the first.
            let fits = ranges.iter().filter_map(|range| Some((range.fits(*format)?, range.thousandths)));
            fits.reduce(|best, next| if next.0 > best.0 { next } else { best }).map_or(0, |(_, quality)| quality)
        };
        let best = ALL.into_iter().rev().max_by_key(quality).filter(|format| quality(format) > 0);
        best.ok_or_else(|| {
            let reason = "the Accept header allows no format of the metrics";
            let hint = "accept application/openmetrics-text (version 1.0.0) or text/plain (version 0.0.4)";
            ApiError::new(ErrorKind::NotAcceptable, reason, hint)
        })
    }

    /// Converts an OpenMetrics page to this format.
    pub fn write(self, page: String) -> String {
        match self {
            Format::OpenMetrics => page,
            Format::Text => text(&page),
        }
    }
}

/// A range of an `Accept` field.
struct Range {
    /// In lower case.
    kind: String,
    version: Option<String>,
    /// Its quality, from 0 to 1000.
    thousandths: u32,
}

impl Range {
    fn parse(text: &[u8]) -> Option<Range> {
        let text = std::str::from_utf8(text).ok()?.to_ascii_lowercase();
        let mut parts = text.split(';').map(str::trim);
        let kind = parts.next().filter(|kind| kind.contains('/'))?.to_owned();
        let mut range = Range { kind, version: None, thousandths: 1000 };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name.trim_end() {
                "version" => range.version = Some(value.trim_matches(['"', ' ']).to_owned()),
                "q" => {
                    let quality = value.trim().parse::<f64>().ok().filter(|q| (0.0..=1.0).contains(q))?;
                    range.thousandths = (quality * 1000.0).round() as u32;
                }
                _ => {}
            }
        }
        Some(range)
    }

    /// Returns how specifically a range matches a format; none if it does not match.
    fn fits(&self, format: Format) -> Option<u32> {
        let (kind, group, version) = match format {
            Format::OpenMetrics => ("application/openmetrics-text", "application/*", "1.0.0"),
            Format::Text => ("text/plain", "text/*", "0.0.4"),
        };
        match (self.kind.as_str(), &self.version) {
            (name, Some(wanted)) if name == kind => (wanted == version).then_some(3),
            (name, None) if name == kind => Some(2),
            (name, _) if name == group => Some(1),
            ("*/*", _) => Some(0),
            _ => None,
        }
    }
}

/// Converts a page to the older format: counters are named like their values, quotes in help texts are not escaped, and there is no end mark.
fn text(page: &str) -> String {
    let mut out = String::with_capacity(page.len() + page.len() / 16);
    // The metric whose help text waits for its type, and that text.
    let mut help: Option<(&str, &str)> = None;
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                same => ("", same),
            };
            if let Some((_, sentence)) = help.take() {
                out.extend(["# HELP ", name, suffix, " ", &sentence.replace("\\\"", "\""), "\n"]);
            }
            out.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
        } else if !line.starts_with('#') {
            out.extend([line, "\n"]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(fields: &[&'static str]) -> Option<Format> {
        let fields: Vec<HeaderValue> = fields.iter().map(|field| HeaderValue::from_static(field)).collect();
        Format::accepted(fields.iter()).ok()
    }

    #[test]
    fn the_preferred_metrics_format_is_sent() {
        const PROMETHEUS_2: &str = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;\
                                    q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        const PROMETHEUS_3: &str = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                                    application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;\
                                    escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        for (fields, expected) in [
            (&[][..], Some(Format::OpenMetrics)),
            (&[""], Some(Format::OpenMetrics)),
            (&["*/*"], Some(Format::OpenMetrics)),
            (&[PROMETHEUS_2], Some(Format::OpenMetrics)),
            (&[PROMETHEUS_3], Some(Format::OpenMetrics)),
            (&["text/plain"], Some(Format::Text)),
            (&["text/plain;version=0.0.4"], Some(Format::Text)),
            (&["Text/Plain; Version=\"0.0.4\" ; q=0.3"], Some(Format::Text)),
            (&["text/*"], Some(Format::Text)),
            (&["text/plain;q=0.4, application/openmetrics-text;q=0.5"], Some(Format::OpenMetrics)),
            (&["text/plain;q=0.5, application/openmetrics-text;q=0.4"], Some(Format::Text)),
            (&["text/plain;q=0.5", "application/openmetrics-text;q=0.4"], Some(Format::Text)),
            (&["application/openmetrics-text;q=0, */*;q=0.1"], Some(Format::Text)),
            (&["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"], Some(Format::OpenMetrics)),
            (&["application/json"], None),
            (&["text/plain;version=1.0.0"], None),
            (&["application/openmetrics-text;version=0.0.1"], None),
            (&["*/*;q=0"], None),
            (&["nonsense"], Some(Format::OpenMetrics)),
        ] {
            assert_eq!(accepted(fields), expected, "{fields:?}");
        }
    }

    #[test]
    fn text_format_uses_value_names_for_counters() {
        let page = "# HELP a_b Of \\\"x\\\".\n# TYPE a_b counter\na_b_total{l=\"\\\"\"} 1\n# HELP g G.\n# TYPE g gauge\n\
                    # UNIT g seconds\ng 2\n# HELP h H.\n# TYPE h histogram\nh_sum 1.0\nh_count 2\n\
                    h_bucket{le=\"+Inf\"} 2\n# EOF\n";
        let expected = "# HELP a_b_total Of \"x\".\n# TYPE a_b_total counter\na_b_total{l=\"\\\"\"} 1\n# HELP g G.\n\
                        # TYPE g gauge\ng 2\n# HELP h H.\n# TYPE h histogram\nh_sum 1.0\nh_count 2\n\
                        h_bucket{le=\"+Inf\"} 2\n";
        assert_eq!(Format::Text.write(page.into()), expected);
        assert_eq!(Format::OpenMetrics.write(page.into()), page);
    }
}
