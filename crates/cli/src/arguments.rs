//! Every option, declared once: the parser, `--help`, the manual pages and the shell completions follow from it.

use clap::{Args, Parser, Subcommand, ValueHint};
use std::fmt;
use std::path::PathBuf;
use units::Nanos;

const EXIT: &str = "\
Exit status:
  0  done
  1  failed, or the configuration has errors
  2  the command line cannot be understood";

/// A software router that keeps its promises.
#[derive(Parser, Debug)]
#[command(name = "switchpath", version, after_help = concat!("\
Examples:
  switchpath check router.toml        every error at once, with its line
  switchpath run router.toml          forward until ended
  switchpath show ports               ask the running router, from another terminal
  switchpath apply router.toml        change it while it forwards
  switchpath capture udp dport 53     watch packets meet their fates
  switchpath doctor                   what this machine can do, and how to mend what it cannot
"), after_long_help = concat!("\
Examples:
  switchpath check router.toml        every error at once, with its line
  switchpath run router.toml          forward until ended
  switchpath show ports               ask the running router, from another terminal
  switchpath apply router.toml        change it while it forwards
  switchpath capture udp dport 53     watch packets meet their fates
  switchpath doctor                   what this machine can do, and how to mend what it cannot

Exit status:
  0  done
  1  failed, or the configuration has errors
  2  the command line cannot be understood

Environment:
  SWITCHPATH_SOCKET  where the router is asked, instead of --socket
  SWITCHPATH_LOG     what is logged: error, warn, info, debug
  NO_COLOR           no colours, even on a terminal"))]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Forward packets as a configuration says, until ended.
    Run(Run),
    /// Check a configuration: every error at once.
    Check(Check),
    /// Say what is different between two configurations, or between one and the running router.
    Diff(Diff),
    /// Change the running router to a configuration: all of it, or nothing.
    Apply(Apply),
    /// Keep the configuration that was applied with a time to confirm it.
    Confirm(Confirm),
    /// Have an earlier configuration run again.
    Rollback(Rollback),
    /// List the configurations that have run, who brought them and what became of them.
    History(History),
    /// Ask the running router.
    Show(Show),
    /// Add and take away routes while the router runs.
    Route(Routes),
    /// Add and take away neighbours while the router runs.
    Neighbour(Neighbours),
    /// Watch packets as they meet their fates, or write them to a file.
    Capture(Capture),
    /// Watch the running router live: ports, paths, drops, workers, events.
    Top(Top),
    /// Follow packets through the stages of the running router.
    Trace(Trace),
    /// Say what the router would do with a packet, step by step, and why; or why packets are dropped.
    Explain(Explain),
    /// Watch hosts talk through Switchpath, with every packet accounted for.
    Demo(crate::demo::Options),
    /// Measure what forwarding costs, beside a straight-line loop in the same run.
    Bench(Bench),
    /// Make a certificate, its key and tokens for the API from other machines.
    Certificate(Certificate),
    /// Say what this machine can and cannot do, and how to mend it.
    Doctor(Doctor),
    /// Print the JSON schema of configurations, for editors.
    #[command(after_help = "Examples:\n  switchpath schema > switchpath.schema.json")]
    Schema,
    /// Print completions for a shell.
    #[command(after_help = "Examples:\n  switchpath completions bash > /etc/bash_completion.d/switchpath")]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one for each command into a directory.
    #[command(after_help = "Examples:\n  switchpath man | man -l -\n  switchpath man /usr/share/man/man1")]
    Man {
        /// Where to write the pages.
        #[arg(value_hint = ValueHint::DirPath)]
        directory: Option<PathBuf>,
    },
}

/// Which router to ask.
#[derive(Args, Debug, Clone)]
pub struct Socket {
    /// The socket of the running router [default: /run/switchpath/control.sock, or in $XDG_RUNTIME_DIR for users].
    #[arg(long, value_name = "PATH", env = "SWITCHPATH_SOCKET", value_hint = ValueHint::FilePath, global = true)]
    pub socket: Option<PathBuf>,
    /// Ask a router on another machine, which was started with --listen: https://HOST:PORT.
    #[arg(long, value_name = "URL", env = "SWITCHPATH_REMOTE", global = true, requires = "token_file",
          value_hint = ValueHint::Url)]
    pub remote: Option<String>,
    /// The file with the token for it.
    #[arg(long, value_name = "FILE", env = "SWITCHPATH_TOKEN_FILE", global = true, value_hint = ValueHint::FilePath)]
    pub token_file: Option<PathBuf>,
    /// The certificates its own is checked against, PEM [default: those the system believes].
    #[arg(long, value_name = "FILE", env = "SWITCHPATH_CA", global = true, value_hint = ValueHint::FilePath)]
    pub ca: Option<PathBuf>,
}

impl Socket {
    /// A client of that router.
    pub fn client(&self) -> control::Client {
        match (&self.remote, &self.token_file) {
            (Some(url), Some(token)) => control::Client::remote(control::RemoteRouter {
                url: url.clone(),
                token: token.clone(),
                authorities: self.ca.clone(),
            }),
            _ => control::Client::new(&self.socket.clone().unwrap_or_else(control::socket::default_path)),
        }
    }
}

/// Forward packets as a configuration says, until ended.
///
/// SIGHUP applies the file anew; where that fails, the configuration before it runs on. SIGINT and SIGTERM end the
/// router in good order and print what became of every packet.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath run router.toml
  switchpath run examples/pcap.toml --until-idle     forward a capture to a capture, no root needed
  systemctl reload switchpath                        apply the file anew (SIGHUP)

{EXIT}"))]
pub struct Run {
    /// The configuration.
    #[arg(default_value = "/etc/switchpath/switchpath.toml", value_hint = ValueHint::FilePath)]
    pub config: PathBuf,
    /// Where it answers on this machine [default: /run/switchpath/control.sock, or in $XDG_RUNTIME_DIR for users].
    #[arg(long, value_name = "PATH", env = "SWITCHPATH_SOCKET", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// End when every input is the end of a file and every packet has met its fate. Opens no socket unless one is given.
    #[arg(long)]
    pub until_idle: bool,
    /// Where the history of configurations survives a restart [default: $STATE_DIRECTORY, else /var/lib/switchpath where
    /// that is there and can be written; else the history ends with the router].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub state_dir: Option<PathBuf>,
    /// Take interfaces even where they carry your login, and start with the file even where it has what was applied on trial
    /// and never confirmed.
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub sharing: SocketSharing,
    #[command(flatten)]
    pub remote: RemoteApi,
    #[command(flatten)]
    pub confinement: Confinement,
    /// Print what became of every packet as JSON.
    #[arg(short, long)]
    pub json: bool,
    /// What is logged: error, warn, info, debug.
    #[arg(long, value_name = "LEVEL", env = "SWITCHPATH_LOG", default_value = "info")]
    pub log: String,
}

/// Who may use the control socket, besides root and the user who starts the router.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Who may use the control socket")]
pub struct SocketSharing {
    /// Members of this group may do everything.
    #[arg(long, value_name = "GROUP")]
    pub socket_group: Option<String>,
    /// Members of this group may look, and change nothing nor see packets.
    #[arg(long, value_name = "GROUP")]
    pub read_group: Option<String>,
    /// The mode of the socket's file [default: 0600; 0660 with a socket group; 0666 with a read group, whose members the
    /// router then tells from strangers itself].
    #[arg(long, value_name = "MODE", value_parser = octal)]
    pub socket_mode: Option<u32>,
}

fn octal(text: &str) -> Result<u32, String> {
    let mode =
        u32::from_str_radix(text, 8).map_err(|_| format!("'{text}' is no mode; write it as chmod does: 0660"))?;
    if mode <= 0o777 { Ok(mode) } else { Err(format!("'{text}' has more than permissions; use 0000 to 0777")) }
}

/// The API from other machines: over TLS and with a token, or not at all.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "The API from other machines (`switchpath certificate` makes the files)")]
pub struct RemoteApi {
    /// Answer on this address as well: ADDRESS:PORT.
    #[arg(long, value_name = "ADDRESS", requires_all = ["tls_cert", "tls_key", "token_file"])]
    pub listen: Option<std::net::SocketAddr>,
    /// The certificate chain, PEM.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "listen")]
    pub tls_cert: Option<PathBuf>,
    /// Its key, PEM, which others cannot read.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "listen")]
    pub tls_key: Option<PathBuf>,
    /// The file with the token that allows everything, which only its owner can read.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "listen")]
    pub token_file: Option<PathBuf>,
    /// The file with the token that allows to look.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "listen")]
    pub read_token_file: Option<PathBuf>,
}

/// What the router gives away when its ports are open.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "What is given away when the ports are open (docs/operations.md)")]
pub struct Confinement {
    /// Become this user, where started by root [default: switchpath, where there is such a user].
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
    /// With this group instead of the user's own.
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,
    /// Let later configurations read and write captures in this directory as well; may be given again.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub allow_dir: Vec<PathBuf>,
    /// Give away what opening ports needs, too: later configurations can open none, and an interface that goes away does not
    /// come back.
    #[arg(long)]
    pub no_new_ports: bool,
    /// Give away nothing: for debugging.
    #[arg(long, conflicts_with_all = ["user", "group", "allow_dir", "no_new_ports"])]
    pub unconfined: bool,
}

/// Check a configuration: every error at once, with its place, a reason and a hint.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath check router.toml
  switchpath check -j router.toml | jq '.diagnostics[] | .reason'

{EXIT}"))]
pub struct Check {
    /// The configuration; `-` for the standard input.
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Print what was found as JSON.
    #[arg(short, long)]
    pub json: bool,
}

/// Say what is different between two configurations, or between the one the running router has and another.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath diff router.toml                what `apply` would change
  switchpath diff old.toml new.toml          no router is needed
  switchpath diff --from 3                   what has changed since generation 3
  switchpath diff --from 3 --to 5            between two generations of the history

{EXIT}"))]
pub struct Diff {
    /// The configuration, or the older of two.
    #[arg(value_hint = ValueHint::FilePath, required_unless_present = "from")]
    pub file: Option<PathBuf>,
    /// From this generation of the history.
    #[arg(long, value_name = "GENERATION", conflicts_with_all = ["file", "new"])]
    pub from: Option<u64>,
    /// To this one; to what runs where it is left out.
    #[arg(long, value_name = "GENERATION", requires = "from")]
    pub to: Option<u64>,
    /// The newer of two.
    #[arg(value_hint = ValueHint::FilePath)]
    pub new: Option<PathBuf>,
    /// Print the changes as JSON.
    #[arg(short, long)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

/// Change the running router to a configuration: all of it, or nothing. No packet is lost and none sees half of it.
///
/// With --confirm it is on trial: unless `switchpath confirm` comes in time, the router goes back by itself to what ran before,
/// whatever becomes of this command and of the connection it was given over. While one is on trial no other is applied.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath apply router.toml
  switchpath apply router.toml --dry-run     only say what would change
  switchpath apply router.toml --confirm 60s && ping -c 3 192.0.2.1 && switchpath confirm

{EXIT}"))]
pub struct Apply {
    /// The configuration; `-` for the standard input.
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Only say what would change.
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub trial: Trial,
    /// Print the answer as JSON.
    #[arg(short, long)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

/// Under which conditions a configuration is applied.
#[derive(Args, Debug, Clone)]
pub struct Trial {
    /// Go back by itself unless `switchpath confirm` comes within this time: 60s.
    #[arg(long, value_name = "TIME")]
    pub confirm: Option<units::Nanos>,
    /// Take interfaces even where they carry your login.
    #[arg(long)]
    pub force: bool,
}

/// Keep the configuration that was applied with --confirm. Fails where none waits, and says whether it was left already.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath confirm

{EXIT}"))]
pub struct Confirm {
    /// Print the answer as JSON.
    #[arg(short, long)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

/// Have an earlier configuration run again: the one before, where nothing else is said.
///
/// It is applied as any other, as a generation of its own. Going back twice goes two configurations back; those that were
/// left by a rollback, or never confirmed, are passed over. Of a configuration on trial this is the end. The file the
/// configuration came from is not changed.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath rollback                        the one before
  switchpath rollback 3                      three back
  switchpath rollback --to 17                generation 17 of `switchpath history`
  switchpath rollback --confirm 60s          and forward again unless confirmed

{EXIT}"))]
pub struct Rollback {
    /// How many configurations back.
    #[arg(default_value = "1", value_name = "N", value_parser = clap::value_parser!(u64).range(1..=u64::from(u32::MAX)))]
    pub steps: u64,
    /// To the configuration of this generation.
    #[arg(long, value_name = "GENERATION", conflicts_with = "steps")]
    pub to: Option<u64>,
    #[command(flatten)]
    pub trial: Trial,
    /// Print the answer as JSON.
    #[arg(short, long)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

/// List the configurations that have run, who brought them and what became of them; the latest hundred.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath history
  switchpath history show 17                 the text of generation 17
  switchpath history show 17 > old.toml
  switchpath diff --from 17                  what has changed since

States:
  running      it runs
  pending      it runs, and is left again unless confirmed
  replaced     it ran until another one, or the end of the router
  rolled back  it was left by `switchpath rollback`
  unconfirmed  it was left because nobody confirmed it

{EXIT}"))]
pub struct History {
    /// What of it.
    #[command(subcommand)]
    pub of: Option<OfHistory>,
    /// Print JSON.
    #[arg(short, long, global = true)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

/// What of the history.
#[derive(Subcommand, Debug, Clone)]
pub enum OfHistory {
    /// Print the text of a configuration.
    Show {
        /// Its number.
        generation: u64,
    },
}

/// Ask the running router.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath show                            the router as a whole
  switchpath show ports --watch              rates, once a second
  switchpath show routes --prefix 192.0.2.0/24
  switchpath show drops -j                   JSON, as documented in docs/control-api.md

{EXIT}"))]
pub struct Show {
    /// What to show.
    #[command(subcommand)]
    pub noun: Option<Noun>,
    /// Print JSON.
    #[arg(short, long, global = true)]
    pub json: bool,
    /// Show it again every so many seconds.
    #[arg(short, long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", global = true,
          value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub watch: Option<u64>,
    #[command(flatten)]
    pub socket: Socket,
}

/// What to show.
#[derive(Subcommand, Debug, Clone)]
pub enum Noun {
    /// The router as a whole.
    Status,
    /// The ports and their links.
    Ports,
    /// The switching paths.
    Paths,
    /// The queues of paths and links.
    Queues,
    /// What the CPU scheduler of each worker runs.
    Tasks,
    /// The routes.
    Routes {
        /// Only routes to destinations within this prefix.
        #[arg(long)]
        prefix: Option<plan::Prefix>,
        /// Only routes of this VRF; `main` is that of everything that is in no other.
        #[arg(long)]
        vrf: Option<String>,
        /// Only routes from here: local, broadcast, static, api, connected, neighbour.
        #[arg(long)]
        origin: Option<String>,
        /// At most so many.
        #[arg(long, default_value = "1000", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
        limit: u64,
    },
    /// The neighbours.
    Neighbours,
    /// Drops by reason.
    Drops,
    /// What happened lately.
    Events {
        /// Only events with this number or a later one.
        #[arg(long, default_value = "0")]
        since: u64,
    },
    /// The packet ledgers: that every packet has met one fate.
    Ledger,
    /// The configuration that runs.
    Config,
}

/// Add and take away routes while the router runs.
///
/// They stand beside those of the configuration, whose routes to the same destination come first. They stay when another
/// configuration is applied, and end with the router.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath route add 10.0.0.0/8 via 192.0.2.1
  switchpath route add 10.1.0.0/16 via 192.0.2.1 weight 2 via 192.0.2.2
  switchpath route add vrf red ::/0 via fe80::1 port wan leak
  switchpath route add 10.2.0.0/16 blackhole
  switchpath route del 10.0.0.0/8
  switchpath route batch changes.txt         one change a line, all of them or none; docs/routes.md
  switchpath route list

{EXIT}"))]
pub struct Routes {
    /// What to do.
    #[command(subcommand)]
    pub command: RouteCommand,
    /// Print the answer as JSON.
    #[arg(short, long, global = true)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

/// What to do with routes.
#[derive(Subcommand, Debug)]
pub enum RouteCommand {
    /// Add a route, or have one lead elsewhere.
    Add {
        /// `[vrf NAME] PREFIX via ADDRESS [port NAME] [weight N] ... [leak]`, or `blackhole` or `unreachable` behind the
        /// prefix.
        #[arg(required = true, value_name = "ROUTE", trailing_var_arg = true)]
        route: Vec<String>,
    },
    /// Take a route away.
    Del {
        /// `[vrf NAME] PREFIX`
        #[arg(required = true, value_name = "ROUTE", trailing_var_arg = true)]
        route: Vec<String>,
    },
    /// Take all such routes away.
    Flush {
        /// Only those of this VRF.
        #[arg(long)]
        vrf: Option<String>,
    },
    /// Make the changes of a file, one a line: all of them, or none.
    Batch {
        /// The file; `-` for the standard input.
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// List the routes that were added this way.
    List {
        /// At most so many.
        #[arg(long, default_value = "1000", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
        limit: u64,
    },
}

/// Add and take away neighbours while the router runs. They are never asked, and end with the router.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath neighbour add 192.0.2.9 02:00:00:00:00:09 --port lan
  switchpath neighbour del 192.0.2.9 --port lan
  switchpath show neighbours

{EXIT}"))]
pub struct Neighbours {
    /// What to do.
    #[command(subcommand)]
    pub command: NeighbourCommand,
    /// Print the answer as JSON.
    #[arg(short, long, global = true)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

/// What to do with neighbours.
#[derive(Subcommand, Debug)]
pub enum NeighbourCommand {
    /// Add a neighbour, or give it another MAC address.
    Add {
        /// Its address.
        address: std::net::IpAddr,
        /// Its MAC address.
        mac: String,
        /// The interface it is on: `lan`, or `lan.20`.
        #[arg(long)]
        port: String,
    },
    /// Take a neighbour away that was added this way.
    Del {
        /// Its address.
        address: std::net::IpAddr,
        /// The interface it is on.
        #[arg(long)]
        port: String,
    },
}

/// Watch packets of the running router as they meet their fates, or write them to a pcapng file in which each packet has
/// its fate as a comment.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath capture                                 one line a packet
  switchpath capture -c 10 iif lan ip dscp ef udp    ten packets that match
  switchpath capture -w trouble.pcapng icmp
  switchpath capture -w - | wireshark -k -i -

A match is written as for a path: any, iif NAME, ip/ip6 saddr|daddr PREFIX, ip dscp CLASS, tcp|udp [sport|dport PORTS],
icmp, icmpv6, meta l4proto PROTOCOL.

{EXIT}"))]
pub struct Capture {
    /// Which packets; all where it is left out.
    #[arg(value_name = "MATCH", trailing_var_arg = true)]
    pub matching: Vec<String>,
    /// Write to this pcapng file; `-` for the standard output.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub write: Option<PathBuf>,
    /// End after so many packets.
    #[arg(short, long, value_name = "PACKETS", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// At most so many bytes of each packet.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(14..))]
    pub snaplen: Option<u32>,
    #[command(flatten)]
    pub socket: Socket,
}

/// Watch the running router live: rates, queues, drops, how busy its workers are, and what happens.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath top
  switchpath top --interval 250ms
  switchpath top --once                  everything once, as text
  switchpath top -j --interval 5s        everything once, as JSON: rates over five seconds

Keys: q quit, tab or arrows from pane to pane, s sort, p pause, d drops with what they mean, ? help. Where the output is no
terminal, everything is printed once.

{EXIT}"))]
pub struct Top {
    /// How often the router is asked.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Nanos,
    /// Print everything once as text, and end.
    #[arg(long)]
    pub once: bool,
    /// Print everything once as JSON, and end.
    #[arg(short, long)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

fn interval(text: &str) -> Result<Nanos, String> {
    let time: Nanos = text.parse().map_err(|error: units::UnitError| error.to_string())?;
    let fits = (Nanos::millis(100)..=Nanos::secs(3600)).contains(&time);
    if fits { Ok(time) } else { Err("write a time from 100ms to 3600s".to_owned()) }
}

/// Follow packets of the running router through its stages: where they came in, how they were classified, which queue they
/// waited in and how long, what each function changed, what the link did, and their fate.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath trace                                   every packet, up to 100 a second
  switchpath trace -c 5 iif lan udp dport 5060       five packets that match
  switchpath trace --port wan icmp -w way.pcapng     frames before and after, their way as a comment
  switchpath trace --rate 10/s -j                    a line of JSON for each packet

A match is written as for a path: any, iif NAME, ip/ip6 saddr|daddr PREFIX, ip dscp CLASS, tcp|udp [sport|dport PORTS],
icmp, icmpv6, meta l4proto PROTOCOL. Without a trace a packet costs what it always costs; beyond the rate, packets are
not looked at.

{EXIT}"))]
pub struct Trace {
    /// Which packets; all where it is left out.
    #[arg(value_name = "MATCH")]
    pub matching: Vec<String>,
    /// End after so many packets.
    #[arg(short, long, visible_short_alias = 'n', value_name = "PACKETS", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Only what comes in by this port.
    #[arg(long, value_name = "PORT")]
    pub port: Option<String>,
    /// Follow at most so many packets a second.
    #[arg(long, value_name = "PACKETS/s", default_value = "100/s", value_parser = per_second)]
    pub rate: u64,
    /// Print a line of JSON for each packet.
    #[arg(short, long)]
    pub json: bool,
    /// Write the frames to this pcapng file besides, with their way as a comment.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub write: Option<PathBuf>,
    #[command(flatten)]
    pub socket: Socket,
}

/// A rate in packets a second: `100/s`, or the number alone.
fn per_second(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    let rate = number.parse().ok().filter(|rate| (1..=10_000).contains(rate));
    rate.ok_or_else(|| "write packets a second, from 1/s to 10000/s".to_owned())
}

/// Say what the router would do with a packet, step by step, and why. Nothing is sent and nothing is counted: it is a dry
/// run of the very code that forwards.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath explain in lan ip saddr 10.0.0.5 daddr 192.0.2.9 udp dport 5060 dscp ef len 1400 ttl 64
  switchpath explain --config router.toml daddr 192.0.2.9     no router is needed, nor root
  switchpath explain --pcap trouble.pcapng --packet 3 --port lan
  switchpath explain --drop martian_source                    what a reason means, and what to do

A packet is written in words: in INTERFACE, saddr|daddr ADDRESS, tcp|udp|icmp|icmpv6|proto PROTOCOL, sport|dport PORT,
dscp CLASS, ecn BITS, ttl HOPS, len BYTES, df, smac|dmac MAC. What is not said has a default: a packet of 60 bytes from a
host beside the router on that interface, to the router itself.

With --config the router is one in memory, and every neighbour it asks for answers.

{EXIT}"))]
pub struct Explain {
    /// The packet in words.
    #[arg(value_name = "PACKET", conflicts_with_all = ["pcap", "drop"])]
    pub packet: Vec<String>,
    /// Take the packet from this capture.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "drop")]
    pub pcap: Option<PathBuf>,
    /// Which packet of the capture, from 1.
    #[arg(long = "packet", value_name = "N", default_value = "1", requires = "pcap",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub number: u64,
    /// The port a packet of a capture comes in by.
    #[arg(long, value_name = "PORT", requires = "pcap")]
    pub port: Option<String>,
    /// Take the packet of a capture as one for that port, whatever station it names.
    #[arg(long, requires = "pcap")]
    pub as_ours: bool,
    /// Ask this configuration instead of the running router.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "drop")]
    pub config: Option<PathBuf>,
    /// Say what a reason to drop packets means, and what to do.
    #[arg(long, value_name = "REASON")]
    pub drop: Option<String>,
    /// Print JSON.
    #[arg(short, long)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

/// Measure what forwarding costs, beside a straight-line loop, or the kernel's own forwarding, in the same run.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  switchpath bench
  switchpath bench forwarding -j
  sudo switchpath bench io           every kind of port beside the kernel's own forwarding")]
pub struct Bench {
    /// Only this group: forwarding, lookup, scheme, scheduler, io. Without one, io is left out where it cannot be measured.
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

/// A command line that clap takes and that means nothing all the same.
#[derive(Debug)]
pub struct Usage(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_option_is_declared_soundly() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_teaches_by_example() {
        for command in Arguments::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Examples:"), "{}", command.get_name());
        }
    }

    #[test]
    fn a_match_needs_no_quotes() {
        let arguments = Arguments::try_parse_from(["switchpath", "capture", "-c", "3", "udp", "dport", "53"]).unwrap();
        let Command::Capture(capture) = arguments.command else { panic!() };
        assert_eq!((capture.count, capture.matching.join(" ").as_str()), (Some(3), "udp dport 53"));
    }
}
