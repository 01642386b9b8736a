//! From answers to files. `examples/home.toml` and its neighbours are the result for fixed answers; a test compares them.

use super::answers::Answers;
use crate::arguments::RouterKind;
use plan::Prefix;
use std::net::{IpAddr, Ipv4Addr};
use units::Rate;

/// The name of the file of subscribers, beside the configuration.
pub(super) const SUBSCRIBERS: &str = "subscribers.csv";

/// The rate of the line of a laboratory if the answers have none.
const LAB_RATE: &str = "20mbit";
/// The first choice for the network of guests. It moves on by one while another network overlaps it.
const GUESTS: [u8; 3] = [192, 168, 20];

const HOME: &str = include_str!("templates/home.toml");
const BRANCH: &str = include_str!("templates/branch.toml");
const ISP_EDGE: &str = include_str!("templates/isp-edge.toml");
const LAB: &str = include_str!("templates/lab.toml");

/// Returns the text of the configuration.
pub(super) fn configuration(answers: &Answers) -> String {
    let template = match answers.kind {
        RouterKind::Home => HOME,
        RouterKind::Branch => BRANCH,
        RouterKind::IspEdge => ISP_EDGE,
        RouterKind::Lab => LAB,
    };
    let router = answers.router;
    let lab_rate = answers.up.map_or_else(|| LAB_RATE.to_owned(), |rate| rate.to_string());
    let values = [
        ("wan", answers.wan.port.clone()),
        ("wan_device", answers.wan.interface.clone()),
        ("wan_address", wan_address(answers)),
        ("wan_prefix", answers.address.map_or_else(String::new, |address| address.to_string())),
        ("wan_scheme", wan_scheme(answers)),
        ("lan", answers.lan.port.clone()),
        ("lan_device", answers.lan.interface.clone()),
        ("lan_address", router.to_string()),
        ("lan_scheme", lan_scheme(answers)),
        ("lan_address6", "fd00:0:0:1::1/64".to_owned()),
        ("wan_address6", "fd00:0:0:2::1/64".to_owned()),
        ("network", router.network().to_string()),
        ("host", host(router, 20).to_string()),
        ("guest_address", guests(answers).to_string()),
        ("up", lab_rate),
        ("subscribers", SUBSCRIBERS.to_owned()),
        ("default_route", default_route(answers)),
        ("translation", translation(answers)),
    ];
    fill(template, &values)
}

/// Returns the table of subscribers of an access network: one as an example, and one for all other addresses of the network.
pub(super) fn subscribers(answers: &Answers) -> String {
    let router = answers.router;
    format!(
        "# The subscribers, one a line, with the rates of their plans. docs/operate/subscribers.md describes all columns.\n\
         circuit,address,down,up,title\n\
         1001,{},100mbit,20mbit,An example\n\
         other,{},10mbit,2mbit,Addresses without a line of their own\n",
        host(router, 11),
        router.network()
    )
}

/// Replaces `${NAME}` by its value. A line that consists of a name without a value is left out, with a blank line after it.
fn fill(template: &str, values: &[(&str, String)]) -> String {
    let mut out = String::new();
    let mut lines = template.lines().peekable();
    while let Some(line) = lines.next() {
        let mut text = line.to_owned();
        for (name, value) in values {
            text = text.replace(&format!("${{{name}}}"), value);
        }
        if text.is_empty() && !line.is_empty() {
            lines.next_if(|next| next.is_empty());
            continue;
        }
        out.push_str(text.trim_end());
        out.push('\n');
    }
    // A value at the end may be missing.
    format!("{}\n", out.trim_end())
}

fn wan_address(answers: &Answers) -> String {
    match answers.address {
        Some(address) => format!("address = [\"{address}\"]"),
        None => format!(
            "# A DHCP client on \"{}\" sets the address. A static one: address = [\"203.0.113.2/30\"]",
            answers.wan.port
        ),
    }
}

fn default_route(answers: &Answers) -> String {
    match (answers.address, answers.gateway) {
        (Some(_), Some(gateway)) => format!("[[route]]\nto = \"0.0.0.0/0\"\nvia = \"{gateway}\""),
        (Some(_), None) => {
            "# The way to the Internet:\n# [[route]]\n# to = \"0.0.0.0/0\"\n# via = \"203.0.113.1\"".to_owned()
        }
        // The DHCP client sets it.
        (None, _) => String::new(),
    }
}

fn wan_scheme(answers: &Answers) -> String {
    match (answers.kind, answers.up) {
        (RouterKind::Home, Some(rate)) => format!("scheme = \"cake(rate={rate})\""),
        (RouterKind::Branch, Some(rate)) => {
            format!("scheme = \"shape(rate={rate}){{tree{{branch(class=1){{fifo}}, branch{{fq}}}}}}\"")
        }
        (RouterKind::Branch, None) => "scheme = \"tree{branch(class=1){fifo}, branch{fq}}\"".to_owned(),
        (RouterKind::IspEdge, rate) => share(rate),
        _ => {
            "scheme = \"fq{codel}\"                 # a slow line: \"cake(rate=19mbit)\", some per cent below its rate"
                .to_owned()
        }
    }
}

fn lan_scheme(answers: &Answers) -> String {
    match (answers.kind, answers.down) {
        (RouterKind::IspEdge, rate) => share(rate),
        // Each host has the same part of the line.
        (_, Some(rate)) => format!("scheme = \"cake(rate={rate}, hosts=destination)\""),
        _ => "scheme = \"fq{codel}\"".to_owned(),
    }
}

/// The tree of shares that subscribers use. Without a rate it has that of the link.
fn share(rate: Option<Rate>) -> String {
    rate.map_or_else(|| "scheme = \"share\"".to_owned(), |rate| format!("scheme = \"share(rate={rate})\""))
}

/// An access network with private or shared addresses (RFC 1918, RFC 6598) needs translation.
fn translation(answers: &Answers) -> String {
    let IpAddr::V4(network) = answers.router.address else { return String::new() };
    let [a, b, ..] = network.octets();
    if !(network.is_private() || a == 100 && b & 0xc0 == 64) {
        return String::new();
    }
    let wan = &answers.wan.port;
    format!(
        "\n# The addresses of the subscribers are not public: they share that of \"{wan}\".\n[nat]\noutside = \"{wan}\"\n\
         connections = 1000000                # a change requires a restart\n\n\
         [[path]]\nname = \"subscribers\"\nmatch = \"any\"\nfunctions = [\"nat\", \"ip\"]"
    )
}

/// An address of the network with this number, or the last one of a smaller network. Never that of the router.
fn host(router: Prefix, number: u32) -> Ipv4Addr {
    let (IpAddr::V4(own), IpAddr::V4(first), IpAddr::V4(last)) =
        (router.address, router.network().address, router.last())
    else {
        return Ipv4Addr::UNSPECIFIED;
    };
    let most = last.to_bits().saturating_sub(1);
    let wanted = first.to_bits().saturating_add(number).min(most);
    let other = if wanted == own.to_bits() { wanted.saturating_sub(1) } else { wanted };
    Ipv4Addr::from_bits(other)
}

/// The router's address in the network of guests, which overlaps neither side.
fn guests(answers: &Answers) -> Prefix {
    let [a, b, first] = GUESTS;
    let candidates = (first..=254).map(|c| Prefix { address: Ipv4Addr::new(a, b, c, 1).into(), length: 24 });
    let used: Vec<Prefix> = std::iter::once(answers.router).chain(answers.address).collect();
    let mut free = candidates.filter(|candidate| !used.iter().any(|used| super::answers::overlap(*used, *candidate)));
    // A local network of 192.168.0.0/16 overlaps all of them.
    free.next().unwrap_or(Prefix { address: Ipv4Addr::new(172, 31, 255, 1).into(), length: 24 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::init::answers::RouterSide;
    use expect_test::expect_file;

    fn answers(kind: RouterKind) -> Answers {
        let side = |interface: &str, port: &str| RouterSide { interface: interface.into(), port: port.into() };
        let (network, address) = match kind {
            RouterKind::Home => ("192.168.1.1/24", None),
            RouterKind::Branch => ("10.20.0.1/24", Some("203.0.113.2/30")),
            RouterKind::IspEdge => ("100.64.0.1/22", Some("203.0.113.2/30")),
            RouterKind::Lab => ("10.0.1.1/24", Some("10.0.2.1/24")),
        };
        let rates = match kind {
            RouterKind::Home => Some(("95mbit", "19mbit")),
            RouterKind::Branch => Some(("190mbit", "48mbit")),
            RouterKind::IspEdge => Some(("10gbit", "10gbit")),
            RouterKind::Lab => None,
        };
        let address = address.map(|address| address.parse().unwrap());
        Answers {
            kind,
            wan: side("eth0", "wan"),
            lan: side("eth1", "lan"),
            router: network.parse().unwrap(),
            address,
            gateway: (kind != RouterKind::Lab).then(|| "203.0.113.1".parse().unwrap()).filter(|_| address.is_some()),
            down: rates.map(|(down, _)| down.parse().unwrap()),
            up: rates.map(|(_, up)| up.parse().unwrap()),
        }
    }

    fn diagnostics(text: &str) -> String {
        let checked = plan::examine(text, "switchpath.toml", &plane::catalogue());
        if checked.plan.is_some() {
            checked.diagnostics.render(false)
        } else {
            format!("refused\n{}", checked.diagnostics.render(false))
        }
    }

    /// `UPDATE_EXPECT=1` writes the examples.
    #[test]
    fn examples_are_what_init_writes() {
        for kind in RouterKind::ALL {
            let answers = answers(kind);
            let text = configuration(&answers);
            assert!(!text.contains("${"), "{text}");
            assert_eq!(diagnostics(&text), "", "{text}");
            let file = format!("{}/../../examples/{kind}.toml", env!("CARGO_MANIFEST_DIR"));
            expect_file![file].assert_eq(&text);
            if kind == RouterKind::IspEdge {
                let file = format!("{}/../../examples/{SUBSCRIBERS}", env!("CARGO_MANIFEST_DIR"));
                expect_file![file].assert_eq(&subscribers(&answers));
            }
        }
    }

    #[test]
    fn every_combination_of_answers_is_accepted_without_a_warning() {
        let rates = [None, Some("50mbit".parse().unwrap())];
        let addresses = [None, Some("198.51.100.9/24".parse().unwrap())];
        let gateways = [None, Some("198.51.100.1".parse().unwrap())];
        let networks = ["192.168.20.1/24", "192.168.0.1/16", "10.9.8.5/30", "203.0.113.65/28", "100.64.0.1/10"];
        let mut tried = 0;
        for kind in RouterKind::ALL {
            for (network, rate) in networks.iter().flat_map(|network| rates.map(|rate| (network, rate))) {
                for (address, gateway) in
                    addresses.iter().flat_map(|address| gateways.map(|gateway| (*address, gateway)))
                {
                    // A laboratory always has an address.
                    if kind == RouterKind::Lab && address.is_none() {
                        continue;
                    }
                    let router = network.parse().unwrap();
                    let answers = Answers { router, address, gateway, down: rate, up: rate, ..answers(kind) };
                    let text = configuration(&answers);
                    assert_eq!(diagnostics(&text), "", "{text}");
                    tried += 1;
                }
            }
        }
        assert_eq!(tried, 3 * 40 + 20);
    }

    #[test]
    fn a_line_of_a_missing_value_is_left_out_with_the_blank_line_after_it() {
        let values = [("a", "x".to_owned()), ("b", String::new())];
        assert_eq!(fill("1 ${a}\n${b}\n\n2 ${b}\n${a}\n\n3\n${b}\n", &values), "1 x\n2\nx\n\n3\n");
    }

    #[test]
    fn example_host_is_in_the_network_and_not_the_router() {
        let of = |router: &str, number| host(router.parse().unwrap(), number).to_string();
        assert_eq!(of("192.168.1.1/24", 20), "192.168.1.20");
        assert_eq!(of("192.168.1.20/24", 20), "192.168.1.19");
        assert_eq!(of("10.9.8.5/30", 20), "10.9.8.6");
        assert_eq!(of("10.9.8.6/30", 20), "10.9.8.5");
    }
}
