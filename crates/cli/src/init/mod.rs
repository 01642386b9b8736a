//! `switchpath init`: the first configuration of a machine. [`machine`] finds the interfaces, [`answers`] asks, [`template`] writes.

mod answers;
mod machine;
mod template;

use crate::arguments::{InitArguments, RouterKind};
use crate::failure::ConfigurationErrors;
use crate::output::print_json;
use answers::{Answers, Questions};
use anyhow::{Context, Result, anyhow};
use machine::FoundInterface;
use plan::did_you_mean;
use serde::Serialize;
use std::fs::OpenOptions;
use std::io::{BufRead, ErrorKind, IsTerminal, Write, stderr, stdin, stdout};
use std::path::Path;
use std::process::ExitCode;

/// A command to type next, and its effect.
#[derive(Serialize)]
struct NextCommand {
    command: String,
    effect: String,
}

/// The answer with `-j`.
#[derive(Serialize)]
struct InitReply<'i> {
    kind: &'static str,
    /// The files that were written.
    files: Vec<String>,
    wan: &'i str,
    lan: &'i str,
    /// The router's address in the local network.
    network: String,
    /// `dhcp`, or the address toward the Internet.
    address: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway: Option<String>,
    /// The free Ethernet interfaces of this machine.
    interfaces: &'i [FoundInterface],
    warnings: &'i [String],
    next: &'i [NextCommand],
}

/// Writes the configuration.
pub fn init(arguments: &InitArguments) -> Result<ExitCode> {
    let output = &arguments.output;
    if output.exists() && !arguments.force {
        return Err(exists(output));
    }
    let found = machine::interfaces().context("the interfaces of this machine cannot be listed")?;
    let (mut input, mut output_of_questions) = (stdin().lock(), stderr());
    let terminal: Option<(&mut dyn BufRead, &mut dyn Write)> =
        if input.is_terminal() { Some((&mut input, &mut output_of_questions)) } else { None };
    let answers = answers::collect(arguments, &found, &mut Questions { terminal, accept: arguments.yes })?;
    let text = template::configuration(&answers);
    let checked = plan::examine(&text, &output.to_string_lossy(), &plane::catalogue());
    if checked.plan.is_none() {
        // Nothing is written that `check` refuses: the errors name the answer, with a hint.
        return Err(ConfigurationErrors(vec![checked.diagnostics]).into());
    }
    let mut files = vec![output.display().to_string()];
    let mut warnings = warnings(&answers, &found);
    if answers.kind == RouterKind::IspEdge {
        let path = output.with_file_name(template::SUBSCRIBERS);
        // The table may have the operator's subscribers, so it is never replaced.
        match write_new(&path, &template::subscribers(&answers), false) {
            Ok(()) => files.push(path.display().to_string()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                warnings.push(format!("'{}' exists and is used as it is", path.display()));
            }
            Err(error) => return Err(error).with_context(|| format!("'{}' cannot be written", path.display())),
        }
    }
    write_new(output, &text, arguments.force).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => exists(output),
        _ => anyhow!(error).context(format!("'{}' cannot be written", output.display())),
    })?;
    let next = next_commands(&answers, &found, &output.display().to_string());
    if arguments.json {
        let reply = InitReply {
            kind: answers.kind.name(),
            files,
            wan: &answers.wan.interface,
            lan: &answers.lan.interface,
            network: answers.router.to_string(),
            address: answers.address.map_or_else(|| "dhcp".to_owned(), |address| address.to_string()),
            gateway: answers.gateway.map(|gateway| gateway.to_string()),
            interfaces: &found,
            warnings: &warnings,
            next: &next,
        };
        print_json(&mut stdout(), &reply)?;
        return Ok(ExitCode::SUCCESS);
    }
    print(&answers, &files, &next)?;
    warnings.iter().try_for_each(|warning| writeln!(stderr(), "warning: {warning}"))?;
    Ok(ExitCode::SUCCESS)
}

fn exists(path: &Path) -> anyhow::Error {
    anyhow!("'{}' exists: write another file with --output, or replace it with --force", path.display())
}

/// Writes a file as a whole. Without `replace` it must not exist.
fn write_new(path: &Path, text: &str, replace: bool) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true);
    match replace {
        true => options.create(true).truncate(true),
        false => options.create_new(true),
    };
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// The connections that the router would interrupt, and the missing parts.
fn warnings(answers: &Answers, found: &[FoundInterface]) -> Vec<String> {
    let mut warnings = Vec::new();
    for side in [&answers.wan, &answers.lan] {
        let name = &side.interface;
        let Some(one) = found.iter().find(|one| one.name == *name) else {
            let hint = did_you_mean(name, found.iter().map(|one| one.name.as_str()));
            warnings.push(format!("this machine has no free Ethernet interface '{name}' now; {hint}"));
            continue;
        };
        if let Some(reason) = &one.login {
            warnings.push(format!(
                "'{name}' carries your login: {reason}. The router takes the interface from the kernel, so your session would end. \
                 `switchpath run` refuses that without --force: use a console, or another interface"
            ));
        }
        if one.default_route && side == &answers.lan {
            warnings
                .push(format!("'{name}' has the default route of this machine: is it the side toward the Internet?"));
        }
    }
    if answers.address.is_some() && answers.gateway.is_none() && answers.kind != RouterKind::Lab {
        warnings.push("the file has no default route: give --gateway, or complete the route in the file".to_owned());
    }
    warnings
}

/// The commands that lead to a running router, in their order.
fn next_commands(answers: &Answers, found: &[FoundInterface], file: &str) -> Vec<NextCommand> {
    let mut next = Vec::new();
    let mut add = |command: String, effect: &str| next.push(NextCommand { command, effect: effect.to_owned() });
    add(format!("switchpath check {file}"), "reports every error of the file");
    for side in [&answers.wan, &answers.lan] {
        let name = &side.interface;
        let one = found.iter().find(|one| one.name == *name);
        if one.is_some_and(FoundInterface::has_addresses) {
            add(format!("sudo ip address flush dev {name}"), "the router has the addresses from now on");
        }
        if one.is_none_or(|one| !one.up) {
            add(format!("sudo ip link set {name} up"), "a port needs it up");
        }
    }
    add(format!("sudo switchpath run {file}"), "forwards until stopped");
    if answers.address.is_none() {
        add(format!("sudo dhclient {}", answers.wan.port), "asks the provider for an address, in another terminal");
    }
    add("sudo switchpath show ports".to_owned(), "shows the packets of each port");
    if answers.kind == RouterKind::IspEdge {
        let table = Path::new(file).with_file_name(template::SUBSCRIBERS);
        let command = format!("sudo install -D -m 644 {} /etc/switchpath/{}", table.display(), template::SUBSCRIBERS);
        add(command, "puts the subscribers where the service looks for them");
    }
    add(
        format!(
            "sudo install -D -m 644 {file} /etc/switchpath/switchpath.toml && sudo systemctl enable --now switchpath"
        ),
        "runs it as a service",
    );
    next
}

fn print(answers: &Answers, files: &[String], next: &[NextCommand]) -> Result<()> {
    let mut out = stdout();
    let address = match (answers.address, answers.gateway) {
        (None, _) => "address by DHCP".to_owned(),
        (Some(address), None) => address.to_string(),
        (Some(address), Some(gateway)) => format!("{address}, gateway {gateway}"),
    };
    writeln!(out, "wrote {}: a router of the kind {}", files.join(" and "), answers.kind)?;
    writeln!(out, "  {}  {} toward the Internet, {address}", answers.wan.port, answers.wan.interface)?;
    writeln!(out, "  {}  {} toward the local network, {}", answers.lan.port, answers.lan.interface, answers.router)?;
    writeln!(out, "\nNext:")?;
    for NextCommand { command, effect } in next {
        writeln!(out, "  {command}\n      {effect}")?;
    }
    Ok(())
}
