#!/bin/sh
# A hundred receivers report their number and their worst loss to their source: docs/operate/ephemeral-examples.md. As root:
# examples/ephemeral/feedback.sh, or with lost frames on every link: examples/ephemeral/feedback.sh 0.05
. "$(dirname "$0")/lab.sh"
loss="${1:-0}"
lifetime=4s
tries=1
[ "$loss" = 0 ] || tries=12

# Two routers with two hosts each are below a third, which has the source. Each host runs 25 receivers.
lossy() { [ "$loss" = 0 ] || printf 'faults = { loss = %s, seed = %s }\n' "$loss" "$1"; }
host source
host top
cable top up source eth0
station source 10.1.0.2 10.1.0.1
for side in 1 2; do
    host "side$side"
    cable top "down$side" "side$side" up
    for place in 1 2; do
        home="$side$place"
        host "home$home"
        cable "side$side" "to$home" "home$home" eth0
        station "home$home" "10.2.$home.2" "10.2.$home.1"
    done
    {
        port up "10.1.$side.2"
        lossy "$side"
        for place in 1 2; do port "to$side$place" "10.2.$side$place.1"; lossy "$side$place"; done
        printf '[[route]]\nto = "0.0.0.0/0"\nvia = "10.1.%s.1"\n[state]\nlifetime = "%s"\n' "$side" "$lifetime"
    } | router "side$side"
done
{
    port up 10.1.0.1
    for side in 1 2; do port "down$side" "10.1.$side.1"; lossy "3$side"; done
    for home in 11 12 21 22; do printf '[[route]]\nto = "10.2.%s.0/24"\nvia = "10.1.%s.2"\n' "$home" "${home%?}"; done
    printf '[state]\nlifetime = "%s"\n' "$lifetime"
} | router top

common="--lifetime $lifetime --tries $tries --delay 50ms"
# ask NUMBER OPERATOR VALUES...: lets 25 receivers of each of the four hosts report, in turn one of the values.
ask() {
    number="$1" operator="$2"
    shift 2
    reporting=""
    # Rounds begin every two lifetimes, so all receivers join the same round.
    while [ $(($(date +%s) % 8)) -eq 7 ]; do sleep 0.2; done
    for home in 11 12 21 22; do
        start "home$home" "$scratch/said$home" "$switchpath" state collect "$number" --operator "$operator" \
            --to 10.1.0.2 --members 25 --value "$1" $common
        reporting="$reporting $!"
        shift
    done
    in_host source "$switchpath" state collect "$number" --operator "$operator" $common --json >"$scratch/result" || :
    for pid in $reporting; do wait "$pid"; done
    tr -d '\n' <"$scratch/result"
    echo
}

echo "how many are there: $(ask 71 add 1 1 1 1)"
echo "what does the worst of them lose, of a thousand: $(ask 72 max 3,0,1 12,4 0,2 47,1,9,0)"
