//! The report of an experiment: claims with verdicts, tables and plots.

use super::Experiment;
use super::agreement::{Agreement, PublishedFigure, VerdictCounts, is_within};
use super::expression::{Evaluator, ExpressionValue};
use super::file::{Axis, Claim, Column, Document, Line, Plot, Reference, TableDefinition};
use super::parameters::{Parameters, substitute};
use super::runner::{CompletedRun, Runner};
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The report of an experiment.
#[derive(Clone, Debug, Serialize)]
pub struct ExperimentReport {
    /// The paper.
    pub paper: String,
    /// The experiment.
    pub experiment: String,
    /// Its subject.
    pub title: String,
    /// The question that it answers.
    pub question: String,
    /// Its method.
    pub method: String,
    /// The place of the published result.
    pub published: String,
    /// The name of the runner.
    pub measured_by: String,
    /// The number of runs.
    pub runs: usize,
    /// Remarks about the runs, one line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// The claims.
    pub verdicts: Vec<ClaimVerdict>,
    /// The tables.
    pub tables: Vec<Grid>,
    /// The plots.
    pub pictures: Vec<Picture>,
    /// Errors in expressions of tables and plots.
    pub errors: Vec<String>,
}

impl ExperimentReport {
    /// True if every expression could be evaluated, and every claim whose published figure is missed gives the reason.
    pub fn is_explained(&self) -> bool {
        let unexplained = |verdict: &ClaimVerdict| verdict.verdict.is_missed() && verdict.differs.is_none();
        self.errors.is_empty() && !self.verdicts.iter().any(|v| v.error.is_some() || unexplained(v))
    }

    /// The number of claims with each verdict.
    pub fn verdict_counts(&self) -> VerdictCounts {
        self.verdicts.iter().map(|verdict| verdict.verdict).collect()
    }
}

/// A claim with its verdict.
#[derive(Clone, Debug, Serialize)]
pub struct ClaimVerdict {
    /// The name of the claim.
    pub claim: String,
    /// The claim in one sentence.
    pub text: String,
    /// The published figure.
    pub published: Option<PublishedFigure>,
    /// The measured figure; none if the expression could not be evaluated.
    pub measured: Option<ExpressionValue>,
    /// The measured figure as printed.
    pub shown: String,
    /// Its unit.
    pub unit: String,
    /// The verdict.
    pub verdict: Agreement,
    /// The reason for a missed figure.
    pub differs: Option<String>,
    /// An error in its expressions, with the position.
    pub error: Option<String>,
}

/// A table, as it is printed.
#[derive(Clone, Debug, Serialize)]
pub struct Grid {
    /// Its title.
    pub title: String,
    /// The headings of its columns.
    pub columns: Vec<String>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
    /// True if it is printed with the verdicts.
    #[serde(skip)]
    pub printed: bool,
}

/// A plot with its data.
#[derive(Clone, Debug, Serialize)]
pub struct Picture {
    /// The name of its files.
    pub id: String,
    /// Its title.
    pub title: String,
    /// The figure of the paper to compare with.
    pub published: String,
    /// The horizontal axis.
    #[serde(skip)]
    pub x: Axis,
    /// The vertical axis.
    #[serde(skip)]
    pub y: Axis,
    /// The measured curves.
    pub curves: Vec<Curve>,
    /// The published points and levels.
    #[serde(skip)]
    pub references: Vec<Reference>,
}

/// A curve of a plot.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// Its name.
    pub label: String,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// Formats a value for print, with `digits` decimals, or by default with as many as are meaningful for its magnitude.
pub fn format_value(answer: &ExpressionValue, digits: Option<usize>) -> String {
    match answer {
        ExpressionValue::Flag(flag) => String::from(if *flag { "yes" } else { "no" }),
        ExpressionValue::Text(text) => text.clone(),
        ExpressionValue::List(list) => list.iter().map(|item| format_value(item, digits)).collect::<Vec<_>>().join(" "),
        ExpressionValue::Number(number) => {
            let digits = digits.unwrap_or(match number.abs() {
                n if n >= 1000.0 => 0,
                n if n >= 100.0 => 1,
                n if n >= 10.0 => 2,
                _ => 3,
            });
            let text = format!("{number:.digits$}");
            // A number that rounds to zero is printed without a sign.
            match text.strip_prefix('-') {
                Some(rest) if rest.chars().all(|c| c == '0' || c == '.') => rest.to_owned(),
                _ => text,
            }
        }
    }
}

pub(super) fn report(experiment: &Experiment, runs: Vec<CompletedRun>, runner: &dyn Runner) -> ExperimentReport {
    let document = &experiment.document;
    let mut remarks = runner.remarks(&runs);
    let claims = if runner.is_real() { claims_of_real(document, &mut remarks) } else { claims_of_virtual(document) };
    let runs: Vec<Arc<CompletedRun>> = runs.into_iter().map(Arc::new).collect();
    let mut report = ExperimentReport {
        paper: document.paper.clone(),
        experiment: document.experiment.clone(),
        title: document.title.clone(),
        question: document.question.clone(),
        method: document.method.clone(),
        published: document.published.clone(),
        measured_by: runner.name().to_owned(),
        runs: runs.len(),
        remarks,
        verdicts: Vec::new(),
        tables: Vec::new(),
        pictures: Vec::new(),
        errors: Vec::new(),
    };
    let mut undecided: Vec<String> = Vec::new();
    for (case, runs) in cases(&document.each, runs) {
        let common = Common::of(&runs);
        let mut reader = ReportBuilder { evaluator: Evaluator::default(), runs, common, errors: Vec::new() };
        let more = reader.add(document, &claims, &case, &mut report);
        undecided.extend(more.into_iter().map(|claim| format!("`{claim}`")));
    }
    // Each claim once, even if several cases cannot decide it.
    let mut known = BTreeSet::new();
    undecided.retain(|claim| known.insert(claim.clone()));
    match &undecided[..] {
        [] => {}
        [claim] => report.remarks.push(format!("so few runs do not decide claim {claim}")),
        claims => report.remarks.push(format!("so few runs do not decide {}", claims.join(", "))),
    }
    report
}

/// The runs of each case with its name, in the order of the first run of each.
fn cases(each: &[String], runs: Vec<Arc<CompletedRun>>) -> Vec<(String, Vec<Arc<CompletedRun>>)> {
    let mut cases: Vec<(String, Vec<Arc<CompletedRun>>)> = Vec::new();
    for run in runs {
        let values = each.iter().filter_map(|name| run.parameters.get(name)).map(ToString::to_string);
        let case = values.collect::<Vec<_>>().join(", ");
        match cases.iter_mut().find(|(known, _)| *known == case) {
            Some((_, runs)) => runs.push(run),
            None => cases.push((case, vec![run])),
        }
    }
    if cases.is_empty() {
        cases.push((String::new(), Vec::new()));
    }
    cases
}

/// The claims in virtual time.
pub(super) fn claims_of_virtual(document: &Document) -> Vec<Claim> {
    let everywhere = |claim: &&Claim| claim.real.as_ref().is_none_or(|real| !real.only);
    document.claims.iter().filter(everywhere).cloned().collect()
}

/// The claims on real packets. Remarks list the claims that are left out or changed.
pub(super) fn claims_of_real(document: &Document, remarks: &mut Vec<String>) -> Vec<Claim> {
    let mut claims = Vec::new();
    for claim in &document.claims {
        let mut claim = claim.clone();
        if let Some(real) = claim.real.take().filter(|real| !real.only) {
            if real.holds.is_none() && real.tolerance.is_none() {
                remarks.push(format!("claim `{}` applies to virtual time only: {}", claim.id, real.why));
                continue;
            }
            claim.differs = Some(real.why.clone());
            let was = claim.holds.take().map(|holds| holds.split_whitespace().collect::<Vec<_>>().join(" "));
            let was = was.or(claim.tolerance.map(|part| format!("within {part} of the published value")));
            remarks.push(format!(
                "claim `{}` holds here where {}, in virtual time where {}: {}",
                claim.id,
                real.holds.clone().or(real.tolerance.map(|part| format!("within {part}"))).unwrap_or_default(),
                was.unwrap_or_default(),
                real.why
            ));
            claim.holds = real.holds;
            claim.tolerance = real.tolerance.or(claim.tolerance);
        }
        claims.push(claim);
    }
    claims
}

/// The parameters that are the same in all runs.
pub(super) struct Common(pub(super) Parameters);

impl Common {
    pub(super) fn of(runs: &[Arc<CompletedRun>]) -> Common {
        Common(common(runs))
    }
}

/// The verdict on a claim.
///
/// # Errors
///
/// `holds` is invalid, or does not fit the measured figure.
pub(super) fn judge(
    evaluator: &Evaluator,
    claim: &Claim,
    measured: &ExpressionValue,
    runs: &[Arc<CompletedRun>],
    common: &Common,
) -> Result<Agreement, String> {
    let holds = claim.holds.as_ref().map(|expression| {
        let published = match &claim.published {
            Some(PublishedFigure::Number(number)) => ExpressionValue::Number(*number),
            Some(PublishedFigure::Numbers(numbers)) => {
                ExpressionValue::List(numbers.iter().copied().map(ExpressionValue::Number).collect())
            }
            Some(PublishedFigure::Words(words)) => ExpressionValue::Text(words.clone()),
            None => ExpressionValue::Text(String::new()),
        };
        match evaluator.evaluate(expression, runs, &common.0, &[("measured", measured), ("published", &published)])? {
            ExpressionValue::Flag(holds) => Ok(holds),
            other => Err(format!("gives {}, which is neither true nor false", format_value(&other, None))),
        }
    });
    let numbers = claim.published.as_ref().and_then(PublishedFigure::numbers);
    let within = numbers.zip(claim.tolerance).map(|(published, tolerance)| {
        let ours = match measured {
            ExpressionValue::Number(number) => vec![*number],
            ExpressionValue::List(list) => list
                .iter()
                .filter_map(|answer| if let ExpressionValue::Number(n) = answer { Some(*n) } else { None })
                .collect(),
            _ => Vec::new(),
        };
        match ours.len() == published.len() {
            true => Ok(is_within(&ours, published, tolerance)),
            false => Err(format!("there are {} published numbers, but {} measured ones", published.len(), ours.len())),
        }
    });
    Ok(Agreement::of(within.transpose()?, holds.transpose()?))
}

fn common(runs: &[Arc<CompletedRun>]) -> Parameters {
    let mut common = runs.first().map(|run| run.parameters.clone()).unwrap_or_default();
    common.retain(|name, value| runs.iter().all(|run| run.parameters.get(name) == Some(value)));
    common
}

struct ReportBuilder {
    evaluator: Evaluator,
    runs: Vec<Arc<CompletedRun>>,
    common: Common,
    errors: Vec<String>,
}

impl ReportBuilder {
    /// Adds everything about these runs, which form one case. Returns the claims that they cannot decide.
    fn add(&mut self, document: &Document, claims: &[Claim], case: &str, report: &mut ExperimentReport) -> Vec<String> {
        let (mut verdicts, mut undecided) = (Vec::new(), Vec::new());
        for claim in claims {
            match self.can_decide(claim) {
                Ok(true) => verdicts.push(self.verdict(claim)),
                Ok(false) => undecided.push(claim.id.clone()),
                Err(error) => self.errors.push(format!("claim `{}`, `where`: {error}", claim.id)),
            }
        }
        let of_case = |name: &str, between: &str| match case {
            "" => name.to_owned(),
            case => format!("{name}{between}{case}"),
        };
        for table in &document.tables {
            let grid = self.grid(table, (&verdicts, &undecided));
            report.tables.push(Grid { title: of_case(&grid.title, ": "), ..grid });
        }
        for plot in &document.plots {
            let picture = self.picture(plot);
            let letters = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
            let id = of_case(&picture.id, "-").chars().map(letters).collect();
            report.pictures.push(Picture { id, title: of_case(&picture.title, ": "), ..picture });
        }
        report.verdicts.extend(verdicts.into_iter().map(|mut verdict| {
            verdict.claim = of_case(&verdict.claim, " @ ");
            verdict
        }));
        report.errors.append(&mut self.errors);
        undecided
    }

    /// True if these runs can decide a claim.
    fn can_decide(&self, claim: &Claim) -> Result<bool, String> {
        let Some(filter) = &claim.filter else { return Ok(true) };
        match self.evaluator.evaluate(filter, &self.runs, &self.common.0, &[])? {
            ExpressionValue::Flag(decides) => Ok(decides),
            other => Err(format!("gives {}, which is neither true nor false", format_value(&other, None))),
        }
    }

    fn verdict(&self, claim: &Claim) -> ClaimVerdict {
        let mut verdict = ClaimVerdict {
            claim: claim.id.clone(),
            text: claim.text.clone(),
            published: claim.published.clone(),
            measured: None,
            shown: String::from("-"),
            unit: claim.unit.clone(),
            verdict: Agreement::NotReproduced,
            differs: claim.differs.clone(),
            error: None,
        };
        let of = |key: &str, error: String| format!("claim `{}`, `{key}`: {error}", claim.id);
        let measured = match self.evaluator.evaluate(&claim.measured, &self.runs, &self.common.0, &[]) {
            Ok(measured) => measured,
            Err(error) => {
                verdict.error = Some(of("measured", error));
                return verdict;
            }
        };
        verdict.shown = format_value(&measured, claim.digits);
        match judge(&self.evaluator, claim, &measured, &self.runs, &self.common) {
            Ok(agreement) => verdict.verdict = agreement,
            Err(error) => verdict.error = Some(of("holds", error)),
        }
        // A matching claim shows no reason for a difference.
        verdict.differs = verdict.differs.filter(|_| verdict.verdict.is_missed());
        verdict.measured = Some(measured);
        verdict
    }

    /// The runs that pass a filter, grouped by parameters in the order of their first appearance.
    fn groups(
        &mut self,
        by: &[String],
        filter: Option<&String>,
        of: &str,
    ) -> Vec<(Parameters, Vec<Arc<CompletedRun>>)> {
        let mut groups: Vec<(Parameters, Vec<Arc<CompletedRun>>)> = Vec::new();
        for run in &self.runs {
            let belongs = filter.map_or(Ok(ExpressionValue::Flag(true)), |filter| {
                self.evaluator.evaluate(filter, &[Arc::clone(run)], &run.parameters, &[])
            });
            match belongs {
                Ok(ExpressionValue::Flag(true)) => {}
                Ok(ExpressionValue::Flag(false)) => continue,
                Ok(other) => self.errors.push(format!("{of}, `where`: gives {}", format_value(&other, None))),
                Err(error) => self.errors.push(format!("{of}, `where`: {error}")),
            }
            let missing = by.iter().find(|name| !run.parameters.contains_key(*name));
            if let Some(name) = missing {
                self.errors.push(format!("{of}, `by`: no parameter is called `{name}`"));
                return groups;
            }
            let key: Parameters = by.iter().map(|name| (name.clone(), run.parameters[name].clone())).collect();
            match groups.iter_mut().find(|(other, _)| *other == key) {
                Some((_, runs)) => runs.push(Arc::clone(run)),
                None => groups.push((key, vec![Arc::clone(run)])),
            }
        }
        groups
    }

    /// Rows that are given one by one.
    fn rows(
        &mut self,
        table: &TableDefinition,
        (verdicts, undecided): (&[ClaimVerdict], &[String]),
        of: &str,
    ) -> Vec<Vec<String>> {
        let mut named: Vec<(String, ExpressionValue)> = Vec::new();
        // Undecided claims are variables too, so that their rows can be evaluated.
        for claim in undecided {
            named.push((format!("{claim}_holds"), ExpressionValue::Flag(false)));
            named.push((claim.clone(), ExpressionValue::Text(String::from("-"))));
        }
        for verdict in verdicts {
            let holds = matches!(verdict.verdict, Agreement::Matches | Agreement::DirectionOnly);
            named.push((format!("{}_holds", verdict.claim), ExpressionValue::Flag(holds)));
            named.extend(verdict.measured.clone().map(|measured| (verdict.claim.clone(), measured)));
        }
        let more: Vec<(&str, &ExpressionValue)> = named.iter().map(|(name, answer)| (name.as_str(), answer)).collect();
        let mut rows = Vec::new();
        for row in &table.rows {
            let cells = row.iter().zip(&table.columns).map(|(expression, column)| {
                let answer = self.evaluator.evaluate(expression, &self.runs, &self.common.0, &more);
                answer.map(|answer| format_value(&answer, column.digits)).unwrap_or_else(|error| {
                    self.errors.push(format!("{of}, column `{}`: {error}", column.name));
                    String::from("error")
                })
            });
            rows.push(cells.collect());
        }
        rows
    }

    fn grid(&mut self, table: &TableDefinition, verdicts: (&[ClaimVerdict], &[String])) -> Grid {
        let of = format!("table `{}`", table.title);
        if !table.rows.is_empty() {
            let rows = self.rows(table, verdicts, &of);
            let columns = table.columns.iter().map(|column| column.name.clone()).collect();
            return Grid { title: table.title.clone(), columns, rows, printed: table.printed };
        }
        let groups = self.groups(&table.by, table.filter.as_ref(), &of);
        let columns = table.by.iter().chain(table.columns.iter().map(|column| &column.name)).cloned().collect();
        let mut rows = Vec::new();
        for (number, (parameters, runs)) in groups.iter().enumerate() {
            let mut row: Vec<String> = table.by.iter().map(|name| parameters[name].to_string()).collect();
            let known = common(runs);
            for column in &table.columns {
                row.push(self.cell(column, number, &known, runs, &of));
            }
            rows.push(row);
        }
        Grid { title: table.title.clone(), columns, rows, printed: table.printed }
    }

    fn cell(
        &mut self,
        column: &Column,
        row: usize,
        parameters: &Parameters,
        runs: &[Arc<CompletedRun>],
        of: &str,
    ) -> String {
        let Some(value) = &column.value else {
            return column.published.get(row).map_or(String::from("-"), ToString::to_string);
        };
        match self.evaluator.evaluate(value, runs, parameters, &[]) {
            Ok(answer) => format_value(&answer, column.digits),
            Err(error) => {
                self.errors.push(format!("{of}, column `{}`: {error}", column.name));
                String::from("error")
            }
        }
    }

    fn picture(&mut self, plot: &Plot) -> Picture {
        Picture {
            id: plot.id.clone(),
            title: plot.title.clone(),
            published: plot.published.clone(),
            x: plot.x.clone(),
            y: plot.y.clone(),
            curves: plot.lines.iter().flat_map(|line| self.curves(plot, line)).collect(),
            references: plot.references.clone(),
        }
    }

    fn curves(&mut self, plot: &Plot, line: &Line) -> Vec<Curve> {
        let of = format!("plot `{}`, line `{}`", plot.id, line.label);
        let mut curves = Vec::new();
        for (parameters, runs) in self.groups(&line.by, line.filter.as_ref(), &of) {
            let label = substitute(&line.label, &parameters).unwrap_or_else(|_| line.label.clone());
            let scale = (plot.x.scale.unwrap_or(1.0), plot.y.scale.unwrap_or(1.0));
            let points = match &line.series {
                Some(name) => recorded(name, &runs),
                None => self.points(line, &runs),
            };
            match points {
                Ok(points) => {
                    let scaled = points.into_iter().map(|(x, y)| (x * scale.0, y * scale.1));
                    let points = scaled.filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
                    curves.push(Curve { label, points });
                }
                Err(error) => self.errors.push(format!("{of}: {error}")),
            }
        }
        curves
    }

    fn points(&self, line: &Line, runs: &[Arc<CompletedRun>]) -> Result<Vec<(f64, f64)>, String> {
        let (Some(x), Some(y)) = (&line.x, &line.y) else {
            return Err(String::from("has neither `x` and `y` nor a `series`"));
        };
        let number = |expression: &String, run: &Arc<CompletedRun>| match self.evaluator.evaluate(
            expression,
            &[Arc::clone(run)],
            &run.parameters,
            &[],
        )? {
            ExpressionValue::Number(number) => Ok(number),
            other => Err(format!("`{expression}` gives {}, which is no number", format_value(&other, None))),
        };
        let points: Result<Vec<(f64, f64)>, String> =
            runs.iter().map(|run| Ok((number(x, run)?, number(y, run)?))).collect();
        let mut points = points?;
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Ok(points)
    }
}

fn recorded(name: &str, runs: &[Arc<CompletedRun>]) -> Result<Vec<(f64, f64)>, String> {
    let [run] = runs else { return Err(format!("a series needs one run; `where` selects {}", runs.len())) };
    let series = &run.measured.series;
    series.get(name).cloned().ok_or_else(|| {
        let known = series.keys().take(12).map(String::as_str).collect::<Vec<_>>().join(", ");
        format!("there is no series `{name}`; there are {known}")
    })
}
