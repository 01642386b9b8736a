//! The experiments that come with Switchpath. Each is compared with the golden file beside it.
//!
//! `UPDATE_EXPECT=1` rewrites golden files. The tests run the `[quick]` form of each experiment; `make reproduce` runs all in full.

use sim::experiment::{
    ClaimVerdict, CompletedRun, Experiment, ExperimentFile, Parameters, Runner, Simulation, describe, entries, golden,
    is_experiment,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
}

fn read(entry: &ExperimentFile) -> Experiment {
    let beside = |name: &str| {
        let other = entries().find(|other| other.paper == entry.paper && other.file == name);
        other.map(|other| other.text.to_owned()).ok_or_else(|| format!("{name} is not there"))
    };
    let file = format!("{}/{}", entry.paper, entry.file);
    Experiment::read(&file, entry.text, &beside).unwrap_or_else(|error| panic!("{error}"))
}

/// Of runs that differ only in the seed, those with equal results: the seed has no effect on them.
fn same_for_every_seed(runs: &[CompletedRun]) -> Vec<String> {
    let without = |run: &CompletedRun| {
        let mut parameters = run.parameters.clone();
        // Parameters that follow from the seed alone are removed too.
        ["seed", "start"].iter().for_each(|name| drop(parameters.remove(*name)));
        parameters
    };
    let mut same = Vec::new();
    for (at, run) in runs.iter().enumerate() {
        let twin = runs[..at]
            .iter()
            .find(|other| without(other) == without(run) && other.measured.values == run.measured.values);
        same.extend(twin.map(|other| format!("{} and {}", describe(&other.parameters), describe(&run.parameters))));
    }
    same
}

/// Runs an experiment on two threads: there are few cores and many runs.
fn report(experiment: &Experiment) -> sim::experiment::ExperimentReport {
    let jobs = experiment.jobs(&Parameters::new(), true).unwrap_or_else(|error| panic!("{error}"));
    assert!(!jobs.is_empty(), "{}: nothing is run", experiment.file);
    let run = |job| {
        let measured = Simulation::default().run(job).unwrap_or_else(|error| panic!("{}: {error}", experiment.file));
        CompletedRun { parameters: job.parameters.clone(), measured }
    };
    let (first, second) = jobs.split_at(jobs.len() / 2);
    let runs = std::thread::scope(|scope| {
        let half = scope.spawn(|| first.iter().map(run).collect::<Vec<CompletedRun>>());
        let other: Vec<CompletedRun> = second.iter().map(run).collect();
        let mut runs = half.join().expect("a run failed");
        runs.extend(other);
        runs
    });
    let same = same_for_every_seed(&runs);
    assert!(same.is_empty(), "{}: the seed changes nothing: {same:#?}", experiment.file);
    experiment.report(runs, &Simulation::default())
}

fn check(paper: &str, name: &str) {
    let file = format!("{name}.toml");
    let entry = entries().find(|entry| entry.paper == paper && entry.file == file).expect("it is in the library");
    let report = report(&read(entry));
    let wrong: Vec<&String> =
        report.errors.iter().chain(report.verdicts.iter().filter_map(|v| v.error.as_ref())).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    expect_test::expect_file![folder().join(paper).join(format!("{name}.golden.csv"))].assert_eq(&golden(&report));
    let of = |is: &dyn Fn(&ClaimVerdict) -> bool| {
        report.verdicts.iter().filter(|v| is(v)).map(|v| v.claim.as_str()).collect::<Vec<&str>>()
    };
    let silent = of(&|v| v.verdict.is_missed() && v.differs.is_none());
    assert!(silent.is_empty(), "{paper} {name}: of {silent:?} the published figure is missed: say what `differs`");
    let document = read(entry).document;
    let says = |v: &ClaimVerdict| {
        document.claims.iter().any(|claim| v.claim.split(" @ ").next() == Some(&claim.id) && claim.differs.is_some())
    };
    // Of an experiment with several cases only one runs here, and another case may be the one that differs.
    let stale = of(&|v| !v.verdict.is_missed() && document.each.is_empty() && says(v));
    assert!(stale.is_empty(), "{paper} {name}: {stale:?} say what `differs`, and nothing does");
}

macro_rules! experiments {
    ($($test:ident: $paper:literal $name:literal)*) => {
        $(#[test] fn $test() { check($paper, $name); })*

        const TESTED: &[(&str, &str)] = &[$(($paper, $name)),*];
    };
}

experiments! {
    tasks_of_their_own_cost_little: "scheduling" "E1"
    a_reserved_flow_survives_a_flood_of_its_port: "scheduling" "E3"
    shares_may_be_out_of_balance: "scheduling" "E4"
    the_estimator_saves_what_idle_ports_cost: "scheduling" "E5"
    simple_batches_break_promises: "scheduling" "E6"
    without_batches_promises_are_kept: "scheduling" "E7"
    slices_keep_promises_and_are_efficient: "scheduling" "E8"
    fixed_batches_win_efficiency_and_cost_delay: "scheduling" "E9"
    slices_make_the_router_predictable: "scheduling" "E10"
    the_throttle_is_efficient_at_fine_grain: "scheduling" "E11"
    memory_or_a_bound_on_waiting_helps_a_throttled_flow: "scheduling" "E12"
    a_throttle_follows_the_load: "scheduling" "E13"
    switches_that_are_charged_take_from_nobody_else: "scheduling" "charge"
    one_task_for_everything_makes_promises_wait: "scheduling" "single"
    pref_ba: "queueing" "NX1"
    pref_ab: "queueing" "NX2"
    pref_bc: "queueing" "NX3"
    pref_cb: "queueing" "NX4"
    pref_ca: "queueing" "NX5"
    pref_ac: "queueing" "NX6"
    every_scheme_is_better_than_every_other: "queueing" "NX7"
    other_metrics_give_the_same_preferences: "queueing" "NX8"
    fair_queueing_helps_the_web_on_lte: "queueing" "NX9"
    one_queue_beats_two_on_some_static_links: "queueing" "NX10"
    codel_pays_for_changing_rates: "queueing" "NX11"
    two_codels_drop_more_than_one: "queueing" "NX12"
    swaps_lose_nothing: "queueing" "NX18"
    preferences_depend_on_the_transport: "queueing" "NX20"
    a_store_of_the_bound_never_overflows: "ephemeral" "EX1"
    an_instruction_waits_for_memory: "ephemeral" "EX2"
    one_thread_executes_and_cleans: "ephemeral" "EX3"
    threads_hide_memory: "ephemeral" "EX4"
    a_cleaner_assists: "ephemeral" "EX5"
    one_tag_reaches_the_line: "ephemeral" "EX6"
    throughput_is_linear_in_the_store: "ephemeral" "EX7"
    instructions_look_up_tags: "ephemeral" "EX9"
    workers_change_nothing: "ephemeral" "EX11"
    the_cleaner_frees_in_time: "ephemeral" "EX12"
    subcast_reaches_who_asked: "ephemeral" "EX13"
    groups_are_counted: "ephemeral" "EX14"
    a_lifetime_is_exact: "ephemeral" "EX15"
    engines_scale: "ephemeral" "EX17"
    quanta_cost_less_than_small_packets_and_more_than_large_ones: "panama" "F1"
    rate_of_quanta_does_not_depend_on_the_number_of_flows: "panama" "F3"
    batches_overlap_in_the_stages_of_the_pipeline: "panama" "F4"
    one_transfer_a_batch_beats_one_a_quantum: "panama" "F5"
    a_small_cache_of_ranges_answers_nine_of_ten_lookups: "panama" "F6"
    calls_of_an_extension_cost_little: "panama" "F7"
    processor_and_link_are_shared_by_the_same_reservations: "panama" "F8"
    quanta_are_two_cycles_behind_fluid_servers: "panama" "F9"
    long_functions_delay_no_other_flow: "panama" "timer"
    literal_potential_starves_a_flow_that_was_alone: "panama" "potential"
    shares_borrow_as_in_the_manual_of_htb: "sharing" "borrowing"
    circuits_get_their_plans_below_full_sites: "sharing" "sites"
    queues_of_a_slice_get_their_shares: "slices" "F7"
    an_output_sends_its_backlog_when_its_input_ends: "slices" "F8"
    a_fast_path_keeps_the_rate_of_its_engine: "slices" "F9"
    two_slices_divide_an_engine_as_packets_arrive: "slices" "F11"
    exceptions_leave_the_fast_path_its_rate: "slices" "exceptions"
    a_slice_cannot_disturb_another: "slices" "isolation"
    one_slice_may_use_all_filters: "slices" "filters"
    a_code_option_is_a_few_hundred_lines: "slices" "effort"
}

/// A golden file as Markdown: its tables with their titles.
fn tables(golden: &str) -> String {
    let mut out = String::new();
    for block in golden.split("\n\n").filter(|block| !block.trim().is_empty()) {
        let mut lines = block.lines();
        out += &format!("{}:\n\n", lines.next().unwrap_or("").trim_start_matches("# "));
        for (number, line) in lines.enumerate() {
            let cells = cells(line);
            out += &format!("| {} |\n", cells.join(" | "));
            if number == 0 {
                out += &format!("|{}\n", "---|".repeat(cells.len()));
            }
        }
        out.push('\n');
    }
    out
}

/// Splits a line of comma-separated values.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            '|' => cells.last_mut().unwrap().push_str("\\|"),
            c => cells.last_mut().unwrap().push(c),
        }
    }
    cells
}

#[test]
fn readme_has_golden_tables() {
    for paper in ["scheduling", "queueing", "ephemeral", "panama", "sharing", "slices"] {
        let path = folder().join(paper).join("README.md");
        let text = std::fs::read_to_string(&path).unwrap();
        let mut body = String::from("\n");
        for entry in entries().filter(|entry| entry.paper == paper && is_experiment(entry.text)) {
            let document = read(entry).document;
            if !document.measures.in_virtual_time() {
                continue;
            }
            let name = &document.experiment;
            let golden = std::fs::read_to_string(folder().join(paper).join(format!("{name}.golden.csv")));
            let golden = golden.unwrap_or_else(|_| panic!("{name} has no golden yet"));
            body += &format!("\n## {name}: {}\n\n{}\n\n{}.\n\n", document.title, document.question, document.published);
            body += &tables(&golden);
        }
        let (before, rest) = text.split_once("<!-- results -->").expect("a place for the results");
        let (_, after) = rest.split_once("<!-- end -->").expect("its end");
        let text =
            format!("{before}<!-- results -->{}\n<!-- end -->{after}", body.trim_end_matches('\n').to_owned() + "\n");
        expect_test::expect_file![path].assert_eq(&text);
    }
}

#[test]
fn every_experiment_is_in_library_and_tested() {
    let mut files = BTreeSet::new();
    for paper in std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        for file in std::fs::read_dir(&paper).unwrap().map(|entry| entry.unwrap().path()) {
            if file.extension().is_some_and(|extension| extension == "toml") {
                let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
                files.insert((name(&paper), name(&file)));
            }
        }
    }
    let library: BTreeSet<(String, String)> = entries().map(|e| (e.paper.to_owned(), e.file.to_owned())).collect();
    assert_eq!(files, library, "list it in crates/sim/src/experiment/library.rs");
    for entry in entries().filter(|entry| is_experiment(entry.text)) {
        let document = read(entry).document;
        // Measurements of a machine have no golden file.
        let tested = !document.measures.in_virtual_time()
            || TESTED.iter().any(|(paper, name)| *paper == entry.paper && format!("{name}.toml") == entry.file);
        assert!(tested, "{} {} has no test above", entry.paper, entry.file);
        assert_eq!(
            (document.paper.as_str(), format!("{}.toml", document.experiment)),
            (entry.paper, entry.file.to_owned())
        );
    }
}
