use super::*;
use sim::Measurements;
use sim::experiment::{Job, Runner};
use std::collections::BTreeMap;
use std::sync::Mutex;

const SQUARES: &str = r#"
paper = "arithmetic"
experiment = "S1"
title = "Squares"
question = "How fast do <squares> grow?"
published = "Euclid, book II"
world = "side = ${side}"
claim = [
  { id = "nine", text = "Three by three", published = 9, tolerance = 0, measured = "get('area', side=3)" },
  { id = "two", text = "A lie", measured = "get('area', side=1)", holds = "measured == 2" },
]
table = [{ title = "Areas", by = ["side"], columns = [{ name = "area", value = "get('area')" }] }]

[sweep]
side = [1, 2, 3, 4, 5, 6, 7, 8, 9]

[[plot]]
id = "areas"
title = "Areas"
x = { label = "side (m)" }
y = { label = "area (m\u00b2)" }
line = [{ label = "measured", x = "side", y = "get('area')" }]
"#;

/// Reads the side from the world and squares it; fails for sides above `most`.
struct Squares {
    most: f64,
}

impl Runner for Squares {
    fn name(&self) -> &str {
        "squared"
    }

    fn run(&self, job: &Job) -> Result<Measurements, String> {
        let side: f64 = job.world.trim().trim_start_matches("side = ").parse().map_err(|_| job.world.clone())?;
        if side > self.most {
            return Err(format!("{side} is too much"));
        }
        Ok(Measurements { values: BTreeMap::from([("area".to_owned(), side * side)]), ..Measurements::default() })
    }
}

fn squares() -> Experiment {
    Experiment::read("squares.toml", SQUARES, &|_| unreachable!()).unwrap()
}

fn outcomes(experiments: usize, threads: usize, most: f64) -> Result<Vec<ExperimentOutcome>> {
    let order = || {
        let experiment = squares();
        ExperimentRuns {
            jobs: experiment.jobs(&Parameters::new(), false).unwrap(),
            experiment,
            remarks: Vec::new(),
            rounds: 1,
        }
    };
    let orders: Vec<ExperimentRuns> = (0..experiments).map(|_| order()).collect();
    let mut outcomes = Vec::new();
    let batch = RunBatch { experiments: orders, runner: &Squares { most }, at_once: threads };
    parallel::run_all(&batch, &RunCache::disabled(), |outcome| {
        outcomes.push(outcome);
        Ok(())
    })?;
    Ok(outcomes)
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let of = |threads| {
        let all = outcomes(3, threads, f64::INFINITY).unwrap();
        all.iter().map(|outcome| serde_json::to_string(&outcome.report).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(of(1).len(), 3);
    assert_eq!(of(1), of(4));
}

/// The measured value rises from round to round, and `order` records when each run was.
struct Drifts {
    order: Mutex<Vec<String>>,
}

impl Runner for Drifts {
    fn name(&self) -> &str {
        "measured"
    }

    fn run(&self, job: &Job) -> Result<Measurements, String> {
        let mut order = self.order.lock().unwrap();
        order.push(job.world.clone());
        let area = order.len() as f64;
        if area == 50.0 {
            Err("the fiftieth".to_owned())
        } else {
            Ok(Measurements { values: BTreeMap::from([("area".to_owned(), area)]), ..Measurements::default() })
        }
    }
}

#[test]
fn repeated_runs_go_round_after_round_and_report_medians() {
    let order = || {
        let experiment = squares();
        ExperimentRuns {
            jobs: experiment.jobs(&Parameters::new(), false).unwrap(),
            experiment,
            remarks: Vec::new(),
            rounds: 5,
        }
    };
    let runner = Drifts { order: Mutex::default() };
    let batch = RunBatch { experiments: vec![order(), order()], runner: &runner, at_once: 1 };
    let mut outcomes = Vec::new();
    parallel::run_all(&batch, &RunCache::disabled(), |outcome| {
        outcomes.push(outcome);
        Ok(())
    })
    .unwrap();
    let order = runner.order.lock().unwrap();
    let (first, second) = order.split_at(9);
    assert_eq!((order.len(), first), (90, &second[..9]), "all of an experiment, and then all of it again");
    let areas: Vec<f64> = outcomes[0].runs.iter().map(|run| run.measured.get("area").unwrap()).collect();
    assert_eq!(areas, [19.0, 20.0, 21.0, 22.0, 23.0, 24.0, 25.0, 26.0, 27.0], "of the third of five rounds");
    assert!(outcomes[0].report.remarks.contains(&"medians of 5 rounds".to_owned()));
    assert_eq!(outcomes[1].report.errors, ["the run with side=5 failed: the fiftieth"], "one of whose rounds failed");
}

#[test]
fn medians_are_taken_of_each_value_and_each_point() {
    let run = |value: f64, more: Option<f64>| Measurements {
        values: [("a".to_owned(), value)].into_iter().chain(more.map(|more| ("b".to_owned(), more))).collect(),
        series: [("s".to_owned(), vec![(1.0, value), (2.0, -value)])].into(),
        ..Measurements::default()
    };
    let measured = parallel::medians(vec![run(3.0, None), run(1.0, Some(5.0)), run(2.0, Some(7.0))]);
    assert_eq!((measured.get("a"), measured.get("b")), (Some(2.0), Some(5.0)));
    assert_eq!(measured.series["s"], [(1.0, 2.0), (2.0, -2.0)]);
    assert_eq!(parallel::medians(vec![run(3.0, None), run(4.0, None), run(5.0, Some(9.0))]).get("b"), Some(0.0));
}

#[test]
fn failed_run_fails_its_experiment_and_no_other_run() {
    let outcomes = outcomes(2, 2, 4.0).unwrap();
    assert_eq!(outcomes.len(), 2);
    for ExperimentOutcome { report, runs } in &outcomes {
        assert_eq!((runs.len(), report.errors.len(), report.is_explained()), (4, 5, false));
        assert_eq!(report.errors[0], "the run with side=5 failed: 5 is too much");
        assert_eq!(report.verdicts[0].verdict, Agreement::Matches, "{:?}", report.verdicts[0]);
    }
}

#[test]
fn results_are_written_as_files_and_an_index_page() {
    let folder = tempfile::tempdir().unwrap();
    let outcome = outcomes(1, 2, f64::INFINITY).unwrap().remove(0);
    files::write(folder.path(), &outcome).unwrap();
    files::write_page(folder.path(), &[outcome.report]).unwrap();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert!(read("arithmetic/S1.csv").ends_with("nine,9,9.000,,matches,\ntwo,,1.000,,not reproduced,\n"));
    let everything: serde_json::Value = serde_json::from_str(&read("arithmetic/S1.json")).unwrap();
    assert_eq!(everything["measured"][8]["values"]["area"], 81.0);
    assert_eq!(everything["verdicts"][1]["verdict"], "not_reproduced");
    let page = read("index.html");
    for text in [
        "1 matches, 0 direction only, 1 not reproduced, 0 reported",
        "How fast do &lt;squares&gt; grow?",
        "<svg",
        "var(--line0)",
        "\u{2713} matches</span>",
        "\u{2717} not reproduced</span>",
    ] {
        assert!(page.contains(text), "{text}");
    }
    // Every link of the page has its target, and it loads nothing from elsewhere.
    assert!(!page.contains("src=") && !page.contains("@import"), "{page}");
    for link in page.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        assert!(link.starts_with('#') || folder.path().join(link).is_file(), "{link}");
    }
    assert!(std::fs::read(folder.path().join("arithmetic/S1-areas.png")).unwrap().starts_with(b"\x89PNG"));
}

/// Squares; the largest waits for a file, at most a minute.
struct AfterFile(std::path::PathBuf);

impl Runner for AfterFile {
    fn name(&self) -> &str {
        "squared"
    }

    fn run(&self, job: &Job) -> Result<Measurements, String> {
        let measured = Squares { most: f64::INFINITY }.run(job)?;
        let mut polls = 6000;
        while job.file == "second.toml" && measured.get("area") == Some(81.0) && !self.0.is_file() {
            polls -= 1;
            if polls == 0 {
                return Err("there is no file yet".to_owned());
            }
            std::thread::park_timeout(std::time::Duration::from_millis(10));
        }
        Ok(measured)
    }
}

#[test]
fn experiment_is_written_before_the_next_one_ends() {
    let folder = tempfile::tempdir().unwrap();
    let order = |file: &str, name: &str| {
        let text = SQUARES.replace("S1", name);
        let experiment = Experiment::read(file, &text, &|_| unreachable!()).unwrap();
        ExperimentRuns {
            jobs: experiment.jobs(&Parameters::new(), false).unwrap(),
            experiment,
            remarks: Vec::new(),
            rounds: 1,
        }
    };
    let runner = AfterFile(folder.path().join("arithmetic/S1.json"));
    let orders = vec![order("first.toml", "S1"), order("second.toml", "S2")];
    carry_out(
        &[RunBatch { experiments: orders, runner: &runner, at_once: 1 }],
        OutputOptions { folder: Some(folder.path()), json: true, is_partial: false },
    )
    .unwrap();
    let second = std::fs::read_to_string(folder.path().join("arithmetic/S2.csv")).unwrap();
    assert!(second.contains("nine,9,9.000,,matches"), "{second}");
}

#[test]
fn each_of_the_four_verdicts_is_counted_in_table_json_and_page() {
    let claims = r#"
  { id = "direction", text = "Far more than one", published = 20, tolerance = 0.1, measured = "get('area', side=3)", holds = "measured > 5", differs = "Ours is <half>." },
  { id = "input", text = "An input", published = 5, measured = "get('area', side=2)" },
]
table"#;
    let text = SQUARES.replace("]\ntable", claims);
    let experiment = Experiment::read("squares.toml", &text, &|_| unreachable!()).unwrap();
    let order = ExperimentRuns {
        jobs: experiment.jobs(&Parameters::new(), false).unwrap(),
        experiment,
        remarks: Vec::new(),
        rounds: 1,
    };
    let batch = RunBatch { experiments: vec![order], runner: &Squares { most: f64::INFINITY }, at_once: 1 };
    let mut outcomes = outcomes(1, 1, f64::INFINITY).unwrap();
    parallel::run_all(&batch, &RunCache::disabled(), |outcome| {
        outcomes.push(outcome);
        Ok(())
    })
    .unwrap();
    let reports: Vec<ExperimentReport> = outcomes.into_iter().map(|outcome| outcome.report).collect();
    let mut printed = Vec::new();
    print_summary(&mut printed, &reports).unwrap();
    let printed = String::from_utf8(printed).unwrap();
    let lines: Vec<Vec<&str>> = printed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[1][..6], ["arithmetic", "S1", "1", "0", "1", "0"]);
    assert_eq!(lines[2][..6], ["arithmetic", "S1", "1", "1", "1", "1"]);
    assert!(printed.ends_with("2 match, 1 direction only, 2 not reproduced, 1 reported\n"), "{printed}");
    let claims = lines_of(&reports);
    let json = serde_json::to_value(Summary { summary: summary(&reports), claims }).unwrap();
    let expected = serde_json::json!({"matches": 2, "direction_only": 1, "not_reproduced": 2, "reported": 1});
    assert_eq!(json["summary"], expected);
    assert_eq!(
        (&json["claims"][4]["verdict"], &json["claims"][4]["differs"]),
        (&"direction_only".into(), &"Ours is <half>.".into())
    );
    let page = page::page(&reports);
    for text in [
        "2 match, 1 direction only, 2 not reproduced, 1 reported",
        "<td class=\"number\">1<td class=\"number\">1<td class=\"number\">1<td class=\"number\">1</tr>",
        "<b>What differs.</b> Ours is &lt;half&gt;.",
        "\u{2248} direction only</span>",
        "\u{2022} reported</span>",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
}

#[test]
fn failed_write_leaves_no_partial_file_and_folder_is_checked_before_the_runs() {
    let folder = tempfile::tempdir().unwrap();
    // A directory of that name, which no file can replace.
    std::fs::create_dir_all(folder.path().join("arithmetic/S1.json")).unwrap();
    let error = files::write(folder.path(), &outcomes(1, 1, f64::INFINITY).unwrap()[0]).unwrap_err();
    assert!(format!("{error:#}").contains("S1.json cannot be written"), "{error:#}");
    let left = std::fs::read_dir(folder.path().join("arithmetic")).unwrap();
    let mut left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["S1.csv", "S1.json"]);
    let told = OutputOptions { folder: Some(Path::new("/dev/null/results")), json: false, is_partial: false };
    struct Never;
    impl Runner for Never {
        fn name(&self) -> &str {
            "never"
        }
        fn run(&self, _: &Job) -> Result<Measurements, String> {
            unreachable!("nothing runs in vain")
        }
    }
    let experiment = squares();
    let order = ExperimentRuns {
        jobs: experiment.jobs(&Parameters::new(), false).unwrap(),
        experiment,
        remarks: Vec::new(),
        rounds: 1,
    };
    let batch = RunBatch { experiments: vec![order], runner: &Never, at_once: 1 };
    let error = carry_out(&[batch], told).unwrap_err();
    assert!(format!("{error:#}").starts_with("cannot create /dev/null/results"), "{error:#}");
}

#[test]
fn experiment_is_selected_by_name_and_unknown_name_lists_all() {
    let chosen = |paper, experiment| choose(vec![squares(), squares()], paper, experiment);
    assert_eq!(chosen(None, None).unwrap().len(), 2);
    assert_eq!(chosen(Some("Arithmetic"), Some("s1")).unwrap().len(), 2);
    for (paper, experiment, why) in
        [(Some("geometry"), None, "choose one of: arithmetic"), (Some("arithmetic"), Some("S2"), "choose one of: S1")]
    {
        let error = chosen(paper, experiment).unwrap_err();
        assert!(error.is::<UsageError>() && error.to_string().ends_with(why), "{error}");
    }
}

#[test]
fn experiments_of_a_folder_are_sorted_by_number() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("arithmetic")).unwrap();
    for name in ["S10", "S9", "S1"] {
        let text = SQUARES.replace("S1", name);
        std::fs::write(folder.path().join(format!("arithmetic/{name}.toml")), text).unwrap();
    }
    std::fs::write(folder.path().join("arithmetic/shared.toml"), "side = 1").unwrap();
    let names = |list: Vec<Experiment>| list.into_iter().map(|e| e.document.experiment).collect::<Vec<_>>();
    assert_eq!(names(files::experiments(folder.path()).unwrap()), ["S1", "S9", "S10"]);
    let empty = tempfile::tempdir().unwrap();
    assert!(files::experiments(empty.path()).unwrap_err().to_string().contains("has no experiment"));
}

#[test]
fn every_built_in_experiment_parses_and_has_runs() {
    for experiment in built_in().unwrap() {
        for quick in [false, true] {
            let runs = experiment.jobs(&Parameters::new(), quick).unwrap().len();
            let real = experiment.real_jobs(&Parameters::new(), quick).unwrap().len();
            let never_alone = !experiment.document.measures.in_virtual_time();
            let right = if never_alone { runs == 0 && real > 0 } else { runs > 0 };
            assert!(right, "{}: {runs} runs, {real} on real packets", experiment.file);
        }
    }
}
