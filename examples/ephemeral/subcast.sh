#!/bin/sh
# Sending to a part of a multicast group: docs/operate/ephemeral-examples.md. As root: examples/ephemeral/subcast.sh, and for comparison
# examples/ephemeral/subcast.sh single, with one store for all ports of a router.
state="[state]"
[ "${1:-}" != single ] || state="[state]
single_store = true"
. "$(dirname "$0")/tree.sh"
tree

wanted="1 2 7"
# The receivers that the source reaches print something: 5 packets each.
for receiver in 1 2 3 4 5 6 7 8; do
    case " $wanted " in
        *" $receiver "*) start "receiver$receiver" "$scratch/came$receiver" "$switchpath" state subcast 7 --from "$source" --group "$group" ;;
        *) start "receiver$receiver" "$scratch/came$receiver" "$switchpath" state listen --group "$group" ;;
    esac
done
# until_heard TEXT RECEIVERS ARGUMENTS...: sends a text until each of these receivers has it. Then they have joined, and their marks exist.
until_heard() {
    text="$1" left="$2"
    shift 2
    while [ -n "$left" ]; do
        in_host source "$switchpath" state subcast 7 --to "$group" "$@" "$text"
        sleep 0.2
        silent=""
        for receiver in $left; do grep -q "$text" "$scratch/came$receiver" || silent="$silent $receiver"; done
        left="$silent"
    done
}
until_heard "anybody there" "1 2 3 4 5 6 7 8" --everybody
until_heard "marks there" "$wanted"

# came: prints how many packets each receiver has received so far.
came() {
    for receiver in 1 2 3 4 5 6 7 8; do
        printf ' %s:%s' "$receiver" "$(grep -c "$1" "$scratch/came$receiver" || :)"
    done
    echo
}

in_host source "$switchpath" state subcast 7 --to "$group" --everybody --count 5 --every 50ms to everybody
sleep 1
echo "sent to everybody, received:$(came 'to everybody')"
in_host source "$switchpath" state subcast 7 --to "$group" --count 5 --every 50ms to those who asked
sleep 1
echo "sent to those who asked, $wanted, received:$(came 'to those who asked')"
