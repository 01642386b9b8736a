use super::*;

/// A router with two sides that share no resource. The costs are easy to add.
fn trial(more: &str, steps: &str) -> Result<BTreeMap<String, f64>, String> {
    let text = format!(
        "packet = 128\nprefix = 0\ntransfer = 'none'\ncycle = 100000\nbuffers = 1\nsingle = 4\nbatches = 400\nclock = 400e6\nseed = 1\nactive = 1.0\n{more}\n{steps}"
    );
    run(&text, "trial.toml").map(|measured| measured.values)
}

fn steps(receive: &str, schedule: &str) -> String {
    let step = |side: &str, resource: &str, cost: &str| {
        format!("[[step]]\nside = '{side}'\nresource = '{resource}'\n{cost}\n")
    };
    step("ingress", "a", "fixed = 1000")
        + &step("egress", "b", &format!("work = 'receive'\n{receive}"))
        + &step("egress", "c", &format!("work = 'schedule'\n{schedule}"))
}

const FLOWS: &str =
    "flows = 64\nquantum = 16\nbatch = 32\nbacklog = 0\nscheduler = 'dfq'\nthreads = true\ngiven = []\n";

#[test]
fn costs_of_steps_give_latencies_and_cycle() {
    let values = trial(FLOWS, &steps("fixed = 500\nper_byte = 2.0\nper_transfer = 7", "fixed = 40000")).unwrap();
    assert_eq!(values["ingress_cycles"], 1000.0);
    assert_eq!(values["egress_cycles"], 500.0 + 2.0 * 512.0 + 7.0 + 40000.0);
    assert_eq!((values["pipeline_cycles"], values["stages"], values["batch_quanta"]), (40000.0, 3.0, 32.0));
    assert_eq!(values["rate_pps"], 400e6 / 40000.0 * 32.0 * 16.0 / 128.0);
    assert_eq!((values["lost"], values["reordered"], values["transfers"]), (0.0, 0.0, 1.0));
}

#[test]
fn each_quantum_needs_a_transfer_without_threads() {
    let without = FLOWS.replace("threads = true", "threads = false");
    let values = trial(&without, &steps("fixed = 100\nper_transfer = 5000", "fixed = 10")).unwrap();
    assert_eq!((values["transfers"], values["pipeline_cycles"]), (32.0, 160_100.0));
    // The link would send a batch each 40000 cycles; the pipeline is slower, so that nothing waits.
    assert_eq!(values["visits"], 1.0);
}

#[test]
fn fifo_sends_packets_in_order_with_a_transfer_each() {
    let fifo = FLOWS.replace("'dfq'", "'fifo'").replace("quantum = 16", "quantum = 128");
    let values = trial(&fifo, &steps("fixed = 100\nper_transfer = 5000", "fixed = 10\nper_operation = 100")).unwrap();
    assert_eq!((values["transfers"], values["operations"], values["visits"]), (32.0, 2.0, 0.0));
    assert_eq!((values["pipeline_cycles"], values["lost"], values["reordered"]), (160_100.0, 0.0, 0.0));
    assert_eq!(values["throughput_bps"], 400e6 / 160_100.0 * 32.0 * 128.0 * 8.0);
}

#[test]
fn prefixes_of_packets_occupy_a_part_of_the_quanta() {
    let steps = steps("fixed = 500", "fixed = 40000");
    let rate = |prefix: &str| {
        let text = format!(
            "{FLOWS}packet = 14\n{prefix}\ntransfer = 'none'\ncycle = 100000\nbuffers = 1\nsingle = 4\nbatches = 400\n"
        );
        run(&format!("{text}clock = 400e6\nseed = 1\nactive = 1.0\n{steps}"), "trial.toml").unwrap().values["rate_pps"]
    };
    let part = rate("prefix = 2") / rate("prefix = 0");
    assert!((part - 14.0 / 16.0).abs() < 1e-9, "{part}");
}

#[test]
fn reservations_bound_the_rate_of_a_fast_pipeline() {
    let values = trial(FLOWS, &steps("fixed = 10", "fixed = 4000")).unwrap();
    // A batch of all flows in 100 us. Ten batches arrive in that time.
    let expected = 32.0 * 10_000.0;
    assert!((values["quanta_pps"] / expected - 1.0).abs() < 0.1, "{values:?}");
    assert!(values["lost"] == 0.0 && values["reordered"] == 0.0, "{values:?}");
}

#[test]
fn heap_and_cycles_send_the_same_quanta_of_equal_flows() {
    for scheduler in ["dfq", "heap"] {
        for (flows, active) in [(30, 1.0), (500, 1.0), (500, 0.3)] {
            let more = format!(
                "flows = {flows}\nquantum = 64\nbatch = 32\nbacklog = 2\nscheduler = '{scheduler}'\nthreads = true\ngiven = []\n"
            );
            let steps = steps("fixed = 10", "fixed = 60000");
            let text = format!(
                "packet = 64\nprefix = 0\ntransfer = 'none'\ncycle = 100000\nbuffers = 0\nsingle = 1\nbatches = 400\nclock = 400e6\nseed = 3\nactive = {active:.1}\n{more}{steps}"
            );
            let values = run(&text, "trial.toml").unwrap().values;
            assert_eq!((values["lost"], values["reordered"]), (0.0, 0.0), "{scheduler} {flows} {active}: {values:?}");
            let batch = if flows == 30 { 30.0 } else { 32.0 };
            let quanta = values["quanta_pps"] * 60000.0 / 400e6;
            // The last batch of a round may be short.
            assert!((quanta / batch - 1.0).abs() < 0.03, "{scheduler} {flows} {active}: {quanta} quanta a batch");
        }
    }
}

#[test]
fn given_sequence_is_counted_as_in_the_published_example() {
    let given = "given = [{ arrives = [1, 10, 20, 30], sends = [1, 20] }, { arrives = [1, 10, 25], sends = [1, 10, 25] }, { arrives = [1, 5, 20, 25, 30], sends = [] }]";
    let more = FLOWS.replace("given = []", given);
    let values = trial(&more, &steps("fixed = 10", "fixed = 10")).unwrap();
    assert_eq!((values["given_batches"], values["given_quanta"]), (3.0, 12.0));
    let impossible = FLOWS.replace("given = []", "given = [{ arrives = [1], sends = [2] }]");
    assert!(trial(&impossible, &steps("fixed = 10", "fixed = 10")).unwrap_err().contains("a cycle sends [2]"));
}

#[test]
fn invalid_trials_are_refused() {
    let good = steps("fixed = 10", "fixed = 10");
    for (more, steps, why) in [
        (FLOWS.replace("flows = 64", "flows = 0"), good.clone(), "`flows` is 0"),
        (FLOWS.replace("batch = 32", "batch = 5000"), good.clone(), "`batch` is 5000"),
        (FLOWS.into(), good.replace("work = 'schedule'", ""), "a later one schedules"),
        (FLOWS.into(), good.replace("'ingress'", "'egress'"), "one of each side"),
        (FLOWS.into(), good.replace("fixed = 1000", "fixed = -1"), "costs of a step"),
        (FLOWS.into(), good.replace("fixed = 1000", "price = 1"), "price"),
    ] {
        let error = trial(&more, &steps).expect_err(why);
        assert!(error.starts_with("trial.toml: ") && error.contains(why), "{error}");
    }
}

#[test]
fn load_without_a_pipeline_sends_what_it_receives() {
    for (scheduler, flows, threads) in
        [("dfq", 64, true), ("dfq", 500, true), ("dfq", 500, false), ("heap", 500, true), ("fifo", 64, true)]
    {
        let more = FLOWS.replace("flows = 64", &format!("flows = {flows}")).replace("'dfq'", &format!("'{scheduler}'"));
        let more = more.replace("threads = true", &format!("threads = {threads}"));
        let text = format!(
            "packet = 16\nprefix = 0\ntransfer = 'none'\ncycle = 100000\nbuffers = 1\nsingle = 1\nbatches = 8\nclock = 400e6\nseed = 1\nactive = 1.0\n{more}{}",
            steps("fixed = 10", "fixed = 10")
        );
        let plan = QuantaPlan::read(&text, "trial.toml").unwrap();
        let mut load = EgressLoad::new(&plan).unwrap();
        let (mut arrived, mut sent) = (0, 0);
        for _ in 0..400 {
            let batch = load.draw();
            arrived += batch.len();
            sent += load.pass(&batch).unwrap().len();
        }
        assert!(arrived - sent <= 2 * flows, "{scheduler}: {sent} of {arrived}");
    }
}
