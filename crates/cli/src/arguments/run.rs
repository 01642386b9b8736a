//! The options of `run`: state that is kept, privileges that are dropped, and access to the API.

use super::{EXIT, GuestDirectory};
use clap::{Args, ValueHint};
use std::path::PathBuf;

/// Run the router with a configuration, until ended.
///
/// SIGHUP applies the file again; if that fails, the running configuration stays. SIGINT and SIGTERM stop the router cleanly and print the fates of
/// all packets.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath run router.toml
  switchpath run examples/pcap.toml --until-idle     forward a capture to a capture, without root
  switchpath run router.toml --guests /etc/switchpath/guests
  systemctl reload switchpath                        apply the file again (SIGHUP)

{EXIT}"))]
pub struct RunArguments {
    /// Run this configuration.
    #[arg(default_value = "/etc/switchpath/switchpath.toml", value_hint = ValueHint::FilePath)]
    pub config: PathBuf,
    /// Answer on this control socket [default: /run/switchpath/control.sock, or in $XDG_RUNTIME_DIR for users].
    #[arg(long, value_name = "PATH", env = "SWITCHPATH_SOCKET", value_hint = ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// End when every input file has ended and every packet has met its fate. Without --socket, no control socket is opened.
    #[arg(long)]
    pub until_idle: bool,
    /// Keep the history of configurations in this directory across restarts [default: $STATE_DIRECTORY, else /var/lib/switchpath if it exists and is
    /// writable; else the history ends with the router].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub state_dir: Option<PathBuf>,
    /// Detach interfaces from the kernel even if they carry your login. Also start with the file if it contains a configuration that was on trial and
    /// never confirmed.
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub guests: GuestDirectory,
    /// Make the slices of this file, which `switchpath slice export` writes.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub slices: Option<PathBuf>,
    #[command(flatten)]
    pub sharing: SocketSharing,
    #[command(flatten)]
    pub remote: RemoteApi,
    /// Serve /metrics in plain text on this loopback address, such as 127.0.0.1:9469. No other request is answered there.
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<std::net::SocketAddr>,
    #[command(flatten)]
    pub confinement: ConfinementArguments,
    /// Print the fates of all packets as JSON.
    #[arg(short, long)]
    pub json: bool,
    /// Log messages from this level on: error, warn, info, debug.
    #[arg(long, value_name = "LEVEL", env = "SWITCHPATH_LOG", default_value = "info")]
    pub log: String,
}

/// Access to the control socket, besides root and the user who starts the router.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Access to the control socket")]
pub struct SocketSharing {
    /// Allow members of this group to do everything.
    #[arg(long, value_name = "GROUP")]
    pub socket_group: Option<String>,
    /// Allow members of this group to read the state, but not to change it nor to see packets.
    #[arg(long, value_name = "GROUP")]
    pub read_group: Option<String>,
    /// Give the socket's file this mode [default: 0600; 0660 with a socket group; 0666 with a read group, whose members the router itself
    /// distinguishes from other users].
    #[arg(long, value_name = "MODE", value_parser = octal)]
    pub socket_mode: Option<u32>,
}

fn octal(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8)
        .map_err(|_| format!("'{text}' is no file mode; write octal digits as for chmod: 0660"))?;
    if mode <= 0o777 { Ok(mode) } else { Err(format!("'{text}' has bits other than permissions; use 0000 to 0777")) }
}

/// Remote access to the API: over TLS and with a token only.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Remote access to the API (`switchpath certificate` makes the files)")]
pub struct RemoteApi {
    /// Also answer on this address: ADDRESS:PORT.
    #[arg(long, value_name = "ADDRESS", requires_all = ["tls_cert", "tls_key", "token_file"])]
    pub listen: Option<std::net::SocketAddr>,
    /// Use this certificate chain, PEM.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "listen")]
    pub tls_cert: Option<PathBuf>,
    /// Use this key of the certificate, PEM. Only its owner may be able to read the file.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "listen")]
    pub tls_key: Option<PathBuf>,
    /// Read the token that allows everything from this file. Only its owner may be able to read it.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "listen")]
    pub token_file: Option<PathBuf>,
    /// Read the token that only allows reading the state from this file.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "listen")]
    pub read_token_file: Option<PathBuf>,
}

/// Privileges that the router drops when its ports are open.
#[derive(Args, Debug, Clone)]
#[command(next_help_heading = "Privileges dropped at start (docs/operate/operations.md)")]
pub struct ConfinementArguments {
    /// Become this user if started by root [default: switchpath, if that user exists].
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
    /// Become this group instead of the user's own.
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,
    /// Allow later configurations to read and write captures in this directory too; may be repeated.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub allow_dir: Vec<PathBuf>,
    /// Also drop the privileges that opening a port needs. Later configurations can open no ports, and an interface that disappears cannot be
    /// reopened.
    #[arg(long)]
    pub no_new_ports: bool,
    /// Drop no privileges: for debugging.
    #[arg(long, conflicts_with_all = ["user", "group", "allow_dir", "no_new_ports"])]
    pub unconfined: bool,
}
