//! Lists of rules through the API.

use crate::rig::Rig;
use control::api;

const FILTER: &str = r#"
[[path]]
name = "guests"
match = "iif lan"
functions = ["filter", "ip"]
filter = ["udp dport 53 accept", "log prefix \"rest: \" drop"]
"#;

fn batch(rig: &Rig, list: &str, text: &str) -> Result<api::RulesEdited, control::ClientError> {
    rig.client.post_with("/v1/rules/batch", &[("list", list.to_owned()), ("name", "batch".to_owned())], text)
}

fn ids(rig: &Rig, query: &str) -> Vec<u32> {
    let lists: api::RuleLists = rig.client.get(&format!("/v1/rules?list=guests{query}")).unwrap();
    lists.lists[0].rules.iter().map(|rule| rule.id).collect()
}

#[test]
fn batch_of_rules_is_made_whole_or_not_at_all() {
    let rig = Rig::start(FILTER);
    let edited = batch(&rig, "guests", "add before 2 tcp dport 22 accept\nreplace 1 udp accept\n").unwrap();
    assert_eq!((edited.added, edited.removed, edited.total), (vec![3, 4], 1, 3));
    assert_eq!(ids(&rig, ""), [4, 3, 2]);
    assert_eq!(ids(&rig, "&limit=1"), [4]);
    // The second line names a rule that is gone.
    let error = batch(&rig, "guests", "add drop\n\nremove 1\n").unwrap_err().to_string();
    assert!(error.contains("batch:3:1: error: the list has no rule 1"), "{error}");
    let error = batch(&rig, "guests", "add drop\nadd ip saddr @bad drop\n").unwrap_err().to_string();
    assert!(error.contains("batch:2:14: error: there is no set 'bad'"), "{error}");
    assert_eq!(ids(&rig, ""), [4, 3, 2]);
    let error = batch(&rig, "guest", "add drop\n").unwrap_err().to_string();
    assert!(error.contains("there is no list of rules 'guest'") && error.contains("'guests'"), "{error}");
    let lists: api::RuleLists = rig.client.get("/v1/rules").unwrap();
    let shown: Vec<(&str, u64, bool)> =
        lists.lists.iter().map(|list| (list.list.as_str(), list.total, list.changed)).collect();
    assert_eq!(shown, [("paths", 1, false), ("guests", 3, true)]);
    let events: api::Events = rig.client.get("/v1/events").unwrap();
    let edits = events.events.iter().filter(|event| event.kind == api::EventKind::RulesEdited);
    let texts: Vec<&str> = edits.map(|event| event.text.as_str()).collect();
    assert!(texts.len() == 1 && texts[0].starts_with("rules: 2 added, 1 removed, 3 in the list"), "{texts:?}");
}

#[test]
fn explanation_lists_few_of_many_rules_that_do_not_match() {
    let rig = Rig::start(FILTER);
    let rules: String = (0..100).map(|port| format!("add before 1 udp dport {port} path guests\n")).collect();
    batch(&rig, "paths", &rules).unwrap();
    let packet = "in lan ip saddr 192.0.2.7 ip daddr 198.51.100.9 udp dport 53";
    let query = form_urlencoded::Serializer::new(String::new()).append_pair("packet", packet).finish();
    let explained: api::ExplainReply = rig.client.get(&format!("/v1/explain?{query}")).unwrap();
    let rules: Vec<&str> =
        explained.steps.iter().filter(|step| step.step == "rule").map(|step| step.text.as_str()).collect();
    // 53 rules before the matching one do not match.
    assert_eq!((rules.len(), rules[0]), (22, "33 rules before these do not match"), "{rules:#?}");
    assert_eq!(rules[21], "55 (udp dport 53 path guests) matches");
    let decided = explained.steps.iter().find(|step| step.step == "function").unwrap();
    assert_eq!(decided.text, "filter: changes nothing, rule 1: udp dport 53 accept");
}

#[test]
fn routing_rules_change_through_the_api_and_appear_in_explanations() {
    let rig = Rig::start("");
    let lists: api::RuleLists = rig.client.get("/v1/rules").unwrap();
    assert!(lists.lists.iter().all(|list| list.list != "routing"), "nothing to show");
    let edited =
        batch(&rig, "routing", "add udp dport 53 log prefix \"dns\" via 198.51.100.9\nadd tcp drop\n").unwrap();
    assert_eq!((edited.added, edited.total), (vec![1, 2], 2));
    let error = batch(&rig, "routing", "add udp\nadd vrf red\nremove 1\n").unwrap_err().to_string();
    assert!(error.contains("batch:1:5: error: 'udp' is no verdict"), "{error}");
    assert!(error.contains("batch:2:9: error: no interface is in the VRF 'red'"), "{error}");
    let lists: api::RuleLists = rig.client.get("/v1/rules?list=routing").unwrap();
    let shown: Vec<&str> = lists.lists[0].rules.iter().map(|rule| rule.rule.as_str()).collect();
    assert_eq!(shown, ["ip udp dport 53 log prefix \"dns\" via 198.51.100.9 dev wan", "tcp drop"]);
    let packet = "in lan ip saddr 192.0.2.7 ip daddr 203.0.113.9 udp dport 53";
    let query = form_urlencoded::Serializer::new(String::new()).append_pair("packet", packet).finish();
    let explained: api::ExplainReply = rig.client.get(&format!("/v1/explain?{query}")).unwrap();
    let rule = explained.steps.iter().find(|step| step.step == "rule").unwrap();
    assert!(rule.text.starts_with("1 (ip udp dport 53") && rule.text.ends_with("matches"), "{rule:?}");
    assert_eq!((explained.prefix, explained.next_hop.as_deref()), (None, Some("198.51.100.9")));
    // Without the rule there is no route to this network.
    assert_ne!(explained.verdict, "dropped", "{:?}", explained.steps);
}
