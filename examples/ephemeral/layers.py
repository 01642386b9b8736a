"""A receiver that subscribes to as many layers as its branch carries. layers.sh runs one at each host.

What it hears it has from `switchpath state subcast`, which it tells up to which layer it wants everything. Each second, all receivers at the same moment,
it looks at what it has lost: where that is more than a tenth it does without the highest layer, and waits twice as long as before until it asks for that
again. When it did without one, and when the last packet of that came, it says at the end.

    python3 layers.py NAME SECONDS HIGHEST COMMAND...
"""

import re
import selectors
import subprocess
import sys
import time

LINE = re.compile(r": layer (\d+) number (\d+) ")
TOO_MUCH = 0.1


def tell_end(layer, without, last_of):
    if layer in without:
        did_without = without.pop(layer)
        print(f"did without layer {layer} at {did_without:.3f}, its last packet came at {max(did_without, last_of.get(layer, 0)):.3f}")


def main():
    name, seconds, highest, command = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    tool = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    wanted, patience, quiet = 0, 3, 1
    first, last, came = {}, {}, {}
    # By second: subscribed layers, and packets of the lowest layer that were sent and received.
    seconds_of = []
    looks = selectors.DefaultSelector()
    looks.register(tool.stdout, selectors.EVENT_READ)
    # By layer: the time when it was dropped, and the time of the last packet since.
    without, last_of = {}, {}
    begin = time.time()
    due = int(begin) + 2
    text = ""
    while (now := time.time()) < begin + seconds:
        if looks.select(max(0.0, due - now)):
            text += tool.stdout.buffer.read1().decode()
            *lines, text = text.split("\n")
            for found in filter(None, map(LINE.search, lines)):
                layer, number = map(int, found.groups())
                first.setdefault(layer, number)
                last[layer] = number
                came[layer] = came.get(layer, 0) + 1
                last_of[layer] = time.time()
        if time.time() < due:
            continue
        due += 1
        had = [layer for layer in last if layer <= wanted]
        sent = sum(last[layer] - first[layer] + 1 for layer in had)
        lost = 1 - sum(came[layer] for layer in had) / sent if sent else 0.0
        seconds_of.append((len(had), last[0] - first[0] + 1 if 0 in came else 0, came.get(0, 0)))
        if lost > TOO_MUCH and wanted > 0:
            # Packets in flight say nothing about the next second.
            without[wanted] = time.time()
            wanted, patience, quiet = wanted - 1, patience * 2, patience * 2
        elif quiet > 0:
            quiet -= 1
        elif wanted < highest and sent:
            wanted, quiet = wanted + 1, 2
            tell_end(wanted, without, last_of)
        print(wanted, file=tool.stdin, flush=True)
        first, last, came = {}, {}, {}
    tool.kill()
    for layer in list(without):
        tell_end(layer, without, last_of)
    later = seconds_of[len(seconds_of) // 2 :]
    base = 100 * (1 - sum(came for _, _, came in later) / max(1, sum(sent for _, sent, _ in later)))
    print(f"{name}: lost {base:.1f}% of the lowest layer in the second half; layers by the second:", *(had for had, _, _ in seconds_of))


main()
