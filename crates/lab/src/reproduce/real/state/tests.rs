use super::*;
use sim::experiment::Parameters;

/// The results of a trial on real packets; `None` if there can be no laboratory.
fn of(text: &str) -> Option<Measurements> {
    let _share = crate::machine_lock::shared_machine();
    let real = match RealState::new(1) {
        Ok(real) => real,
        Err(error) => {
            eprintln!("skipped: {error:#}");
            return None;
        }
    };
    let job = Job {
        file: "trial.toml".to_owned(),
        world: text.to_owned(),
        measures: RunKind::State,
        parameters: Parameters::new(),
    };
    Some(real.run(&job).unwrap_or_else(|error| panic!("{error}")))
}

fn get(measured: &Measurements, name: &str) -> f64 {
    measured.get(name).unwrap_or_else(|| panic!("no {name} in {measured}"))
}

#[test]
fn data_follows_marked_branches_and_with_one_store_their_siblings_too() {
    for (single, copies) in [(false, [4, 0, 4, 0]), (true, [4, 4, 4, 4])] {
        let text =
            format!("kind = 'subcast'\nreceivers = [2, 2]\nmarked = [1, 3]\nsingle_store = {single}\npackets = 4\n");
        let Some(measured) = of(&text) else { return };
        let got = [1, 2, 3, 4].map(|n| get(&measured, &format!("copies.{n}")) as u64);
        assert_eq!(got, copies, "{measured}");
    }
}

#[test]
fn group_is_counted_by_sockets_over_routers_without_loss() {
    for (by, lifetime) in [("collect", "10s"), ("rcollect", "1500ms")] {
        let text = format!(
            "kind = 'group'\nmembers = 20\nchildren = 8\nlost = 0\nasked = 'size'\nby = '{by}'\ntries = 3\n\
             delay = '50ms'\nlifetime = '{lifetime}'\nseed = 1\n"
        );
        let Some(measured) = of(&text) else { return };
        assert_eq!(get(&measured, "result"), 20.0, "{by}: {measured}");
        assert_eq!(get(&measured, "real.sockets"), 20.0, "{by}: {measured}");
    }
}

/// On a shared machine a host may be late by tenths of a second.
#[test]
fn entry_expires_after_lifetime_and_store_holds_its_declared_size() {
    let Some(measured) =
        of("kind = 'lifetime'\nlifetime = '2s'\nlooks = [300, 1500]\nwrites = 100\nentries = 10\nseed = 1\n")
    else {
        return;
    };
    assert_eq!([get(&measured, "present.300"), get(&measured, "present.1500")], [1.0, 0.0], "{measured}");
    let Some(measured) = of(
        "kind = 'store'\nrate = '1000pps'\ncreates = 1\ncapacity = 250\nlifetime = '500ms'\nduration = '1500ms'\nseed = 1\n",
    ) else {
        return;
    };
    assert!((0.7..1.3).contains(&get(&measured, "of_size")), "{measured}");
    assert!(get(&measured, "aborted") > 100.0, "{measured}");
}
