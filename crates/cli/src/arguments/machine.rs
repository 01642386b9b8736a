//! The options of commands that are about this machine.

use super::EXIT;
use clap::{Args, ValueHint};
use std::path::PathBuf;

/// The groups of figures that `switchpath bench` can measure, in the order in which it does.
pub const BENCH_GROUPS: [&str; 13] = [
    "forwarding",
    "functions",
    "ephemeral",
    "lookup",
    "routes",
    "schemes",
    "guests",
    "scheduler",
    "sim",
    "promises",
    "workers",
    "io",
    "link",
];

/// Measure what forwarding costs, beside a straight-line loop, or the kernel's own forwarding, in the same run.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  switchpath bench
  switchpath bench forwarding -j
  sudo switchpath bench promises     a reserved flow beside a flood and a dear function on the same core
  sudo switchpath bench io           every kind of port beside the kernel's own forwarding

`io` offers 64-byte packets at many rates, the same to every router, and tells the most that came out at any of them (RFC 2285,
maximum forwarding rate), what was offered then, and what comes out of a flood.")]
pub struct Bench {
    /// Only this group. Without one, those that this machine does not let be measured are left out.
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(BENCH_GROUPS))]
    pub group: Option<String>,
    /// Print the figures as JSON.
    #[arg(short, long)]
    pub json: bool,
    /// One short round instead of the median of many: to see that it works, not what it costs.
    #[arg(short, long)]
    pub quick: bool,
}

/// Make a certificate that vouches for itself, its key and two tokens: what `run --listen` asks for. Good for ten years.
///
/// Clients are given certificate.pem (--ca) and one of the tokens, by a way that nobody else can read. Files that are there
/// are not replaced.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath certificate --dir /etc/switchpath/tls router.example 192.0.2.1
  switchpath run --listen 192.0.2.1:8443 --tls-cert tls/certificate.pem --tls-key tls/key.pem --token-file tls/token
  switchpath show ports --remote https://192.0.2.1:8443 --ca certificate.pem --token-file token

{EXIT}"))]
pub struct Certificate {
    /// The names and addresses by which clients ask.
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// Where to put the files.
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
}

/// Say what this machine can and cannot do, and how to mend it. Changes nothing.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  switchpath doctor\n  switchpath doctor -j | jq '.[] | select(.state == \"missing\")'"
)]
pub struct Doctor {
    /// Print the findings as JSON.
    #[arg(short, long)]
    pub json: bool,
}
