//! The questions of `switchpath init`: their proposals, their answers, and the answers of options.

use super::machine::FoundInterface;
use crate::arguments::{InitArguments, RouterKind, UsageError};
use anyhow::{Context, Result, anyhow, ensure};
use plan::{Prefix, did_you_mean};
use std::io::{BufRead, Write};
use std::net::{IpAddr, Ipv4Addr};
use units::Rate;

/// The answers that an operator may give before the command gives up.
const MOST_ATTEMPTS: usize = 5;
/// Prefix lengths of a local network: it has room for the router and a host.
const LENGTHS: std::ops::RangeInclusive<u8> = 8..=30;
/// The longest name of an interface of Linux (IFNAMSIZ without its final zero).
const LONGEST: usize = 15;

/// All that a configuration needs to know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Answers {
    pub(super) kind: RouterKind,
    pub(super) wan: RouterSide,
    pub(super) lan: RouterSide,
    /// The router's address in the local network.
    pub(super) router: Prefix,
    /// The address toward the Internet; none if a DHCP client sets it.
    pub(super) address: Option<Prefix>,
    /// The default gateway, with an address.
    pub(super) gateway: Option<Ipv4Addr>,
    /// The rates of the line from and to the Internet.
    pub(super) down: Option<Rate>,
    pub(super) up: Option<Rate>,
}

/// One side of the router.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RouterSide {
    /// The interface of the kernel.
    pub(super) interface: String,
    /// The name of the port, which is another one: the kernel gets an interface of that name.
    pub(super) port: String,
}

/// Asks questions, or answers them itself.
pub(super) struct Questions<'t> {
    /// The terminal; none without one.
    pub(super) terminal: Option<(&'t mut dyn BufRead, &'t mut dyn Write)>,
    /// True if proposals count as answers.
    pub(super) accept: bool,
}

impl Questions<'_> {
    /// Returns the answer to a question, which `parse` accepts. An empty answer is the proposal.
    fn ask<T>(
        &mut self,
        (question, option): (&str, &str),
        proposal: Option<T>,
        show: impl Fn(&T) -> String,
        parse: impl Fn(&str) -> Result<T>,
    ) -> Result<T> {
        let Some((input, output)) = self.terminal.as_mut().filter(|_| !self.accept) else {
            ensure!(
                self.accept,
                UsageError(format!(
                    "nobody can be asked, because the standard input is no terminal: give {option}, or --yes to accept the proposals"
                ))
            );
            return proposal.ok_or_else(|| anyhow!(UsageError(format!("there is no proposal: give {option}"))));
        };
        for _ in 0..MOST_ATTEMPTS {
            match &proposal {
                Some(proposal) => write!(output, "{question} [{}]: ", show(proposal))?,
                None => write!(output, "{question}: ")?,
            }
            output.flush()?;
            let mut line = String::new();
            ensure!(input.read_line(&mut line)? > 0, "the input has ended; nothing was written");
            let answer = line.trim();
            if answer.is_empty()
                && let Some(proposal) = proposal
            {
                return Ok(proposal);
            }
            match parse(answer) {
                Ok(value) => return Ok(value),
                Err(error) => writeln!(output, "  {error:#}")?,
            }
        }
        Err(anyhow!("{MOST_ATTEMPTS} answers were not understood; nothing was written"))
    }

    fn say(&mut self, text: &str) -> Result<()> {
        if let Some((_, output)) = self.terminal.as_mut().filter(|_| !self.accept) {
            writeln!(output, "{text}")?;
        }
        Ok(())
    }
}

/// Collects the answers: of options, else of the operator.
pub(super) fn collect(
    options: &InitArguments,
    found: &[FoundInterface],
    questions: &mut Questions<'_>,
) -> Result<Answers> {
    let kind = match options.kind {
        Some(kind) => kind,
        None => {
            questions.say("The kinds of routers:")?;
            for kind in RouterKind::ALL {
                questions.say(&format!("  {:<10}{}", kind.name(), kind.purpose()))?;
            }
            questions.ask(("Kind", "--kind"), Some(RouterKind::Home), RouterKind::to_string, parse_kind)?
        }
    };
    if options.wan.is_none() || options.lan.is_none() {
        let several = found.len() >= 2;
        ensure!(
            several,
            "this machine has {} free Ethernet interface{}, and a router needs two: add one, or a VLAN \
            (`ip link add link eth0 name eth0.20 type vlan id 20`), or name both with --wan and --lan",
            if found.is_empty() { "no".to_owned() } else { found.len().to_string() },
            if found.len() == 1 { "" } else { "s" }
        );
        questions.say("The Ethernet interfaces of this machine:")?;
        let width = found.iter().map(|one| one.name.len()).max().unwrap_or(0) + 2;
        for (number, one) in (1..).zip(found) {
            questions.say(&format!("  {number}  {:<width$}{}", one.name, one.summary()))?;
        }
    }
    let wan = match &options.wan {
        Some(name) => checked_name(name)?,
        None => {
            let question = ("Interface toward the Internet (name or number)", "--wan");
            questions.ask(question, propose_wan(found, options.lan.as_deref()), String::clone, |text| {
                pick(text, found, None)
            })?
        }
    };
    let lan = match &options.lan {
        Some(name) => checked_name(name)?,
        None => {
            let question = ("Interface toward the local network", "--lan");
            questions.ask(question, propose_lan(found, &wan), String::clone, |text| pick(text, found, Some(&wan)))?
        }
    };
    ensure!(wan != lan, UsageError(format!("'{wan}' is both sides: a router needs two interfaces")));
    let of = |name: &str| found.iter().find(|one| one.name == name);
    let address = address(options, kind, of(&wan))?;
    let gateway = match (options.gateway, address) {
        (Some(gateway), Some(address)) => {
            ensure!(
                address.contains(gateway.into()),
                UsageError(format!("--gateway {gateway} is not in {}", address.network()))
            );
            ensure!(
                address.address != IpAddr::from(gateway),
                UsageError(format!("--gateway {gateway} is the router itself"))
            );
            Some(gateway)
        }
        (Some(_), None) => {
            return Err(anyhow!(UsageError(
                "--gateway needs a static --address: with DHCP the gateway comes from the server".into()
            )));
        }
        (None, address) => of(&wan)
            .and_then(|one| one.gateway)
            .filter(|gateway| address.is_some_and(|own| own.contains((*gateway).into()))),
    };
    let router = match &options.network {
        Some(text) => {
            parse_network(text, address).map_err(|error| anyhow!(UsageError(format!("--network: {error:#}"))))?
        }
        None => {
            let proposal = propose_network(kind, &lan, found, address);
            let question = ("The network there (or the router's address in it)", "--network");
            questions.ask(question, proposal, Prefix::to_string, |text| parse_network(text, address))?
        }
    };
    let taken: Vec<&str> = found.iter().map(|one| one.name.as_str()).chain([wan.as_str(), lan.as_str()]).collect();
    let (wan_port, lan_port) = (port_name("wan", &taken), port_name("lan", &taken));
    let wan = RouterSide { port: wan_port, interface: wan };
    let lan = RouterSide { port: lan_port, interface: lan };
    Ok(Answers { kind, wan, lan, router, address, gateway, down: options.down, up: options.up })
}

fn parse_kind(text: &str) -> Result<RouterKind> {
    let known = RouterKind::ALL.into_iter().find(|kind| kind.name() == text);
    known.with_context(|| {
        format!("'{text}' is no kind: {}", did_you_mean(text, RouterKind::ALL.iter().map(|kind| kind.name())))
    })
}

/// An interface of the list, by its name or number.
fn pick(text: &str, found: &[FoundInterface], other: Option<&str>) -> Result<String> {
    let numbered = text.parse::<usize>().ok().and_then(|number| found.get(number.checked_sub(1)?));
    let Some(one) = found.iter().find(|one| one.name == text).or(numbered) else {
        let hint = did_you_mean(text, found.iter().map(|one| one.name.as_str()));
        return Err(anyhow!("there is no interface {}; {hint}", plan::quote(text)));
    };
    ensure!(other != Some(one.name.as_str()), "'{}' leads to the Internet already", one.name);
    Ok(one.name.clone())
}

/// A name that the kernel and the configuration accept.
fn checked_name(name: &str) -> Result<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-:".contains(c);
    let valid = (1..=LONGEST).contains(&name.len()) && name.chars().all(plain) && name != "lo";
    ensure!(valid, UsageError(format!("{} is no Ethernet interface", plan::quote(name))));
    Ok(name.to_owned())
}

/// The interface with the default route, else the first with an address of DHCP, else the first.
fn propose_wan(found: &[FoundInterface], lan: Option<&str>) -> Option<String> {
    let free = || found.iter().filter(|one| Some(one.name.as_str()) != lan);
    let dynamic = |one: &&FoundInterface| one.addresses.iter().any(|own| own.dynamic && own.address.address.is_ipv4());
    let best = free().find(|one| one.default_route).or_else(|| free().find(dynamic)).or_else(|| free().next());
    best.map(|one| one.name.clone())
}

/// The first other interface with a cable and without a login, else the first other one.
fn propose_lan(found: &[FoundInterface], wan: &str) -> Option<String> {
    let free = || found.iter().filter(|one| one.name != wan);
    let best = free().find(|one| one.carrier && one.login.is_none()).or_else(|| free().find(|one| one.login.is_none()));
    best.or_else(|| free().next()).map(|one| one.name.clone())
}

/// The address toward the Internet. A laboratory has no DHCP server, so it gets one of its own.
fn address(options: &InitArguments, kind: RouterKind, wan: Option<&FoundInterface>) -> Result<Option<Prefix>> {
    let wrong = |why: String| anyhow!(UsageError(format!("--address: {why}")));
    match options.address.as_deref() {
        Some("dhcp") if kind == RouterKind::Lab => {
            Err(wrong("a laboratory has no DHCP client: write ADDRESS/LENGTH".into()))
        }
        Some("dhcp") => Ok(None),
        Some(text) => {
            let address = text.parse::<Prefix>().map_err(|error| wrong(error.to_string()))?;
            ensure!(
                address.address.is_ipv4(),
                wrong(format!("{address} is no IPv4 address; IPv6 addresses go into the file"))
            );
            is_host(address).map_err(|why| wrong(format!("{why:#}")))?;
            Ok(Some(address))
        }
        None => {
            let own = wan.and_then(FoundInterface::static_address).filter(|own| is_host(*own).is_ok());
            let lab = Prefix { address: Ipv4Addr::new(10, 0, 2, 1).into(), length: 24 };
            Ok(own.or((kind == RouterKind::Lab).then_some(lab)))
        }
    }
}

/// An address that a router may have: not that of the network, nor its broadcast address.
fn is_host(own: Prefix) -> Result<()> {
    let IpAddr::V4(address) = own.address else { return Ok(()) };
    let is_end = own.length < 31 && (own.is_network() || own.last() == own.address);
    ensure!(!is_end, "{own} is the first or last address of its network: write that of the router");
    let reserved =
        address.is_loopback() || address.is_multicast() || address.octets()[0] == 0 || address.octets()[0] >= 240;
    ensure!(!reserved && own.length > 0, "{own} is no address of a router");
    Ok(())
}

/// The router's address in a network: the given one, or the first of the network.
fn parse_network(text: &str, wan: Option<Prefix>) -> Result<Prefix> {
    let given = text.parse::<Prefix>().map_err(|error| anyhow!("{error}"))?;
    let IpAddr::V4(address) = given.address else {
        return Err(anyhow!("{given} is no IPv4 network: IPv6 addresses go into the file afterwards"));
    };
    ensure!(LENGTHS.contains(&given.length), "{given} has room for no network: use a length from 8 to 30");
    let own = if given.is_network() {
        Prefix { address: Ipv4Addr::from_bits(address.to_bits().saturating_add(1)).into(), length: given.length }
    } else {
        given
    };
    is_host(own)?;
    if let Some(wan) = wan {
        ensure!(
            !overlap(own, wan),
            "{} overlaps the network toward the Internet, {}: use another one",
            own.network(),
            wan.network()
        );
    }
    Ok(own)
}

/// True if two prefixes have addresses in common.
pub(super) fn overlap(one: Prefix, other: Prefix) -> bool {
    one.network().covers(other) || other.network().covers(one)
}

/// The static address that the interface has, else the first usual network of the kind that no other interface has.
fn propose_network(kind: RouterKind, lan: &str, found: &[FoundInterface], wan: Option<Prefix>) -> Option<Prefix> {
    let present = found.iter().find(|one| one.name == lan).and_then(FoundInterface::static_address);
    if let Some(present) = present
        && let Ok(own) = parse_network(&present.to_string(), wan)
    {
        return Some(own);
    }
    let (first, step) = match kind {
        RouterKind::Home => (Ipv4Addr::new(192, 168, 1, 1), 24),
        RouterKind::Branch => (Ipv4Addr::new(10, 20, 0, 1), 24),
        RouterKind::IspEdge => (Ipv4Addr::new(100, 64, 0, 1), 22),
        RouterKind::Lab => (Ipv4Addr::new(10, 0, 1, 1), 24),
    };
    let others = found.iter().filter(|one| one.name != lan).flat_map(|one| &one.addresses).map(|own| own.address);
    let used: Vec<Prefix> = others.chain(wan).collect();
    let candidates = (0..64u32)
        .map(|n| Prefix { address: Ipv4Addr::from_bits(first.to_bits() + (n << (32 - step))).into(), length: step });
    candidates.into_iter().find(|candidate| !used.iter().any(|used| overlap(*used, *candidate)))
}

/// The name of a port: the usual one, unless an interface has it. The kernel gets an interface of that name.
fn port_name(usual: &str, taken: &[&str]) -> String {
    let names = std::iter::once(usual.to_owned()).chain((0..).map(|n| format!("{usual}{n}")));
    names.into_iter().find(|name| !taken.contains(&name.as_str())).expect("numbers do not end")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Arguments, CliCommand};
    use crate::init::machine::FoundAddress;
    use clap::Parser;
    use std::io::Cursor;

    fn options(words: &str) -> InitArguments {
        let words = ["switchpath", "init"].into_iter().chain(words.split_whitespace());
        let CliCommand::Init(options) = Arguments::try_parse_from(words).unwrap().command else { panic!("no init") };
        options
    }

    fn machine() -> Vec<FoundInterface> {
        let own = |text: &str, dynamic| FoundAddress { address: text.parse().unwrap(), dynamic };
        let one =
            |name: &str| FoundInterface { name: name.into(), up: true, carrier: true, ..FoundInterface::default() };
        vec![
            FoundInterface { carrier: false, ..one("eth0") },
            FoundInterface { addresses: vec![own("192.168.1.7/24", true)], default_route: true, ..one("eth1") },
            FoundInterface { login: Some("it has 10.0.0.1".into()), ..one("eth2") },
            one("eth3"),
        ]
    }

    /// The answers to these lines of an operator, and what the operator saw.
    fn asked(words: &str, found: &[FoundInterface], lines: &str) -> (Result<Answers>, String) {
        let (mut input, mut output) = (Cursor::new(lines.as_bytes().to_vec()), Vec::new());
        let mut questions = Questions { terminal: Some((&mut input, &mut output)), accept: false };
        let answers = collect(&options(words), found, &mut questions);
        (answers, String::from_utf8(output).unwrap())
    }

    fn accepted(words: &str, found: &[FoundInterface]) -> Result<Answers> {
        collect(&options(words), found, &mut Questions { terminal: None, accept: true })
    }

    #[test]
    fn empty_answers_accept_the_proposals() {
        let (answers, seen) = asked("", &machine(), "\n\n\n\n");
        let answers = answers.unwrap();
        assert_eq!(answers, accepted("", &machine()).unwrap(), "--yes gives the same");
        assert_eq!((answers.kind, answers.address), (RouterKind::Home, None));
        assert_eq!((&*answers.wan.interface, &*answers.wan.port), ("eth1", "wan"));
        // eth0 has no cable, eth2 carries the login.
        assert_eq!((&*answers.lan.interface, &*answers.lan.port), ("eth3", "lan"));
        // 192.168.1.0/24 is the network of the provider's modem.
        assert_eq!(answers.router.to_string(), "192.168.2.1/24");
        for wanted in [
            "Kind [home]: ",
            "Interface toward the Internet (name or number) [eth1]: ",
            "[eth3]: ",
            "[192.168.2.1/24]: ",
            "YOUR LOGIN",
        ] {
            assert!(seen.contains(wanted), "{wanted}: {seen}");
        }
    }

    #[test]
    fn a_wrong_answer_is_explained_and_asked_again() {
        let (answers, seen) = asked("", &machine(), "hom\nbranch\neth9\n4\neth3\n1\n10.1.2.3/31\n10.1.0.0/16\n");
        let answers = answers.unwrap();
        assert_eq!(answers.kind, RouterKind::Branch);
        assert_eq!((&*answers.wan.interface, &*answers.lan.interface), ("eth3", "eth0"));
        assert_eq!(answers.router.to_string(), "10.1.0.1/16");
        for wanted in [
            "did you mean 'home'?",
            "there is no interface 'eth9'",
            "'eth3' leads to the Internet already",
            "use a length from 8 to 30",
        ] {
            assert!(seen.contains(wanted), "{wanted}: {seen}");
        }
        assert!(asked("", &machine(), "home\n").0.unwrap_err().to_string().contains("the input has ended"));
        assert!(asked("", &machine(), &"x\n".repeat(9)).0.unwrap_err().to_string().contains("not understood"));
    }

    #[test]
    fn options_are_not_asked_for() {
        let words = "--kind lab --wan a0 --lan wan --network 10.5.0.9/24";
        let (answers, seen) = asked(words, &[], "");
        let answers = answers.unwrap();
        assert_eq!(seen, "");
        assert_eq!((&*answers.wan.port, &*answers.lan.port), ("wan0", "lan"), "a port is not named as an interface");
        assert_eq!(
            (answers.router.to_string(), answers.address.unwrap().to_string()),
            ("10.5.0.9/24".into(), "10.0.2.1/24".into())
        );
    }

    #[test]
    fn static_addresses_of_the_kernel_are_kept() {
        let own = |text: &str| FoundAddress { address: text.parse().unwrap(), dynamic: false };
        let mut found = machine();
        found[1].addresses = vec![own("203.0.113.2/30")];
        found[1].gateway = Some("203.0.113.1".parse().unwrap());
        found[3].addresses = vec![own("10.7.0.254/24")];
        let answers = accepted("", &found).unwrap();
        assert_eq!(answers.address, Some("203.0.113.2/30".parse().unwrap()));
        assert_eq!(answers.gateway, Some("203.0.113.1".parse().unwrap()));
        assert_eq!(answers.router.to_string(), "10.7.0.254/24");
        assert_eq!(accepted("--address dhcp", &found).unwrap().address, None);
    }

    #[test]
    fn contradictory_options_are_refused_with_a_reason() {
        for (words, reason) in [
            ("--wan eth1 --lan eth1", "both sides"),
            ("--wan eth1 --lan lo", "no Ethernet interface"),
            ("--wan eth1\"x", "no Ethernet interface"),
            ("--network 10.0.0.0/33", "--network"),
            ("--network 2001:db8::/64", "no IPv4 network"),
            ("--network 127.0.0.0/8", "no address of a router"),
            ("--network 10.0.0.255/24", "first or last address"),
            ("--address 203.0.113.2/24 --network 203.0.113.128/25", "overlaps the network toward the Internet"),
            ("--address 203.0.113.0/24", "first or last address"),
            ("--address 203.0.113.2", "no prefix length"),
            ("--gateway 203.0.113.1 --address dhcp", "needs a static --address"),
            ("--gateway 198.51.100.1 --address 203.0.113.2/24", "is not in 203.0.113.0/24"),
            ("--gateway 203.0.113.2 --address 203.0.113.2/24", "is the router itself"),
            ("--kind lab --address dhcp", "no DHCP client"),
        ] {
            let error = accepted(words, &machine()).unwrap_err();
            assert!(error.is::<UsageError>() && error.to_string().contains(reason), "{words}: {error:#}");
        }
        let error = accepted("", &machine()[..1]).unwrap_err().to_string();
        assert!(error.contains("has 1 free Ethernet interface, and a router needs two"), "{error}");
        let silent = collect(&options(""), &machine(), &mut Questions { terminal: None, accept: false }).unwrap_err();
        assert!(silent.is::<UsageError>() && silent.to_string().contains("give --kind, or --yes"), "{silent}");
    }
}
