//! The options of the demonstration.

use clap::Args;

/// Watch hosts talk through Switchpath, with every packet accounted for.
///
/// Two clients and a server talk TCP, UDP and ping through a router in this process, over IPv4 and IPv6. Needs no root:
/// where network namespaces cannot be made, the hosts are in memory. Nothing is changed on this machine.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  switchpath demo
  switchpath demo --seconds 60
  switchpath demo --plain | tee demo.log     one line a second, as where there is no terminal

Exit status:
  0  everything that was transferred arrived as it was sent, and every packet is accounted for
  1  not so")]
pub struct Demo {
    /// How long it takes.
    #[arg(short, long, default_value = "10", value_parser = clap::value_parser!(u64).range(2..=86400))]
    pub seconds: u64,
    /// One line a second instead of a table, also on a terminal.
    #[arg(long)]
    pub plain: bool,
    /// Hosts in memory, also where network namespaces can be made.
    #[arg(long)]
    pub memory: bool,
}
