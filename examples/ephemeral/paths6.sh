#!/bin/sh
# Finds the routers on an IPv6 path that execute instructions, and where two paths branch: docs/operate/ephemeral-examples.md. As root: examples/ephemeral/paths6.sh
#
#     source ---- near ---- far ---- receiver1
#                  |
#              receiver2
. "$(dirname "$0")/lab.sh"

# plug HOST LINK NUMBER: an end system's interface in the network 2001:db8:NUMBER::/64, whose first address is the router.
plug() {
    in_host "$1" ip -6 address add "2001:db8:$3::2/64" dev "$2" nodad
    in_host "$1" ip -6 route add default via "2001:db8:$3::1"
}

# port6 NAME ADDRESS
port6() {
    printf '[port.%s]\ndevice = "packet:%s"\naddress = ["%s/64"]\n' "$1" "$1" "$2"
}

for name in source near far receiver1 receiver2; do host "$name"; done
cable near up source eth0
cable near down far up
cable far down receiver1 eth0
cable near side receiver2 eth0
plug source eth0 1
plug receiver1 eth0 3
plug receiver2 eth0 4
{
    port6 up 2001:db8:1::1
    port6 down 2001:db8:2::1
    port6 side 2001:db8:4::1
    printf '[[route]]\nto = "2001:db8:3::/64"\nvia = "2001:db8:2::2"\n[state]\n'
} | router near
{
    port6 up 2001:db8:2::2
    port6 down 2001:db8:3::1
    printf '[[route]]\nto = "::/0"\nvia = "2001:db8:2::1"\n[state]\ncentral = 0\n'
} | router far

echo "the way to receiver 1:"
in_host source "$switchpath" state ping 2001:db8:3::2
echo "the ways to receivers 1 and 2:"
in_host source "$switchpath" state branch 2001:db8:3::2 2001:db8:4::2
