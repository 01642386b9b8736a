//! Surveys of paths by probes, and branch points.

use super::{Place, packet, part_of};
use crate::host::{Branch, HopExecution, ProbeQuestion, ProbeReply, Probes, Survey, branches};
use crate::site::{InstructionFate, Location};
use crate::store::StoreSpec;
use crate::wire::Part;
use HopExecution::{Failed, No, Unknown, Yes};

/// The behaviour of a router on a path.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Executes,
    /// It has no ephemeral state.
    Plain,
    /// Its store is full from the start.
    Full,
    /// It executes, and sends no ICMP errors.
    Silent,
}

fn router(kind: Kind, node: u64) -> Place {
    let mut place = Place::new(StoreSpec::of(if kind == Kind::Full { 1 } else { 100 }));
    place.rules.node = node;
    place
}

/// Sends a probe along a path until its TTL expires. Returns the quoted bytes.
fn probe(way: &mut [(Kind, Place)], bytes: &[u8], question: ProbeQuestion) -> Option<Vec<u8>> {
    let part = Part::read(bytes).unwrap();
    let hop = usize::from(bytes[part.length()]);
    let mut l3 = packet(&part);
    let leaves = [ProbeQuestion::Output, ProbeQuestion::NodeAtOutput].contains(&question);
    let at = if leaves { Location::Output } else { Location::Input };
    for (number, (kind, place)) in way.iter_mut().enumerate() {
        let ends = number + 1 == hop;
        let executes = *kind != Kind::Plain && question != ProbeQuestion::Central && !(ends && leaves);
        let mut asked = l3.clone();
        if executes && place.pass(at, &mut asked) == InstructionFate::Dropped {
            return None;
        }
        l3 = asked;
        if ends {
            return (*kind != Kind::Silent)
                .then(|| [part_of(&l3).to_bytes(), bytes[part.length()..].to_vec()].concat());
        }
    }
    // The far end.
    Some([part_of(&l3).to_bytes(), bytes[part.length()..].to_vec()].concat())
}

/// Surveys a path, and one hop more: the far end.
fn survey(kinds: &[Kind]) -> Survey {
    let probes = Probes::new([3, 4]);
    let mut survey = Survey::new(probes);
    let mut way: Vec<(Kind, Place)> = kinds.iter().zip(10..).map(|(kind, node)| (*kind, router(*kind, node))).collect();
    for hop in 1..=kinds.len() as u8 + 1 {
        for question in [ProbeQuestion::Input, ProbeQuestion::Central, ProbeQuestion::Output] {
            // A retransmission has the same answer.
            for attempt in 0..2 {
                let sent = probes.datagram(question, hop, attempt, Part::to_bytes);
                if let Some(bytes) = probe(&mut way, &sent, question) {
                    assert_eq!(survey.record_reply(&bytes), Some(ProbeReply { question, hop, attempt }));
                }
            }
        }
    }
    survey
}

fn executes(survey: &Survey, question: ProbeQuestion, hops: u8) -> Vec<HopExecution> {
    (1..=hops).map(|hop| survey.execution_at(question, hop)).collect()
}

#[test]
fn survey_reports_the_locations_of_each_router() {
    let survey = survey(&[Kind::Plain, Kind::Executes, Kind::Executes, Kind::Plain]);
    assert_eq!(executes(&survey, ProbeQuestion::Input, 5), [No, Yes, Yes, No, No]);
    assert_eq!(executes(&survey, ProbeQuestion::Central, 5), [No; 5]);
    // No router sees whether the far end would execute at its output.
    assert_eq!(executes(&survey, ProbeQuestion::Output, 5), [No, Yes, Yes, No, Unknown]);
    assert_eq!(survey.child_number(1), None);
    assert!(survey.child_number(2).is_some() && survey.child_number(2) != survey.child_number(3));
}

#[test]
fn survey_reports_unknown_behind_silent_or_failing_routers() {
    let silent = survey(&[Kind::Executes, Kind::Silent, Kind::Executes, Kind::Executes]);
    assert_eq!(
        executes(&silent, ProbeQuestion::Input, 5),
        [Yes, Unknown, Unknown, Yes, No],
        "one of the second and third, or both"
    );
    assert_eq!(executes(&silent, ProbeQuestion::Output, 4), [Unknown, Unknown, Yes, Yes]);
    let full = survey(&[Kind::Executes, Kind::Full, Kind::Executes]);
    assert_eq!(
        executes(&full, ProbeQuestion::Input, 4),
        [Yes, Failed, Unknown, Unknown],
        "behind it nobody executes it"
    );
    let nothing = Survey::new(Probes::new([3, 4]));
    assert_eq!(executes(&nothing, ProbeQuestion::Input, 2), [Unknown; 2]);
}

#[test]
fn foreign_and_short_quotes_are_ignored() {
    let (probes, mut survey) = (Probes::new([3, 4]), Survey::new(Probes::new([3, 5])));
    assert_eq!(
        survey.record_reply(&probes.datagram(ProbeQuestion::Input, 1, 0, Part::to_bytes)),
        None,
        "another search's"
    );
    let mut survey = Survey::new(probes);
    let sent = probes.datagram(ProbeQuestion::Input, 1, 0, Part::to_bytes);
    for length in 0..sent.len() {
        assert_eq!(survey.record_reply(&sent[..length]), None);
    }
    assert!(survey.record_reply(&sent).is_some() && survey.has_reply(ProbeQuestion::Input, 1));
}

/// Two paths with the same probes: routers write the same numbers on both as long as the paths are common.
#[test]
fn surveys_report_equal_numbers_on_common_hops() {
    let probes = Probes::new([8, 9]);
    let mut common = vec![(Kind::Executes, router(Kind::Executes, 1)), (Kind::Executes, router(Kind::Executes, 2))];
    let names: Vec<Vec<Option<u64>>> = [3, 4]
        .map(|node| {
            common.push((Kind::Executes, router(Kind::Executes, node)));
            let mut survey = Survey::new(probes);
            for hop in 1..=4 {
                let bytes = probe(
                    &mut common,
                    &probes.datagram(ProbeQuestion::Input, hop, 0, Part::to_bytes),
                    ProbeQuestion::Input,
                )
                .unwrap();
                survey.record_reply(&bytes).unwrap();
            }
            common.pop();
            (1..=3).map(|hop| survey.child_number(hop)).collect()
        })
        .into();
    assert!(names.iter().flatten().all(Option::is_some));
    assert_eq!(names[0][..2], names[1][..2]);
    assert_ne!(names[0][2], names[1][2]);
}

fn ways(text: &[&str]) -> Vec<Vec<Option<char>>> {
    text.iter().map(|way| way.chars().map(|router| Some(router).filter(|router| *router != '*')).collect()).collect()
}

#[test]
fn branch_points_are_found_where_paths_differ() {
    let (shared, parted) = branches(&ways(&["abx", "aby", "acz"]));
    let at: Vec<_> = shared.iter().map(|shared| (shared.hop, shared.router, shared.paths.as_slice())).collect();
    let expected: [(usize, Option<char>, &[usize]); 6] = [
        (1, Some('a'), &[0, 1, 2]),
        (2, Some('b'), &[0, 1]),
        (2, Some('c'), &[2]),
        (3, Some('x'), &[0]),
        (3, Some('y'), &[1]),
        (3, Some('z'), &[2]),
    ];
    assert_eq!(at, expected);
    let branch = |hop, router, towards| Branch { hop, router, exact: true, towards };
    assert_eq!(parted, [branch(1, Some('a'), vec![vec![0, 1], vec![2]]), branch(2, Some('b'), vec![vec![0], vec![1]])]);
    assert_eq!(branches(&ways(&["abc", "abc"])).1, []);
    assert_eq!(
        branches(&ways(&["ax", "by"])).1,
        [Branch { hop: 0, router: None, exact: true, towards: vec![vec![0], vec![1]] }]
    );
}

#[test]
fn branch_behind_a_silent_router_is_not_exact() {
    let (_, parted) = branches(&ways(&["a*x", "a*y"]));
    assert_eq!(parted, [Branch { hop: 1, router: Some('a'), exact: false, towards: vec![vec![0], vec![1]] }]);
    let (_, parted) = branches(&ways(&["a*x", "aby"]));
    assert!(!parted[0].exact);
}
