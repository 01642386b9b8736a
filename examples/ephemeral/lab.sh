# Hosts and routers in network namespaces, for the examples beside this file. Nothing outside of them changes, and they are removed when the
# script ends. Needs root. SWITCHPATH names the program if it is not in the path.
set -eu
switchpath="${SWITCHPATH:-switchpath}"
lab="sp$$"
scratch="$(mktemp -d)"
# Names and numbers are in files, because a command after a pipe runs in a subshell and cannot set variables.
: >"$scratch/hosts"
: >"$scratch/started"

leave() {
    status=$?
    trap - EXIT INT TERM
    while read -r pid; do kill "$pid" 2>/dev/null || :; done <"$scratch/started"
    # Remaining programs are killed: their peers have ended.
    while read -r name; do ip netns del "$lab-$name" 2>/dev/null || :; done <"$scratch/hosts"
    rm -rf "$scratch"
    exit "$status"
}
trap leave EXIT
trap 'exit 130' INT TERM

# in_host NAME COMMAND...: runs a command at a host.
in_host() {
    where="$lab-$1"
    shift
    ip netns exec "$where" "$@"
}

# start NAME FILE COMMAND...: the same in the background, with its output in a file. $! has its process id.
start() {
    where="$lab-$1" into="$2"
    shift 2
    ip netns exec "$where" "$@" >"$into" 2>&1 &
    echo "$!" >>"$scratch/started"
}

# host NAME
host() {
    ip netns add "$lab-$1"
    echo "$1" >>"$scratch/hosts"
    in_host "$1" ip link set lo up
}

# cable HOST LINK HOST LINK: a veth pair between two hosts, with the names of its ends.
cable() {
    ip link add name "$2" netns "$lab-$1" type veth peer name "$4" netns "$lab-$3"
    in_host "$1" ip link set dev "$2" up
    in_host "$3" ip link set dev "$4" up
}

# station NAME ADDRESS GATEWAY: an end system with the interface eth0.
station() {
    in_host "$1" ip address add "$2/24" dev eth0
    in_host "$1" ip route add default via "$3"
}

# router NAME: a router with the configuration from the standard input.
router() {
    { printf 'version = 1\n[router]\nframes = 2048\nsuper_frames = 16\n'; cat; } >"$scratch/$1.toml"
    # The kernel must not send packets of its own on the links.
    start "$1" "$scratch/$1.log" "$switchpath" run "$scratch/$1.toml" --socket "$scratch/$1.sock"
    running=$!
    until "$switchpath" show status --socket "$scratch/$1.sock" >/dev/null 2>&1; do
        if ! kill -0 "$running" 2>/dev/null; then
            echo "the router $1 has ended:" >&2
            cat "$scratch/$1.log" >&2
            exit 1
        fi
        sleep 0.1
    done
}

# port NAME ADDRESS: a port of a router's configuration.
port() {
    printf '[port.%s]\ndevice = "packet:%s"\naddress = ["%s/24"]\n' "$1" "$1" "$2"
}
