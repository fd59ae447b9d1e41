#!/bin/sh
# Measures what the model costs the game's frames, and prints a table: the game without a window, alone and with
# the model at several budgets, turn about for some rounds; medians of the rounds.
# usage: samples/game/measure.sh MODEL.gguf [OPTION of vklm-game ...]
#   VKLM_GAME=build/bin/vklm-game  BUDGETS="2 5 10" (ms of a frame)  FRAMES=300  ROUNDS=3
# Frames start at 30 Hz. A frame's time is from its start until its picture is finished, without the sleep; the model's
# slice is submitted at the start of the frame. Overrun: p99 above (p99 alone + budget), as a share of that sum.
set -eu

[ $# -ge 1 ] || {
    echo "usage: samples/game/measure.sh MODEL.gguf [OPTION of vklm-game ...]" >&2
    exit 2
}
model=$1
shift
game=${VKLM_GAME:-build/bin/vklm-game}
frames=${FRAMES:-300}
warmup=60
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
trap 'exit 1' HUP INT TERM

play() {
    "$game" --headless --json --size 640x360 --fps 30 --pause 0 --language en --warmup $warmup --frames $((frames + warmup)) "$@"
}

play -m "$model" --budget-ms 50 "$@" >/dev/null # compiles what software Vulkan compiles at first use
round=0
while [ $round -lt "${ROUNDS:-3}" ]; do
    play --no-model "$@" >>"$lines"
    for budget in ${BUDGETS:-2 5 10}; do play -m "$model" --budget-ms "$budget" "$@" >>"$lines"; done
    round=$((round + 1))
done

python3 - "$lines" <<'PYTHON'
import json, statistics, sys
runs = {}
for line in open(sys.argv[1]):
    run = json.loads(line)
    runs.setdefault(run["budget_ms"], []).append(run)
def median(budget, field):
    return statistics.median(run[field] for run in runs[budget])
first = runs[0.0][0]
print(f"{first['device']}, {first['size']}, {first['frames']} frames, medians of {len(runs[0.0])} runs\n")
print("| model's budget a frame | p50 | p99 | overrun of p99 | the model got a frame | processors a frame | tokens |")
print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
for budget in runs:
    limit = median(0.0, "p99_ms") + budget
    over = f"{100 * (median(budget, 'p99_ms') / limit - 1):+.0f} %" if budget else ""
    given = (median(budget, "rest_ms") - median(0.0, "rest_ms")) / median(budget, "frames")
    print(f"| {f'{budget:g} ms' if budget else 'no model'} | {median(budget, 'p50_ms'):.1f} ms | {median(budget, 'p99_ms'):.1f} ms | {over} | "
          f"{f'{given:.1f} ms' if budget else ''} | {median(budget, 'cpu_ms') / median(budget, 'frames'):.1f} ms | {median(budget, 'tokens'):.0f} |")
PYTHON
