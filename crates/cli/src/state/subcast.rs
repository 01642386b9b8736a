//! Sends to the subscribers in a multicast group. Receivers mark the ports towards them, and data leaves by marked ports only.

use super::ping::randomness;
use super::socket::PartSocket;
use super::transport::{self, PartTransport};
use crate::arguments::{SubcastArguments, UsageError};
use anyhow::{Context, Result, bail};
use esp::host::{Action, Epochs, Layers};
use esp::wire::Part;
use io::clock;
use io::wait::{Sleeper, Waker};
use std::io::{Write, stdin, stdout};
use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use units::{Instant, Nanos};

/// How often a receiver marks its ports in an epoch, against losses.
const TIMES: u64 = 3;
/// The most bytes of data in a datagram.
const MOST: usize = 1200;
/// The hop limit of data.
const HOPS: u32 = 64;

/// `switchpath state subcast`
pub fn subcast(computation: u64, part: &SubcastArguments, (line, json): (PartTransport, bool)) -> Result<ExitCode> {
    if part.lifetime < Nanos::millis(30) {
        bail!(UsageError("a lifetime below 30ms is too short for subscriptions".to_owned()));
    }
    let epochs = Epochs::new(computation, part.lifetime);
    match (part.to, part.from, part.group) {
        (Some(group), ..) => send(&epochs, group, part, line),
        (None, Some(source), Some(group)) => receive(&epochs, source, group, part, (line, json)),
        _ => bail!(UsageError("write --to GROUP, or --from SOURCE --group GROUP".to_owned())),
    }
}

/// Returns the time since 1970, the same on all hosts with a correct clock.
fn unix_time() -> Instant {
    Instant::new((clock::now() + clock::epoch()).get())
}

fn multicast(group: IpAddr) -> Result<()> {
    if !group.is_multicast() {
        bail!(UsageError(format!("{group} is not the address of a multicast group, like 239.1.2.3")));
    }
    Ok(())
}

fn send(epochs: &Epochs, group: IpAddr, how: &SubcastArguments, line: PartTransport) -> Result<ExitCode> {
    multicast(group)?;
    let data = how.data.join(" ");
    if data.is_empty() || data.len() > MOST {
        bail!(UsageError(format!("write the data to send, at most {MOST} bytes")));
    }
    let socket = line.connect(group)?;
    socket.set_group_hops(group.is_ipv4(), HOPS)?;
    let mut sleeper = Sleeper::new(Waker::new()?);
    let (start, count) = (clock::now(), how.count.unwrap_or(1));
    for number in 0..count {
        let epoch = epochs.at(unix_time());
        let part = match how.layer {
            _ if how.everybody => Part { locations: Default::default(), ..epochs.if_marked(epoch) },
            Some(layer) => epochs.if_subscribed(epoch, layer),
            None => epochs.if_marked(epoch),
        };
        let data = data.replace("{n}", &number.to_string());
        socket
            .send(&line.bytes_with_data(&part, data.as_bytes()))
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
    how: &SubcastArguments,
    (line, json): (PartTransport, bool),
) -> Result<ExitCode> {
    multicast(group)?;
    if !how.data.is_empty() {
        bail!(UsageError("a receiver sends no data: remove the data from the command line".to_owned()));
    }
    let mut inlet = line.listen_on(Some(group))?;
    let layers = how.layer.map(|layer| Layers::new(*epochs, randomness()[0], layer.saturating_add(1)));
    let wish = SubcastSubscription {
        epochs: *epochs,
        line,
        source_socket: line.connect(source)?,
        layers: layers.map(Mutex::new),
    };
    let (wish, ends) = (Arc::new(wish), transport::ListenLimit::of(how.count, how.time));
    if how.ask {
        let wish = wish.clone();
        std::thread::spawn(move || wish.follow_input());
    }
    let (mut out, mut came) = (stdout().lock(), 0);
    let mut next = clock::now();
    while came < ends.count && clock::now() < ends.until {
        if clock::now() >= next {
            next = clock::now() + wish.send_marks();
        }
        if let Some(one) = inlet.next(next.min(ends.until))?
            && one.data.is_some()
            && one.part.computation == epochs.computation()
        {
            came += 1;
            transport::print_part(&mut out, &one, json)?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The subscription of a receiver, and the source it is sent to.
struct SubcastSubscription {
    epochs: Epochs,
    line: PartTransport,
    source_socket: PartSocket,
    /// None if it subscribes without layers.
    layers: Option<Mutex<Layers>>,
}

impl SubcastSubscription {
    /// Sends the marks that are due, and returns the time until the next ones.
    fn send_marks(&self) -> Nanos {
        let Some(layers) = &self.layers else {
            let epoch = self.epochs.at(unix_time());
            [epoch, epoch + 1].into_iter().for_each(|epoch| self.send(&self.epochs.mark(epoch)));
            return Nanos::new(self.epochs.length().get() / TIMES);
        };
        let mut layers = layers.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let now = unix_time();
            match layers.poll(now) {
                Action::Send(part) => self.send(&part),
                Action::Wait(until) => return until.since(now),
                Action::Over(()) => return self.epochs.length(),
            }
        }
    }

    /// Marks are not acknowledged, so errors are ignored; some of them are ICMP errors of earlier packets.
    fn send(&self, part: &Part) {
        let _ = self.source_socket.send(&self.line.bytes(part));
    }

    /// Reads the highest wanted layer, or `none`, from each line of the standard input, and sends the marks at once. Other lines are ignored.
    fn follow_input(&self) {
        let Some(layers) = &self.layers else { return };
        for line in stdin().lines().map_while(Result::ok) {
            let wanted = match line.trim() {
                "none" => 0,
                number => match number.parse::<u64>() {
                    Ok(layer) => layer.saturating_add(1),
                    Err(_) => continue,
                },
            };
            layers.lock().unwrap_or_else(PoisonError::into_inner).set_layers(wanted);
            self.send_marks();
        }
    }
}
