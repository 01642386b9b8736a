# One source, four routers, eight receivers: 13 namespaces.
#
#                       source 10.1.0.2
#                         |
#                        top
#             /           |           \
#          left         middle        right
#        / |  \        / |  \         /  \
#       1  2   3      4  5   6       7    8        10.2.N.2
#
# Packets of the source to 239.1.2.3 go to all receivers. $state is the routers' configuration of ephemeral state.
. "$(dirname "$0")/lab.sh"
group=239.1.2.3
source=10.1.0.2

# leaf NAME NUMBER RECEIVER...: a router and its receivers.
leaf() {
    name="$1" number="$2"
    shift 2
    host "$name"
    cable top "$name" "$name" up
    ports=""
    for receiver in "$@"; do
        host "receiver$receiver"
        cable "$name" "to$receiver" "receiver$receiver" eth0
        station "receiver$receiver" "10.2.$receiver.2" "10.2.$receiver.1"
        ports="$ports${ports:+, }\"to$receiver\""
    done
    {
        port up "10.1.$number.2"
        for receiver in "$@"; do port "to$receiver" "10.2.$receiver.1"; done
        printf '[[route]]\nto = "0.0.0.0/0"\nvia = "10.1.%s.1"\n' "$number"
        printf '[[multicast]]\ngroup = "%s"\nfrom = "up"\nto = [%s]\n' "$group" "$ports"
        case " ${plain:-} " in *" $name "*) ;; *) printf '%s\n' "$state" ;; esac
    } | router "$name"
}

# tree: builds the whole tree. Routers named in $plain have no ephemeral state.
tree() {
    host source
    host top
    cable top up source eth0
    station source "$source" 10.1.0.1
    leaf left 1 1 2 3
    leaf middle 2 4 5 6
    leaf right 3 7 8
    {
        port up 10.1.0.1
        port left 10.1.1.1
        port middle 10.1.2.1
        port right 10.1.3.1
        number=0
        for receivers in "1 2 3" "4 5 6" "7 8"; do
            number=$((number + 1))
            for receiver in $receivers; do
                printf '[[route]]\nto = "10.2.%s.0/24"\nvia = "10.1.%s.2"\n' "$receiver" "$number"
            done
        done
        printf '[[multicast]]\ngroup = "%s"\nfrom = "up"\nto = ["left", "middle", "right"]\n' "$group"
        printf '%s\n' "$state"
        printf '[port.up.state]\nvariables = ["node"]\n'
    } | router top
}
