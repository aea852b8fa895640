"""Tests of what everything else here is judged by, and of the models' promise that their outputs cannot be right by accident."""

import unittest

import numpy
import onnxruntime
from onnx import numpy_helper

from comparison import compare
from models import MODELS

TOLERANCE = 1e-4


class Comparison(unittest.TestCase):
    def setUp(self):
        random = numpy.random.default_rng(1)
        self.expected = {name: random.standard_normal((2, 3, 4)).astype("float32") for name in ["0/y", "1/y"]}
        self.actual = {name: array.copy() for name, array in self.expected.items()}

    def wrong(self):
        return compare(self.expected, self.actual, TOLERANCE)[1]

    def test_equal_outputs_and_small_errors_are_right(self):
        self.assertEqual(compare(self.expected, self.actual, TOLERANCE), (0.0, []))
        self.actual["1/y"] *= numpy.float32(1 + 1e-5)
        error, wrong = compare(self.expected, self.actual, TOLERANCE)
        self.assertEqual(wrong, [])
        self.assertTrue(1e-6 < error < TOLERANCE)

    def test_one_wrong_element_is_found_and_named(self):
        self.actual["1/y"][1, 2, 3] += 0.01
        self.assertRegex(self.wrong()[0], r"1/y: error .* at \(1, 2, 3\), 1 of 24")

    def test_nan_and_infinity_are_wrong(self):
        for poison in [numpy.nan, numpy.inf, -numpy.inf]:
            self.actual["0/y"][0, 0, 0] = poison
            self.assertEqual(self.wrong(), ["0/y: 1 of 24 elements are not finite"])

    def test_poison_that_was_left_is_wrong(self):
        self.actual["0/y"][:] = numpy.nan
        self.assertEqual(self.wrong(), ["0/y: 24 of 24 elements are not finite"])

    def test_zeros_and_outputs_of_another_run_are_wrong(self):
        self.actual["0/y"] = self.expected["1/y"]
        self.actual["1/y"] = numpy.zeros_like(self.expected["1/y"])
        self.assertEqual(len(self.wrong()), 2)

    def test_missing_and_added_outputs_are_wrong(self):
        self.actual["2/y"] = self.actual.pop("1/y")
        self.assertEqual(self.wrong(), ["1/y is missing", "2/y is not expected"])
        self.assertEqual(compare({}, {}, TOLERANCE)[1], ["nothing is expected"])

    def test_another_type_or_shape_is_wrong(self):
        self.actual["0/y"] = self.actual["0/y"].astype("float16")
        self.actual["1/y"] = self.actual["1/y"][:1]
        self.assertEqual(len(self.wrong()), 2)

    def test_expectations_that_anything_meets_are_wrong(self):
        for trivial in [numpy.zeros(4), numpy.ones(4), numpy.full(4, numpy.nan), numpy.empty(0)]:
            self.assertEqual(len(compare({"y": trivial}, {"y": trivial}, TOLERANCE)[1]), 1, trivial)


class Models(unittest.TestCase):
    def test_runs_of_equal_lengths_are_repeated_with_other_numbers(self):
        for name, build in MODELS.items():
            network = build()
            again = [index for index, shape in enumerate(network.runs) if shape in network.runs[:index]]
            self.assertTrue(again, f"{name}: every run has MIOpen search, and searching writes outputs")
            for index in again:
                before = network.inputs(network.runs.index(network.runs[index]))["x"]
                self.assertFalse(numpy.array_equal(network.inputs(index)["x"], before), name)

    def test_a_tap_that_is_left_out_anywhere_is_beyond_the_tolerance(self):
        # The deepest models of the coarser type, whose tolerance is the widest.
        for name in ["resnet50-fp16", "mobilenet-v2-fp16"]:
            network = MODELS[name]()
            expected = computed(network)
            windows = [index for index, weights in enumerate(network.stored) if weights.dims[-1:] == [3]]
            self.assertGreater(len(windows), 10, name)
            for index in [windows[0], windows[len(windows) // 2], windows[-1]]:
                whole = network.stored[index]
                taps = numpy_helper.to_array(whole).copy()
                taps[..., 0, 0] = 0
                network.stored[index] = numpy_helper.from_array(taps, whole.name)
                self.assertTrue(compare(expected, computed(network), network.tolerance())[1], f"{name}: {whole.name}")
                network.stored[index] = whole


def computed(network):
    session = onnxruntime.InferenceSession(network.proto().SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip(network.outputs, session.run(network.outputs, network.inputs(0))))


if __name__ == "__main__":
    unittest.main()
