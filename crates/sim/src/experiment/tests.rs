use super::*;
use crate::Measurements;
use std::collections::BTreeMap;

const SQUARES: &str = r#"
paper = "arithmetic"
experiment = "S1"
title = "Squares"
question = "How fast do squares grow?"
published = "Euclid, book II"
derive = ["twice = 2 * side", "ring = 64 if twice > 4 else 32"]
world = '''
side = ${side}
ring = ${ring}
nonsense
'''

[parameters]
seed = 7

[sweep]
side = [1, 2, 3]

[quick.sweep]
side = [1, 3]

[[variant]]
name = "plain"
set = { factor = 1 }

[[variant]]
name = "tripled"
set = { factor = 3 }

[[claim]]
id = "nine"
text = "Three by three are nine"
published = 9
measured = "get('area', side=3, variant='plain')"
tolerance = 0.01

[[claim]]
id = "growth"
text = "It grows by more than the side"
published = "faster than the side"
measured = "get('area', side=3, variant='plain') / get('area', side=1, variant='plain')"
holds = "measured > 3"
digits = 1

[[claim]]
id = "wrong"
text = "A square of one is two"
measured = "get('area', side=1, variant='plain')"
holds = "measured == 2"

[[claim]]
id = "typo"
text = "Nothing"
measured = "get('area', side=1, variant='plain')\n  + aera"
holds = "true"

[[table]]
title = "Areas"
by = ["side"]
where = "side > 1"
columns = [
  { name = "plain", value = "get('area', variant='plain')" },
  { name = "sum, tripled too", value = "total('area') / side", digits = 2 },
  { name = "paper", published = [4, "nine"] },
]

[[plot]]
id = "areas"
title = "Areas"
x = { label = "side (m)" }
y = { label = "area (square cm)", scale = 10000 }
line = [{ label = "${variant}", by = ["variant"], x = "side", y = "get('area')" }]
"#;

fn squares() -> Experiment {
    Experiment::read("squares.toml", SQUARES, &|name| Err(format!("{name} is not there"))).unwrap()
}

/// A runner that computes areas.
struct Arithmetic;

impl Runner for Arithmetic {
    fn name(&self) -> &str {
        "arithmetic"
    }

    fn run(&self, job: &Job) -> Result<Measurements, String> {
        Ok(measured(job).measured)
    }
}

/// The area for the parameters of a job.
fn measured(job: &Job) -> CompletedRun {
    let number = |name: &str| match job.parameters[name] {
        ParameterValue::Number(number) => number,
        ref other => panic!("{name} is {other}"),
    };
    let area = number("side").powi(2) * number("factor");
    let values = BTreeMap::from([("area".to_owned(), area)]);
    CompletedRun { parameters: job.parameters.clone(), measured: Measurements { values, ..Measurements::default() } }
}

fn report_of(experiment: &Experiment, quick: bool) -> ExperimentReport {
    let jobs = experiment.jobs(&Parameters::new(), quick).unwrap();
    experiment.report(jobs.iter().map(measured).collect(), &Arithmetic)
}

#[test]
fn experiment_report_has_verdicts_on_claims() {
    let report = report_of(&squares(), false);
    expect_test::expect![[r#"
        # Areas
        side,plain,"sum, tripled too",paper
        2,4.000,8.00,4
        3,9.000,12.00,nine

        # Claims
        claim,published,measured,unit,verdict,what differs
        nine,9,9.000,,matches,
        growth,faster than the side,9.0,,matches,
        wrong,,1.000,,not reproduced,
        typo,,-,,not reproduced,
    "#]]
    .assert_eq(&golden(&report));
    assert!(!report.is_explained());
    let typo = report.verdicts[3].error.as_ref().unwrap();
    assert!(
        typo.starts_with("claim `typo`, `measured`: ")
            && typo.contains("line 2, column 5: `aera` is neither a parameter nor"),
        "{typo}"
    );
    let curves = &report.pictures[0].curves;
    assert_eq!(curves[1].label, "tripled");
    assert_eq!(curves[1].points, [(1.0, 30_000.0), (2.0, 120_000.0), (3.0, 270_000.0)]);
}

/// The squares with another claim in place of `nine`.
fn with_claim(claim: &str) -> Result<Experiment, String> {
    let nine = SQUARES.split("[[claim]]").nth(1).unwrap();
    let text = SQUARES.replace(nine, &format!("\nid = \"nine\"\ntext = \"\"\n{claim}\n\n"));
    Experiment::read("squares.toml", &text, &|_| unreachable!())
}

#[test]
fn a_verdict_is_one_of_four() {
    let nine = "measured = \"get('area', side=3, variant='plain')\"";
    for (claim, verdict) in [
        ("published = 9.2\ntolerance = 0.05", "matches"),
        ("published = 9.2\ntolerance = 0.05\nholds = \"measured > 5\"", "matches"),
        ("published = 14\ntolerance = 0.1\nholds = \"measured > 5\"", "direction only"),
        ("published = 14\ntolerance = 0.1", "not reproduced"),
        ("published = 14\ntolerance = 0.1\nholds = \"measured > 10\"", "not reproduced"),
        ("published = 9\ntolerance = 0.1\nholds = \"measured > 10\"", "not reproduced"),
        ("published = \"more than five\"\nholds = \"measured > 5\"", "matches"),
        ("holds = \"measured > 10\"", "not reproduced"),
        ("published = 14", "reported"),
        ("", "reported"),
    ] {
        let report = report_of(&with_claim(&format!("{nine}\n{claim}")).unwrap(), false);
        assert_eq!(report.verdicts[0].verdict.to_string(), verdict, "{claim}");
    }
    let list = "measured = \"all('area', variant='plain')\"\ntolerance = 0.1\npublished =";
    let of = |published: &str| {
        let mut report = report_of(&with_claim(&format!("{list} {published}")).unwrap(), false);
        let verdict = report.verdicts.remove(0);
        (verdict.verdict, verdict.error)
    };
    assert_eq!(of("[1, 4.1, 9]"), (Agreement::Matches, None));
    assert_eq!(of("[1, 4.1, 12]"), (Agreement::NotReproduced, None));
    let (verdict, error) = of("[1, 4]");
    assert!(
        verdict == Agreement::NotReproduced
            && error.unwrap().contains("there are 2 published numbers, but 3 measured ones")
    );
}

#[test]
fn missed_figure_needs_reason_in_differs() {
    let claim =
        "measured = \"get('area', side=3, variant='plain')\"\ntolerance = 0.1\nholds = \"measured > 5\"\npublished =";
    let of = |published: &str, differs: &str| {
        let mut experiment = with_claim(&format!("{claim} {published}\n{differs}")).unwrap();
        experiment.document.claims.truncate(1);
        report_of(&experiment, false)
    };
    let differs = "differs = \"Ours are smaller.\"";
    assert!(!of("14", "").is_explained());
    let explained = of("14", differs);
    assert!(explained.is_explained());
    assert_eq!(explained.verdicts[0].differs.as_deref(), Some("Ours are smaller."));
    let matching = of("9", differs);
    assert_eq!((matching.verdicts[0].differs.as_deref(), matching.is_explained()), (None, true), "nothing differs");
    assert_eq!(matching.verdict_counts().to_string(), "1 matches, 0 direction only, 0 not reproduced, 0 reported");
}

#[test]
fn a_claim_that_cannot_fail_is_refused() {
    let nine = "get('area', side=3, variant='plain')";
    let one = "get('area', side=1, variant='plain')";
    for (measured, claim) in [
        // Constants, compared with themselves or with others.
        ("2 * 1e5 * 10", "published = 2000000\ntolerance = 0"),
        ("12.9e6 * 1500 * 8 / 1e9", "published = 150\ntolerance = 0.1\nholds = \"measured > published\""),
        ("seed", "holds = \"measured == 7\""),
        ("14 + 20 + get('input.count.bytes', side=3, variant='plain') + 4", "published = 64\ntolerance = 0"),
        // Statements that are true for all measurements.
        (nine, "holds = \"true\""),
        (nine, "holds = \"measured > 0\""),
        (nine, "holds = \"measured == measured\""),
        (nine, "holds = \"measured > 0 or measured < 5\""),
        ("max(all('area', variant='plain')) / max(all('area', variant='tripled'))", "holds = \"measured > 0\""),
        ("[min(all('area')), max(all('area'))]", "holds = \"measured[0] <= measured[1]\""),
        ("max(all('area'))", &format!("holds = \"measured >= {one}\"")),
        ("count(all('area'))", "holds = \"measured == 6\""),
        // The direction that would remain is always true.
        (nine, "published = 9\ntolerance = 0.1\nholds = \"measured > 0\""),
    ] {
        let error = with_claim(&format!("measured = \"{measured}\"\n{claim}")).map(|_| ()).unwrap_err();
        let told =
            error.starts_with("squares.toml: claim `nine`: ") && error.contains("Remove `holds` and `tolerance`");
        assert!(told, "{measured}: {claim}: {error}");
    }
    for (measured, claim) in [
        (nine, "holds = \"measured > 8\""),
        (nine, "holds = \"measured > 0\"\ndigits = 0"),
        (nine, "holds = \"measured == 0\""),
        (nine, "published = 0\ntolerance = 0"),
        ("count(pooled('fct', variant='plain'))", "holds = \"measured >= 1000\""),
        (&format!("{nine} / {one}"), "holds = \"measured > 1\""),
        ("spread(all('area', variant='plain')) / max(all('area', variant='plain'))", "holds = \"measured <= 0.01\""),
        ("all('area', variant='plain')", "holds = \"rises(measured, 0)\""),
        ("max(all('area')) / min(all('area'))", "holds = \"measured <= 1.5\""),
        // There is no claim.
        ("2 * 1e5 * 10", "published = 2000000"),
        (nine, ""),
    ] {
        let read = with_claim(&format!("measured = \"{measured}\"\n{claim}"));
        assert!(read.is_ok(), "{measured}: {claim}: {}", read.unwrap_err());
    }
}

#[test]
fn parameters_are_swept_derived_and_set_from_outside() {
    let experiment = squares();
    let jobs = experiment.jobs(&Parameters::new(), true).unwrap();
    assert_eq!(jobs.len(), 4);
    assert!(jobs[1].world.ends_with("side = 3\nring = 64\nnonsense\n"), "{}", jobs[1].world);
    // A line of the world has the same number as in the file.
    let line = SQUARES.lines().position(|line| line == "nonsense").unwrap();
    assert_eq!(jobs[0].world.lines().position(|line| line == "nonsense"), Some(line));
    let set = |name: &str, value: &str| -> Parameters { [(name.to_owned(), ParameterValue::read(value))].into() };
    let of = |set: Parameters| experiment.jobs(&set, false).map(|jobs| jobs.len());
    assert_eq!(of(set("side", "5")), Ok(2));
    assert_eq!(of(set("variant", "tripled")), Ok(3));
    for (set, why) in [
        (set("sied", "5"), "there is no parameter `sied` with the value 5; there are: factor, seed, side"),
        (set("variant", "halved"), "there is no parameter `variant` with the value halved"),
    ] {
        let error = of(set).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn quick_sweep_adds_no_values_to_variants() {
    let text = SQUARES.replace("set = { factor = 3 }", "set = { factor = 3 }\nsweep = { side = [2] }");
    let text = text.replace("side = [1, 3]", "side = [\"5..6\"]");
    let experiment = Experiment::read("squares.toml", &text, &|_| unreachable!()).unwrap();
    let jobs = experiment.jobs(&Parameters::new(), true).unwrap();
    let sides: Vec<String> = jobs.iter().map(|job| job.parameters["side"].to_string()).collect();
    assert_eq!(sides, ["5", "6", "2"]);
}

#[test]
fn missing_files_skip_jobs_and_are_reported() {
    let text = SQUARES.replace("seed = 7", "seed = 7\nsizes = \"sizes.txt\"");
    let text = text.replace("[sweep]", "[sweep]\ntrace = [\"lte\", \"a.down\"]");
    let experiment = Experiment::read("squares.toml", &text, &|_| unreachable!()).unwrap();
    let extent = RunMode { quick: true, real: false };
    let all = experiment.jobs(&Parameters::new(), true).unwrap();
    let (jobs, remarks) = experiment.jobs_with_files(&Parameters::new(), extent, &DataFiles::default()).unwrap();
    assert_eq!((all.len(), jobs.len()), (8, 4));
    let text = |job: &Job, name: &str| job.parameters[name].to_string();
    assert!(jobs.iter().all(|job| text(job, "trace") == "lte" && text(job, "sizes").is_empty()));
    assert_eq!(
        remarks,
        [
            "sizes.txt is missing, so a similar table provides the sizes of transfers; set SWITCHPATH_DATA to the folder that \
             contains it in links/",
            "skipped a.down: the file is missing; set SWITCHPATH_DATA to the folder that contains it in links/"
        ]
    );
    let (none, _) = experiment
        .jobs_with_files(&Parameters::new(), RunMode { real: true, ..extent }, &DataFiles::default())
        .unwrap();
    assert_eq!(none.len(), 0, "it says nothing of real packets");
}

#[test]
fn rounds_set_number_of_repetitions() {
    let rounds = |real: &str, quick: &str| {
        let text = SQUARES.replace("[quick.sweep]", &format!("[real]\n{real}\n[quick]\n{quick}\n[quick.sweep]"));
        let experiment = Experiment::read("squares.toml", &text, &|_| unreachable!())?;
        Ok::<_, String>([false, true].map(|quick| experiment.document.rounds(quick)))
    };
    assert_eq!(rounds("", ""), Ok([5, 3]));
    assert_eq!(rounds("rounds = 15", "rounds = 1"), Ok([15, 1]));
    let error = rounds("rounds = 0", "").unwrap_err();
    assert!(error.contains("squares.toml") && error.contains("nonzero"), "{error}");
}

#[test]
fn invalid_experiment_error_names_line() {
    let without = |line: &str| SQUARES.replace(line, "");
    for (text, why) in [
        (without("paper = \"arithmetic\"\n"), "missing field `paper`"),
        (SQUARES.replace("title = \"Squares\"", "titel = 1"), "squares.toml: TOML parse error at line 4, column 1"),
        (SQUARES.replace("id = \"growth\"", "id = \"nine\""), "two claims are called `nine`"),
        (SQUARES.replace("tolerance = 0.01", "tolerance = 0.2"), "claim `nine`: `tolerance` is 0.2, not from 0 to 0.1"),
        (
            SQUARES.replace("tolerance = 0.01", "holds = \"measured > 8\""),
            "claim `nine`: `published` is a number. Give",
        ),
        (
            SQUARES.replace("published = 9", "published = \"about 9\""),
            "claim `nine`: `published` is \"about 9\": numbers in words",
        ),
        (
            SQUARES.replace("published = 9", "published = \"many\""),
            "claim `nine`: `tolerance` is for published numbers",
        ),
        (SQUARES.replace("world = '''", "method = '''"), "either a `world` or a `world_file`"),
    ] {
        let error = Experiment::read("squares.toml", &text, &|_| unreachable!()).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    for (from, to, why) in [
        ("${side}", "${seite}", "squares.toml: line 9: unknown parameter `seite`"),
        ("2 * side", "2 * seite", "derive `twice = 2 * seite`: line 1, column 6: `seite` is neither"),
    ] {
        let experiment = Experiment::read("squares.toml", &SQUARES.replace(from, to), &|_| unreachable!()).unwrap();
        let error = experiment.jobs(&Parameters::new(), false).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn errors_in_tables_and_plots_are_reported_and_fail_the_experiment() {
    for (from, to, why) in [
        ("where = \"side > 1\"", "where = \"side > a\"", "table `Areas`, `where`: line 1, column 8: `a` is neither"),
        ("total('area') / side", "total('era')", "column `sum, tripled too`: "),
        (
            "by = [\"variant\"]",
            "by = [\"casus\"]",
            "plot `areas`, line `${variant}`, `by`: no parameter is called `casus`",
        ),
        ("x = \"side\"", "series = \"rate\"", "a series needs one run; `where` selects 3"),
    ] {
        let text = SQUARES.replace(from, to);
        assert_ne!(text, SQUARES, "{from}");
        let report = report_of(&Experiment::read("squares.toml", &text, &|_| unreachable!()).unwrap(), false);
        assert!(report.errors.iter().any(|error| error.contains(why)), "{why}: {:?}", report.errors);
    }
}

#[test]
fn numbers_have_significant_digits() {
    for (number, digits, text) in [
        (123_456.7, None, "123457"),
        (12.345, None, "12.35"),
        (0.012_34, None, "0.012"),
        (-0.000_1, None, "0.000"),
        (-0.5, Some(0), "0"),
        (2.0, Some(2), "2.00"),
        (f64::NAN, None, "NaN"),
    ] {
        assert_eq!(format_value(&ExpressionValue::Number(number), digits), text);
    }
}

#[test]
fn each_case_has_own_claims_tables_and_plots() {
    let text = r#"
paper = "arithmetic"
experiment = "S2"
title = "Squares"
question = "How fast do squares grow?"
published = "Euclid, book II"
each = ["factor"]
world = "${side} ${factor}"

[parameters]
long = true

[sweep]
side = [1, 2]
factor = ["1..3"]

[quick]
parameters = { long = false }

[[claim]]
id = "growth"
text = "Doubled it is four times as much"
measured = "get('area', side=2) / get('area', side=1)"
holds = "measured == 4"

[[claim]]
id = "more"
text = "More than one"
where = "long"
measured = "get('area', side=1)"
holds = "measured > 1"

[[table]]
title = "By hand"
printed = true
columns = [{ name = "what" }, { name = "how", digits = 1 }]
rows = [["'growth'", "growth"], ["'it holds'", "growth_holds"]]

[[plot]]
id = "areas"
title = "Areas"
x = { label = "side" }
y = { label = "area" }
line = [{ label = "area", x = "side", y = "get('area')" }]
"#;
    let experiment = Experiment::read("s2.toml", text, &|name| Err(format!("{name} is not there"))).unwrap();
    let report = report_of(&experiment, false);
    assert!(report.errors.is_empty(), "{:?}", report.errors);
    let verdicts: Vec<(&str, bool)> =
        report.verdicts.iter().map(|v| (v.claim.as_str(), v.verdict == Agreement::Matches)).collect();
    let expected = [
        ("growth @ 1", true),
        ("more @ 1", false),
        ("growth @ 2", true),
        ("more @ 2", true),
        ("growth @ 3", true),
        ("more @ 3", true),
    ];
    assert_eq!(verdicts, expected);
    let ids: Vec<&str> = report.pictures.iter().map(|picture| picture.id.as_str()).collect();
    assert_eq!(ids, ["areas-1", "areas-2", "areas-3"]);
    assert_eq!(report.tables[1].title, "By hand: 2");
    assert_eq!(report.tables[1].rows, [["growth", "4.0"], ["it holds", "yes"]]);
    assert!(report.tables[1].printed);
    let quick = report_of(&experiment, true);
    assert_eq!(quick.verdicts.len(), 3);
    assert_eq!(quick.remarks, ["so few runs do not decide claim `more`"]);
}
