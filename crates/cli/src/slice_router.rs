//! `switchpath slice router`: the slow path of a slice with the code option `ipv4`.
//!
//! The program keeps the filters of the slice equal to the routes of a file, longest prefix first, and answers the packets that the fast path does not
//! forward: it sends ICMP errors, echo replies and fragments. All of them return to the fast path, which looks up their route.
//!
//! It needs no rights but those of the slice's owner. Without it the routes stay, and exceptions wait.

use crate::output::print_json;
use anyhow::{Context, Result, bail};
use control::{Client, ClientError, ExceptionStream, SliceClient, SlowPathPacket};
use io::clock;
use plan::Prefix;
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use slice::bands::{BandFilters, FilterBands};
use slice::code::ipv4::{Ipv4SlowPath, route4};
use slice::code::{DATA_BYTES, ExceptionCode, LookupKey, mtu_data};
use slice::{FilterAction, Reinjection, SliceCommand};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Write, stdout};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Packets that return in one request.
const AT_ONCE: usize = 64;
/// Changes of filters in one request: within the limit of a request of a slice's owner.
const CHANGES_AT_ONCE: usize = 4000;
/// The first position of the bands of routes. Filters below it decide before all routes, and belong to the user.
const FIRST_ROUTE: u32 = 1 << 24;

/// The file of a router: the addresses of its meta-interfaces, and its routes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct RouterFile {
    addresses: BTreeMap<u16, Ipv4Addr>,
    /// By address and length of the prefix.
    routes: BTreeMap<(Ipv4Addr, u8), FilterAction>,
}

impl RouterFile {
    /// Reads lines like `address 0 10.0.0.1` and `route 10.2.0.0/16 via 198.51.100.9:20000 mi 1 queue 1 mtu 1400`.
    fn read(text: &str, name: &str) -> Result<RouterFile> {
        let mut file = RouterFile::default();
        for (number, line) in text.lines().enumerate() {
            let words: Vec<&str> = line.split('#').next().unwrap_or("").split_whitespace().collect();
            let read = match &words[..] {
                [] => continue,
                ["address", interface, address] => file.add_address(interface, address),
                ["route", prefix, rest @ ..] => file.add_route(prefix, rest),
                [other, ..] => Err(anyhow::anyhow!(
                    "'{other}' is unknown here; {}",
                    plan::did_you_mean(other, ["address", "route"])
                )),
            };
            read.with_context(|| format!("{name}:{}", number + 1))?;
        }
        Ok(file)
    }

    fn add_address(&mut self, interface: &str, address: &str) -> Result<()> {
        let interface = number(interface, "meta-interface")?;
        let Ok(address) = address.parse() else { bail!("'{address}' is no IPv4 address") };
        if self.addresses.insert(interface, address).is_some() {
            bail!("meta-interface {interface} has an address already");
        }
        Ok(())
    }

    fn add_route(&mut self, prefix: &str, words: &[&str]) -> Result<()> {
        let parsed = prefix.parse().ok().map(Prefix::network);
        let Some(Prefix { address: IpAddr::V4(address), length }) = parsed else {
            bail!("'{prefix}' is no IPv4 prefix; write an address with a length: 10.2.0.0/16")
        };
        let action = match words {
            ["blackhole"] => FilterAction::Drop,
            words => send(words)?,
        };
        if self.routes.insert((address, length), action).is_some() {
            bail!("there is a route to {address}/{length} already");
        }
        Ok(())
    }

    /// The addresses of the meta-interfaces: those of the file, and for the others their own on the router.
    fn addresses(&self, places: &[(u16, SocketAddr)]) -> BTreeMap<u16, Ipv4Addr> {
        let own = places.iter().filter_map(|(number, place)| match place.ip() {
            IpAddr::V4(address) => Some((*number, address)),
            IpAddr::V6(_) => None,
        });
        own.chain(self.addresses.iter().map(|(number, address)| (*number, *address))).collect()
    }

    /// The filters of the routes, and of the router's own addresses.
    fn filters(&self, addresses: &BTreeMap<u16, Ipv4Addr>) -> BandFilters {
        let routes = self.routes.iter().map(|((address, length), action)| ((*address, *length), action.clone()));
        let local = FilterAction::Exception(ExceptionCode::Local);
        // Behind the routes: a packet to the router itself is never forwarded.
        let own = addresses.values().map(|address| ((*address, 32), local.clone()));
        let filter = |((address, length), action): ((Ipv4Addr, u8), _)| Some((route4(address, length)?, action));
        routes.chain(own).filter_map(filter).collect()
    }
}

fn number(word: &str, what: &str) -> Result<u16> {
    word.parse().with_context(|| format!("'{word}' is no number of a {what}"))
}

fn send(words: &[&str]) -> Result<FilterAction> {
    const FORM: &str =
        "write: route PREFIX via ADDRESS:PORT mi NUMBER queue NUMBER [mtu BYTES], or route PREFIX blackhole";
    let (pairs, rest) = words.as_chunks::<2>();
    let (mut next, mut interface, mut queue, mut data) = (None, None, None, [0; DATA_BYTES]);
    if !rest.is_empty() {
        bail!(FORM);
    }
    for [key, value] in pairs {
        match *key {
            "via" => {
                let place = value.parse::<SocketAddr>();
                next = Some(place.with_context(|| format!("'{value}' is no address and port"))?);
            }
            "mi" => interface = Some(number(value, "meta-interface")?),
            "queue" => queue = Some(number(value, "queue")?),
            "mtu" => data = mtu_data(value.parse().with_context(|| format!("'{value}' is no MTU in bytes"))?),
            other => bail!("'{other}' is unknown here; {FORM}"),
        }
    }
    let (Some(next), Some(interface), Some(queue)) = (next, interface, queue) else { bail!(FORM) };
    Ok(FilterAction::Send { queue, interface, next, data })
}

/// The result of reading the routes.
#[derive(Serialize)]
struct Synchronized {
    routes: usize,
    changed_filters: usize,
}

/// The router of a slice.
struct SliceRouter<'a> {
    client: SliceClient,
    file: Option<&'a Path>,
    json: bool,
    bands: FilterBands,
    slow_path: Ipv4SlowPath,
}

impl SliceRouter<'_> {
    /// Makes the filters of the slice equal to the routes of the file.
    fn synchronize(&mut self) -> Result<()> {
        let file = match self.file {
            Some(path) => {
                let name = path.display().to_string();
                RouterFile::read(&fs::read_to_string(path).with_context(|| name.clone())?, &name)?
            }
            None => RouterFile::default(),
        };
        let state = self.client.state()?;
        let place =
            |interface: &control::api::SliceInterfaceReply| Some((interface.number, interface.address.parse().ok()?));
        let places: Vec<(u16, SocketAddr)> = state.interfaces.iter().filter_map(place).collect();
        let addresses = file.addresses(&places);
        let mut bands = self.bands.clone();
        let edits = bands.update(&file.filters(&addresses));
        let changes: Vec<SliceCommand> =
            edits.into_iter().map(|edit| SliceCommand::Filter(self.client.name().to_owned(), edit)).collect();
        // Additions come before deletions, so no destination is without a route between two requests.
        for some in changes.chunks(CHANGES_AT_ONCE) {
            if let Err(error) = self.client.change(some) {
                // A part may have been made.
                self.bands = in_use(&self.client)?;
                return Err(error).context("the routes cannot be made filters of the slice");
            }
        }
        self.bands = bands;
        self.slow_path.addresses = addresses;
        self.report(&Synchronized { routes: file.routes.len(), changed_filters: changes.len() })
    }

    fn report(&self, done: &Synchronized) -> Result<()> {
        let mut out = stdout();
        if self.json {
            return print_json(&mut out, done);
        }
        let Synchronized { routes, changed_filters } = done;
        writeln!(out, "slice {}: {routes} routes, {changed_filters} filters changed", self.client.name())?;
        Ok(out.flush()?)
    }

    /// The packets that answer or continue an exception.
    fn answers(&mut self, exception: &SlowPathPacket) -> Vec<Reinjection> {
        const DAY: u64 = 24 * 60 * 60 * 1000;
        let since_1970 = (clock::now() + clock::epoch()).get() / 1_000_000;
        let link = (exception.mtu.unwrap_or(0), (since_1970 % DAY) as u32);
        let answers = self.slow_path.answer(exception.code, exception.interface, &exception.packet, link);
        // With their keys: the parser would refuse packets with options again.
        let keyed = |answer: slice::code::ipv4::KeyedPacket| Reinjection {
            key: Some(LookupKey::new(&answer.key)),
            ..exception.answer(answer.bytes)
        };
        answers.into_iter().map(keyed).collect()
    }
}

/// The routes that an earlier run has left in the slice.
fn in_use(client: &SliceClient) -> Result<FilterBands> {
    Ok(FilterBands::restore(client.filters(FIRST_ROUTE)?))
}

/// Runs the slow path of a slice until a signal, or the end of the slice.
pub fn run(client: Client, name: &str, file: Option<&Path>, json: bool) -> Result<ExitCode> {
    let client = SliceClient::new(client, name);
    let state = client.state()?;
    if state.code != "ipv4" {
        bail!("the slice '{name}' has the code option '{}'; this is the slow path of 'ipv4'", state.code);
    }
    let (bands, slow_path) = (in_use(&client)?, Ipv4SlowPath::default());
    let mut router = SliceRouter { client: client.clone(), file, json, bands, slow_path };
    // First the stream, so that a second program of the slice changes nothing.
    let stream = client.exceptions()?;
    router.synchronize()?;
    let (router, is_stopped) = (Mutex::new(router), Arc::new(AtomicBool::new(false)));
    let stop = {
        let (stop, is_stopped) = (stream.stopper(), is_stopped.clone());
        move || {
            is_stopped.store(true, Ordering::Relaxed);
            stop();
        }
    };
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).context("cannot wait for signals")?;
    let handle = signals.handle();
    let result = thread::scope(|scope| {
        let router = &router;
        scope.spawn(move || {
            for signal in signals.forever() {
                if signal != SIGHUP {
                    return stop();
                }
                if let Err(error) = lock(router).synchronize() {
                    // The routes of before stay.
                    eprintln!("switchpath: {error:#}");
                }
            }
        });
        let result = serve(router, &client, stream);
        handle.close();
        result
    });
    result?;
    if is_stopped.load(Ordering::Relaxed) {
        return Ok(ExitCode::SUCCESS);
    }
    bail!("the slice '{name}' or the router has ended")
}

fn lock<'m, 'a>(router: &'m Mutex<SliceRouter<'a>>) -> MutexGuard<'m, SliceRouter<'a>> {
    router.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers exceptions until the stream ends.
fn serve(router: &Mutex<SliceRouter<'_>>, client: &SliceClient, mut stream: ExceptionStream) -> Result<()> {
    let mut returned = Vec::new();
    while let Some(exception) = stream.next() {
        returned.extend(lock(router).answers(&exception?));
        if stream.has_next() && returned.len() < AT_ONCE {
            continue;
        }
        for some in returned.chunks(AT_ONCE) {
            match client.reinject(some) {
                Ok(_) => {}
                // Somebody has changed the meta-interfaces of the slice meanwhile.
                Err(ClientError::Refused(error)) => eprintln!("switchpath: {error}"),
                Err(error) => return Err(error.into()),
            }
        }
        returned.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Ipv4Addr {
        text.parse().unwrap()
    }

    #[test]
    fn longest_prefix_and_own_addresses_decide_first() {
        let file = RouterFile::read(
            "address 1 10.9.0.1  # within the network of the slice\n\n\
             route 10.0.0.0/8 via 198.51.100.9:20000 mi 1 queue 2\n\
             route 10.2.7.9/16 mtu 1400 queue 1 mi 1 via 198.51.100.8:20000\nroute 0.0.0.0/0 blackhole\n",
            "routes",
        )
        .unwrap();
        let places = [(0, "192.0.2.1:20000".parse().unwrap()), (1, "198.51.100.1:20000".parse().unwrap())];
        let addresses = file.addresses(&places);
        assert_eq!(addresses, BTreeMap::from([(0, address("192.0.2.1")), (1, address("10.9.0.1"))]));
        let mut bands = FilterBands::default();
        assert_eq!(bands.update(&file.filters(&addresses)).len(), 5);
        let find = |to: &str| {
            let mut key = [0; 14];
            key[1..5].copy_from_slice(&address(to).octets());
            bands.find(&key).cloned()
        };
        let send = |next: &str, queue, mtu| FilterAction::Send {
            queue,
            interface: 1,
            next: format!("{next}:20000").parse().unwrap(),
            data: mtu_data(mtu),
        };
        assert_eq!(find("10.2.1.1"), Some(send("198.51.100.8", 1, 1400)));
        assert_eq!(find("10.3.1.1"), Some(send("198.51.100.9", 2, 0)));
        assert_eq!(find("11.0.0.1"), Some(FilterAction::Drop));
        assert_eq!(find("10.9.0.1"), Some(FilterAction::Exception(ExceptionCode::Local)));
    }

    #[test]
    fn wrong_lines_are_named() {
        for (text, expected) in [
            ("\nrout 10.0.0.0/8 blackhole", "routes:2: 'rout' is unknown here; did you mean 'route'?"),
            ("route 10.0.0.0 blackhole\nroute 10.0.0.0/33 blackhole", "routes:1: '10.0.0.0' is no IPv4 prefix"),
            ("route 2001:db8::/32 blackhole", "is no IPv4 prefix; write an address with a length"),
            ("route 10.0.0.0/8 via 192.0.2.1:1 mi 0", "write: route PREFIX via ADDRESS:PORT"),
            ("route 10.0.0.0/8 via 192.0.2.1 mi 0 queue 1", "'192.0.2.1' is no address and port"),
            ("route 10.0.0.0/8 via 192.0.2.1:1 mi 0 queue x", "'x' is no number of a queue"),
            (
                "route 10.0.0.0/8 blackhole\nroute 10.1.0.0/8 blackhole",
                "routes:2: there is a route to 10.0.0.0/8 already",
            ),
            ("address 0 ::1", "'::1' is no IPv4 address"),
            ("address 0 10.0.0.1\naddress 0 10.0.0.2", "routes:2: meta-interface 0 has an address already"),
        ] {
            let error = format!("{:#}", RouterFile::read(text, "routes").unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
