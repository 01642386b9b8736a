//! The dumps: reads files, a directory, or the tools of this machine, and sorts their objects by kind.

use crate::arguments::{ConvertArguments, UsageError};
use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The most bytes read of a dump: a million routes.
const MOST: u64 = 1 << 30;

/// An object of a dump.
#[derive(Clone, Debug)]
pub(crate) struct DumpObject {
    /// The file, or the command.
    pub(crate) source: String,
    pub(crate) value: Value,
}

/// The objects of all dumps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dumps {
    pub(crate) interfaces: Vec<DumpObject>,
    pub(crate) routes: Vec<DumpObject>,
    pub(crate) rules: Vec<DumpObject>,
    pub(crate) qdiscs: Vec<DumpObject>,
    pub(crate) classes: Vec<DumpObject>,
    /// The text of each rule set of nftables.
    pub(crate) rulesets: Vec<(String, String)>,
    /// Tools that could not be run, with the reason.
    pub(crate) missing: Vec<(String, String)>,
}

/// The kind of a dump.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DumpKind {
    Addresses,
    Routes,
    Rules,
    /// Queueing disciplines or classes.
    Queues,
    Nftables,
}

/// The text of a JSON string; empty for all else.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

impl Dumps {
    /// Reads what the command line names.
    pub(crate) fn read(options: &ConvertArguments) -> Result<Dumps> {
        if options.live {
            return Dumps::live();
        }
        let mut dumps = Dumps::default();
        let named = [
            (&options.addr, DumpKind::Addresses),
            (&options.route, DumpKind::Routes),
            (&options.rule, DumpKind::Rules),
            (&options.tc, DumpKind::Queues),
            (&options.nft, DumpKind::Nftables),
        ];
        for (files, kind) in named {
            for file in files {
                dumps.add_file(file, Some(kind))?;
            }
        }
        if let Some(directory) = &options.directory {
            let failed = || format!("'{}' cannot be read", directory.display());
            let mut files: Vec<PathBuf> = fs::read_dir(directory)
                .with_context(failed)?
                .map(|entry| entry.map(|entry| entry.path()))
                .collect::<Result<_, _>>()?;
            files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
            files.sort();
            ensure!(
                !files.is_empty(),
                "'{}' has no file *.json: `switchpath convert --help` lists the dumps",
                directory.display()
            );
            for file in files {
                dumps.add_file(&file, None)?;
            }
        }
        ensure!(
            !dumps.interfaces.is_empty(),
            UsageError("there is no dump of interfaces: give --addr with the output of `ip -j -d addr`, a directory, or --live".into())
        );
        Ok(dumps)
    }

    fn add_file(&mut self, file: &Path, kind: Option<DumpKind>) -> Result<()> {
        let name = file.display().to_string();
        let mut content = String::new();
        let mut read = || File::open(file)?.take(MOST).read_to_string(&mut content);
        read().with_context(|| format!("'{name}' cannot be read"))?;
        // `class-eth0.json` has the classes of eth0: tc leaves the interface out.
        let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let interface = stem.split_once("class-").map(|(_, interface)| interface.to_owned());
        self.add(&name, &content, kind, interface.as_deref())
    }

    /// Adds the objects of a dump. Without a kind its contents decide.
    pub(crate) fn add(
        &mut self,
        source: &str,
        content: &str,
        kind: Option<DumpKind>,
        interface: Option<&str>,
    ) -> Result<()> {
        // The tools print nothing for an empty list.
        if content.trim().is_empty() {
            return Ok(());
        }
        let json: Value = serde_json::from_str(content)
            .map_err(|error| anyhow!("'{source}' is no JSON: {error}; print the dump with -j, as in `ip -j addr`"))?;
        let Some(kind) = kind.or_else(|| recognised(&json)) else {
            let is_empty = json.as_array().is_some_and(|list| list.iter().all(is_nothing));
            ensure!(is_empty, "'{source}' is no dump of ip, tc or nft: `switchpath convert --help` lists them");
            return Ok(());
        };
        if kind == DumpKind::Nftables {
            self.rulesets.push((source.to_owned(), content.to_owned()));
            return Ok(());
        }
        let Value::Array(list) = json else {
            return Err(anyhow!("'{source}' is no list of objects: print the dump with -j, as in `ip -j addr`"));
        };
        // Some versions print empty objects between the others.
        for mut value in list.into_iter().filter(|value| !is_nothing(value)) {
            let into = match kind {
                DumpKind::Addresses => &mut self.interfaces,
                DumpKind::Routes => &mut self.routes,
                DumpKind::Rules => &mut self.rules,
                _ if value.get("class").is_some() => &mut self.classes,
                _ => &mut self.qdiscs,
            };
            if let (Some(interface), Some(object)) = (interface, value.as_object_mut()) {
                object.entry("dev").or_insert_with(|| interface.into());
            }
            into.push(DumpObject { source: source.to_owned(), value });
        }
        Ok(())
    }

    /// Runs the tools on this machine.
    fn live() -> Result<Dumps> {
        let mut dumps = Dumps::default();
        for (command, kind) in [
            ("ip -j -d addr", DumpKind::Addresses),
            ("ip -j route", DumpKind::Routes),
            ("ip -6 -j route", DumpKind::Routes),
            ("ip -j rule", DumpKind::Rules),
            ("ip -6 -j rule", DumpKind::Rules),
            ("tc -j qdisc", DumpKind::Queues),
            ("nft -j list ruleset", DumpKind::Nftables),
        ] {
            dumps.run(command, kind, None)?;
        }
        let mut shaped: Vec<String> = dumps.qdiscs.iter().map(|qdisc| text(&qdisc.value["dev"]).to_owned()).collect();
        shaped.sort();
        shaped.dedup();
        for interface in shaped.iter().filter(|interface| !interface.is_empty()) {
            dumps.run(&format!("tc -j class show dev {interface}"), DumpKind::Queues, Some(interface))?;
        }
        ensure!(!dumps.interfaces.is_empty(), "`ip -j -d addr` lists no interface");
        Ok(dumps)
    }

    /// Adds the output of a command. One that is not installed is reported as missing, except ip(8).
    fn run(&mut self, command: &str, kind: DumpKind, interface: Option<&str>) -> Result<()> {
        let mut words = command.split(' ');
        let program = words.next().unwrap_or_default();
        let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
        let output = match Command::new(program).args(words).env("PATH", path).output() {
            Err(error) if error.kind() == ErrorKind::NotFound && program != "ip" => {
                self.missing.push((
                    command.to_owned(),
                    format!("{program} is not installed, so its configuration was not read"),
                ));
                return Ok(());
            }
            output => output.with_context(|| format!("`{command}` cannot be run"))?,
        };
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            let reason = said.lines().next().unwrap_or("it failed").to_owned();
            ensure!(program != "ip", "`{command}` failed: {reason}");
            self.missing.push((command.to_owned(), reason));
            return Ok(());
        }
        self.add(&format!("`{command}`"), &String::from_utf8_lossy(&output.stdout), Some(kind), interface)
    }
}

/// An object without members, or nothing at all.
fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty)
}

/// The kind of a dump by its first object.
fn recognised(json: &Value) -> Option<DumpKind> {
    if json.get("nftables").is_some() {
        return Some(DumpKind::Nftables);
    }
    let first = json.as_array()?.iter().find(|value| !is_nothing(value))?;
    let has = |key: &str| first.get(key).is_some();
    match () {
        () if has("ifname") => Some(DumpKind::Addresses),
        () if has("dst") => Some(DumpKind::Routes),
        () if has("priority") => Some(DumpKind::Rules),
        () if has("kind") || has("class") => Some(DumpKind::Queues),
        () => None,
    }
}
