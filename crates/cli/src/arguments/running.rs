//! The options of `run`: what the router keeps, gives away, and lets others ask.

use super::{EXIT, GuestDirectory};
use clap::{Args, ValueHint};
use std::path::PathBuf;

/// Forward packets as a configuration says, until ended.
///
/// SIGHUP applies the file anew; where that fails, the configuration before it runs on. SIGINT and SIGTERM end the
/// router in good order and print what became of every packet.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath run router.toml
  switchpath run examples/pcap.toml --until-idle     forward a capture to a capture, no root needed
  switchpath run router.toml --guests /etc/switchpath/guests
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
    pub guests: GuestDirectory,
    #[command(flatten)]
    pub sharing: SocketSharing,
    #[command(flatten)]
    pub remote: RemoteApi,
    /// Serve /metrics in plain text to this machine on a loopback address, like 127.0.0.1:9469. No other request is answered
    /// there.
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<std::net::SocketAddr>,
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
