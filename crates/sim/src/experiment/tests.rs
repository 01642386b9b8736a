use super::*;
use crate::Measured;
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

/// Whoever computes areas.
struct Arithmetic;

impl Runner for Arithmetic {
    fn name(&self) -> &str {
        "arithmetic"
    }

    fn run(&self, job: &Job) -> Result<Measured, String> {
        Ok(measured(job).measured)
    }
}

/// The areas that the parameters ask for.
fn measured(job: &Job) -> Run {
    let number = |name: &str| match job.parameters[name] {
        Value::Number(number) => number,
        ref other => panic!("{name} is {other}"),
    };
    let area = number("side").powi(2) * number("factor");
    let values = BTreeMap::from([("area".to_owned(), area)]);
    Run { parameters: job.parameters.clone(), measured: Measured { values, ..Measured::default() } }
}

fn report_of(experiment: &Experiment, quick: bool) -> Report {
    let jobs = experiment.jobs(&Parameters::new(), quick).unwrap();
    experiment.report(jobs.iter().map(measured).collect(), &Arithmetic)
}

#[test]
fn an_experiment_is_run_reported_and_held_against_its_claims() {
    let report = report_of(&squares(), false);
    expect_test::expect![[r#"
        # Areas
        side,plain,"sum, tripled too",paper
        2,4.000,8.00,4
        3,9.000,12.00,nine

        # Claims
        claim,published,measured,unit,holds
        nine,9,9.000,,yes
        growth,faster than the side,9.0,,yes
        wrong,,1.000,,no
        typo,,-,,no
    "#]]
    .assert_eq(&golden(&report));
    assert!(!report.holds());
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

#[test]
fn parameters_are_swept_derived_and_set_from_outside() {
    let experiment = squares();
    let jobs = experiment.jobs(&Parameters::new(), true).unwrap();
    assert_eq!(jobs.len(), 4);
    assert!(jobs[1].world.ends_with("side = 3\nring = 64\nnonsense\n"), "{}", jobs[1].world);
    // A line of the world has the number it has in the file.
    let line = SQUARES.lines().position(|line| line == "nonsense").unwrap();
    assert_eq!(jobs[0].world.lines().position(|line| line == "nonsense"), Some(line));
    let set = |name: &str, value: &str| -> Parameters { [(name.to_owned(), Value::read(value))].into() };
    let of = |set: Parameters| experiment.jobs(&set, false).map(|jobs| jobs.len());
    assert_eq!(of(set("side", "5")), Ok(2));
    assert_eq!(of(set("variant", "tripled")), Ok(3));
    for (set, why) in [
        (set("sied", "5"), "there is no parameter `sied` that could be 5; there are: factor, seed, side"),
        (set("variant", "halved"), "there is no parameter `variant` that could be halved"),
    ] {
        let error = of(set).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn files_that_are_not_there_are_done_without_and_said_to_be() {
    let text = SQUARES.replace("seed = 7", "seed = 7\nsizes = \"sizes.txt\"");
    let text = text.replace("[sweep]", "[sweep]\ntrace = [\"lte\", \"a.down\"]");
    let experiment = Experiment::read("squares.toml", &text, &|_| unreachable!()).unwrap();
    let extent = Extent { quick: true, real: false };
    let all = experiment.jobs(&Parameters::new(), true).unwrap();
    let (jobs, remarks) = experiment.jobs_with_files(&Parameters::new(), extent, &DataFiles::default()).unwrap();
    assert_eq!((all.len(), jobs.len()), (8, 4));
    let text = |job: &Job, name: &str| job.parameters[name].to_string();
    assert!(jobs.iter().all(|job| text(job, "trace") == "lte" && text(job, "sizes").is_empty()));
    assert_eq!(
        remarks,
        [
            "sizes of transfers are those of a table that is like sizes.txt, which is not there; SWITCHPATH_DATA names the \
             folder that has it in links/",
            "left out is a.down, which is not there; SWITCHPATH_DATA names the folder that has it in links/"
        ]
    );
    let (none, _) =
        experiment.jobs_with_files(&Parameters::new(), Extent { real: true, ..extent }, &DataFiles::default()).unwrap();
    assert_eq!(none.len(), 0, "it says nothing of real packets");
}

#[test]
fn measurements_are_repeated_as_often_as_an_experiment_says() {
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
fn an_experiment_that_cannot_be_understood_says_where() {
    let without = |line: &str| SQUARES.replace(line, "");
    for (text, why) in [
        (without("paper = \"arithmetic\"\n"), "missing field `paper`"),
        (SQUARES.replace("title = \"Squares\"", "titel = 1"), "squares.toml: TOML parse error at line 4, column 1"),
        (SQUARES.replace("id = \"growth\"", "id = \"nine\""), "two claims are called `nine`"),
        (SQUARES.replace("tolerance = 0.01", ""), "claim `nine`: when does it hold?"),
        (SQUARES.replace("world = '''", "method = '''"), "either a `world` or a `world_file`"),
    ] {
        let error = Experiment::read("squares.toml", &text, &|_| unreachable!()).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    for (from, to, why) in [
        ("${side}", "${seite}", "squares.toml: line 9: no parameter is called `seite`"),
        ("2 * side", "2 * seite", "derive `twice = 2 * seite`: line 1, column 6: `seite` is neither"),
    ] {
        let experiment = Experiment::read("squares.toml", &SQUARES.replace(from, to), &|_| unreachable!()).unwrap();
        let error = experiment.jobs(&Parameters::new(), false).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn what_is_wrong_with_tables_and_plots_is_told_and_fails_the_experiment() {
    for (from, to, why) in [
        ("where = \"side > 1\"", "where = \"side > a\"", "table `Areas`, `where`: line 1, column 8: `a` is neither"),
        ("total('area') / side", "total('era')", "column `sum, tripled too`: "),
        (
            "by = [\"variant\"]",
            "by = [\"casus\"]",
            "plot `areas`, line `${variant}`, `by`: no parameter is called `casus`",
        ),
        ("x = \"side\"", "series = \"rate\"", "a series is of one run; `where` leaves 3"),
    ] {
        let text = SQUARES.replace(from, to);
        assert_ne!(text, SQUARES, "{from}");
        let report = report_of(&Experiment::read("squares.toml", &text, &|_| unreachable!()).unwrap(), false);
        assert!(report.errors.iter().any(|error| error.contains(why)), "{why}: {:?}", report.errors);
    }
}

#[test]
fn numbers_have_the_digits_that_tell_something() {
    for (number, digits, text) in [
        (123_456.7, None, "123457"),
        (12.345, None, "12.35"),
        (0.012_34, None, "0.012"),
        (-0.000_1, None, "0.000"),
        (-0.5, Some(0), "0"),
        (2.0, Some(2), "2.00"),
        (f64::NAN, None, "NaN"),
    ] {
        assert_eq!(written(&Answer::Number(number), digits), text);
    }
}

#[test]
fn each_case_has_claims_tables_and_pictures_of_its_own_and_rows_know_claims() {
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
    let verdicts: Vec<(&str, bool)> = report.verdicts.iter().map(|v| (v.claim.as_str(), v.holds)).collect();
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
    assert_eq!(quick.remarks, ["claim `more` is not decided by so few runs"]);
}
