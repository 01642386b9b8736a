//! The rules of a path's function `filter`.

pub(crate) mod rule;

use super::support;
use crate::Call;
use crate::connected::Connected;
use crate::diagnostic::Report;
use crate::document::Section;
use crate::text::TextError;
use rule::FilterRule;

/// Limit of rules of one packet filter.
pub(super) const MOST_RULES: usize = 1024;

/// The rules of a path's function `filter`; a path without the function has none.
pub(super) fn check(
    report: &mut Report<'_>,
    section: &Section<'_>,
    connected: &Connected,
    functions: &[Call],
) -> Vec<FilterRule> {
    let filters = functions.iter().any(|call| call.name == "filter");
    let Some(given) = section.node("filter") else {
        if filters {
            report.error(section.span.clone(), section.path, || {
                let hint = "add rules, of which the first match decides: filter = [\"tcp dport 22 accept\", \"drop\"]";
                ("the function 'filter' has no rules".to_string(), hint.to_string())
            });
        }
        return Vec::new();
    };
    if !filters && report.error_count() == 0 {
        report.error(given.span.clone(), given.path, || {
            let hint = "name it: functions = [\"filter\", \"ip\"]";
            ("there are rules, but the path does not have the function 'filter'".to_string(), hint.to_string())
        });
    }
    let surplus = |most| {
        let hint = "merge rules with sets, or use several paths".to_string();
        (format!("a filter has at most {most} rules"), hint)
    };
    section.texts(report, "filter", surplus, "\"tcp dport 22 accept\"", |report, text| {
        let checked = |rule| support::refuse_rule(text.value, &rule).map(|()| rule);
        let rule = FilterRule::parse(text.value).and_then(checked).map_err(|error| text.wrong(report, error)).ok()?;
        let unknown =
            rule.matching.iif.as_deref().filter(|name| connected.interface(name).is_none() && !connected.incomplete);
        if let Some(name) = unknown {
            let (reason, hint) = connected.no_interface(name);
            let offset = text.value.find(name).unwrap_or(0);
            text.wrong(report, TextError { offset, length: name.len(), reason, hint });
        }
        Some(rule)
    })
}
