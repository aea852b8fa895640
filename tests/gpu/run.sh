#!/bin/sh
# Runs the tests on the GPU of this machine, from the folder that `cargo xtask gpu pack` made, which holds all that is needed but the
# driver and CUDA's and cuDNN's own libraries. `run.sh [RESULTS]` leaves what was seen in that folder (default: results beside it), all
# records in gpu.jsonl, each with the step that it is of; exit status 1 if anything is wrong, 3, and one line, if there is no device. What to
# run can be named: GPU_STEPS="cases lines bench corpus".
here=$(cd "$(dirname "$0")" && pwd) || exit 2
results=${1:-$here/results}
steps=${GPU_STEPS:-cases lines bench corpus}
mkdir -p "$results" || exit 2
results=$(cd "$results" && pwd) || exit 2
dist=$here/dist
hip=$dist/lib/cuda/libamdhip64.so.7
backend=$dist/lib/cuda/libhipdnn_backend.so

device=$(MIOPEN_HIPDNN_HIP_LIBRARY=$hip "$dist/bin/field-cases" device 2>"$results/device.txt") || {
    echo "no GPU to test on: $(tail -n 1 "$results/device.txt")" >&2
    exit 3
}
echo "device: $device"
failed=
records=$results/gpu.jsonl
printf '{"step":"device","name":"%s","date":"%s"}\n' "$device" "$(date -u +%Y-%m-%d)" >"$records"

# Says how a step went, and remembers if it went wrong.
step() {
    title=$1
    shift
    begin=$(date +%s)
    "$@"
    status=$?
    echo "$title: exit status $status after $(($(date +%s) - begin)) s"
    [ "$status" -eq 0 ] || failed="$failed $title"
}

# Takes records of a step over.
collect() {
    name=$1
    shift
    sed "s/^{/{\"step\":\"$name\",/" "$@" >>"$records"
}

# The cases of each number with forwarding off, on, and strict, compared.
cases() {
    "$dist/bin/field-cases" parity --dist "$dist" --profile cudnn --reports "$results/cases" >"$results/cases.txt" 2>&1
    status=$?
    cat "$results/cases.txt"
    for mode in off on strict; do
        report=$results/cases/cudnn.$mode.jsonl
        [ ! -e "$report" ] || collect "cases-$mode" "$report"
    done
    return $status
}

# Driver lines, each direction verified, with device times.
lines() {
    : >"$results/lines.jsonl"
    status=0
    while read -r line; do
        # shellcheck disable=SC2086 # a line is words
        "$dist/bin/hipdnn-shim" drive --json --backend "$backend" --hip "$hip" $line >>"$results/lines.jsonl" 2>>"$results/lines.txt" ||
            status=1
    done <"$here/lines.txt"
    collect lines "$results/lines.jsonl"
    echo "$(grep -c '"verified":true' "$results/lines.jsonl") of $(grep -c . "$results/lines.jsonl") verified, $(grep -c '"route":"hipdnn"' "$results/lines.jsonl") by hipDNN"
    return $status
}

# The shim beside a program that calls cuDNN itself.
bench() {
    sh "$here/bench.sh" "$dist" "$results/bench.jsonl" >"$results/bench.txt" 2>&1
    status=$?
    collect bench "$results/bench.jsonl"
    cat "$results/bench.jsonl"
    return $status
}

# The corpus, verified. The profiles are the reference hipDNN's, which is not here: one run.
corpus() {
    "$dist/bin/hipdnn-shim" drive --json --backend "$backend" --hip "$hip" --corpus "$here/driver.jsonl" --profile abi \
        --jobs "${GPU_JOBS:-8}" >"$results/corpus.jsonl" 2>"$results/corpus.txt"
    status=$?
    collect corpus "$results/corpus.jsonl"
    tail -n 1 "$results/corpus.jsonl"
    return $status
}

for name in $steps; do
    case $name in
    cases | lines | bench | corpus) step "$name" "$name" ;;
    *) echo "there is no step $name" >&2 && exit 2 ;;
    esac
done
[ -z "$failed" ] || { echo "wrong:$failed"; exit 1; }
