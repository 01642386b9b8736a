use super::*;
use sim::experiment::Parameters;

/// What comes of a trial on real packets; nothing where there can be no laboratory.
fn of(text: &str) -> Option<Measured> {
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
        measures: Measures::State,
        parameters: Parameters::new(),
    };
    Some(real.run(&job).unwrap_or_else(|error| panic!("{error}")))
}

fn get(measured: &Measured, name: &str) -> f64 {
    measured.get(name).unwrap_or_else(|| panic!("no {name} in {measured}"))
}

#[test]
fn data_goes_to_marked_branches_and_with_one_store_to_their_sisters_too() {
    for (single, copies) in [(false, [4, 0, 4, 0]), (true, [4, 4, 4, 4])] {
        let text =
            format!("kind = 'subcast'\nreceivers = [2, 2]\nmarked = [1, 3]\nsingle_store = {single}\npackets = 4\n");
        let Some(measured) = of(&text) else { return };
        let got = [1, 2, 3, 4].map(|n| get(&measured, &format!("copies.{n}")) as u64);
        assert_eq!(got, copies, "{measured}");
    }
}

#[test]
fn a_group_is_counted_by_a_socket_of_each_member_over_routers_that_lose_nothing() {
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

/// On a machine that others use, too, a host may be late by tenths of a second.
#[test]
fn state_is_gone_after_a_lifetime_and_a_store_holds_what_it_is_said_to() {
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
