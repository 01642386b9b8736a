//! Protects interfaces: those that carry the login of a configuration's author are refused, and the one with the machine's only default route gets a
//! warning.

use io::login::{Carrier, Login};
use io::netlink::{KernelError, Netlink};
use plan::{Plan, PortPlan};
use plane::ApplyError;

/// Kinds of ports that take an interface from the host's own network stack.
const EXCLUSIVE_KINDS: [&str; 2] = ["packet", "xdp"];

/// Returns the ports of `new` that take an interface not used by `old`, with the interface.
fn new_interfaces<'a>(new: &'a Plan, old: Option<&Plan>) -> Vec<(&'a PortPlan, &'a str)> {
    let interface = |port: &PortPlan| EXCLUSIVE_KINDS.contains(&&*port.device.kind).then(|| port.device.target.clone());
    let held: Vec<_> = old.into_iter().flat_map(|old| &old.ports).filter_map(interface).collect();
    let ports = new.ports.iter().filter(|port| interface(port).is_some_and(|name| !held.contains(&name)));
    ports.map(|port| (port, &*port.device.target)).collect()
}

/// Refuses ports that would take an interface which carries one of these logins. Otherwise returns warnings about the interfaces taken.
pub(super) fn check_interfaces(
    new: &Plan,
    old: Option<&Plan>,
    logins: &[Login],
) -> Result<Vec<String>, Vec<ApplyError>> {
    let taken = new_interfaces(new, old);
    if taken.is_empty() {
        return Ok(Vec::new());
    }
    let mut carriers = Vec::new();
    let mut warnings = Vec::new();
    for login in logins {
        match login.carriers() {
            Ok(found) => carriers.extend(found),
            Err(error) => warnings.push(format!("cannot find the interface of your login: {error}")),
        }
    }
    let refused: Vec<ApplyError> = refusals(&taken, &carriers).collect();
    if !refused.is_empty() {
        return Err(refused);
    }
    // Only a warning: if the kernel does not answer, there is none.
    warnings.extend(only_default_route().ok().flatten().and_then(|link| default_route_warning(&taken, &link)));
    Ok(warnings)
}

fn refusals<'a>(taken: &'a [(&PortPlan, &str)], carriers: &'a [Carrier]) -> impl Iterator<Item = ApplyError> + 'a {
    taken.iter().filter_map(move |(port, interface)| {
        let carrier = carriers.iter().find(|carrier| carrier.interface == *interface)?;
        Some(ApplyError {
            place: format!("port {}", port.name),
            reason: format!("'{interface}' carries your login, which this port would cut off: {}", carrier.reason),
            hint: "give the port another interface, or work from the console; --force uses it anyway (with `apply --confirm \
                   60s` the router returns it unless you confirm)"
                .into(),
        })
    })
}

fn default_route_warning(taken: &[(&PortPlan, &str)], link: &str) -> Option<String> {
    let (port, interface) = taken.iter().find(|(_, interface)| *interface == link)?;
    Some(format!(
        "port {} uses {interface}, which has this machine's only default route: programs on the machine lose their connections \
         beyond it while the router runs",
        port.name
    ))
}

/// Returns the link of all default routes of the machine, if it is a single one.
fn only_default_route() -> Result<Option<String>, KernelError> {
    let mut netlink = Netlink::open()?;
    let links = netlink.default_route_links()?;
    let [only] = links[..] else { return Ok(None) };
    Ok(netlink.links()?.into_iter().find(|link| link.index == only).map(|link| link.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(ports: &str) -> Plan {
        let port = |(i, device): (usize, &str)| {
            format!("[port.p{i}]\ndevice = '{device}'\nmac = '02:00:00:00:00:0{i}'\naddress = ['10.0.{i}.1/24']\n")
        };
        let text: String = ports.split_whitespace().enumerate().map(port).collect();
        plan::check(&format!("version = 1\n{text}"), "t", &plane::catalogue()).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn guard_checks_only_newly_used_interfaces() {
        for (old, new, expected) in [
            ("", "packet:eth0 memory:eth1", "eth0"),
            ("packet:eth0", "packet:eth0 packet:eth1", "eth1"),
            ("packet:eth0", "packet:eth0", ""),
            ("memory:eth0", "packet:eth0", "eth0"),
        ] {
            let (old, new) = (Some(old).filter(|old| !old.is_empty()).map(plan), plan(new));
            let names: Vec<&str> = new_interfaces(&new, old.as_ref()).into_iter().map(|(_, name)| name).collect();
            assert_eq!(names.join(" "), expected);
        }
    }

    #[test]
    fn refusal_names_interface_cause_and_remedy() {
        let new = plan("packet:eth0 packet:eth1");
        let carriers = [Carrier { interface: "eth1".into(), reason: "it has 192.0.2.1".into() }];
        let taken = new_interfaces(&new, None);
        let refused: Vec<ApplyError> = refusals(&taken, &carriers).collect();
        assert_eq!(refused.len(), 1);
        let said = refused[0].to_string();
        for word in ["port p1", "'eth1'", "it has 192.0.2.1", "--force"] {
            assert!(said.contains(word), "{said}");
        }
        assert!(default_route_warning(&taken, "eth0").unwrap().contains("port p0 uses eth0"));
        assert_eq!(default_route_warning(&taken, "eth9"), None);
    }
}
