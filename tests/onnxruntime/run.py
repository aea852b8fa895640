"""Runs one model on one execution provider, in a process that does nothing else: `run.py MODEL cpu|rocm FOLDER`.

Leaves in the folder `outputs.npz`, every output of every run, and `report.json`: which nodes ran where, and what was mapped at the end.
On ROCm every output is bound to device memory that is full of NaN, in every run, so what nothing wrote cannot look right. ONNX Runtime has
MIOpen search an algorithm on the memory of the output itself, but only for lengths that it has not seen: repeated ones show what the
convolution wrote.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy
import onnxruntime

from models import MODELS

PROVIDERS = {"cpu": "CPUExecutionProvider", "rocm": "ROCMExecutionProvider"}


def session(network, provider, folder):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    if provider == "cpu":
        return onnxruntime.InferenceSession(network.proto().SerializeToString(), options, providers=[PROVIDERS[provider]])
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    providers = [(PROVIDERS[provider], network.options)]
    return onnxruntime.InferenceSession(network.proto().SerializeToString(), options, providers=providers)


class Device:
    """Inputs and outputs in device memory, which stay where they are as long as the lengths do."""

    def __init__(self, network, session):
        self.network, self.session, self.values = network, session, {}
        self.number = int(network.options.get("device_id", 0))

    def value(self, name, array):
        key = (name, array.shape)
        if key not in self.values:
            # This package calls the devices of ROCm "cuda", too.
            self.values[key] = onnxruntime.OrtValue.ortvalue_from_numpy(array, "cuda", self.number)
        self.values[key].update_inplace(array)
        return self.values[key]

    def run(self, index):
        binding = self.session.io_binding()
        for name, array in self.network.inputs(index).items():
            binding.bind_ortvalue_input(name, self.value(name, array))
        outputs = {}
        for name, shape in self.network.output_shapes(index).items():
            outputs[name] = self.value(name, numpy.full(shape, numpy.nan, self.network.kind))
            binding.bind_ortvalue_output(name, outputs[name])
        if not all(numpy.isnan(value.numpy()).all() for value in outputs.values()):
            raise RuntimeError("the outputs could not be poisoned")
        binding.synchronize_inputs()
        self.session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        return {name: value.numpy() for name, value in outputs.items()}


def run_all(network, provider, session):
    """Outputs of every run, in order. Several threads take turns at them, each with device memory of its own."""
    indices = range(len(network.runs))
    if provider == "cpu":
        return [dict(zip(network.outputs, session.run(network.outputs, network.inputs(index)))) for index in indices]

    def runs_of(thread):
        device = Device(network, session)
        return [(index, device.run(index)) for index in indices[thread :: network.threads]]

    with ThreadPoolExecutor(network.threads) as pool:
        results = dict(pair for runs in pool.map(runs_of, range(network.threads)) for pair in runs)
    return [results[index] for index in indices]


def placed(profile):
    """Operation and provider of every execution of a node."""
    events = [event for event in json.loads(Path(profile).read_text()) if event.get("cat") == "Node"]
    return [
        {"node": event["name"], "operation": event["args"]["op_name"], "provider": event["args"]["provider"]}
        for event in events
        if event["name"].endswith("_kernel_time")
    ]


def mapped():
    """Files that are mapped, and how many mappings are code from no file."""
    lines = [line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text().splitlines()]
    files = sorted({line[5] for line in lines if len(line) == 6 and line[5].startswith("/")})
    return files, sum("x" in line[1] and len(line) == 5 for line in lines)


def main(name, provider, folder):
    network, folder = MODELS[name](), Path(folder)
    running = session(network, provider, folder)
    outputs = run_all(network, provider, running)
    arrays = {f"{index}/{key}": array for index, run in enumerate(outputs) for key, array in run.items()}
    numpy.savez(folder / "outputs.npz", **arrays)
    files, code = mapped()
    report = {
        "convolutions": len(network.sums),
        "threads": network.threads,
        "executions": placed(running.end_profiling()) if provider == "rocm" else [],
        "files": files,
        "code_from_no_file": code,
    }
    (folder / "report.json").write_text(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
