#!/bin/sh
# Finds the routers that execute instructions, and the branching points of paths: docs/operate/ephemeral-examples.md. As root:
# examples/ephemeral/paths.sh, and with IP packets instead of datagrams: examples/ephemeral/paths.sh --carriage ip
state="[state]"
plain="middle"
. "$(dirname "$0")/tree.sh"
tree

echo "the way to receiver 1:"
in_host source "$switchpath" state ping 10.2.1.2 "$@"
echo "the way to receiver 5, by a router that knows nothing of ephemeral state:"
in_host source "$switchpath" state ping 10.2.5.2 "$@"
echo "the ways to receivers 1, 2, 5 and 8:"
in_host source "$switchpath" state branch 10.2.1.2 10.2.2.2 10.2.5.2 10.2.8.2 "$@"
