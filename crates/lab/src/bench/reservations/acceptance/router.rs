//! A daemon in a network namespace, driven by the requests that an operator's commands send.

use super::processors::ProcessorSplit;
use anyhow::{Result, anyhow, bail};
use control::api::{FlowAdded, FlowReply, FlowsEdited, FlowsReply, Ports};
use control::socket::ControlSocket;
use control::{Client, Daemon, DaemonOptions, Notice, Server};
use extension::{Directory, Runtime};
use io::clock;
use io::devices::Devices;
use io::netns::LabHost;
use io::thread_priority::NicePriority;
use plan::Catalogue;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use tempfile::TempDir;

/// The configuration's name in messages.
const CONFIGURATION: &str = "acceptance.toml";
/// The directory in which the kernel lists the threads of this process (proc_pid_task(5)), and their names.
const THREADS: &str = "/proc/self/task";
const WORKER: &str = "worker 0";

/// A running router with one worker.
pub struct AcceptanceRouter {
    daemon: Arc<Daemon>,
    /// Why it has failed for good.
    failure: Arc<OnceLock<String>>,
    text: String,
    /// The worker's thread in the kernel's list.
    worker: PathBuf,
    // Declared in the order in which they are dropped.
    _server: Server,
    directory: TempDir,
}

impl AcceptanceRouter {
    /// Starts a router with this configuration on the links of `host`, with its guests by name. Its worker has priority over other programs, as far as
    /// this process may give it.
    ///
    /// # Errors
    ///
    /// The configuration is wrong, or the router cannot start here.
    pub fn start(
        host: &LabHost,
        processors: ProcessorSplit,
        text: &str,
        guests: &[(&str, &[u8])],
    ) -> Result<AcceptanceRouter> {
        let directory = tempfile::tempdir()?;
        for (name, module) in guests {
            fs::write(directory.path().join(name).with_extension("wasm"), module)?;
        }
        let runtime = Runtime::timed(clock::processor_time).map_err(cli::guests::no_runtime)?;
        let found: Arc<dyn plan::Guests> = Arc::new(Directory::new(directory.path(), runtime));
        let catalogue = Catalogue { guests: Some(found.clone()), ..plane::catalogue() };
        let plan = plan::check(text, CONFIGURATION, &catalogue).map_err(|wrong| anyhow!("{wrong}"))?;
        let devices = Devices::new(clock::epoch()).in_namespace(host.namespace().clone());
        let failure = Arc::new(OnceLock::new());
        let failed = failure.clone();
        let options = DaemonOptions::new(devices, text, CONFIGURATION, move |notice| {
            if let Notice::Failed(reason) = notice {
                // The first reason counts.
                _ = failed.set(reason);
            }
        });
        let others = workers()?;
        let favour = NicePriority::acquire();
        let daemon = Daemon::start(&plan, DaemonOptions { guests: Some(found), ..options });
        drop(favour);
        let daemon = daemon.map_err(|error| anyhow!("the router cannot start: {error}"))?;
        let worker = workers()?.difference(&others).next().cloned();
        let worker = worker.ok_or_else(|| anyhow!("the router has no thread '{WORKER}'"))?;
        let socket = ControlSocket::new(&directory.path().join("control.sock")).map_err(|error| anyhow!("{error}"))?;
        let server = processors.beside_router(|| Server::start(daemon.clone(), socket))??;
        Ok(AcceptanceRouter { daemon, failure, text: text.to_owned(), worker, _server: server, directory })
    }

    /// A client of its API.
    pub fn client(&self) -> Client {
        Client::new(&self.directory.path().join("control.sock"))
    }

    /// The kernel's directory of the worker's thread.
    pub fn worker(&self) -> &std::path::Path {
        &self.worker
    }

    /// Its configuration.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Replaces the file of a guest. The next apply loads it.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn put_guest(&self, name: &str, module: &[u8]) -> Result<()> {
        let place = self.directory.path().join(name);
        // Renamed, so that no apply reads half of a file.
        fs::write(place.with_extension("new"), module)?;
        fs::rename(place.with_extension("new"), place.with_extension("wasm"))?;
        Ok(())
    }

    /// Reserves the flow of a line without its verb: `NAME rate R packet B ...`.
    ///
    /// # Errors
    ///
    /// The router refuses it.
    pub fn reserve(&self, flow: &str) -> Result<FlowAdded> {
        let edited = edit_flows(&self.client(), &format!("add {flow}\n"), false)?;
        edited.added.into_iter().next().ok_or_else(|| anyhow!("'{flow}' was not reserved"))
    }

    /// The reserved flows.
    ///
    /// # Errors
    ///
    /// The router does not answer.
    pub fn flows(&self) -> Result<Vec<FlowReply>> {
        let flows: FlowsReply = self.client().get("/v1/reservations")?;
        Ok(flows.flows)
    }

    /// The packets that the kernel lost at the router's ports: the worker did not empty a ring in time, or a socket was full.
    ///
    /// # Errors
    ///
    /// The router has failed.
    pub fn lost_at_ports(&self) -> Result<u64> {
        if let Some(reason) = self.failure.get() {
            bail!("the router has failed: {reason}");
        }
        let ports: Ports = self.client().get("/v1/ports")?;
        let lost = |port: &control::api::PortReply| {
            let refused = port.drops.iter().filter(|drop| drop.reason == "device_refused").map(|drop| drop.packets);
            port.counters.lost_before_receive + port.counters.lost_after_transmit + refused.sum::<u64>()
        };
        Ok(ports.ports.iter().map(lost).sum())
    }
}

impl Drop for AcceptanceRouter {
    fn drop(&mut self) {
        self.daemon.stop();
    }
}

/// Changes reserved flows, or tries to.
///
/// # Errors
///
/// The router refuses a change.
pub fn edit_flows(client: &Client, lines: &str, trial: bool) -> Result<FlowsEdited> {
    let parameters = [("name", "acceptance".to_owned()), ("trial", trial.to_string())];
    Ok(client.post_with("/v1/reservations/batch", &parameters, lines)?)
}

/// The worker threads of this process.
fn workers() -> Result<BTreeSet<PathBuf>> {
    let tasks = fs::read_dir(THREADS)?.filter_map(|task| Some(task.ok()?.path()));
    // A thread may end meanwhile.
    Ok(tasks.filter(|task| fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == WORKER)).collect())
}
