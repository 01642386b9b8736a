//! The Click modular router as a slow path: an installed program, with the elements of an IPv4 router, in one thread. It is no part of this project.
//!
//! It reads and writes whole frames of the network devices, as its published configurations do, or has UDP sockets, as a slice without a fast path.

use super::slow_path::SlowPathPlan;
use anyhow::{Context, Result, bail};
use io::netns::LabHost;
use std::env;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, copy, sink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use units::Mac;

/// The name of the program.
const PROGRAM: &str = "click";
/// The beginning of its version. Debian's package `click` has another program of that name, which installs packages.
const VERSION: &str = "click (Click) ";
/// The line that it prints when all elements are initialised.
const READY: &str = "ready";

/// Both configurations begin with this. Decapsulated packets enter the router, and packets for the next node leave it.
const ROUTER: &str = "
elementclass SliceRouter { input -> CheckIPHeader -> RadixIPLookup($routes) -> DecIPTTL -> output }
Script(print \"ready\");
";
/// The lengths that are stripped are those of an Ethernet and of a UDP header. Devices have Click's default method, the fastest: a packet ring of
/// libpcap. Its default burst is one packet.
const DEVICES: &str = "
FromDevice(left, BURST 32)
  -> Classifier(12/0800)
  -> Strip(14)
  -> CheckIPHeader
  -> IPClassifier(dst host $address and dst udp port >= $first and dst udp port <= $last)
  -> StripIPHeader
  -> Strip(8)
  -> SliceRouter
  -> UDPIPEncap($source, $out, $next, $sink)
  -> EtherEncap(0x0800, $source_mac, $next_mac)
  -> Queue(1024)
  -> ToDevice(right, BURST 32);
";
const SOCKETS: &str = "router :: SliceRouter -> Socket(UDP, $next, $sink, $source, $out);\n";

/// An installed program that is the Click modular router.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClickProgram {
    path: PathBuf,
    /// As it reports it.
    pub version: String,
}

/// The means by which Click receives and sends packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClickInterface {
    /// Frames of the devices `left` and `right`. It sends from the first address to the second one.
    Devices(Mac, Mac),
    /// UDP sockets.
    Sockets,
}

/// The version in the output of `--version`; none if another program wrote it.
fn version(output: &str) -> Option<&str> {
    output.lines().next()?.strip_prefix(VERSION).map(str::trim)
}

impl ClickProgram {
    /// The program in this file.
    ///
    /// # Errors
    ///
    /// It cannot be run, or is another program.
    pub fn in_file(path: &Path) -> Result<ClickProgram, String> {
        let output = Command::new(path).arg("--version").stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("{} cannot be run: {error}", path.display()))?;
        let output = String::from_utf8_lossy(&output.stdout);
        let version = version(&output).map(str::to_owned).ok_or_else(|| {
            let first = output.lines().next().unwrap_or_default();
            format!("{} is not the Click modular router: it reports the version '{first}'", path.display())
        })?;
        Ok(ClickProgram { path: path.to_owned(), version })
    }

    /// The first one in the directories of a search path.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn installed(search_path: &OsStr) -> Result<ClickProgram, String> {
        let files =
            env::split_paths(search_path).map(|directory| directory.join(PROGRAM)).filter(|file| file.is_file());
        let mut others = Vec::new();
        for file in files {
            match ClickProgram::in_file(&file) {
                Ok(program) => return Ok(program),
                Err(other) => others.push(other),
            }
        }
        Err(if others.is_empty() { format!("there is no program `{PROGRAM}` in PATH") } else { others.join("; ") })
    }

    /// Starts it in a host's namespace, and returns when it forwards.
    ///
    /// # Errors
    ///
    /// It does not have the elements, or cannot open the devices or sockets. The error has its message.
    pub fn start(&self, host: &LabHost, plan: &SlowPathPlan, interface: ClickInterface) -> Result<RunningClick> {
        let mut command = Command::new(&self.path);
        command.args(arguments(plan, interface)?).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = RunningClick(host.spawn(command).context("Click cannot be started")?);
        let (output, errors) = (running.0.stdout.take(), running.0.stderr.take());
        let (output, mut errors) = output.zip(errors).context("Click has no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        if line.trim_end() != READY {
            let mut said = String::new();
            errors.read_to_string(&mut said)?;
            bail!("Click {} has ended: {}", self.version, said.trim_end());
        }
        // Click blocks once its pipe is full of messages. The thread ends when Click does.
        thread::spawn(move || copy(&mut errors, &mut sink()));
        Ok(running)
    }
}

/// The arguments of the program: its configuration, and the values of the variables in it.
fn arguments(plan: &SlowPathPlan, interface: ClickInterface) -> Result<Vec<String>> {
    let ((address, ports), (source, out)) = (&plan.receives, plan.sends);
    let (_, hop) = plan.routes.first().context("Click needs a route")?;
    let routes: Vec<String> = plan.routes.iter().map(|((to, length), _)| format!("{to}/{length} 0")).collect();
    let mut variables = vec![
        ("routes", routes.join(", ")),
        ("source", source.to_string()),
        ("out", out.to_string()),
        ("next", hop.next.ip().to_string()),
        ("sink", hop.next.port().to_string()),
    ];
    let mut configuration = ROUTER.to_owned();
    match interface {
        ClickInterface::Devices(source, next) => {
            configuration += DEVICES;
            variables.extend([
                ("address", address.to_string()),
                ("first", ports.start.to_string()),
                ("last", (ports.end - 1).to_string()),
                ("source_mac", source.to_string()),
                ("next_mac", next.to_string()),
            ]);
        }
        ClickInterface::Sockets => {
            configuration += SOCKETS;
            configuration.extend(ports.clone().map(|port| format!("Socket(UDP, {address}, {port}) -> router;\n")));
        }
    }
    let variables = variables.into_iter().map(|(name, value)| format!("{name}={value}"));
    Ok(["--expression".to_owned(), configuration].into_iter().chain(variables).collect())
}

/// The running program. It is killed when this value is dropped.
#[derive(Debug)]
pub struct RunningClick(Child);

impl Drop for RunningClick {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn version_distinguishes_the_router_from_other_programs() {
        assert_eq!(version("click (Click) 2.1\nCopyright (C) 1999-2001\n"), Some("2.1"));
        // Debian's package `click`, a program of another name, and one that prints nothing.
        for other in ["0.5.0\n", "click 0.5.0\n", "Usage: click COMMAND [options]\n", "echo (GNU coreutils) 9.1\n", ""]
        {
            assert_eq!(version(other), None, "{other}");
        }
    }

    #[test]
    fn other_program_called_click_is_refused_with_its_version() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(PROGRAM);
        assert_eq!(
            ClickProgram::installed(directory.path().as_os_str()).unwrap_err(),
            "there is no program `click` in PATH"
        );
        symlink("/bin/sh", &path).unwrap();
        let error = ClickProgram::installed(directory.path().as_os_str()).unwrap_err();
        assert!(error.starts_with(&format!("{} is not the Click modular router", path.display())), "{error}");
        assert_eq!(ClickProgram::in_file(&path).unwrap_err(), error);
        let missing = ClickProgram::in_file(&directory.path().join("gone")).unwrap_err();
        assert!(missing.contains("gone cannot be run: "), "{missing}");
    }
}
