//! The graph for Graphviz.

use super::{GraphPath, PathGraph};
use std::fmt::Write;

/// A text between double quotes.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

impl PathGraph {
    /// The graph in the language of Graphviz: `dot -Tsvg`.
    pub(super) fn dot(&self) -> String {
        let mut out = "digraph switchpath {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n".to_string();
        out += "  classify [shape=diamond];\n";
        // Writing to a string cannot fail.
        for port in &self.ports {
            let (from, to) = (quoted(&format!("receive {}", port.name)), quoted(&format!("transmit {}", port.name)));
            let label = quoted(&format!("{}\n{}", port.name, port.scheme)).replace('\n', "\\n");
            let _ = writeln!(
                out,
                "  {from} [label={}];\n  {to} [label={label}];\n  {from} -> classify;",
                quoted(&port.name)
            );
        }
        for (number, path) in self.paths.iter().enumerate() {
            self.path(number, path, &mut out);
        }
        out + "}\n"
    }

    fn path(&self, number: usize, path: &GraphPath, out: &mut String) {
        let node = |stage: usize| format!("path{number}_{stage}");
        let _ = writeln!(out, "  subgraph cluster{number} {{\n    label={};", quoted(&path.name));
        let stages: Vec<&str> = path.way().collect();
        let last = stages.len() - 1;
        for (stage, label) in stages.iter().enumerate() {
            let shape = if stage == 0 || stage == last { "cds" } else { "box" };
            let _ = writeln!(out, "    {} [label={}, shape={shape}];", node(stage), quoted(label));
        }
        let chain: Vec<String> = (0..stages.len()).map(node).collect();
        let _ = writeln!(out, "    {};\n  }}", chain.join(" -> "));
        let _ = writeln!(out, "  classify -> {} [label={}];", node(0), quoted(&path.packets));
        for port in &self.ports {
            let _ = writeln!(out, "  {} -> {};", node(last), quoted(&format!("transmit {}", port.name)));
        }
        for (rule, to) in &path.leads {
            if let Some(target) = self.paths.iter().position(|path| path.name == *to) {
                // From the function `dispatch` to the queue of the other path.
                let from = path.functions.iter().position(|name| name.starts_with("dispatch")).map_or(0, |at| at + 1);
                let _ = writeln!(out, "  {} -> path{target}_0 [label={}, style=dashed];", node(from), quoted(rule));
            }
        }
    }
}
