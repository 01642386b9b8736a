//! The queueing scheme of a port, as the configuration writes it: `fq(quantum=1514b){codel(target=5ms)}`.
//!
//! A scheme that orders queues has the scheme of each queue in braces. A scheme with another one inside has that in braces, and one with branches has
//! a list of them. Missing braces mean the default. A scheme that manages a single queue has no braces.

use crate::diagnostic::Report;
use crate::document::Text;
use crate::text::{TextError, closest, did_you_mean, quote};
use crate::{Call, Catalogue};
use units::declare::{Declaration, Inside, OrderDeclaration};

/// Limit of queues of a link.
const QUEUES: u64 = units::QueueId::MOST as u64;
/// The prefix of guest names.
const GUEST: &str = "guest:";
/// Names of schemes in other systems, and the most similar scheme here.
const FOREIGN_NAMES: &[(&str, &str)] = &[
    ("pfifo", "fifo"),
    ("bfifo", "fifo"),
    ("droptail", "fifo"),
    ("pfifo_fast", "priority"),
    ("prio", "priority"),
    ("strict", "priority"),
    ("tbf", "shape"),
    ("htb", "share"),
    ("hfsc", "share"),
    ("cbq", "tree"),
    ("wrr", "drr"),
    ("ets", "drr"),
    ("qfq", "wf2q"),
];
/// Limit of nested schemes.
const DEPTH: usize = 8;

impl Call {
    /// Parses a scheme of the catalogue.
    pub fn scheme(text: &str, catalogue: &Catalogue) -> Result<Call, TextError> {
        let call = Reader { catalogue, depth: 0 }.any(Piece { offset: 0, text })?;
        let queues = call.queues(catalogue);
        if queues > QUEUES {
            let reason = format!("the scheme has {queues} queues; a link has {QUEUES} at most");
            let hint = match call.option("leaves") {
                Some(leaves) => {
                    format!(
                        "give fewer 'leaves', or at most {} 'flows' for each of the {leaves}",
                        (QUEUES / leaves.max(1)).saturating_sub(1)
                    )
                }
                None => "give fewer 'flows' or branches".to_string(),
            };
            return Err(TextError { offset: 0, length: text.trim_end().len(), reason, hint });
        }
        Ok(call)
    }

    /// True if `is` holds for the scheme or any scheme inside it.
    pub(crate) fn contains_scheme(&self, is: &dyn Fn(&Call) -> bool) -> bool {
        is(self) || self.inner.iter().any(|inner| inner.contains_scheme(is))
    }

    /// The number of queues that it needs on its link.
    fn queues(&self, catalogue: &Catalogue) -> u64 {
        let order = catalogue.orders.iter().find(|order| order.declaration.name == self.name);
        let said = order.and_then(|order| self.option(order.queues?));
        // Each leaf of a tree of shares has the scheme inside, and a queue for a lone packet.
        let is_share = order.is_some_and(|order| matches!(order.inner, Inside::Leaves));
        let leaves = self.option("leaves").filter(|_| is_share);
        let inside = || self.inner.iter().map(|inner| inner.queues(catalogue)).sum::<u64>().max(1);
        said.unwrap_or_else(|| leaves.map_or_else(inside, |leaves| leaves.saturating_mul(inside() + 1)))
    }
}

/// The scheme that a text names. `None` if it was reported.
pub(crate) fn scheme(report: &mut Report<'_>, text: &Text<'_>, catalogue: &Catalogue) -> Option<Call> {
    let call = Call::scheme(text.value, catalogue).map_err(|error| text.wrong(report, error)).ok()?;
    if call.contains_scheme(&|call| call.inner.is_empty() && call.option("limit") == Some(1)) {
        report.warning(text.span.clone(), text.path, || {
            let reason = "with a limit of 1 every burst loses all but one packet".to_string();
            (reason, "give a limit of a hundred or more".to_string())
        });
    }
    Some(call)
}

/// A part of the text and its offset.
#[derive(Clone, Copy)]
struct Piece<'t> {
    offset: usize,
    text: &'t str,
}

impl<'t> Piece<'t> {
    fn trimmed(self) -> Piece<'t> {
        let start = self.text.trim_start();
        Piece { offset: self.offset + (self.text.len() - start.len()), text: start.trim_end() }
    }

    fn wrong(self, reason: impl Into<String>, hint: impl Into<String>) -> TextError {
        TextError { offset: self.offset, length: self.text.len(), reason: reason.into(), hint: hint.into() }
    }

    /// Its name alone.
    fn named(self) -> Piece<'t> {
        let part = self.trimmed();
        Piece { text: part.text.split(['(', ')', '{', '}', ',']).next().unwrap_or_default(), ..part }.trimmed()
    }

    /// The part before the braces, and the part in them, if there are any.
    fn split(self) -> Result<(Piece<'t>, Option<Piece<'t>>), TextError> {
        let Some(open) = self.text.find('{') else { return Ok((self, None)) };
        let head = Piece { offset: self.offset, text: &self.text[..open] };
        let behind = Piece { offset: self.offset + open + 1, text: &self.text[open + 1..] };
        Ok((head, Some(behind.closed()?)))
    }

    /// The part before the closing brace, which has to be the last character.
    fn closed(self) -> Result<Piece<'t>, TextError> {
        let mut depth = 0;
        let close = self.text.find(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth < 0
        });
        let Some(close) = close else {
            let end = self.text.trim_end().len();
            return Err(Piece { offset: self.offset + end, text: "" }.wrong("the brace is not closed", "add '}'"));
        };
        let after = Piece { offset: self.offset + close + 1, text: &self.text[close + 1..] }.trimmed();
        if !after.text.is_empty() {
            return Err(after.wrong(format!("unexpected {} after the closing brace", quote(after.text)), "remove it"));
        }
        let inner = Piece { text: &self.text[..close], ..self };
        if inner.text.trim().is_empty() {
            // The text continues after the closing brace.
            let braces =
                TextError { offset: self.offset - 1, length: close + 2, reason: String::new(), hint: String::new() };
            let reason = "the braces are empty".to_string();
            return Err(TextError { reason, hint: "write a scheme between them: '{codel}'".to_string(), ..braces });
        }
        Ok(inner)
    }

    /// The members of a list, separated by commas outside of all brackets and braces.
    fn members(self) -> Vec<Piece<'t>> {
        let (mut depth, mut start, mut members) = (0, 0, Vec::new());
        for (place, c) in self.text.char_indices() {
            depth += i32::from("({".contains(c)) - i32::from(")}".contains(c));
            if c == ',' && depth == 0 {
                members.push(Piece { offset: self.offset + start, text: &self.text[start..place] });
                start = place + 1;
            }
        }
        members.push(Piece { offset: self.offset + start, text: &self.text[start..] });
        members
    }
}

struct Reader<'c> {
    catalogue: &'c Catalogue,
    depth: usize,
}

impl Reader<'_> {
    fn order(&self, name: &str) -> Option<&OrderDeclaration> {
        self.catalogue.orders.iter().find(|order| order.declaration.name == name)
    }

    /// The schemes that may have braces.
    fn orders(&self) -> Vec<Declaration> {
        self.catalogue.orders.iter().map(|order| order.declaration).collect()
    }

    /// Parses any scheme.
    fn any(&self, piece: Piece<'_>) -> Result<Call, TextError> {
        if self.depth > DEPTH {
            return Err(piece
                .trimmed()
                .wrong(format!("the scheme is nested more than {DEPTH} levels deep"), "use fewer"));
        }
        let (head, inside) = piece.split()?;
        if let Some(name) = head.named().text.strip_prefix(GUEST) {
            return self.guest(head, name, inside);
        }
        let Some(order) = self.order(head.named().text) else {
            return match inside {
                None => {
                    let all: Vec<Declaration> = self.catalogue.schemes.iter().copied().chain(self.orders()).collect();
                    self.parse_known(head, &all, "scheme")
                }
                Some(inside) => Err(self.without_braces(head, inside)),
            };
        };
        if order.is_outermost() && self.depth > 0 {
            let name = head.named();
            let reason = format!("'{}' divides a whole link, so it cannot be inside another scheme", name.text);
            return Err(name.wrong(reason, "write it as the port's whole scheme, with the other scheme inside"));
        }
        let outer = parse(head, &[order.declaration], "scheme")?;
        Ok(outer.around(self.inside(order, inside)?))
    }

    /// Parses a guest: a whole scheme with its own queues, so it has no braces.
    fn guest(&self, head: Piece<'_>, name: &str, inside: Option<Piece<'_>>) -> Result<Call, TextError> {
        let whole = head.named();
        if self.depth > 0 {
            let reason = format!("'{}' is a guest, which cannot be nested in another scheme", whole.text);
            return Err(whole.wrong(reason, "write it as the port's whole scheme"));
        }
        if let Some(inside) = inside {
            let length = inside.text.len() + 2;
            let reason = format!("'{}' is a guest, which cannot have braces", whole.text);
            return Err(TextError { offset: inside.offset - 1, length, reason, hint: "remove them".to_string() });
        }
        let Some(guests) = &self.catalogue.guests else {
            return Err(whole.wrong("no directory of guests is set", "use a built-in scheme"));
        };
        let (declaration, code) = guests.find(name).map_err(|(reason, hint)| whole.wrong(reason, hint))?;
        Ok(Call { code: Some(code), ..parse(head, &[declaration], "guest")? })
    }

    /// The schemes inside an order: those in the text, or the default.
    fn inside(&self, order: &OrderDeclaration, inside: Option<Piece<'_>>) -> Result<Vec<Call>, TextError> {
        let deeper = Reader { depth: self.depth + 1, ..*self };
        let inside = inside.unwrap_or(Piece { offset: 0, text: order.usual });
        Ok(match order.inner {
            Inside::Manager | Inside::Flows => vec![deeper.manager(inside)?],
            Inside::Any | Inside::Leaves => vec![deeper.any(inside)?],
            Inside::Branches(branch, most) => deeper.branches(inside, branch, most)?,
        })
    }

    /// Parses a scheme that manages a single queue.
    fn manager(&self, piece: Piece<'_>) -> Result<Call, TextError> {
        let name = piece.named();
        if let Some(guest) = name.text.strip_prefix(GUEST) {
            return self.guest(piece, guest, None);
        }
        if self.order(name.text).is_some() {
            let hint = did_you_mean(name.text, self.catalogue.schemes.iter().map(|scheme| scheme.name));
            return Err(
                name.wrong(format!("'{}' has queues of its own, so it cannot manage a single queue", name.text), hint)
            );
        }
        match piece.split()? {
            (head, None) => self.parse_known(head, &self.catalogue.schemes, "scheme"),
            (head, Some(inside)) => Err(self.without_braces(head, inside)),
        }
    }

    /// Parses a name with options. If the name is unknown, the hint has the most similar one, or all of them.
    fn parse_known(&self, head: Piece<'_>, declarations: &[Declaration], what: &str) -> Result<Call, TextError> {
        let name = head.named();
        if name.text.is_empty() || declarations.iter().any(|declaration| declaration.name == name.text) {
            return parse(head, declarations, what);
        }
        let names: Vec<&str> = declarations.iter().map(|declaration| declaration.name).collect();
        let like = closest(name.text, names.iter().copied()).map(str::to_string);
        let hint = match like.or_else(|| self.suggestion(name.text, &names)) {
            Some(meant) => format!("did you mean '{meant}'?"),
            None => format!("use one of {}", names.join(", ")),
        };
        Err(name.wrong(format!("no {what} is called {}", quote(name.text)), hint))
    }

    /// The scheme most similar to the name that another system uses. For a name like `fq_codel` both parts, or the part that is allowed here.
    fn suggestion(&self, name: &str, names: &[&str]) -> Option<String> {
        let name = name.to_ascii_lowercase();
        let elsewhere = FOREIGN_NAMES.iter().find(|(other, ours)| *other == name && names.contains(ours));
        if let Some((_, ours)) = elsewhere {
            return Some(ours.to_string());
        }
        let (order, inside) = name.split_once(['_', '-', '+'])?;
        let is_manager = self.catalogue.schemes.iter().any(|scheme| scheme.name == inside);
        match is_manager && self.order(order).is_some() {
            true if names.contains(&order) => Some(format!("{order}{{{inside}}}")),
            true => Some(inside.to_string()),
            false => None,
        }
    }

    fn branches(&self, piece: Piece<'_>, branch: &OrderDeclaration, most: usize) -> Result<Vec<Call>, TextError> {
        let members = piece.members();
        if let Some(surplus) = members.get(most) {
            let reason = format!("there are {} branches, more than {most}", members.len());
            return Err(surplus.trimmed().wrong(reason, "nest some of them in a branch with a tree of its own"));
        }
        let mut branches: Vec<Call> = Vec::new();
        for member in members {
            let (head, inside) = member.split()?;
            let call = parse(head, &[branch.declaration], "part of a tree")?;
            if let Some(class) = call.option("class")
                && branches.iter().any(|other| other.option("class") == Some(class))
            {
                let reason = format!("another branch begins with class {class}");
                return Err(head.trimmed().wrong(reason, "give each branch another class: 'branch(class=1)'"));
            }
            branches.push(call.around(self.inside(branch, inside)?));
        }
        Ok(branches)
    }

    /// The error for braces after a scheme that has none.
    fn without_braces(&self, head: Piece<'_>, inside: Piece<'_>) -> TextError {
        let (name, orders) = (head.named().text, self.orders());
        let known = self.catalogue.schemes.iter().any(|scheme| scheme.name == name);
        if let (false, Err(error)) = (known, self.parse_known(head, &orders, "scheme with braces")) {
            return error;
        }
        let orders: Vec<&str> = orders.iter().map(|order| order.name).collect();
        TextError {
            offset: inside.offset - 1,
            length: inside.text.len() + 2,
            reason: format!("'{name}' manages a single queue, so it cannot have braces"),
            hint: format!("remove the braces, or nest it in a scheme with several queues: {}", orders.join(", ")),
        }
    }
}

/// Parses a name with its options.
fn parse(piece: Piece<'_>, declarations: &[Declaration], what: &str) -> Result<Call, TextError> {
    Call::parse(piece.text, declarations, what)
        .map_err(|error| TextError { offset: error.offset + piece.offset, ..error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GuestCode, Guests};
    use expect_test::{Expect, expect};
    use std::sync::Arc;
    use units::declare::{DeclaredCost, OptionDeclaration, OrderDeclaration, Unit};

    const fn count(name: &'static str, default: &'static str) -> OptionDeclaration {
        OptionDeclaration { name, unit: Unit::Count, default, least: 1, most: 9999, doc: "Packets." }
    }

    const fn declared(name: &'static str, options: &'static [OptionDeclaration]) -> Declaration {
        Declaration { name, summary: "", cost: DeclaredCost::None, source: "", options }
    }

    const LIMIT: &[OptionDeclaration] = &[count("limit", "1000")];
    const FLOWS: &[OptionDeclaration] = &[count("flows", "1024")];

    const fn order(
        name: &'static str,
        options: &'static [OptionDeclaration],
        inside: Inside,
        usual: &'static str,
    ) -> OrderDeclaration {
        OrderDeclaration { declaration: declared(name, options), inner: inside, usual, queues: None }
    }

    const CLASS: OptionDeclaration =
        OptionDeclaration { name: "class", unit: Unit::Count, default: "0", least: 0, most: 255, doc: "The class." };
    const BRANCH: OrderDeclaration = order("branch", &[CLASS], Inside::Any, "fifo");

    fn catalogue() -> Catalogue {
        Catalogue {
            schemes: vec![declared("fifo", LIMIT), declared("codel", &[])],
            orders: vec![
                OrderDeclaration { queues: Some("flows"), ..order("fq", FLOWS, Inside::Manager, "codel") },
                order("drr", &[], Inside::Manager, "fifo"),
                order("shape", &[], Inside::Any, "fifo"),
                order("tree", &[], Inside::Branches(&BRANCH, 3), "branch"),
            ],
            ..Catalogue::default()
        }
    }

    fn read(text: &str) -> Result<Call, TextError> {
        Call::scheme(text, &catalogue())
    }

    #[test]
    fn inner_scheme_is_in_braces_and_texts_with_the_same_meaning_are_equal() {
        assert_eq!(read("fq").unwrap().text, "fq(flows=1024){codel}");
        assert_eq!(read(" fq ( flows = 7 ) { fifo } ").unwrap().text, "fq(flows=7){fifo(limit=1000)}");
        assert_eq!(read("drr"), read("drr(){ fifo(limit=1000) }"));
        assert_eq!(read("fifo").unwrap().inner, []);
        for text in ["fifo(limit=7)", "codel", "fq(flows=2){fifo(limit=3)}", "drr{codel}"] {
            assert_eq!(read(text).unwrap().to_string(), text);
        }
        let call = read("fq(flows=2){fifo(limit=3)}").unwrap();
        let json = serde_json::to_value(&call).unwrap();
        assert_eq!(json["inner"][0]["options"]["limit"], 3);
    }

    /// Guests of these names: the second one always returns an error.
    #[derive(Debug)]
    struct Two;

    impl Guests for Two {
        fn find(&self, name: &str) -> Result<(Declaration, GuestCode), (String, String)> {
            match name {
                "mine" => Ok((declared("guest:mine", LIMIT), GuestCode { digest: 7, maker: Arc::new(()) })),
                other => Err((format!("there is no guest '{other}'"), "build it".to_string())),
            }
        }
    }

    #[test]
    fn guest_scheme_takes_no_inner_schemes() {
        let catalogue = Catalogue {
            guests: Some(Arc::new(Two)),
            schemes: vec![declared("fifo", LIMIT)],
            orders: vec![order("shape", &[], Inside::Any, "fifo"), order("drr", &[], Inside::Manager, "fifo")],
            ..Catalogue::default()
        };
        let call = Call::scheme(" guest:mine( limit=5 )", &catalogue).unwrap();
        assert_eq!((call.text.as_str(), call.option("limit")), ("guest:mine(limit=5)", Some(5)));
        assert_eq!(call.code.as_ref().map(|code| code.digest), Some(7));
        let same = Call::scheme(&call.text, &catalogue).unwrap();
        let newer = Call { code: Some(GuestCode { digest: 8, maker: Arc::new(()) }), ..call.clone() };
        assert!(same == call && newer != call);
        let wrong = |text: &str| {
            let e = Call::scheme(text, &catalogue).unwrap_err();
            format!("{} {}; {}", &text[e.offset..e.offset + e.length], e.reason, e.hint)
        };
        assert_eq!(wrong("guest:his(a=1)"), "guest:his there is no guest 'his'; build it");
        assert!(wrong("guest:mine(limti=5)").starts_with("limti 'guest:mine' has no option 'limti'"));
        assert!(wrong("guest:mine{fifo}").starts_with("{fifo} 'guest:mine' is a guest, which cannot have braces"));
        let inside = "guest:mine 'guest:mine' is a guest, which cannot be nested in another scheme; ";
        assert!(wrong("shape{guest:mine}").starts_with(inside) && wrong("drr{ guest:mine }").starts_with(inside));
        let none = Catalogue { guests: None, ..catalogue.clone() };
        assert_eq!(Call::scheme("guest:mine", &none).unwrap_err().reason, "no directory of guests is set");
    }

    #[test]
    fn schemes_nest_and_trees_have_branches() {
        assert_eq!(read("shape").unwrap().text, "shape{fifo(limit=1000)}");
        assert_eq!(read("tree").unwrap().text, "tree{branch(class=0){fifo(limit=1000)}}");
        let text = "tree{branch(class=1){shape{fq(flows=7){codel}}}, branch(class=0){tree{branch(class=0){codel}}}}";
        let call = read(text).unwrap();
        assert_eq!(call.text, text);
        assert_eq!(call.inner[0].inner[0].inner[0].option("flows"), Some(7));
        assert_eq!(read("tree { branch{ fq ( flows = 9 ) } ,branch( class=2 ) }").unwrap().inner.len(), 2);
    }

    #[test]
    fn link_has_a_limited_number_of_queues() {
        const MANY: &[OptionDeclaration] = &[OptionDeclaration { most: 1 << 20, ..count("flows", "1024") }];
        let mut catalogue = catalogue();
        catalogue.orders[0].declaration.options = MANY;
        let two = |inside: &str| format!("tree{{branch{{{inside}}},branch(class=1){{{inside}}}}}");
        let many = two(&two(&two("fq(flows=700000)")));
        let error = Call::scheme(&many, &catalogue).unwrap_err();
        assert_eq!((error.offset, error.length), (0, many.len()));
        assert_eq!(error.reason, "the scheme has 5600000 queues; a link has 5242880 at most");
        assert!(Call::scheme(&two(&two(&two("fq(flows=500000)"))), &catalogue).is_ok());
    }

    fn check(expected: Expect, texts: &[&str]) {
        let line = |text: &&str| {
            let e = read(text).unwrap_err();
            let marked = text.get(e.offset..e.offset + e.length).expect("on character boundaries");
            format!("{text:22} {}+{} {marked:8} {}; {}\n", e.offset, e.length, e.reason, e.hint)
        };
        expected.assert_eq(&texts.iter().map(line).collect::<String>());
    }

    #[test]
    fn error_marks_the_wrong_part_of_the_text() {
        let texts = [
            "",
            "{codel}",
            "qf{codel}",
            "fq{codle}",
            "fq_codel",
            "fq{fq_codel}",
            "tbf(rate=1mbit)",
            "cbq{fq}",
            "other",
            "fq{ fifo(limit=0) }",
            "fq{fifo(limti=1)}",
            "fq(flows=0){codel}",
            "fq{codel",
            "fq{",
            "fq{}",
            "fq{codel} x",
            "fq}codel{",
            "codel{fifo}",
            "fq{drr}",
            "fq{ drr{fifo} }",
            "fq{é}",
            "shape{fq{fq}}",
            "shape{fq{codel}",
            "shape{fq{codel}} }",
            "shape{branch}",
            "tree{fifo}",
            "tree{branch,branch}",
            "tree{branch{fifo}, }",
            "tree{branch(class=1),branch(class=2),branch(class=3),branch(class=4)}",
            "tree{branch(class=1){fq(flows=9000)},branch(class=2){fq(flows=0)}}",
            "shape{shape{shape{shape{shape{shape{shape{shape{shape{fifo}}}}}}}}}",
        ];
        check(
            expect![[r#"
                                       0+0          a name is missing; write a name, and options in brackets: 'fifo(limit=1000)'
                {codel}                0+0          a name is missing; write a name, and options in brackets: 'fifo(limit=1000)'
                qf{codel}              0+2 qf       no scheme with braces is called 'qf'; did you mean 'fq'?
                fq{codle}              3+5 codle    no scheme is called 'codle'; did you mean 'codel'?
                fq_codel               0+8 fq_codel no scheme is called 'fq_codel'; did you mean 'fq{codel}'?
                fq{fq_codel}           3+8 fq_codel no scheme is called 'fq_codel'; did you mean 'codel'?
                tbf(rate=1mbit)        0+3 tbf      no scheme is called 'tbf'; did you mean 'shape'?
                cbq{fq}                0+3 cbq      no scheme with braces is called 'cbq'; did you mean 'tree'?
                other                  0+5 other    no scheme is called 'other'; use one of fifo, codel, fq, drr, shape, tree
                fq{ fifo(limit=0) }    15+1 0        limit=0 is below the minimum, 1; give 1 to 9999; the default is 1000
                fq{fifo(limti=1)}      8+5 limti    'fifo' has no option 'limti'; did you mean 'limit'?
                fq(flows=0){codel}     9+1 0        flows=0 is below the minimum, 1; give 1 to 9999; the default is 1024
                fq{codel               8+0          the brace is not closed; add '}'
                fq{                    3+0          the brace is not closed; add '}'
                fq{}                   2+2 {}       the braces are empty; write a scheme between them: '{codel}'
                fq{codel} x            10+1 x        unexpected 'x' after the closing brace; remove it
                fq}codel{              9+0          the brace is not closed; add '}'
                codel{fifo}            5+6 {fifo}   'codel' manages a single queue, so it cannot have braces; remove the braces, or nest it in a scheme with several queues: fq, drr, shape, tree
                fq{drr}                3+3 drr      'drr' has queues of its own, so it cannot manage a single queue; use one of fifo, codel
                fq{ drr{fifo} }        4+3 drr      'drr' has queues of its own, so it cannot manage a single queue; use one of fifo, codel
                fq{é}                  3+2 é        no scheme is called 'é'; use one of fifo, codel
                shape{fq{fq}}          9+2 fq       'fq' has queues of its own, so it cannot manage a single queue; use one of fifo, codel
                shape{fq{codel}        15+0          the brace is not closed; add '}'
                shape{fq{codel}} }     17+1 }        unexpected '}' after the closing brace; remove it
                shape{branch}          6+6 branch   no scheme is called 'branch'; use one of fifo, codel, fq, drr, shape, tree
                tree{fifo}             5+4 fifo     no part of a tree is called 'fifo'; use 'branch'
                tree{branch,branch}    12+6 branch   another branch begins with class 0; give each branch another class: 'branch(class=1)'
                tree{branch{fifo}, }   19+0          a name is missing; write a name, and options in brackets: 'fifo(limit=1000)'
                tree{branch(class=1),branch(class=2),branch(class=3),branch(class=4)} 53+15 branch(class=4) there are 4 branches, more than 3; nest some of them in a branch with a tree of its own
                tree{branch(class=1){fq(flows=9000)},branch(class=2){fq(flows=0)}} 62+1 0        flows=0 is below the minimum, 1; give 1 to 9999; the default is 1024
                shape{shape{shape{shape{shape{shape{shape{shape{shape{fifo}}}}}}}}} 54+4 fifo     the scheme is nested more than 8 levels deep; use fewer
            "#]],
            &texts,
        );
    }
}
