//! The options of the demonstration.

use clap::Args;

/// Watch hosts talk through Switchpath, with every packet accounted for.
///
/// Two clients and a server exchange TCP, UDP and ping over IPv4 and IPv6 through a router in this process. No root is needed: without network
/// namespaces the hosts run in memory. The demo changes nothing on this machine.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  switchpath demo
  switchpath demo --seconds 60
  switchpath demo --plain | tee demo.log     one line a second, as without a terminal

Exit status:
  0  all data arrived as it was sent, and every packet is accounted for
  1  data was lost or changed, or a packet is unaccounted for")]
pub struct DemoArguments {
    /// Run for this many seconds.
    #[arg(short, long, default_value = "10", value_parser = clap::value_parser!(u64).range(2..=86400))]
    pub seconds: u64,
    /// Print one line a second instead of a table, also on a terminal.
    #[arg(long)]
    pub plain: bool,
    /// Run the hosts in memory even if network namespaces are available.
    #[arg(long)]
    pub memory: bool,
}
