//! `switchpath certificate`: makes all files that remote access to the API needs.

use crate::arguments::CertificateArguments;
use crate::output::date_and_time;
use anyhow::{Context, Result};
use control::remote::{new_token, self_signed};
use io::clock;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{Write, stdout};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::process::ExitCode;

/// Makes the files.
pub fn certificate(arguments: &CertificateArguments) -> Result<ExitCode> {
    let year = date_and_time((clock::now() + clock::epoch()).get());
    let year = year
        .split('-')
        .next()
        .and_then(|year| year.parse().ok())
        .context("the system clock reports no year; set the clock")?;
    let made = self_signed(&arguments.names, year)?;
    let dir = &arguments.dir;
    DirBuilder::new().recursive(true).mode(0o755).create(dir).with_context(|| dir.display().to_string())?;
    let (token, read_token) = (new_token()? + "\n", new_token()? + "\n");
    let files = [
        ("certificate.pem", 0o644, &made.certificate, "for the router (--tls-cert) and its clients (--ca)"),
        ("key.pem", 0o600, &made.key, "for the router only (--tls-key)"),
        ("token", 0o600, &token, "allows everything (--token-file)"),
        ("read-token", 0o600, &read_token, "allows reading the state (the router's --read-token-file)"),
    ];
    for (name, mode, text, what) in files {
        let path = dir.join(name);
        let write = || -> std::io::Result<()> {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()
        };
        write().with_context(|| format!("{}", path.display()))?;
        writeln!(stdout(), "{}: {what}", path.display())?;
    }
    Ok(ExitCode::SUCCESS)
}
