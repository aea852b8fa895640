"""The models that `cargo xtask onnxruntime` runs: convolutions and what ONNX Runtime fuses with them, with random weights from fixed seeds.

Whatever would launch a kernel of ONNX Runtime's own has no place here, for the HIP stand-in launches none: additions and ReLU6 (so ResNet's
shortcuts are outputs, and MobileNet's convolutions have a bias but no activation), and pads that differ between two sides of a dimension.
How a model is run is in `run.py`.
"""

import math
import zlib

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

FP32, FP16 = numpy.dtype("float32"), numpy.dtype("float16")
ONNX_TYPE = {FP32: TensorProto.FLOAT, FP16: TensorProto.FLOAT16}
# How much rounding to a type changes a number at most, relatively.
ROUNDING = {FP32: 2.0**-24, FP16: 2.0**-11}
# Largest deviation that is taken for rounding, in standard deviations of its sum: the largest of a million normally distributed numbers is
# at 5, and both results that are compared are rounded.
DEVIATIONS = 8


class Network:
    """A model under construction, and how it is to be run."""

    def __init__(self, name, runs, kind=FP32, options=None, threads=1):
        self.name, self.kind, self.runs, self.threads = name, kind, runs, threads
        self.options = options or {}
        self.random = numpy.random.default_rng(zlib.crc32(name.encode()))
        self.nodes, self.stored, self.given, self.outputs, self.sums = [], [], {}, [], []
        self.channels = {"x": runs[0][1]}

    def convolve(self, source, filters, window, *, group=1, bias=False, relu=False, transposed=False, given=False, **attributes):
        """Adds a convolution of a value; answers the value that it gives. `given` weights are an input of the model."""
        number = len(self.sums)
        channels, value = self.channels[source], f"y{number}"
        shape = [channels, filters // group, *window] if transposed else [filters, channels // group, *window]
        taps = channels // group * math.prod(window)
        # Outputs vary as much as inputs do, however deep the model: nothing vanishes.
        reach = taps / math.prod(attributes.get("strides", [1])) if transposed else taps
        weights = self.random.standard_normal(shape) * math.sqrt((2 if relu else 1) / reach)
        inputs = [source, self._constant(f"w{number}", weights, given)]
        if bias:
            inputs.append(self._constant(f"b{number}", self.random.standard_normal(filters) / 2, False))
        operation = "ConvTranspose" if transposed else "Conv"
        self.nodes.append(helper.make_node(operation, inputs, [value], kernel_shape=window, group=group, **attributes))
        if relu:
            self.nodes.append(helper.make_node("Relu", [value], [f"r{number}"]))
            value = f"r{number}"
        self.sums.append(taps)
        self.channels[value] = filters
        return value

    def _constant(self, name, values, given):
        values = values.astype(self.kind)
        if given:
            self.given[name] = values.shape
        else:
            self.stored.append(numpy_helper.from_array(values, name))
        return name

    def _typed(self, name, shape):
        return helper.make_tensor_value_info(name, ONNX_TYPE[self.kind], shape)

    def inputs(self, index):
        """What one run is given; other numbers in every run."""
        random = numpy.random.default_rng([zlib.crc32(self.name.encode()), index])
        values = {"x": random.standard_normal(self.runs[index])}
        for name, shape in self.given.items():
            values[name] = random.standard_normal(shape) / math.sqrt(math.prod(shape[1:]))
        return {name: value.astype(self.kind) for name, value in values.items()}

    def proto(self, dims=None):
        """The model, for tensors of any lengths, or of those lengths."""
        rank = len(self.runs[0])
        dims = dims or ["n", self.runs[0][1], *(f"length{axis}" for axis in range(rank - 2))]
        inputs = [self._typed(name, shape) for name, shape in {"x": dims, **self.given}.items()]
        outputs = [self._typed(name, [None] * rank) for name in self.outputs]
        graph = helper.make_graph(self.nodes, self.name, inputs, outputs, self.stored)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model)
        return model

    def output_shapes(self, index):
        """Lengths of what one run gives, by name."""
        inferred = shape_inference.infer_shapes(self.proto(list(self.runs[index])), strict_mode=True, data_prop=True)
        shapes = {value.name: value.type.tensor_type.shape.dim for value in inferred.graph.output}
        return {name: [dimension.dim_value for dimension in shape] for name, shape in shapes.items()}

    def tolerance(self):
        """Largest error that rounding explains, relative to the root mean square of an output.

        Roundings are as good as independent of each other, so they add up like the root of their number: a sum of k products in fp32 is k
        of at most 2^-24 of the output, and storing the output one more of its type. A wrong tap is an error of the order of the output.
        """
        roundings = sum(taps * ROUNDING[FP32] ** 2 + ROUNDING[self.kind] ** 2 for taps in self.sums)
        return DEVIATIONS * math.sqrt(roundings)


MODELS = {}


def model(name, runs, **settings):
    """Registers the function below it, which adds the convolutions and answers the outputs."""

    def register(add):
        def build():
            network = Network(name, runs, **settings)
            network.outputs = add(network)
            return network

        MODELS[name] = build
        return add

    return register


def resnet50(network, relu=True):
    """ResNet-50 (v1.5) as it is exported: batch normalisation folded into weights and bias."""
    value = network.convolve("x", 64, [7, 7], strides=[2, 2], pads=[3] * 4, bias=True, relu=relu)
    # Where the network has its pooling.
    value = network.convolve(value, 64, [3, 3], strides=[2, 2], pads=[1] * 4, group=64)
    outputs = []
    for stage, blocks in enumerate([3, 4, 6, 3]):
        for block in range(blocks):
            width, stride = 64 << stage, [2 if stage > 0 and block == 0 else 1] * 2
            if block == 0:
                outputs.append(network.convolve(value, 4 * width, [1, 1], strides=stride, bias=True))
            value = network.convolve(value, width, [1, 1], bias=True, relu=relu)
            value = network.convolve(value, width, [3, 3], strides=stride, pads=[1] * 4, bias=True, relu=relu)
            value = network.convolve(value, 4 * width, [1, 1], bias=True)
    return [*outputs, value]


def mobilenet_v2(network):
    """MobileNetV2's inverted residuals: wider by a 1x1, a depthwise 3x3, narrower by a 1x1."""
    value = network.convolve("x", 32, [3, 3], strides=[2, 2], pads=[1] * 4, bias=True)
    stages = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    for factor, filters, repeats, first in stages:
        for repeat in range(repeats):
            width, stride = network.channels[value] * factor, [first if repeat == 0 else 1] * 2
            if factor > 1:
                value = network.convolve(value, width, [1, 1], bias=True)
            value = network.convolve(value, width, [3, 3], group=width, strides=stride, pads=[1] * 4, bias=True)
            value = network.convolve(value, filters, [1, 1], bias=True)
    return [network.convolve(value, 1280, [1, 1], bias=True)]


IMAGE = (1, 3, 64, 64)

model("resnet50", [IMAGE] * 2)(resnet50)
model("resnet50-fp16", [IMAGE] * 2, kind=FP16)(resnet50)
model("resnet50-no-relu", [IMAGE] * 2)(lambda network: resnet50(network, relu=False))
model("mobilenet-v2", [IMAGE, IMAGE, (2, 3, 96, 64)])(mobilenet_v2)
model("mobilenet-v2-fp16", [IMAGE] * 2, kind=FP16)(mobilenet_v2)


@model("grouped", [(2, 64, 14, 14)] * 2)
def grouped(network):
    """ResNeXt's block, and ShuffleNet's grouped 1x1."""
    value = network.convolve("x", 128, [1, 1], bias=True, relu=True)
    value = network.convolve(value, 128, [3, 3], group=32, pads=[1] * 4, bias=True, relu=True)
    value = network.convolve(value, 96, [1, 1], group=4)
    return [network.convolve(value, 192, [5, 5], group=96, pads=[2] * 4)]


@model("dilated", [(1, 32, 33, 33)] * 2)
def dilated(network):
    """DeepLab's pyramid: one input, windows further and further apart."""
    outputs = [network.convolve("x", 24, [1, 1]), network.convolve("x", 8, [3, 2], dilations=[1, 4])]
    for rate in [6, 12, 18]:
        outputs.append(network.convolve("x", 24, [3, 3], pads=[rate] * 4, dilations=[rate] * 2, bias=True, relu=True))
    return outputs


def uneven_chain(network):
    value = network.convolve("x", 20, [5, 3], strides=[2, 1], pads=[2, 0, 2, 0], bias=True)
    value = network.convolve(value, 13, [1, 7], strides=[1, 3], pads=[0, 3, 0, 3])
    value = network.convolve(value, 17, [4, 2], strides=[3, 2], pads=[1, 2, 1, 2], dilations=[2, 1], bias=True, relu=True)
    return [network.convolve(value, 1, [2, 2])]


model("uneven", [(3, 5, 41, 37)] * 2)(uneven_chain)
model("uneven-fp16", [(3, 5, 41, 37)] * 2, kind=FP16)(uneven_chain)


def wavenet(network):
    value = network.convolve("x", 32, [9], pads=[4, 4], strides=[2], bias=True)
    for rate in [1, 2, 4, 8]:
        value = network.convolve(value, 32, [3], pads=[rate] * 2, dilations=[rate], bias=True, relu=True)
    return [network.convolve(value, 32, [31], group=32, pads=[15] * 2), network.convolve(value, 10, [1])]


model("one-dimension", [(2, 8, 200)] * 2)(wavenet)
model("one-dimension-fp16", [(2, 8, 200)] * 2, kind=FP16)(wavenet)


def video(network):
    value = network.convolve("x", 16, [3, 7, 7], strides=[1, 2, 2], pads=[1, 3, 3] * 2, bias=True, relu=True)
    value = network.convolve(value, 24, [1, 3, 3], pads=[0, 1, 1] * 2, bias=True)
    value = network.convolve(value, 24, [3, 1, 1], pads=[1, 0, 0] * 2, group=4)
    return [network.convolve(value, 32, [3, 3, 3], strides=[2, 2, 2], pads=[1] * 6, bias=True, relu=True)]


model("three-dimensions", [(1, 3, 8, 28, 28)] * 2)(video)
model("three-dimensions-fp16", [(1, 3, 8, 28, 28)] * 2, kind=FP16)(video)


@model("automatic-pads", [(2, 6, 31, 29)] * 2)
def automatic_pads(network):
    """Only lengths and windows whose pads are even: others launch a kernel."""
    value = network.convolve("x", 16, [3, 3], auto_pad="SAME_UPPER", strides=[2, 2], bias=True)
    value = network.convolve(value, 16, [3, 5], auto_pad="SAME_LOWER", bias=True, relu=True)
    return [network.convolve(value, 8, [4, 3], auto_pad="VALID")]


# The first lengths come back at the end: what was found for them must still be right.
MOVING = [(1, 3, 32, 32), (5, 3, 32, 32), (5, 3, 32, 32), (2, 3, 24, 40), (1, 3, 9, 9), (1, 3, 32, 32)]


def small_chain(network):
    value = network.convolve("x", 16, [3, 3], pads=[1] * 4, strides=[2, 2], bias=True, relu=True)
    value = network.convolve(value, 32, [1, 1])
    return [network.convolve(value, 24, [3, 3], pads=[1] * 4, bias=True)]


model("other-lengths", MOVING)(small_chain)
model("other-lengths-fp16", MOVING, kind=FP16)(small_chain)
model("second-device", [(2, 3, 32, 32)] * 2, options={"device_id": "1"})(small_chain)
model("exhaustive-search", [(2, 3, 32, 32)] * 2, options={"miopen_conv_exhaustive_search": "1"})(small_chain)
model("small-workspace", [(2, 3, 32, 32)] * 2, options={"miopen_conv_use_max_workspace": "0"})(small_chain)
# ONNX Runtime captures the stream into a graph in the first run, and launches that graph in all others.
model("hip-graph", [(2, 3, 32, 32)] * 4, options={"enable_hip_graph": "1"})(small_chain)
model("four-threads", [(1, 3, 32, 32), (2, 3, 16, 16)] * 8, threads=4)(small_chain)


@model("given-weights", [(2, 6, 20, 20)] * 3)
def given_weights(network):
    """Weights that are other numbers, and may be elsewhere, in every run."""
    value = network.convolve("x", 12, [3, 3], pads=[1] * 4, given=True)
    return [network.convolve(value, 8, [3, 3], group=2, given=True, transposed=True, strides=[2, 2])]


@model("transposed", [(2, 24, 13, 11)] * 2)
def transposed(network):
    """A decoder: twice as long by each."""
    value = network.convolve("x", 16, [4, 4], transposed=True, strides=[2, 2], pads=[1] * 4, bias=True)
    value = network.convolve(value, 12, [3, 3], transposed=True, strides=[2, 2], pads=[1] * 4, output_padding=[1, 1], group=4)
    return [network.convolve(value, 3, [5, 3], transposed=True, strides=[1, 2], pads=[2, 0, 2, 0], dilations=[1, 2], bias=True)]


@model("transposed-fp16", [(2, 24, 13, 11)] * 2, kind=FP16)
def transposed_half(network):
    value = network.convolve("x", 16, [2, 2], transposed=True, strides=[2, 2], bias=True)
    return [network.convolve(value, 8, [3, 3], transposed=True, group=8, pads=[1] * 4)]


@model("transposed-one-dimension", [(2, 20, 50)] * 2)
def transposed_1d(network):
    return [network.convolve("x", 10, [16], transposed=True, strides=[8], pads=[4] * 2, bias=True)]


@model("transposed-three-dimensions", [(1, 12, 5, 7, 6)] * 2)
def transposed_3d(network):
    return [network.convolve("x", 8, [2, 3, 3], transposed=True, strides=[2, 1, 2], pads=[0, 1, 1] * 2)]


if __name__ == "__main__":
    print(*MODELS, sep="\n")
