//! Diagnostics as the operator reads them: a few as excerpts, all as lines.

use crate::catalogue::catalogue;
use expect_test::{Expect, expect};
use plan::{Severity, examine};

/// Two valid ports to which tests append errors; nine lines.
const BASE: &str = r#"version = 1
[port.lan]
device = "packet:eth0"
address = ["192.0.2.1/24", "2001:db8:1::1/64"]
[port.wan]
device = "packet:eth1"
address = ["203.0.113.2/30"]
[port.wan.vlan.20]
address = ["198.51.100.1/24"]
"#;

/// One line per diagnostic, with the key first.
fn lines(source: &str) -> String {
    let checked = examine(source, "f", &catalogue());
    assert_eq!(checked.plan.is_none(), checked.diagnostics.errors().next().is_some(), "a plan just without errors");
    checked.diagnostics.list().iter().map(|d| format!("{}| {d}\n", d.path)).collect()
}

fn check(source: &str, expected: Expect) {
    expected.assert_eq(&lines(source));
}

/// Checks the base with more lines.
fn more(source: &str, expected: Expect) {
    expected.assert_eq(&lines(&format!("{BASE}{source}")));
}

fn picture(source: &str, expected: Expect) {
    expected.assert_eq(&examine(source, "edge.toml", &catalogue()).diagnostics.render(false));
}

#[test]
fn base_is_valid() {
    check(BASE, expect![""]);
}

#[test]
fn every_error_is_reported_at_once_with_its_source() {
    picture(
        r#"version = 1

[port.lan]
device = "packt:eth0"
adress = ["192.0.2.1/24"]
mtu = 90000
scheme = "fifo(limit=1000, taget=5ms)"

[[route]]
to = "10.1.0.0/8"
blackhole = true

[[path]]
name = "voice"
match = "ip dscp ef udp dport 5060-5000"
"#,
        expect![[r#"
              × no kind of device is called 'packt'
               ╭─[edge.toml:4:11]
             3 │ [port.lan]
             4 │ device = "packt:eth0"
               ·           ──┬──
               ·             ╰── port.lan.device
             5 │ adress = ["192.0.2.1/24"]
               ╰────
              help: did you mean 'packet'?

              × unknown key 'adress'
               ╭─[edge.toml:5:1]
             4 │ device = "packt:eth0"
             5 │ adress = ["192.0.2.1/24"]
               · ───┬──
               ·    ╰── port.lan.adress
             6 │ mtu = 90000
               ╰────
              help: did you mean 'address'?

              × 90000 is out of range
               ╭─[edge.toml:6:7]
             5 │ adress = ["192.0.2.1/24"]
             6 │ mtu = 90000
               ·       ──┬──
               ·         ╰── port.lan.mtu
             7 │ scheme = "fifo(limit=1000, taget=5ms)"
               ╰────
              help: give 68 to 65535; the default is 1500

              × 'fifo' has no option 'taget'
               ╭─[edge.toml:7:28]
             6 │ mtu = 90000
             7 │ scheme = "fifo(limit=1000, taget=5ms)"
               ·                            ──┬──
               ·                              ╰── port.lan.scheme
               ╰────
              help: use 'limit'

              × '10.1.0.0/8' has bits set after its prefix length
                ╭─[edge.toml:10:6]
              9 │ [[route]]
             10 │ to = "10.1.0.0/8"
                ·      ──────┬─────
                ·            ╰── route[0].to
             11 │ blackhole = true
                ╰────
              help: write '10.0.0.0/8'

              × the range of ports ends before it begins
                ╭─[edge.toml:15:31]
             14 │ name = "voice"
             15 │ match = "ip dscp ef udp dport 5060-5000"
                ·                               ────┬────
                ·                                   ╰── path[0].match
                ╰────
              help: write 5000-5060

            6 errors
        "#]],
    );
}

#[test]
fn excerpt_of_a_long_line_is_cut() {
    let many: Vec<String> = (0..40).map(|i| format!("\"192.0.2.{i}\"")).collect();
    picture(
        &format!("version = 1\n[port.lan]\ndevice = \"memory:a\"\naddress = [{}]\n", many[20..21].join(", ")),
        expect![[r#"
              × '192.0.2.20' has no prefix length
               ╭─[edge.toml:4:12]
             3 │ device = "memory:a"
             4 │ address = ["192.0.2.20"]
               ·            ──────┬─────
               ·                  ╰── port.lan.address[0]
               ╰────
              help: add the length of the subnet, like '192.0.2.20/24'

            1 error
        "#]],
    );
    let long =
        format!("version = 1\nport.lan = {{ device = \"memory:a\", capture = \"{}\", mtu = 1 }}\n", "x".repeat(500));
    picture(
        &long,
        expect![[r#"
              × 1 is out of range
               ╭─[edge.toml:2:555]
             1 │ version = 1
             2 │ …xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", mtu = 1 }
               ·                                                                                             ┬
               ·                                                                                             ╰── port.lan.mtu
               ╰────
              help: give 68 to 65535; the default is 1500

            1 error
        "#]],
    );
}

#[test]
fn several_syntax_errors_are_reported_together() {
    picture(
        "version = 1\n[port.lan\ndevice = packet:eth0\nmtu = = 3\n",
        expect![[r#"
          × unclosed table, expected `]`
           ╭─[edge.toml:2:10]
         1 │ version = 1
         2 │ [port.lan
           ·          ▲
         3 │ device = packet:eth0
           ╰────
          help: the file is TOML: `key = value` lines below `[table]` headers

          × extra `=`, expected nothing
           ╭─[edge.toml:4:7]
         3 │ device = packet:eth0
         4 │ mtu = = 3
           ·       ─
           ╰────
          help: the file is TOML: `key = value` lines below `[table]` headers

        2 errors
    "#]],
    );
    check(
        "version = 1\n[port.lan]\ndevice = \"packet:eth0\"\ndevice = \"packet:eth1\"\n",
        expect![[r#"
            | f:4:1: error: duplicate key; keep one of the two: a key is given once, and a table has one header
        "#]],
    );
    check(
        "version = 1\n[port.lan]\ndevice = \"packet:eth0\"\n[port.lan]\n",
        expect![[r#"
            | f:4:7: error: duplicate key; keep one of the two: a key is given once, and a table has one header
        "#]],
    );
    check(
        "version = 1\n[port.lan]\ndevice = \"unclosed\nmtu = 3\n",
        expect![[r#"
            | f:3:19: error: invalid basic string, expected `"`; the file is TOML: `key = value` lines below `[table]` headers
            port.lan.mtu| f:4:7: error: 3 is out of range; give 68 to 65535; the default is 1500
        "#]],
    );
    check(
        "\u{feff}version = 1\r\n[port.lan]\r\ndevice = \"packet:eth0\"\r\nmtu = 3\r\n",
        expect![[r#"
            port.lan.mtu| f:4:7: error: 3 is out of range; give 68 to 65535; the default is 1500
        "#]],
    );
    check(
        "version = 1\nx = \u{1}\n",
        expect![[r#"
        | f:2:5: error: string values must be quoted, expected literal string; write "..." around it
    "#]],
    );
}

#[test]
fn version_is_checked_first() {
    check(
        "",
        expect![[r#"
        | f:1:1: error: the key 'version' is missing; add version = 1
        port| f:1:1: error: there is no port; add [port.lan] with device = "packet:eth0"
    "#]],
    );
    check(
        "[port.lan]\ndevice = \"memory:a\"\n",
        expect![[r#"
        | f:1:1: error: the key 'version' is missing; add version = 1
    "#]],
    );
    check(
        "version = 2\nwhatever = true\n",
        expect![[r#"
            version| f:1:11: error: this build supports version 1 of the format, not 2; write version = 1, or use a build that supports the version
        "#]],
    );
    check(
        "version = \"1\"\n",
        expect![[r#"
            version| f:1:11: error: this build supports version 1 of the format, not '1'; write version = 1, or use a build that supports the version
        "#]],
    );
    check(
        "version = 1.0\n",
        expect![[r#"
            version| f:1:11: error: this build supports version 1 of the format, not 1.0; write version = 1, or use a build that supports the version
        "#]],
    );
}

#[test]
fn wrong_types_and_unknown_keys_are_named() {
    check(
        r#"version = 1
route = "default"
path = { name = "x" }
colour = "blue"
router = 3
[port]
lan = "eth0"
"#,
        expect![[r#"
            route| f:2:9: error: 'route' is a list, not a string; write route = [{ to = "10.0.0.0/8", blackhole = true }]
            path| f:3:8: error: 'path' is a list, not a table; write path = [{ name = "voice", match = "ip dscp ef" }]
            colour| f:4:1: error: unknown key 'colour'; the keys here are version, router, cpu, port, route, neighbour, multicast, passthrough, subscribers, path, routing, set, objectives, policy, nat, state, linux
            router| f:5:10: error: router is a table, not a whole number; write [router]
            port.lan| f:7:7: error: port.lan is a table, not a string; write [port.lan]
        "#]],
    );
    check(
        "version = 1\nport = 3\n",
        expect![[r#"
        port| f:2:8: error: 'port' is a table of tables, not a whole number; write port = { lan = { device = "packet:eth0" } }
    "#]],
    );
    check(
        "version = 1\n[port]\n",
        expect![[r#"
        port| f:2:1: error: there is no port; add [port.lan] with device = "packet:eth0"
    "#]],
    );
    check(
        r#"version = 1
[router]
name = ""
workers = 65
frames = "many"
icmp_rate = -1
icmp_burst = 99999999999999999999999999999999999999999999
[port.lan]
device = 7
address = "192.0.2.1/24"
mac = true
mtu = 1500.0
offloads = "yes"
faults = { loss = 1.5, corrupt = -0.1, duplicate = nan, truncate = 0.00000001, seed = -1, lost = 1 }
vlan = [20]
"#,
        expect![[r#"
            router.name| f:3:8: error: '' is no name for a router; use 1 to 63 letters, digits, points, underscores and hyphens
            router.workers| f:4:11: error: 65 is out of range; give 1 to 64; the default is 1
            router.frames| f:5:10: error: 'frames' is a whole number, not a string; write frames = 16384
            router.icmp_rate| f:6:13: error: -1 is out of range; give 1 to 1000000; the default is 100
            router.icmp_burst| f:7:14: error: 99999999999999999999999999999999999999999999 is out of range; give 1 to 100000; the default is 10
            port.lan.device| f:9:10: error: 'device' is a string, not a whole number; write device = "packet:eth0"
            port.lan.address| f:10:11: error: 'address' is a list, not a string; write address = ["192.0.2.1/24"]
            port.lan.mac| f:11:7: error: 'mac' is a string, not true or false; write mac = "02:00:00:00:00:01"
            port.lan.mtu| f:12:7: error: 'mtu' is a whole number, not a number with a fraction; write mtu = 1500
            port.lan.offloads| f:13:12: error: 'offloads' is true or false, not a string; write offloads = false
            port.lan.faults.loss| f:14:19: error: a probability is a number from 0 to 1; write 0.01 for one frame in a hundred
            port.lan.faults.corrupt| f:14:34: error: a probability is a number from 0 to 1; write 0.01 for one frame in a hundred
            port.lan.faults.duplicate| f:14:52: error: a probability is a number from 0 to 1; write 0.01 for one frame in a hundred
            port.lan.faults.truncate| f:14:68: error: 0.00000001 is less than one in a million; write 0, or at least 0.000001
            port.lan.faults.seed| f:14:87: error: -1 is out of range; give 0 to 9223372036854775807; the default is 1
            port.lan.faults.lost| f:14:91: error: unknown key 'lost'; the keys here are loss, corrupt, duplicate, truncate, seed
            port.lan.vlan| f:15:8: error: 'vlan' is a table of tables, not a list; write vlan = { 20 = { address = ["198.51.100.1/24"] } }
        "#]],
    );
}

#[test]
fn cores_match_workers_and_busy_poll_is_at_most_a_second() {
    let with = |router: &str| {
        format!("version = 1\n[router]\n{router}\n[port.lan]\ndevice = \"memory:a\"\naddress = [\"192.0.2.1/24\"]\n")
    };
    check(
        &with("cores = \"0-1,1\"\nbusy_poll = \"2s\""),
        expect![[r#"
            router.cores| f:3:14: error: core 1 is listed twice; write cores and ranges, separated by commas, like 0-3,8
            router.busy_poll| f:4:13: error: 2s is out of range; write a time up to 1s, like 50us, or 0s to sleep at once
        "#]],
    );
    check(
        &with("workers = 3\ncores = \"0-1\"\nbusy_poll = \"long\""),
        expect![[r#"
            router.cores| f:4:9: error: 2 cores for 3 workers; list a core for each worker, or remove `workers`
            router.busy_poll| f:5:13: error: 'long' is no time; write a time up to 1s, like 50us, or 0s to sleep at once
        "#]],
    );
    check(
        &with("cores = 1\nbusy_poll = 50"),
        expect![[r#"
        router.cores| f:3:9: error: 'cores' is a string, not a whole number; write cores = "0-1,3"
        router.busy_poll| f:4:13: error: 'busy_poll' is a string, not a whole number; write busy_poll = "50us"
    "#]],
    );
    let plan = |router: &str| plan::check(&with(router), "f", &catalogue()).unwrap();
    for (router, workers, cores) in [
        ("", 1, "any"),
        ("cores = '4-6,0'", 4, "4-6,0"),
        ("workers = 2\ncores = '3,1'", 2, "3,1"),
        ("workers = 2", 2, "any"),
    ] {
        let plan = plan(router);
        assert_eq!((plan.workers, plan.cores.to_string().as_str()), (workers, cores), "{router}");
    }
    assert_eq!(plan("busy_poll = '0s'").busy_poll.get(), 0);
}

#[test]
fn route_cache_holds_a_power_of_two_ranges() {
    let with = |ranges: &str| {
        format!(
            "version = 1\n[router]\nroute_cache = {ranges}\n[port.lan]\ndevice = \"memory:a\"\naddress = [\"192.0.2.1/24\"]\n"
        )
    };
    check(
        &with("1000"),
        expect![[r#"
        router.route_cache| f:3:15: error: 1000 is no power of two; write 1024, or 512
    "#]],
    );
    for (text, ranges) in [("0", 0), ("1024", 1024)] {
        assert_eq!(plan::check(&with(text), "f", &catalogue()).unwrap().route_cache, ranges);
    }
}

#[test]
fn devices_are_of_the_catalogue_and_belong_to_one_port() {
    check(
        r#"version = 1
[port.Lan]
device = "packet:eth0"
[port.a]
device = "eth0"
[port.b]
device = "memry:x"
[port.c]
device = "packet:an-interface-too-long"
[port.d]
device = "memory:"
[port.e]
device = "pcap:"
[port.f]
device = "packet:eth0"
[port.g]
device = "memory:m"
pace = "fast"
write = "x"
[port.h]
device = "pcap:h.pcap"
pace = "10mbps"
[port.i]
device = "pcap:a\u001b[2J"
capture = "a\nb"
"#,
        expect![[r#"
            port.Lan| f:2:7: error: 'Lan' is no name for a port; use a letter, then letters, digits, '_' and '-', 15 at most: [a-z][a-z0-9_-]{0,14}
            port.a.device| f:5:10: error: 'eth0' does not begin with a kind of device; write one of memory:..., pcap:..., packet:...
            port.b.device| f:7:11: error: no kind of device is called 'memry'; did you mean 'memory'?
            port.c.device| f:9:18: error: 'packet:' cannot open 'an-interface-too-long'; write the name of a kernel interface, like 'packet:eth0'
            port.d.device| f:11:18: error: 'memory:' cannot open ''; write a name, like 'memory:a'
            port.e.device| f:13:16: error: 'pcap:' cannot open ''; write 'pcap:FILE', or add write = "out.pcapng" for a port that only writes
            port.f.device| f:15:10: error: the device belongs to 'Lan' already; give each port a device of its own
            port.g.pace| f:18:8: error: 'pace' is for 'pcap' devices, but this one is 'memory'; remove it
            port.g.write| f:19:9: error: 'write' is for 'pcap' devices, but this one is 'memory'; remove it
            port.h.pace| f:22:8: error: 'mbps' is no unit of rate; in tc 'bps' means bytes per second; say bits: '10mbit'
            port.i.device| f:24:10: error: 'pcap:' cannot open 'a�[2J'; write a name without control characters
            port.i.capture| f:25:11: error: 'a�b' is no name of a file; write "out.pcapng"
        "#]],
    );
}

#[test]
fn files_are_written_once_and_never_those_that_are_read() {
    check(
        r#"version = 1
[port.a]
device = "pcap:a.pcap"
write = "./out.pcap"
capture = ""
[port.b]
device = "pcap:out.pcap"
write = "b.pcap"
[port.c]
device = "memory:c"
capture = "b.pcap"
"#,
        expect![[r#"
            port.a.capture| f:5:11: error: '' is no name of a file; write "out.pcapng"
            port.b.device| f:7:10: error: port.a.write would overwrite the file; write to another file
            port.c.capture| f:11:11: error: port.b.write writes to the file already; give each a file of its own
        "#]],
    );
}

#[test]
fn addresses_must_be_valid_for_a_router() {
    check(
        r#"version = 1
[port.lan]
device = "packet:eth0"
address = [
  "192.0.2.0/24", "192.0.2.255/24", "192.0.2.1", "2001:db8::1", "192.0.2.300/24", "192.0.2.1/33", "10.0.0.1/0",
  "224.0.0.5/24", "127.0.0.1/8", "0.0.0.0/8", "255.255.255.255/32", "240.0.0.1/8",
  "::/64", "::1/128", "ff02::1/64", "::ffff:192.0.2.1/120", "2001:db8::/64", 7, "",
]
"#,
        expect![[r#"
            port.lan.address[0]| f:5:3: error: 192.0.2.0 is the network address of 192.0.2.0/24; write the router's own address on the subnet
            port.lan.address[1]| f:5:19: error: 192.0.2.255 is the broadcast address of 192.0.2.0/24; write the router's own address on the subnet
            port.lan.address[2]| f:5:37: error: '192.0.2.1' has no prefix length; add the length of the subnet, like '192.0.2.1/24'
            port.lan.address[3]| f:5:50: error: '2001:db8::1' has no prefix length; add the length of the subnet, like '2001:db8::1/64'
            port.lan.address[4]| f:5:65: error: '192.0.2.300/24' is no address prefix; write an address and the length of its subnet, like '192.0.2.1/24'
            port.lan.address[5]| f:5:83: error: '192.0.2.1/33' has no prefix length from 0 to 32; write an address and the length of its subnet, like '192.0.2.1/24'
            port.lan.address[6]| f:5:99: error: with the length 0 the subnet of 10.0.0.1/0 is the whole Internet; write the prefix length of the subnet; a default route belongs in [[route]]
            port.lan.address[7]| f:6:3: error: 224.0.0.5 is a multicast address, which an interface cannot have; write a unicast address
            port.lan.address[8]| f:6:19: error: 127.0.0.1 is a loopback address, which an interface cannot have; write a unicast address
            port.lan.address[9]| f:6:34: error: 0.0.0.0 is an address of 'this network', which an interface cannot have; write a unicast address
            port.lan.address[10]| f:6:47: error: 255.255.255.255 is the broadcast address, which an interface cannot have; write a unicast address
            port.lan.address[11]| f:6:69: error: 240.0.0.1 is a reserved address, which an interface cannot have; write a unicast address
            port.lan.address[12]| f:7:3: error: :: is the unspecified address, which an interface cannot have; write a unicast address
            port.lan.address[13]| f:7:12: error: ::1 is a loopback address, which an interface cannot have; write a unicast address
            port.lan.address[14]| f:7:23: error: ff02::1 is a multicast address, which an interface cannot have; write a unicast address
            port.lan.address[15]| f:7:37: error: ::ffff:192.0.2.1 is an IPv4-mapped address, which an interface cannot have; write a unicast address
            port.lan.address[16]| f:7:61: error: 2001:db8:: is the subnet-router anycast address of 2001:db8::/64; write the router's own address on the subnet
            port.lan.address[17]| f:7:78: error: expected a string, not a whole number; write "192.0.2.1/24"
            port.lan.address[18]| f:7:81: error: '' is no address prefix; write an address and the length of its subnet, like '192.0.2.1/24'
        "#]],
    );
}

#[test]
fn small_subnets_have_no_network_or_broadcast_address() {
    check(
        r#"version = 1
[port.lan]
device = "packet:eth0"
address = ["192.0.2.0/31", "192.0.2.2/32", "2001:db8::/127", "fe80::1/64"]
[port.wan]
device = "packet:eth1"
address = ["fe80::1/64"]
[[route]]
to = "10.0.0.0/8"
via = "192.0.2.1"
[[route]]
to = "2001:db8:1::/48"
via = "2001:db8::1"
[[route]]
to = "2001:db8:2::/48"
via = "fe80::2"
port = "wan"
"#,
        expect![""],
    );
}

#[test]
fn addresses_and_subnets_belong_to_one_interface() {
    check(
        r#"version = 1
[port.a]
device = "packet:eth0"
address = ["10.0.0.1/8", "10.0.0.2/24", "10.0.0.1/16", "fe80::1/64", "fe80::1/64"]
[port.b]
device = "packet:eth1"
address = ["10.9.9.9/30", "10.0.0.1/32", "192.0.2.1/24"]
[port.c]
device = "packet:eth2"
[port.c.vlan.7]
address = ["192.0.2.2/24"]
"#,
        expect![[r#"
            port.a.address[2]| f:4:41: error: the address 10.0.0.1 is given twice, first to 'a'; remove one of the two
            port.a.address[4]| f:4:70: error: the address fe80::1 is given twice, first to 'a'; remove one of the two
            port.b.address[0]| f:7:12: error: the subnet 10.9.9.8/30 overlaps with 10.0.0.0/8 of 'a'; give each interface a subnet of its own
            port.b.address[1]| f:7:27: error: the address 10.0.0.1 is given twice, first to 'a'; remove one of the two
            port.c.vlan.7.address[0]| f:11:12: error: the subnet 192.0.2.0/24 overlaps with 192.0.2.0/24 of 'b'; give each interface a subnet of its own
        "#]],
    );
}

#[test]
fn mtus_fit_the_port_and_the_family() {
    check(
        r#"version = 1
[port.a]
device = "packet:eth0"
address = ["2001:db8::1/64"]
mtu = 1279
[port.b]
device = "packet:eth1"
mtu = 1300
[port.b.vlan.5]
mtu = 1301
[port.b.vlan.6]
mtu = 67
[port.c]
device = "packet:eth2"
mtu = 1000
[port.c.vlan.5]
address = ["2001:db8:5::1/64"]
"#,
        expect![[r#"
            port.a.mtu| f:5:7: error: an MTU of 1279 is too small for IPv6; use at least 1280, or no IPv6 address
            port.b.vlan.5.mtu| f:10:7: error: an MTU of 1301 is more than 1300, the port's; raise the port's mtu or lower this one
            port.b.vlan.6.mtu| f:12:7: error: 67 is out of range; give 68 to 65535
            port.c.vlan.5.mtu| f:16:1: error: an MTU of 1000 is too small for IPv6; use at least 1280, or no IPv6 address
        "#]],
    );
    check(
        "version = 1\n[router]\nsuper_frames = 0\n[port.a]\ndevice = \"packet:a\"\nmtu = 2031\n[port.b]\ndevice = \"packet:b\"\nmtu = 2030\n",
        expect![[r#"
            port.a.mtu| f:6:7: error: packets of 2031 bytes need super-frames, but super_frames is 0; set super_frames in [router], or an mtu of at most 2030
        "#]],
    );
}

#[test]
fn vlans_have_ids() {
    more(
        "[port.lan.vlan.0]\n[port.lan.vlan.4095]\n[port.lan.vlan.020]\n[port.lan.vlan.twenty]\n[port.lan.vlan]\n4094 = 7\n",
        expect![[r#"
            port.lan.vlan.0| f:10:16: error: '0' is no VLAN id; use a number from 1 to 4094
            port.lan.vlan.4095| f:11:16: error: '4095' is no VLAN id; use a number from 1 to 4094
            port.lan.vlan.020| f:12:16: error: '020' is no VLAN id; use a number from 1 to 4094
            port.lan.vlan.twenty| f:13:16: error: 'twenty' is no VLAN id; use a number from 1 to 4094
            port.lan.vlan.4094| f:15:8: error: port.lan.vlan.4094 is a table, not a whole number; write [port.lan.vlan.4094]
        "#]],
    );
}

#[test]
fn macs_are_unicast() {
    check(
        r#"version = 1
[port.a]
device = "packet:eth0"
mac = "01:00:5e:00:00:01"
[port.b]
device = "packet:eth1"
mac = "00:00:00:00:00:00"
[port.c]
device = "packet:eth2"
mac = "02-00-00-00-00-01"
"#,
        expect![[r#"
            port.a.mac| f:4:7: error: 01:00:5e:00:00:01 is a multicast address; make the first byte even, like '02'
            port.b.mac| f:7:7: error: 00:00:00:00:00:00 is no address; write a unicast address, like '02:00:00:00:00:01'
            port.c.mac| f:10:7: error: '02-00-00-00-00-01' is no MAC address; write six bytes in hexadecimal, like '02:00:00:00:00:01'
        "#]],
    );
}

#[test]
fn schemes_are_checked_against_the_catalogue() {
    check(
        r#"version = 1
[port.a]
device = "packet:eth0"
scheme = "fif"
[port.b]
device = "packet:eth1"
scheme = "codel(limit=5, target=5)"
[port.c]
device = "packet:eth2"
scheme = 'fifo(limit=0)'
[port.d]
device = "packet:eth3"
scheme = "fifo(limit=\u0031)"
[port.e]
device = "packet:eth4"
scheme = "fifo(\u006cimit=x)"
[port.f]
device = "packet:eth5"
scheme = """
fifo"""
"#,
        expect![[r#"
            port.a.scheme| f:4:11: error: no scheme is called 'fif'; did you mean 'fifo'?
            port.b.scheme| f:7:33: error: '5' has no unit; use one of s, ms, us, ns, like '5ms'
            port.c.scheme| f:10:22: error: limit=0 is below the minimum, 1; give 1 to 1000000; the default is 1000
            port.d.scheme| f:13:10: warning: with a limit of 1 every burst loses all but one packet; give a limit of a hundred or more
            port.e.scheme| f:16:10: error: 'x' is no whole number; write a number like '1000'
        "#]],
    );
}

#[test]
fn route_has_exactly_one_target() {
    more(
        r#"[[route]]
to = "10.0.0.0/8"
[[route]]
to = "10.1.0.0/16"
via = "192.0.2.9"
blackhole = true
[[route]]
to = "10.2.0.0/16"
unreachable = true
port = "lan"
[[route]]
via = "192.0.2.9"
[[route]]
to = "10.3.0.0/16"
blackhole = false
"#,
        expect![[r#"
            route[0]| f:10:1: error: the route has no next hop; give one of via = "ADDRESS", blackhole = true and unreachable = true
            route[1]| f:12:1: error: via, blackhole and unreachable exclude each other; give one of via = "ADDRESS", blackhole = true and unreachable = true
            route[2].port| f:19:8: error: 'port' needs 'via', which this route does not have; remove it
            route[3]| f:20:1: error: the key 'to' is missing; add to = "10.0.0.0/8"
            route[4]| f:22:1: error: the route has no next hop; give one of via = "ADDRESS", blackhole = true and unreachable = true
        "#]],
    );
}

#[test]
fn destinations_are_prefixes() {
    // Below a table header the key belongs to that table.
    more(
        "route = []\n",
        expect![[r#"
            port.wan.vlan.20.route| f:10:1: error: unknown key 'route'; move 'route' to the top of the file, above the first [header], or give it a header of its own
        "#]],
    );
    check(
        &format!(
            "version = 1\nroute = [\n{}]\n{}",
            ["10.1.0.0/8", "10.1.2.3", "defualt", "10.1.0.0/40", "2001:db8::1/64"]
                .map(|to| format!("  {{ to = \"{to}\", blackhole = true }},\n"))
                .concat(),
            BASE.strip_prefix("version = 1\n").unwrap()
        ),
        expect![[r#"
            route[0].to| f:3:10: error: '10.1.0.0/8' has bits set after its prefix length; write '10.0.0.0/8'
            route[1].to| f:4:11: error: '10.1.2.3' has no prefix length; write '10.1.2.3/32' for this one address
            route[2].to| f:5:11: error: 'defualt' is no address prefix; write an address and a length, like '192.0.2.0/24' or '2001:db8::/64'
            route[3].to| f:6:11: error: '10.1.0.0/40' has no prefix length from 0 to 32; write '10.1.0.0/N' with N from 0 to 32
            route[4].to| f:7:10: error: '2001:db8::1/64' has bits set after its prefix length; write '2001:db8::/64'
        "#]],
    );
}

#[test]
fn gateways_are_hosts_on_connected_subnets() {
    let cases = [
        ("10.0.0.0/8", "10.9.9.9", ""),
        ("10.0.0.0/8", "192.0.2.1", ""),
        ("10.0.0.0/8", "192.0.2.0", ""),
        ("10.0.0.0/8", "192.0.2.255", ""),
        ("10.0.0.0/8", "224.0.0.1", ""),
        ("10.0.0.0/8", "0.0.0.0", ""),
        ("10.0.0.0/8", "127.0.0.1", ""),
        ("10.0.0.0/8", "2001:db8:1::2", ""),
        ("2001:db8::/32", "192.0.2.9", ""),
        ("2001:db8::/32", "2001:db8:1::", ""),
        ("2001:db8::/32", "2001:db8:2::1", ""),
        ("2001:db8::/32", "fe80::1", ""),
        ("2001:db8::/32", "fe80::1", "lan"),
        ("10.0.0.0/8", "192.0.2.9", "wan"),
        ("10.0.0.0/8", "198.51.100.9", "wan.20"),
        ("10.0.0.0/8", "192.0.2.9", "lam"),
        ("10.0.0.0/8", "192.0.2.9/24", ""),
        ("10.0.0.0/8", "gateway", ""),
    ];
    let mut all = String::new();
    for (to, via, port) in cases {
        let port_line = if port.is_empty() { String::new() } else { format!("port = \"{port}\"\n") };
        let found = lines(&format!("{BASE}[[route]]\nto = \"{to}\"\nvia = \"{via}\"\n{port_line}"));
        all += &format!("{to} via {via} {port}\n    {}\n", if found.is_empty() { "good" } else { found.trim_end() });
    }
    expect![[r#"
        10.0.0.0/8 via 10.9.9.9 
            route[0].via| f:12:7: error: 10.9.9.9 is on no connected subnet; the connected subnets are 192.0.2.0/24 (lan), 203.0.113.0/30 (wan), 198.51.100.0/24 (wan.20)
        10.0.0.0/8 via 192.0.2.1 
            route[0].via| f:12:7: error: 192.0.2.1 is the router's own address; write the address of the other host
        10.0.0.0/8 via 192.0.2.0 
            route[0].via| f:12:7: error: 192.0.2.0 is the network address of 192.0.2.0/24; write the address of a host
        10.0.0.0/8 via 192.0.2.255 
            route[0].via| f:12:7: error: 192.0.2.255 is the broadcast address of 192.0.2.0/24; write the address of a host
        10.0.0.0/8 via 224.0.0.1 
            route[0].via| f:12:7: error: 224.0.0.1 is a multicast address, not the address of a host; write a unicast address
        10.0.0.0/8 via 0.0.0.0 
            route[0].via| f:12:7: error: 0.0.0.0 is an address of 'this network', not the address of a host; write a unicast address
        10.0.0.0/8 via 127.0.0.1 
            route[0].via| f:12:7: error: 127.0.0.1 is a loopback address, not the address of a host; write a unicast address
        10.0.0.0/8 via 2001:db8:1::2 
            route[0].via| f:12:7: error: 2001:db8:1::2 and the destination 10.0.0.0/8 are of different families; write the IPv4 address of the gateway
        2001:db8::/32 via 192.0.2.9 
            route[0].via| f:12:7: error: 192.0.2.9 and the destination 2001:db8::/32 are of different families; write the IPv6 address of the gateway
        2001:db8::/32 via 2001:db8:1:: 
            route[0].via| f:12:7: error: 2001:db8:1:: is the subnet-router anycast address of 2001:db8:1::/64; write the address of a host
        2001:db8::/32 via 2001:db8:2::1 
            route[0].via| f:12:7: error: 2001:db8:2::1 is on no connected subnet; the connected subnets are 2001:db8:1::/64 (lan)
        2001:db8::/32 via fe80::1 
            route[0].via| f:12:7: error: fe80::1 is link-local, so its port is ambiguous; add port = "NAME"
        2001:db8::/32 via fe80::1 lan
            good
        10.0.0.0/8 via 192.0.2.9 wan
            route[0].via| f:12:7: error: 192.0.2.9 is on a subnet of 'lan', not of 'wan'; write port = "lan", or an address on a subnet of 'wan'
        10.0.0.0/8 via 198.51.100.9 wan.20
            good
        10.0.0.0/8 via 192.0.2.9 lam
            route[0].port| f:13:8: error: there is no port or VLAN 'lam'; did you mean 'lan'?
        10.0.0.0/8 via 192.0.2.9/24 
            route[0].via| f:12:7: error: '192.0.2.9/24' is no address; write '192.0.2.9', without a length
        10.0.0.0/8 via gateway 
            route[0].via| f:12:7: error: 'gateway' is no address; write an address, like '192.0.2.9' or '2001:db8::9'
    "#]].assert_eq(&all);
}

#[test]
fn destination_has_only_one_route() {
    more(
        r#"[[route]]
to = "10.0.0.0/8"
blackhole = true
[[route]]
to = "2001:db8::/32"
blackhole = true
[[route]]
to = "10.0.0.0/8"
via = "192.0.2.9"
[[route]]
to = "2001:0DB8::/32"
unreachable = true
"#,
        expect![[r#"
            route[2].to| f:17:6: error: there is a route to 10.0.0.0/8 already: route[0], line 11; remove one of the two
            route[3].to| f:20:6: error: there is a route to 2001:db8::/32 already: route[1], line 14; remove one of the two
        "#]],
    );
}

#[test]
fn unused_routes_get_a_warning() {
    more(
        r#"[[route]]
to = "192.0.2.0/24"
blackhole = true
[[route]]
to = "224.0.0.0/4"
blackhole = true
[[route]]
to = "127.0.0.0/8"
blackhole = true
[[route]]
to = "ff00::/8"
blackhole = true
[[route]]
to = "::1/128"
blackhole = true
[[route]]
to = "fe80::/64"
blackhole = true
[[route]]
to = "0.0.0.0/8"
blackhole = true
[[route]]
to = "0.0.0.0/0"
blackhole = true
[[route]]
to = "192.0.2.0/25"
blackhole = true
"#,
        expect![[r#"
            route[0]| f:10:1: warning: the route to 192.0.2.0/24 is never used: it equals the connected subnet of 'lan'; remove it, or write a longer prefix
            route[1]| f:13:1: warning: the route to 224.0.0.0/4 is never used: a router does not forward to multicast addresses; remove it
            route[2]| f:16:1: warning: the route to 127.0.0.0/8 is never used: a router does not forward to loopback addresses; remove it
            route[3]| f:19:1: warning: the route to ff00::/8 is never used: a router does not forward to multicast addresses; remove it
            route[4]| f:22:1: warning: the route to ::1/128 is never used: a router does not forward to loopback addresses; remove it
            route[5]| f:25:1: warning: the route to fe80::/64 is never used: a router does not forward to link-local addresses; remove it
            route[6]| f:28:1: warning: the route to 0.0.0.0/8 is never used: a router does not forward to addresses of 'this network'; remove it
        "#]],
    );
}

#[test]
fn passthrough_is_two_ports_without_other_settings() {
    let ports: String =
        ["a", "b", "c"].iter().map(|name| format!("[port.{name}]\ndevice = \"memory:{name}\"\n")).collect();
    let pairs = |pairs: &[&str]| -> String {
        ports.clone() + &pairs.iter().map(|pair| format!("[[passthrough]]\nports = {pair}\n")).collect::<String>()
    };
    more(&pairs(&["[\"a\", \"b\"]"]), expect![""]);
    let wrong = [
        "[\"a\", \"a\"]",
        "[\"b\", \"lan\"]",
        "[\"b\", \"wan.20\"]",
        "[\"b\", \"d\"]",
        "[\"b\"]",
        "[\"a\", \"b\", \"c\"]",
        "[]",
        "[\"b\", \"c\"]",
        "[\"a\", \"c\"]",
    ];
    more(
        &pairs(&wrong),
        expect![[r#"
        passthrough[0].ports| f:17:15: error: 'a' is named twice; name two ports
        passthrough[1].ports| f:19:15: error: 'lan' has addresses or VLANs, which a pass-through port cannot use; remove the addresses and VLANs
        passthrough[2].ports| f:21:15: error: 'wan.20' is a VLAN, but a port passes all its frames; write the name of the port
        passthrough[3].ports| f:23:15: error: there is no port or VLAN 'd'; did you mean 'a'?
        passthrough[4].ports| f:25:9: error: a pair has two ports, not 1; write ports = ["line", "router"]
        passthrough[5].ports| f:27:9: error: a pair has two ports, not 3; write ports = ["line", "router"]
        passthrough[6].ports| f:29:9: error: 'ports' is an empty list; write ports = ["line", "router"]
        passthrough[8].ports| f:33:15: error: 'c' belongs to another pair; merge the two
    "#]],
    );
}

#[test]
fn groups_arrive_by_one_interface_and_leave_by_others() {
    let group = |group: &str, rest: &str| format!("[[multicast]]\ngroup = \"{group}\"\n{rest}\n");
    let way = "from = \"lan\"\nto = [\"wan\", \"wan.20\"]";
    more(
        &(group("239.1.2.3", way)
            + &group("ff3e::1", way)
            + &group("232.1.1.1", &format!("source = \"192.0.2.7\"\n{way}"))),
        expect![""],
    );
    let wrong: String = [
        group("192.0.2.9", way),
        group("224.0.0.251", way),
        group("ff02::1:3", way),
        group("ff05::2", way),
        group("any", way),
        group("239.1.2.3", "from = \"lan\"\nto = \"lan\""),
        group("239.1.2.4", "from = \"lan\"\nto = [\"wan\", \"wan\"]"),
        group("239.1.2.5", "from = \"lan\"\nto = []"),
        group("239.1.2.6", "from = \"lam\"\nto = \"wan\""),
        group("239.1.2.7", "from = \"lan\"\nto = \"wam\""),
        group("239.1.2.8", "source = \"239.1.1.1\"\nfrom = \"lan\"\nto = \"wan\""),
        group("239.1.2.9", "source = \"2001:db8::7\"\nfrom = \"lan\"\nto = \"wan\""),
        group("ff3e::9", "from = \"wan\"\nto = \"lan\""),
        group("239.1.2.10", way),
        group("239.1.2.10", way),
        "[[multicast]]\n".into(),
    ]
    .concat();
    more(
        &wrong,
        expect![[r#"
        multicast[0].group| f:11:9: error: 192.0.2.9 is no multicast address; write a group of wider scope, like '239.1.2.3'
        multicast[1].group| f:15:9: error: 224.0.0.251 is link-local, so routers do not forward it; write a group of wider scope, like '239.1.2.3'
        multicast[2].group| f:19:9: error: ff02::1:3 is link-local, so routers do not forward it; write a group of wider scope, like 'ff05::1:3'
        multicast[3].group| f:23:9: error: ff05::2 is for the router itself; write a group of wider scope, like 'ff05::1:3'
        multicast[4].group| f:27:9: error: 'any' is no address; write an address, like '192.0.2.9' or '2001:db8::9'
        multicast[5].to| f:33:6: error: 'lan' is the input interface: packets would loop; leave it out
        multicast[6].to| f:37:14: error: 'wan' is named twice; remove one: each interface gets one copy
        multicast[7].to| f:41:6: error: 'to' is an empty list; write to = ["wan", "wan.20"]
        multicast[8].from| f:44:8: error: there is no port or VLAN 'lam'; did you mean 'lan'?
        multicast[9].to| f:49:6: error: there is no port or VLAN 'wam'; did you mean 'wan'?
        multicast[10].source| f:52:10: error: 239.1.1.1 is a multicast address, which cannot be a source; write the address of a host
        multicast[11].group| f:56:9: error: 239.1.2.9 and its source are of different families; write two addresses of the same family
        multicast[12].group| f:61:9: error: 'wan' cannot receive packets to ff3e::9: it has no IPv6 address; give it one
        multicast[14].group| f:69:9: error: packets to 239.1.2.10 have an entry already: multicast[13]; merge the two
        multicast[15]| f:72:1: error: the key 'group' is missing; add group = "239.1.2.3"
        multicast[15]| f:72:1: error: the key 'from' is missing; add from = "lan"
        multicast[15]| f:72:1: error: the key 'to' is missing; add to = ["wan", "wan.20"]
    "#]],
    );
    let apart = "[port.red]\ndevice = \"packet:eth2\"\naddress = [\"192.0.2.1/24\"]\nvrf = \"red\"\n";
    more(
        &(apart.to_string() + &group("239.1.2.3", "from = \"lan\"\nto = \"red\"")),
        expect![[r#"
        multicast[0].to| f:17:6: error: 'red' is in another VRF than 'lan'; leave it out
    "#]],
    );
}

#[test]
fn neighbours_are_hosts_on_their_interface() {
    let cases = [
        ("192.0.2.9", "02:00:00:00:00:09", "lan"),
        ("192.0.2.9", "02:00:00:00:00:09", "wan"),
        ("192.0.2.9", "03:00:00:00:00:09", "lan"),
        ("192.0.2.9", "ff:ff:ff:ff:ff:ff", "lan"),
        ("192.0.2.1", "02:00:00:00:00:09", "lan"),
        ("192.0.2.255", "02:00:00:00:00:09", "lan"),
        ("10.0.0.1", "02:00:00:00:00:09", "lan"),
        ("fe80::9", "02:00:00:00:00:09", "lan"),
        ("ff02::9", "02:00:00:00:00:09", "lan"),
        ("nobody", "nothing", "nowhere"),
    ];
    let mut all = String::new();
    for (address, mac, port) in cases {
        let found =
            lines(&format!("{BASE}[[neighbour]]\naddress = \"{address}\"\nmac = \"{mac}\"\nport = \"{port}\"\n"));
        all += &format!("{address} {mac} {port}\n    {}\n", if found.is_empty() { "good" } else { found.trim_end() });
    }
    expect![[r#"
        192.0.2.9 02:00:00:00:00:09 lan
            good
        192.0.2.9 02:00:00:00:00:09 wan
            neighbour[0].address| f:11:11: error: 192.0.2.9 is on a subnet of 'lan', not of 'wan'; write port = "lan", or an address on a subnet of 'wan'
        192.0.2.9 03:00:00:00:00:09 lan
            neighbour[0].mac| f:12:7: error: 03:00:00:00:00:09 is a multicast address; make the first byte even, like '02'
        192.0.2.9 ff:ff:ff:ff:ff:ff lan
            neighbour[0].mac| f:12:7: error: ff:ff:ff:ff:ff:ff is a multicast address; make the first byte even, like '02'
        192.0.2.1 02:00:00:00:00:09 lan
            neighbour[0].address| f:11:11: error: 192.0.2.1 is the router's own address; write the address of the other host
        192.0.2.255 02:00:00:00:00:09 lan
            neighbour[0].address| f:11:11: error: 192.0.2.255 is the broadcast address of 192.0.2.0/24; write the address of a host
        10.0.0.1 02:00:00:00:00:09 lan
            neighbour[0].address| f:11:11: error: 10.0.0.1 is on no connected subnet; the connected subnets are 192.0.2.0/24 (lan), 203.0.113.0/30 (wan), 198.51.100.0/24 (wan.20)
        fe80::9 02:00:00:00:00:09 lan
            good
        ff02::9 02:00:00:00:00:09 lan
            neighbour[0].address| f:11:11: error: ff02::9 is a multicast address, not the address of a host; write a unicast address
        nobody nothing nowhere
            neighbour[0].address| f:11:11: error: 'nobody' is no address; write an address, like '192.0.2.9' or '2001:db8::9'
        neighbour[0].mac| f:12:7: error: 'nothing' is no MAC address; write six bytes in hexadecimal, like '02:00:00:00:00:01'
        neighbour[0].port| f:13:8: error: there is no port or VLAN 'nowhere'; use one of lan, wan, wan.20
    "#]].assert_eq(&all);
    let twice = "[[neighbour]]\naddress = \"192.0.2.9\"\nmac = \"02:00:00:00:00:09\"\nport = \"lan\"\n".repeat(2);
    more(
        &twice,
        expect![[r#"
        neighbour[1].address| f:15:11: error: the neighbour 192.0.2.9 is given already, by neighbour[0]; remove one of the two
    "#]],
    );
    more(
        "[[neighbour]]\n",
        expect![[r#"
        neighbour[0]| f:10:1: error: the key 'address' is missing; add address = "192.0.2.9"
        neighbour[0]| f:10:1: error: the key 'mac' is missing; add mac = "02:00:00:00:00:09"
        neighbour[0]| f:10:1: error: the key 'port' is missing; add port = "lan"
    "#]],
    );
}

#[test]
fn paths_have_names_matches_and_functions() {
    more(
        r#"[[path]]
name = "voice"
match = "ip dscp ef"
[[path]]
name = "voice"
match = "tcp dport 80"
[[path]]
name = "best-effort"
match = "tcp dport 81"
[[path]]
name = "control"
match = "tcp dport 82"
[[path]]
name = "general"
match = "tcp dport 83"
[[path]]
name = "Über"
match = "tcp dport 84"
[[path]]
name = "a"
match = "iif wam.20 tcp"
functions = []
queue = 0
[[path]]
name = "b"
match = "udp tcp dport 80"
functions = ["ip", "polic(rate=1mbit)", "police(rate=1mbps)", 4]
queue = 65537
class = 256
[[path]]
name = "c"
functions = "ip"
"#,
        expect![[r#"
            path[1].name| f:14:8: error: there is a path 'voice' already: path[0]; give each path a name of its own
            path[2].name| f:17:8: error: 'best-effort' is the name of a built-in path; use another name
            path[3].name| f:20:8: error: 'control' is the name of a built-in path; use another name
            path[4].name| f:23:8: error: 'general' is the name of a built-in path; use another name
            path[5].name| f:26:8: error: 'Über' is no name for a path; use a letter, then letters, digits, '_' and '-', 31 at most: [a-z][a-z0-9_-]{0,30}
            path[6].match| f:30:14: error: there is no port or VLAN 'wam.20'; did you mean 'wan.20'?
            path[6].functions| f:31:13: error: a path needs at least one function; write functions = ["ip"], or remove the key
            path[6].queue| f:32:9: error: 0 is out of range; give 1 to 65536; the default is 512
            path[7].match| f:35:14: error: 'tcp' contradicts the earlier 'udp'; a packet has one protocol; write a path or rule for each
            path[7].functions[1]| f:36:21: error: no function is called 'polic'; did you mean 'police'?
            path[7].functions[2]| f:36:54: error: 'mbps' is no unit of rate; in tc 'bps' means bytes per second; say bits: '1mbit'
            path[7].functions[3]| f:36:63: error: expected a string, not a whole number; write "ip"
            path[7].queue| f:37:9: error: 65537 is out of range; give 1 to 65536; the default is 512
            path[7].class| f:38:9: error: 256 is out of range; give 0 to 255
            path[8]| f:39:1: error: the path has no match; add match = "ip daddr 203.0.113.0/24", or reservations = true
            path[8].functions| f:41:13: error: 'functions' is a list, not a string; write functions = ["ip"]
        "#]],
    );
}

#[test]
fn shadowed_paths_get_a_warning() {
    more(
        r#"[[path]]
name = "web"
match = "tcp dport 80-443"
[[path]]
name = "lan-web"
match = "iif lan ip saddr 192.0.2.0/24 tcp dport 443"
[[path]]
name = "all"
match = "any"
[[path]]
name = "more"
match = "udp"
"#,
        expect![[r#"
            path[1].match| f:15:9: warning: no packet can match this path: 'web' before it matches them all; move it before 'web', or narrow that match
            path[3].match| f:21:9: warning: no packet can match this path: 'all' before it matches them all; move it before 'all', or narrow that match
        "#]],
    );
}

#[test]
fn consequences_of_an_error_are_not_reported() {
    check(
        r#"version = 1
[port.lan]
device = "packet:eth0"
address = ["192.0.2.1"]
[[route]]
to = "0.0.0.0/0"
via = "192.0.2.9"
[[path]]
name = "x"
match = "iif wan"
"#,
        expect![[r#"
            port.lan.address[0]| f:4:12: error: '192.0.2.1' has no prefix length; add the length of the subnet, like '192.0.2.1/24'
        "#]],
    );
}

#[test]
fn values_beyond_limits_are_refused() {
    let ports: String = (0..257).map(|i| format!("[port.p{i}]\ndevice = \"memory:p{i}\"\n")).collect();
    check(
        &format!("version = 1\n{ports}"),
        expect![[r#"
        port| f:200:7: error: there are more than 256 ports; use at most 256
    "#]],
    );
    let paths: String = (0..251).map(|i| format!("[[path]]\nname = \"p{i}\"\nmatch = \"tcp dport {i}\"\n")).collect();
    more(
        &paths,
        expect![[r#"
        path| f:760:1: error: there are more than 250 paths; use at most 250
    "#]],
    );
    let addresses: Vec<String> = (1..=65).map(|i| format!("\"10.0.{i}.1/24\"")).collect();
    check(
        &format!("version = 1\n[port.a]\ndevice = \"memory:a\"\naddress = [{}]\n", addresses.join(", ")),
        expect![[r#"
            port.a.address| f:4:1027: error: there are more than 64 addresses on the interface; use at most 64
        "#]],
    );
    let vlans: String = (1..=4094).map(|i| format!("[port.a.vlan.{i}]\n")).collect();
    let two = "[port.b]\ndevice = \"memory:b\"\n[port.b.vlan.1]\n[port.b.vlan.2]\n";
    check(
        &format!("version = 1\n[port.a]\ndevice = \"memory:a\"\n{vlans}{two}"),
        expect![[r#"
        port.b.vlan.1| f:4100:14: error: there are more than 4096 interfaces; use at most 4096
    "#]],
    );
}

#[test]
fn deep_nesting_and_endless_files_are_refused_quickly() {
    let nested = lines(&format!("version = 1\nx = {}", "[".repeat(100_000)));
    assert!(nested.contains("error"), "{nested}");
    let errors = examine(&"x = \n".repeat(100_000), "f", &catalogue()).diagnostics;
    assert_eq!(errors.list().len(), plan::MOST_DIAGNOSTICS);
    assert!(errors.omitted() > 90_000);
    let large = lines(&"#".repeat((64 << 20) + 1));
    expect![[r#"
        | f:1:1: error: the file is larger than 64 MiB; is this a configuration?
    "#]]
    .assert_eq(&large);
}

#[test]
fn unreadable_files_are_reported_as_errors() {
    let missing = plan::load(std::path::Path::new("no/such/file.toml"), &catalogue()).unwrap_err();
    expect![[r#"
          × no/such/file.toml: the file cannot be read: No such file or directory (os error 2)
          help: check the name of the file

        1 error
    "#]]
    .assert_eq(&missing.render(false));
    let file = std::env::temp_dir().join(format!("plan-{}-latin1.toml", std::process::id()));
    std::fs::write(&file, b"version = 1\n# caf\xe9\n").unwrap();
    let found = plan::load(&file, &catalogue()).unwrap_err();
    std::fs::remove_file(&file).unwrap();
    let d = &found.list()[0];
    assert_eq!((d.line, d.column, d.severity), (2, 6, Severity::Error));
    expect!["the file is not UTF-8: byte 0xe9 does not begin a character; save the file as UTF-8"]
        .assert_eq(&format!("{}; {}", d.reason, d.hint));
}

#[test]
fn diagnostics_serialize_as_json() {
    let found = examine("version = 1\n[port.lan]\ndevice = \"memory:a\"\nmtu = 1\n", "f", &catalogue()).diagnostics;
    expect![[r#"
        [
          {
            "file": "f",
            "line": 4,
            "column": 7,
            "path": "port.lan.mtu",
            "reason": "1 is out of range",
            "hint": "give 68 to 65535; the default is 1500",
            "severity": "error"
          }
        ]"#]]
    .assert_eq(&serde_json::to_string_pretty(&found).unwrap());
    assert!(found.render(true).contains("\u{1b}["), "colours for a terminal");
    assert!(!found.render(false).contains('\u{1b}'), "no colours for a file");
}

#[test]
fn former_name_of_a_key_is_answered_with_the_new_one() {
    let text = "version = 1\n[router]\nspin = \"50us\"\n[cpu]\nharvest = true\n[port.lan]\ndevice = \"memory:a\"\naddress = [\"192.0.2.1/24\"]\n\
                [nat]\noutside = \"lan\"\nanybody = true\n\
                [[path]]\nname = \"a\"\nmatch = \"any\"\nlimit = \"1ms\"\ndelay = \"2ms\"\npacket = \"64b\"\nshare = \"5%\"\n";
    check(
        text,
        expect![[r#"
        router.spin| f:3:1: error: unknown key 'spin'; the key is now 'busy_poll'
        cpu.harvest| f:5:1: error: unknown key 'harvest'; the key is now 'work_conserving'
        nat.anybody| f:11:1: error: unknown key 'anybody'; the key is now 'endpoint_independent_filtering'
        path[0].limit| f:15:1: error: unknown key 'limit'; the key is now 'cpu_limit'
        path[0].delay| f:16:1: error: unknown key 'delay'; the key is now 'max_delay'
        path[0].packet| f:17:1: error: unknown key 'packet'; the key is now 'packet_size'
        path[0].share| f:18:1: error: unknown key 'share'; the key is now 'cpu_share'
    "#]],
    );
}
