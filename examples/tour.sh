#!/bin/sh
# A tour of the queue on this machine: submits sample jobs and waits for them. Each command is shown before it runs.
# Usage: examples/tour.sh [GPUSQUAD]   (the command to use; default: gpusquad)
set -eu
cd "$(dirname "$0")/.."
gpusquad=${1:-gpusquad}

step() {
    echo
    echo "\$ gpusquad $*"
    "$gpusquad" "$@"
}

step up
step submit examples/jobs/hello.yaml
step submit examples/jobs/train.yaml --set pause=0.2
echo
echo "\$ gpusquad submit examples/jobs/sweep.yaml --quiet"
sweep=$("$gpusquad" submit examples/jobs/sweep.yaml --quiet)
echo "$(echo "$sweep" | wc -l) jobs"
step submit --gpus 8 --name needs-all-eight --estimate 5s -- sh -c 'echo "eight cards: $GPUSQUAD_CARDS"'
step queue
step why needs-all-eight
step when needs-all-eight
step wait train needs-all-eight
echo
echo "\$ gpusquad wait (the twenty jobs of the sweep)"
# shellcheck disable=SC2086 -- one word per job
"$gpusquad" wait $sweep >/dev/null
step logs needs-all-eight
step history --limit 30
step usage
step queue
echo
echo "The service continues in the background, with its jobs. Submit one of your own:"
echo "  $gpusquad submit --gpus 1 --name mine -- python3 train.py"
echo "Stop the service with:"
echo "  $gpusquad down"
echo
# The link's token expires, because the output of a tour often ends up in a log.
if link=$("$gpusquad" dashboard --print --expires 12h 2>/dev/null); then
    echo "The dashboard shows these jobs. This link logs you in for 12 hours:"
    echo "  ${link%%#*}queue#${link#*#}"
else
    "$gpusquad" dashboard || true # its address, and what is missing
fi
