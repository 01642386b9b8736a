//! The options of commands about this machine.

use super::EXIT;
use clap::{Args, ValueHint};
use std::path::PathBuf;

/// The groups of figures that `switchpath bench` can measure, in the order of measurement.
pub const BENCH_GROUPS: [&str; 17] = [
    "forwarding",
    "functions",
    "ephemeral",
    "lookup",
    "routes",
    "rules",
    "schemes",
    "subscribers",
    "slices",
    "guests",
    "scheduler",
    "sim",
    "promises",
    "workers",
    "io",
    "filters",
    "link",
];

/// Measure the cost of forwarding, next to a straight-line loop or the kernel's own forwarding in the same run.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  switchpath bench
  switchpath bench forwarding -j
  sudo switchpath bench promises     a reserved flow beside a flood and an expensive function on the same core
  sudo switchpath bench promises --real --seconds 60
                                     reserved flows on real packets while guests, routes and reservations change
  sudo switchpath bench io           every kind of port beside the kernel's own forwarding
  sudo switchpath bench filters      10^4 rules of a filter beside none, and beside the kernel's nftables

`io` offers 64-byte packets at many rates, the same to every router. It reports the highest rate forwarded (RFC 2285, maximum
forwarding rate), the rate offered then, and the rate forwarded during a flood.")]
pub struct BenchArguments {
    /// Measure only this group [default: every group that this machine permits].
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(BENCH_GROUPS))]
    pub group: Option<String>,
    /// Print the figures as JSON.
    #[arg(short, long)]
    pub json: bool,
    /// Run one short round instead of the median of many: a smoke test, not a measurement.
    #[arg(short, long)]
    pub quick: bool,
    /// With `promises`: only on real packets, through a daemon whose guests, routes and reservations change meanwhile. Needs root and two processors.
    #[arg(long)]
    pub real: bool,
    /// With `--real`: the length of the run.
    #[arg(long, value_name = "SECONDS", default_value = "60", requires = "real", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,
}

/// Make a self-signed certificate, its key and two tokens for `run --listen`. Valid for ten years.
///
/// Give clients certificate.pem (--ca) and one of the tokens over a secure channel. Existing files are not replaced.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath certificate --dir /etc/switchpath/tls router.example 192.0.2.1
  switchpath run --listen 192.0.2.1:8443 --tls-cert tls/certificate.pem --tls-key tls/key.pem --token-file tls/token
  switchpath show ports --remote https://192.0.2.1:8443 --ca certificate.pem --token-file token

{EXIT}"))]
pub struct CertificateArguments {
    /// The names and addresses by which clients reach the router.
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// Write the files into this directory.
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
}

/// Report what this machine can and cannot do, and how to fix it. Changes nothing.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  switchpath doctor\n  switchpath doctor -j | jq '.[] | select(.state == \"missing\")'"
)]
pub struct DoctorArguments {
    /// Print the findings as JSON.
    #[arg(short, long)]
    pub json: bool,
}
