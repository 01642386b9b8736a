//! The options of `switchpath init`.

use super::EXIT;
use clap::{Args, ValueEnum, ValueHint};
use std::fmt;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use units::Rate;

/// Write a configuration for this machine: a router of a home or a branch office, the edge of an access network, or a laboratory.
///
/// Four questions on the terminal: the kind of router, the interface toward the Internet, the one toward the local network, and the network there.
/// Each has a proposal, found on this machine, and each is an option too. With --yes the command accepts the proposals for all other questions.
///
/// The file has comments and passes `switchpath check`. The command changes nothing else on the machine.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath init                                         asks, and writes switchpath.toml
  switchpath init --kind home --wan eth0 --lan eth1 --yes
  switchpath init --kind branch --wan eth0 --lan eth1 --network 10.20.0.0/24 \\
      --address 203.0.113.2/30 --gateway 203.0.113.1 --down 200mbit --up 50mbit --yes
  switchpath init --yes -j | jq .interfaces               the interfaces of this machine

{EXIT}"))]
pub struct InitArguments {
    /// The kind of router [default: home].
    #[arg(long, value_enum, value_name = "KIND")]
    pub kind: Option<RouterKind>,
    /// The interface toward the Internet [default: the one with the default route].
    #[arg(long, value_name = "INTERFACE")]
    pub wan: Option<String>,
    /// The interface toward the local network [default: the first other one].
    #[arg(long, value_name = "INTERFACE")]
    pub lan: Option<String>,
    /// The IPv4 network there, like 192.168.1.0/24. The router gets its first address, or the given one of 192.168.1.254/24.
    #[arg(long, value_name = "NETWORK")]
    pub network: Option<String>,
    /// The address toward the Internet: `dhcp`, or ADDRESS/LENGTH [default: the static address that the interface has, else dhcp].
    #[arg(long, value_name = "ADDRESS")]
    pub address: Option<String>,
    /// With a static address: the default gateway [default: the present one of the interface].
    #[arg(long, value_name = "ADDRESS")]
    pub gateway: Option<Ipv4Addr>,
    /// The rate of the line from the Internet. A rate some per cent below that of the line keeps the queue in this router, where it is short.
    #[arg(long, value_name = "RATE")]
    pub down: Option<Rate>,
    /// The rate of the line to the Internet.
    #[arg(long, value_name = "RATE")]
    pub up: Option<Rate>,
    /// Write the configuration to this file.
    #[arg(short, long, value_name = "FILE", default_value = "switchpath.toml", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Accept the proposals instead of asking.
    #[arg(short, long)]
    pub yes: bool,
    /// Replace an existing file.
    #[arg(long)]
    pub force: bool,
    /// Print the answers, the files, warnings and the next commands as JSON.
    #[arg(short, long)]
    pub json: bool,
}

/// The kind of router that `switchpath init` configures.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum RouterKind {
    /// A home: one public address for all hosts, and no connections from outside.
    Home,
    /// A branch office: as a home, and voice packets first.
    Branch,
    /// The edge of an access network: each subscriber has the rates of its plan.
    IspEdge,
    /// A laboratory: two networks of both IP versions, with an emulated line between them.
    Lab,
}

impl RouterKind {
    /// All kinds, as the command offers them.
    pub const ALL: [RouterKind; 4] = [RouterKind::Home, RouterKind::Branch, RouterKind::IspEdge, RouterKind::Lab];

    /// Its name in options and in the names of examples.
    pub const fn name(self) -> &'static str {
        match self {
            RouterKind::Home => "home",
            RouterKind::Branch => "branch",
            RouterKind::IspEdge => "isp-edge",
            RouterKind::Lab => "lab",
        }
    }

    /// Its purpose, for the question.
    pub const fn purpose(self) -> &'static str {
        match self {
            RouterKind::Home => "one public address for all hosts, no connections from outside",
            RouterKind::Branch => "as a home, and voice packets first",
            RouterKind::IspEdge => "each subscriber has the rates of its plan",
            RouterKind::Lab => "two networks with an emulated line between them",
        }
    }
}

impl fmt::Display for RouterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
