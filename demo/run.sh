#!/usr/bin/env bash
# From start to end on one machine: validate a suite, run the real Claude Code on it twice, report, compare.
# Without MODEL, the model is a script: no key, no daemon, no account. With MODEL, it is that model, for real.
set -euo pipefail
cd "$(dirname "$0")/.."
proctor=$PWD/.venv/bin/proctor
work=$PWD/.demo
rm -rf "$work"
mkdir -p "$work"
export PROCTOR_RESULTS=$work/results

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }

say "Can this machine do it?"
"$proctor" doctor || true

say "Is every task healthy here? It fails without a solution, its oracle solves it, it repeats, it does not leak."
"$proctor" bench validate core-mini --jobs 2 --quiet --artifact-dir "$work/artifacts"

if [ -n "${MODEL:-}" ]; then
  say "Claude Code runs with the model $MODEL (this costs money; at most \$1 a task)"
  "$proctor" bench run core-mini --model "$MODEL" --concurrency 2 --max-cost-per-task 1
  "$proctor" bench report core-mini
  exit
fi

say "Claude Code runs; THE MODEL IS A SCRIPT that applies the oracles"
.venv/bin/python demo/make_script.py able "$work/able.yaml"
"$proctor" bench run core-mini --model "script:$work/able.yaml" --concurrency 2

say "Claude Code runs again; THE MODEL IS A SCRIPT that gives up"
.venv/bin/python demo/make_script.py poor "$work/poor.yaml"
"$proctor" bench run core-mini --model "script:$work/poor.yaml" --concurrency 2

say "The report (tokens and cost are what the script claims, at list prices)"
"$proctor" bench report core-mini

say "Is the second run better than the first?"
"$proctor" bench compare core-mini/run-001 core-mini/run-002

printf '\nResults, logs and recordings are in %s\n' "$work/results"
