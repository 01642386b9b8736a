//! switchpath.toml(5): the manual page of the configuration, from the declarations of its keys. The markup is that of man(7).

use plan::{Catalogue, ReferenceKey, ReferenceTable};
use std::fmt::Write;
use units::declare::Declaration;

const DESCRIPTION: &str = "\
The configuration of switchpath(1) is one file of TOML. `switchpath init` writes a first one, `switchpath check` reports all errors of a file at once, \
and `switchpath apply` gives it to a running router. The first key is `version = 1`. Unknown keys are errors. The order of tables means nothing, except \
that of paths: a packet has the first path that matches it.";

const EXAMPLE: &str = r#"version = 1
[port.lan]
device = "packet:eth1"
address = ["192.0.2.1/24"]
[port.wan]
device = "packet:eth0"
address = ["203.0.113.2/30"]
[[route]]
to = "0.0.0.0/0"
via = "203.0.113.1"
"#;

/// Quantities and their units, as with tc(8).
const UNITS: [(&str, &str); 5] = [
    ("rate", "`bit`, `kbit`, `mbit`, `gbit`, `tbit`: bits per second, powers of 1000, like `2.5gbit`"),
    ("time", "`ns`, `us`, `ms`, `s`, like `5ms`"),
    ("size", "`b`, `kb`, `mb`, `gb`: bytes, powers of 1024, like `1500b`"),
    ("packet rate", "`pps`, `kpps`, `mpps`: packets per second, powers of 1000, like `49kpps`"),
    ("part of a whole", "`%`, `ppm`, or none for a fraction, like `2.5%`"),
];

/// Returns the page.
pub(crate) fn page(tables: &[ReferenceTable], catalogue: &Catalogue) -> String {
    let mut page = Page::default();
    page.line(&format!(".TH SWITCHPATH.TOML 5 \"\" \"Switchpath {}\" \"File Formats\"", env!("CARGO_PKG_VERSION")));
    page.section("NAME");
    page.line("switchpath.toml \\- configuration of the software router Switchpath");
    page.section("SYNOPSIS");
    page.line("\\fI/etc/switchpath/switchpath.toml\\fR");
    page.section("DESCRIPTION");
    page.text(DESCRIPTION);
    page.section("EXAMPLE");
    page.code(EXAMPLE);
    page.section("UNITS");
    for (quantity, units) in UNITS {
        page.entry(quantity, units);
    }
    page.section("KEYS");
    page.text("Each key has the values that it accepts and its default in brackets. A key of a table belongs below the header of the table.");
    for table in tables {
        page.table(table);
    }
    let cpu: Vec<Declaration> = catalogue.cpu_schedulers.iter().map(|one| one.declaration).collect();
    let orders = catalogue.orders.iter().map(|one| one.declaration);
    let schemes: Vec<Declaration> = catalogue.schemes.iter().copied().chain(orders).collect();
    for (title, names) in [
        ("KINDS OF PORTS", &catalogue.devices),
        ("QUEUEING SCHEMES", &schemes),
        ("PACKET FUNCTIONS", &catalogue.functions),
        ("CPU SCHEDULERS", &cpu),
    ] {
        page.section(title);
        names.iter().for_each(|one| page.declaration(one));
    }
    page.section("FILES");
    page.entry("/etc/switchpath/switchpath.toml", "The configuration of the service.");
    page.entry("/usr/share/doc/switchpath/examples", "Complete configurations with comments.");
    page.section("SEE ALSO");
    page.line(".BR switchpath (1),");
    page.line(".BR switchpath\\-init (1),");
    page.line(".BR switchpath\\-check (1),");
    page.line(".BR switchpath\\-apply (1)");
    page.0
}

/// A page in the making.
#[derive(Default)]
struct Page(String);

impl Page {
    /// Adds a line of markup.
    fn line(&mut self, markup: &str) {
        self.0 += markup;
        self.0.push('\n');
    }

    fn section(&mut self, title: &str) {
        self.line(&format!(".SH {title}"));
    }

    /// Adds a text as a line of its own.
    fn text(&mut self, text: &str) {
        let marked = marked(text);
        // A line that begins with one of these would be a request.
        let guard = if marked.starts_with(['.', '\'']) { "\\&" } else { "" };
        self.line(&format!("{guard}{marked}"));
    }

    fn code(&mut self, text: &str) {
        self.line(".nf\n.RS 4");
        text.lines().for_each(|line| self.text(line));
        self.line(".RE\n.fi");
    }

    /// Adds a term in bold and its explanation.
    fn entry(&mut self, term: &str, text: &str) {
        self.line(&format!(".TP\n\\fB{}\\fR", escaped(term)));
        self.text(text);
    }

    fn table(&mut self, table: &ReferenceTable) {
        if table.header.is_empty() {
            self.line(".SS The file");
        } else {
            self.line(&format!(".SS {}", escaped(&table.header)));
            self.text(table.doc);
        }
        table.keys.iter().for_each(|key| self.key(key));
    }

    fn key(&mut self, key: &ReferenceKey) {
        let default = match (key.required, key.default) {
            (true, _) => "required".to_owned(),
            (false, "") => "no default".to_owned(),
            (false, default) => format!("default {default}"),
        };
        self.line(&format!(".TP\n\\fB{}\\fR = {} [{}]", escaped(key.name), escaped(&key.takes), escaped(&default)));
        self.text(key.doc);
        self.line(".br");
        self.text(&format!("Example: `{} = {}`", key.name, key.example));
    }

    fn declaration(&mut self, declaration: &Declaration) {
        self.entry(declaration.name, declaration.summary);
        for option in declaration.options {
            self.line(".br");
            self.text(&format!("`{}` (default {}): {}", option.name, option.default, option.doc));
        }
    }
}

/// Escapes characters with a meaning in roff. A hyphen that is typed is a minus.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\e"),
            '-' => out.push_str("\\-"),
            '\'' => out.push_str("\\(aq"),
            '"' => out.push_str("\\(dq"),
            '^' => out.push_str("\\(ha"),
            '~' => out.push_str("\\(ti"),
            '\n' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Escapes a text whose code is in backticks, and makes the code bold.
fn marked(text: &str) -> String {
    let mut out = String::new();
    for (number, part) in text.split('`').enumerate() {
        match number % 2 {
            0 => out += &escaped(part),
            _ => write!(out, "\\fB{}\\fR", escaped(part)).expect("a string accepts every text"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::collections::BTreeSet;
    use std::io::Write as _;
    use std::process::Command;

    fn whole() -> String {
        page(&plan::reference(), &plane::catalogue())
    }

    /// The names of all keys of a schema.
    fn keys(schema: &Value, names: &mut BTreeSet<String>) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            names.insert(name.clone());
            keys(property, names);
        }
        schema["oneOf"].as_array().into_iter().flatten().for_each(|one| keys(one, names));
        schema["patternProperties"].as_object().into_iter().flatten().for_each(|(_, inner)| keys(inner, names));
        if schema["items"].is_object() {
            keys(&schema["items"], names);
        }
    }

    #[test]
    fn every_key_of_the_schema_is_on_the_page() {
        let (page, mut names) = (whole(), BTreeSet::new());
        keys(&plan::schema(&plane::catalogue()), &mut names);
        assert!(names.len() > 100, "{names:?}");
        let missing: Vec<&String> =
            names.iter().filter(|name| !page.contains(&format!(".TP\n\\fB{}\\fR = ", escaped(name)))).collect();
        assert!(missing.is_empty(), "{missing:?}");
        for wanted in [".SS [port.NAME.vlan.ID]", ".SS [[path]]", "\\fBcake\\fR", "\\fBnat\\fR", "\\fBxdp\\fR"] {
            assert!(page.contains(wanted), "{wanted}");
        }
    }

    #[test]
    fn example_of_the_page_is_accepted() {
        let checked = plan::examine(EXAMPLE, "example", &plane::catalogue());
        assert!(checked.plan.is_some() && checked.diagnostics.is_empty(), "{}", checked.diagnostics.render(false));
    }

    #[test]
    fn page_has_no_warnings_of_groff() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(whole().as_bytes()).unwrap();
        let mut command = Command::new("groff");
        command.args(["-man", "-ww", "-Tutf8", "-k"]).arg(file.path());
        // A machine without groff has no manual pages either.
        let Ok(output) = command.output() else { return };
        let warnings = String::from_utf8_lossy(&output.stderr);
        // Some examples have words longer than a line. A terminal shows them as they are.
        let real: Vec<&str> = warnings
            .lines()
            .filter(|line| !line.contains("can't break line") && !line.contains("cannot adjust line"))
            .collect();
        assert!(real.is_empty() && output.status.success(), "{real:?}");
        // Bold letters are printed twice on some systems, so plain ones are compared, wherever a line ends.
        let shown = String::from_utf8_lossy(&output.stdout);
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains("File Formats") && shown.contains("How long an idle worker polls"), "{shown}");
    }

    #[test]
    fn roff_has_no_requests_but_ours() {
        assert_eq!(marked("a `b-c` d\\e 'f'"), "a \\fBb\\-c\\fR d\\ee \\(aqf\\(aq");
        let mut page = Page::default();
        page.text(".so /etc/passwd");
        page.text("'x'");
        assert_eq!(page.0, "\\&.so /etc/passwd\n\\(aqx\\(aq\n");
    }
}
