//! To a part of a multicast group: receivers mark their way, data leaves by marked ports.

use super::wire::{self, Line};
use crate::arguments::{Subcasting, Usage};
use anyhow::{Context, Result, bail};
use esp::host::Epochs;
use esp::wire::Part;
use io::clock;
use io::wait::{Sleeper, Waker};
use rustix::net::sockopt::set_ipv6_multicast_hops;
use std::io::{Write, stdin, stdout};
use std::net::{IpAddr, UdpSocket};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::{Instant, Nanos};

/// How often a receiver says what it wants in an epoch: against losses.
const TIMES: u64 = 3;
/// What a datagram holds besides a part.
const MOST: usize = 1200;
/// How far data goes.
const HOPS: u32 = 64;

/// `switchpath state subcast`
pub fn subcast(computation: u64, part: &Subcasting, (line, json): (Line, bool)) -> Result<ExitCode> {
    if part.lifetime < Nanos::millis(30) {
        bail!(Usage("a lifetime of less than 30ms is too short to say anything in".to_owned()));
    }
    let epochs = Epochs::new(computation, part.lifetime);
    match (part.to, part.from, part.group) {
        (Some(group), ..) => send(&epochs, group, part, line),
        (None, Some(source), Some(group)) => receive(&epochs, source, group, part, (line, json)),
        _ => bail!(Usage("write --to GROUP, or --from SOURCE --group GROUP".to_owned())),
    }
}

/// The time by everybody's clock.
fn today() -> Instant {
    Instant::new((clock::now() + clock::epoch()).get())
}

fn multicast(group: IpAddr) -> Result<()> {
    if !group.is_multicast() {
        bail!(Usage(format!("{group} is not the address of a multicast group, like 239.1.2.3")));
    }
    Ok(())
}

fn send(epochs: &Epochs, group: IpAddr, how: &Subcasting, line: Line) -> Result<ExitCode> {
    multicast(group)?;
    let data = how.data.join(" ");
    if data.is_empty() || data.len() > MOST {
        bail!(Usage(format!("write what to send, at most {MOST} bytes")));
    }
    let socket = line.to(group)?;
    match group {
        IpAddr::V4(_) => socket.set_multicast_ttl_v4(HOPS)?,
        IpAddr::V6(_) => set_ipv6_multicast_hops(&socket, HOPS)?,
    }
    let mut sleeper = Sleeper::new(Waker::new()?);
    let (start, count) = (clock::now(), how.count.unwrap_or(1));
    for number in 0..count {
        let epoch = epochs.at(today());
        let part = match how.layer {
            _ if how.everybody => Part { locations: Default::default(), ..epochs.if_marked(epoch) },
            Some(layer) => epochs.if_wanted(epoch, layer),
            None => epochs.if_marked(epoch),
        };
        let data = data.replace("{n}", &number.to_string());
        socket
            .send(&line.before_data(&part, data.as_bytes()))
            .with_context(|| format!("nothing can be sent to {group}"))?;
        if number + 1 < count {
            sleeper.sleep([], (start + how.every * (number + 1)).since(clock::now()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn receive(
    epochs: &Epochs,
    source: IpAddr,
    group: IpAddr,
    how: &Subcasting,
    (line, json): (Line, bool),
) -> Result<ExitCode> {
    multicast(group)?;
    if !how.data.is_empty() {
        bail!(Usage("a receiver sends nothing: leave the data away".to_owned()));
    }
    let (socket, towards) = (line.here(Some(group))?, line.to(source)?);
    let ends = wire::Ends::of(how.count, how.time);
    let layer = how.layer.map(|layer| Arc::new(AtomicU64::new(layer)));
    if let (true, Some(layer)) = (how.ask, layer.clone()) {
        std::thread::spawn(move || listen_to(&layer));
    }
    let (mut out, mut came) = (stdout().lock(), 0);
    let mut next = clock::now();
    while came < ends.count && clock::now() < ends.until {
        if clock::now() >= next {
            say(epochs, (line, &towards), layer.as_ref().map(|layer| layer.load(Ordering::Relaxed)));
            next = clock::now() + Nanos::new(epochs.length().get() / TIMES);
        }
        if let Some(one) = line.next(&socket, next.min(ends.until))?
            && one.data.is_some()
            && one.part.computation == epochs.computation()
        {
            came += 1;
            wire::tell(&mut out, &one, json)?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Reads what is wanted from the standard input. Lines that are no numbers change nothing.
fn listen_to(layer: &AtomicU64) {
    for line in stdin().lines().map_while(Result::ok) {
        if let Ok(wanted) = line.trim().parse() {
            layer.store(wanted, Ordering::Relaxed);
        }
    }
}

/// Says what is wanted, in this epoch and the next. Nobody need take it; what an earlier one was answered with does not matter.
fn say(epochs: &Epochs, (line, towards): (Line, &UdpSocket), layer: Option<u64>) {
    let epoch = epochs.at(today());
    for epoch in [epoch, epoch + 1] {
        let part = layer.map_or_else(|| epochs.mark(epoch), |layer| epochs.want(epoch, layer));
        let bytes = line.bytes(&part);
        // The answer to the one before comes first.
        if towards.send(&bytes).is_err() {
            let _ = towards.send(&bytes);
        }
    }
}
