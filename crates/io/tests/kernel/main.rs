//! Comparison with the kernel. The same frames go through the kernel's router and through this one, on AF_PACKET and on AF_XDP ports. The outputs
//! must be equal byte for byte, except for the differences in docs/reference/differences.md.

#![allow(clippy::print_stdout)]

mod autoconfiguration;
mod bench;
mod captures;
mod differences;
mod generator;
mod hosts;
mod kernel;
mod link_ends;
mod network;
mod occurrences;
mod own_packets;
mod random;
mod resolution;
mod this_router;

use bench::Bench;
use differences::Difference;
use generator::SentFrame;
use io::netns::{Lab, Permission, probe};
use link_ends::OutputFrame;
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// The number of generated frames to compare.
const GENERATED: usize = 80_000;
/// The number of frames on another kind of port, with the same router behind it.
const GENERATED_AGAIN: usize = 15_000;
/// The maximum number of mismatches to show.
const SHOWN: usize = 20;

/// The bench with this router on packet ports, or a message that the test is skipped. Time passes in it.
fn bench() -> Option<Bench> {
    open_bench("packet", Ok)
}

/// The bench on ports of this kind, for comparisons without passing time.
fn bench_on(kind: &str) -> Option<Bench> {
    open_bench(kind, Bench::timeless)
}

fn open_bench(kind: &str, prepared: impl FnOnce(Bench) -> Result<Bench, String>) -> Option<Bench> {
    let lab = Lab::new().inspect_err(|forbidden| println!("skipped: {forbidden}")).ok()?;
    let bench = Bench::new(&lab, kind).and_then(prepared);
    bench.inspect_err(|error| println!("skipped: the routers cannot be set up: {error}")).ok()
}

/// The bench for all tests that leave no neighbours behind: creating cables takes longer than the rest.
fn shared() -> Option<MutexGuard<'static, Option<Bench>>> {
    static SHARED: LazyLock<Mutex<Option<Bench>>> = LazyLock::new(|| Mutex::new(bench_on("packet")));
    let guard = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    guard.is_some().then_some(guard)
}

/// Sends all frames through both routers. Returns the number of occurrences of each difference.
fn compare(frames: impl Iterator<Item = SentFrame>) -> Option<BTreeMap<Difference, usize>> {
    Some(compare_on(shared()?.as_mut()?, frames))
}

fn compare_on(bench: &mut Bench, frames: impl Iterator<Item = SentFrame>) -> BTreeMap<Difference, usize> {
    let (mut seen, mut wrong) = (BTreeMap::new(), Vec::new());
    for sent in frames {
        let out = bench.exchange(sent.link, &sent.frame);
        match Difference::explain_all(&sent, out) {
            Ok(found) => found.into_iter().for_each(|difference| *seen.entry(difference).or_insert(0) += 1),
            Err(left) => wrong.push((sent, left)),
        }
    }
    bench.ours().audit();
    let show = |seen: &[OutputFrame]| seen.iter().map(|seen| format!("    {seen}\n")).collect::<String>();
    let report: String = wrong
        .iter()
        .take(SHOWN)
        .map(|(SentFrame { link, frame }, left)| {
            let sent = OutputFrame { link: *link, frame: frame.clone() };
            format!("sent {sent}\n  Linux:\n{}  we:\n{}", show(&left.kernel), show(&left.ours))
        })
        .collect();
    assert!(wrong.is_empty(), "{} answers differ for no known reason\n{report}", wrong.len());
    seen
}

#[test]
fn generated_packets_have_equal_output_on_both_routers() {
    let Some(seen) = compare(generator::frames(1).take(GENERATED)) else { return };
    println!("{GENERATED} frames; differences: {seen:?}");
    // Redirects are limited to one a second and have a test of their own.
    for difference in Difference::ALL.into_iter().filter(|d| *d != Difference::Redirects) {
        assert!(seen.contains_key(&difference), "{difference:?} is no difference any more");
    }
}

#[test]
fn generated_packets_have_equal_output_on_xdp_ports() {
    compare_by("xdp");
}

#[test]
fn generated_packets_have_equal_output_on_tap_ports() {
    compare_by("tap");
}

fn compare_by(kind: &str) {
    let Some(mut bench) = bench_on(kind) else { return };
    let seen = compare_on(&mut bench, generator::frames(2).take(GENERATED_AGAIN));
    println!("{GENERATED_AGAIN} frames by {kind} ports; differences: {seen:?}");
    assert!(!seen.is_empty());
}

#[test]
fn captured_packets_have_equal_output_on_both_routers() {
    let frames = captures::frames();
    if frames.is_empty() {
        println!("skipped: no captures; set SWITCHPATH_DATA to a directory with captures/*.pcap");
        return;
    }
    let count = frames.len();
    let Some(seen) = compare(frames.into_iter()) else { return };
    println!("{count} packets of captures; differences: {seen:?}");
}

#[test]
fn comparison_runs_in_a_user_namespace_without_root() {
    if probe() != Ok(Permission::UserNamespace) {
        return;
    }
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user"]).arg(std::env::current_exe().unwrap());
    match command.status() {
        Ok(status) => assert!(status.success(), "{status}"),
        Err(error) => println!("skipped: unshare(1): {error}"),
    }
}
