#!/bin/sh
# Congestion control for layered multicast: docs/operate/ephemeral-examples.md. As root: examples/ephemeral/layers.sh [SECONDS]
. "$(dirname "$0")/lab.sh"
seconds="${1:-25}"
group=239.1.2.4
# The state of a receiver that left expires within a second.
state='[state]
lifetime = "1500ms"'

# The source, a router, and two more with two receivers each. The right branch is too slow for all four layers: 4 times 160 kbit/s.
host source
host top
cable top up source eth0
station source 10.1.0.2 10.1.0.1
number=0
for side in left right; do
    number=$((number + 1))
    host "$side"
    cable top "$side" "$side" up
    for receiver in $((2 * number - 1)) $((2 * number)); do
        host "receiver$receiver"
        cable "$side" "to$receiver" "receiver$receiver" eth0
        station "receiver$receiver" "10.2.$receiver.2" "10.2.$receiver.1"
    done
    {
        port up "10.1.$number.2"
        for receiver in $((2 * number - 1)) $((2 * number)); do port "to$receiver" "10.2.$receiver.1"; done
        printf '[[route]]\nto = "0.0.0.0/0"\nvia = "10.1.%s.1"\n' "$number"
        printf '[[multicast]]\ngroup = "%s"\nfrom = "up"\nto = ["to%s", "to%s"]\n' "$group" $((2 * number - 1)) $((2 * number))
        printf '%s\n' "$state"
    } | router "$side"
done
{
    port up 10.1.0.1
    port left 10.1.1.1
    port right 10.1.2.1
    printf 'scheme = "fifo(limit=20)"\nlink = { rate = "400kbit" }\n'
    for receiver in 1 2 3 4; do
        printf '[[route]]\nto = "10.2.%s.0/24"\nvia = "10.1.%s.2"\n' "$receiver" $(((receiver + 1) / 2))
    done
    printf '[[multicast]]\ngroup = "%s"\nfrom = "up"\nto = ["left", "right"]\n' "$group"
    printf '%s\n' "$state"
} | router top

# 40 packets a second of each layer, of 500 bytes with all headers.
filler="$(printf '%0376d' 0)"
for layer in 0 1 2 3; do
    start source /dev/null "$switchpath" state subcast 9 --to "$group" --layer "$layer" --lifetime 1500ms \
        --every 25ms --count $((seconds * 40 + 200)) "layer $layer number {n} $filler"
done
receivers=""
for receiver in 1 2 3 4; do
    start "receiver$receiver" "$scratch/said$receiver" python3 "$(dirname "$0")/layers.py" "receiver $receiver" "$seconds" 3 \
        "$switchpath" state subcast 9 --from 10.1.0.2 --group "$group" --layer 0 --ask --lifetime 1500ms
    receivers="$receivers $!"
done
for pid in $receivers; do wait "$pid"; done
grep -hv '^did without' "$scratch"/said*
# A layer ends on a branch when the last receiver of that branch has dropped it.
python3 - "$scratch/said3" "$scratch/said4" <<'END'
import re, sys
LINE = re.compile(r"did without layer (\d+) at (\S+), its last packet came at (\S+)")
found = [[(int(layer), float(at), float(last)) for layer, at, last in LINE.findall(open(name).read())] for name in sys.argv[1:]]
ends = [
    max(last, other_last) - max(at, other_at)
    for layer, at, last in found[0]
    for other, other_at, other_last in found[1]
    if layer == other and abs(at - other_at) < 0.9
]
if ends:
    print(f"a layer ended at the slow branch {1000 * max(ends):.0f} ms after the last behind it did without it, at most ({len(ends)} times)")
END
shed="$("$switchpath" show state --json --socket "$scratch/top.sock" | python3 -c '
import json, sys
stores = json.load(sys.stdin)["stores"]
right = next(store for store in stores if store["port"] == "right")
output = next(place for place in right["places"] if place["location"] == "output")
print(next((one["dropped_packets"] for one in output["instructions"] if one["name"] == "setfwd"), 0))')"
echo "packets of layers that top let end at the slow branch: $shed"
