#!/bin/sh
# The benchmarks on a GPU, on a machine without Rust: a layout (`target/dist`, without debugging information) is all that it needs.
#     tests/gpu-bench/run.sh LAYOUT FIGURES
# LAYOUT has lib/libMIOpen.so.1, lib/reference/libMIOpen_private.so.1, lib/cuda/ and bin/gpu-bench; FIGURES is written, one JSON object a line.
set -eu
layout=$(cd "$1" && pwd)
figures=$2
unset MIOPEN_HIPDNN_TRACE MIOPEN_HIPDNN_FORWARDING_TIMING MIOPEN_HIPDNN_STATS HIPDNN_ON_CUDNN_DEVICE_PROPERTIES
# HIP on CUDA loads the CUDA runtime, cuDNN's backend loads cuDNN: from the loader's folders, or from the packages of `python3`.
export LD_LIBRARY_PATH="$layout/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export FIELD_CASES_MIOPEN="$layout/lib/libMIOpen.so.1"
export MIOPEN_HIPDNN_NATIVE_LIBRARY="$layout/lib/reference/libMIOpen_private.so.1"
export MIOPEN_HIPDNN_BACKEND_LIBRARY="$layout/lib/cuda/libhipdnn_backend.so"
export MIOPEN_HIPDNN_HIP_LIBRARY="$layout/lib/cuda/libamdhip64.so.7"
export MIOPEN_HIPDNN_FORWARDING=1
# A call that native computed would be one that nobody measures by mistake: it fails instead.
export MIOPEN_HIPDNN_STRICT=1
# Every process of `all` has a folder of its own for the disk cache; what measures warm calls needs none.
export MIOPEN_HIPDNN_CACHE=${MIOPEN_HIPDNN_CACHE:-rw}
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT
export MIOPEN_HIPDNN_CACHE_DIR="$cache"
"$layout/bin/gpu-bench" all --out "$figures"
