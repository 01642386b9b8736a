//! The queueing scheme of a port, as the configuration writes it: `fq(quantum=1514b){codel(target=5ms)}`.
//!
//! A scheme that orders many queues has what manages each of them in braces behind it; left out, that is the one it is usually
//! used with. One that manages a queue by itself has none.

use crate::text::{TextError, did_you_mean, quote};
use crate::{Call, Catalogue};
use units::declare::Declaration;

impl Call {
    /// Reads a scheme of the catalogue.
    pub fn scheme(text: &str, catalogue: &Catalogue) -> Result<Call, TextError> {
        let Some(open) = text.find('{') else {
            let mut all = catalogue.schemes.clone();
            all.extend(catalogue.orders.iter().map(|order| order.declaration));
            let outer = Call::parse(text, &all, "scheme")?;
            let order = catalogue.orders.iter().find(|order| order.declaration.name == outer.name);
            return match order {
                None => Ok(outer),
                Some(order) => Ok(outer.around(Call::parse(order.usual, &catalogue.schemes, "scheme")?)),
            };
        };
        let orders: Vec<Declaration> = catalogue.orders.iter().map(|order| order.declaration).collect();
        let outer = Call::parse(&text[..open], &orders, "scheme that orders queues").map_err(|error| {
            let name = text[..open].split('(').next().unwrap_or_default().trim();
            let alone = catalogue.schemes.iter().any(|scheme| scheme.name == name);
            if alone { without_braces(text, open, name, &orders) } else { error }
        })?;
        let inner = braced(text, open)?;
        let named = inner.trim_start().split(|c: char| "({ ".contains(c)).next().unwrap_or_default();
        if orders.iter().any(|order| order.name == named) {
            let reason = format!("'{named}' orders queues itself, and cannot manage one");
            let offset = open + 1 + (inner.len() - inner.trim_start().len());
            let hint = did_you_mean(named, catalogue.schemes.iter().map(|scheme| scheme.name));
            return Err(TextError { offset, length: named.len(), reason, hint });
        }
        let inner = Call::parse(inner, &catalogue.schemes, "scheme")
            .map_err(|error| TextError { offset: error.offset + open + 1, ..error })?;
        Ok(outer.around(inner))
    }

    /// The same, with `inner` managing its queues.
    fn around(self, inner: Call) -> Call {
        Call { text: format!("{}{{{}}}", self.text, inner.text), inner: Some(Box::new(inner)), ..self }
    }

    /// What it names and its options, and the same of what is in the braces.
    pub fn layers(&self) -> Vec<(&'static str, &[(&'static str, u64)])> {
        let inner = self.inner.iter().map(|inner| (inner.name, &inner.options[..]));
        std::iter::once((self.name, &self.options[..])).chain(inner).collect()
    }
}

/// What is between the brace at `open` and the last thing of the text, which is to be the other one.
fn braced(text: &str, open: usize) -> Result<&str, TextError> {
    let wrong = |offset: usize, length: usize, reason: String, hint: &str| {
        Err(TextError { offset, length, reason, hint: hint.to_string() })
    };
    let end = text.trim_end().len();
    let Some(close) = text.rfind('}').filter(|close| *close > open) else {
        return wrong(end, 0, "the brace is not closed".to_string(), "add '}'");
    };
    if close + 1 < end {
        let offset = close + 1 + (text[close + 1..].len() - text[close + 1..].trim_start().len());
        return wrong(
            offset,
            end - offset,
            format!("{} follows the closing brace", quote(&text[offset..end])),
            "remove it",
        );
    }
    let inner = &text[open + 1..close];
    if inner.trim().is_empty() {
        return wrong(
            open,
            close + 1 - open,
            "there is nothing in the braces".to_string(),
            "write what manages each queue: '{codel}'",
        );
    }
    Ok(inner)
}

fn without_braces(text: &str, open: usize, name: &str, orders: &[Declaration]) -> TextError {
    let orders: Vec<&str> = orders.iter().map(|order| order.name).collect();
    TextError {
        offset: open,
        length: text.trim_end().len() - open,
        reason: format!("'{name}' manages one queue by itself, and takes nothing in braces"),
        hint: format!("remove them, or put it into those of one that orders queues: {}", orders.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use units::declare::{DeclaredCost, OptionDeclaration, OrderDeclaration, Unit};

    const fn count(name: &'static str, default: &'static str) -> OptionDeclaration {
        OptionDeclaration { name, unit: Unit::Count, default, least: 1, most: 9999, doc: "Packets." }
    }

    const fn declared(name: &'static str, options: &'static [OptionDeclaration]) -> Declaration {
        Declaration { name, summary: "", cost: DeclaredCost::None, source: "", options }
    }

    const LIMIT: &[OptionDeclaration] = &[count("limit", "1000")];
    const FLOWS: &[OptionDeclaration] = &[count("flows", "1024")];

    fn read(text: &str) -> Result<Call, TextError> {
        let catalogue = Catalogue {
            schemes: vec![declared("fifo", LIMIT), declared("codel", &[])],
            orders: vec![
                OrderDeclaration { declaration: declared("fq", FLOWS), usual: "codel" },
                OrderDeclaration { declaration: declared("drr", &[]), usual: "fifo" },
            ],
            ..Catalogue::default()
        };
        Call::scheme(text, &catalogue)
    }

    #[test]
    fn what_is_in_braces_manages_the_queues_and_texts_that_mean_the_same_are_equal() {
        assert_eq!(read("fq").unwrap().text, "fq(flows=1024){codel}");
        assert_eq!(read(" fq ( flows = 7 ) { fifo } ").unwrap().text, "fq(flows=7){fifo(limit=1000)}");
        assert_eq!(read("drr"), read("drr(){ fifo(limit=1000) }"));
        assert_eq!(read("fifo").unwrap().inner, None);
        for text in ["fifo(limit=7)", "codel", "fq(flows=2){fifo(limit=3)}", "drr{codel}"] {
            assert_eq!(read(text).unwrap().to_string(), text);
        }
        let call = read("fq(flows=2){fifo(limit=3)}").unwrap();
        assert_eq!(call.layers(), [("fq", &[("flows", 2)][..]), ("fifo", &[("limit", 3)][..])]);
        let json = serde_json::to_value(&call).unwrap();
        assert_eq!(json["inner"]["options"]["limit"], 3);
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
    fn each_mistake_is_marked_where_it_is() {
        let texts = [
            "",
            "{codel}",
            "qf{codel}",
            "fq{codle}",
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
        ];
        check(
            expect![[r#"
                                   0+0          a name is missing; write a name, and options in brackets: 'fifo(limit=1000)'
            {codel}                0+0          a name is missing; write a name, and options in brackets: 'fifo(limit=1000)'
            qf{codel}              0+2 qf       no scheme that orders queues is called 'qf'; did you mean 'fq'?
            fq{codle}              3+5 codle    no scheme is called 'codle'; did you mean 'codel'?
            fq{ fifo(limit=0) }    15+1 0        limit=0 is below the least, 1; give 1 to 9999; the default is 1000
            fq{fifo(limti=1)}      8+5 limti    'fifo' has no option 'limti'; did you mean 'limit'?
            fq(flows=0){codel}     9+1 0        flows=0 is below the least, 1; give 1 to 9999; the default is 1024
            fq{codel               8+0          the brace is not closed; add '}'
            fq{                    3+0          the brace is not closed; add '}'
            fq{}                   2+2 {}       there is nothing in the braces; write what manages each queue: '{codel}'
            fq{codel} x            10+1 x        'x' follows the closing brace; remove it
            fq}codel{              0+8 fq}codel no scheme that orders queues is called 'fq}codel'; use one of fq, drr
            codel{fifo}            5+6 {fifo}   'codel' manages one queue by itself, and takes nothing in braces; remove them, or put it into those of one that orders queues: fq, drr
            fq{drr}                3+3 drr      'drr' orders queues itself, and cannot manage one; use one of fifo, codel
            fq{ drr{fifo} }        4+3 drr      'drr' orders queues itself, and cannot manage one; use one of fifo, codel
            fq{é}                  3+2 é        no scheme is called 'é'; use one of fifo, codel
        "#]],
            &texts,
        );
    }
}
