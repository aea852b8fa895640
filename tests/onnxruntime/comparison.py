"""Compares outputs with those that are right: `comparison.py MODEL EXPECTED.npz ACTUAL.npz` prints a JSON object."""

import json
import sys

import numpy


def compare(expected, actual, tolerance):
    """Largest error, relative to the root mean square of its output, and what is wrong, if anything.

    Both are arrays by name. Outputs that are missing, of another type or shape, not finite, or beyond the tolerance are wrong; so are
    expected ones that any program could give: none at all, empty, not finite, or the same number throughout.
    """
    wrong, largest = [], 0.0
    if not expected:
        wrong.append("nothing is expected")
    wrong += [f"{name} is missing" for name in sorted(expected.keys() - actual.keys())]
    wrong += [f"{name} is not expected" for name in sorted(actual.keys() - expected.keys())]
    for name in sorted(expected.keys() & actual.keys()):
        error, problem = compare_one(expected[name], actual[name], tolerance)
        largest = max(largest, error)
        if problem:
            wrong.append(f"{name}: {problem}")
    return largest, wrong


def compare_one(expected, actual, tolerance):
    """Error of one output, and what is wrong with it."""
    if (expected.dtype, expected.shape) != (actual.dtype, actual.shape):
        return 0.0, f"{actual.dtype} of {actual.shape}, expected is {expected.dtype} of {expected.shape}"
    expected, actual = expected.astype(numpy.float64), actual.astype(numpy.float64)
    if not numpy.isfinite(expected).all():
        return 0.0, "what is expected is not finite"
    if expected.size < 2 or numpy.ptp(expected) == 0:
        return 0.0, "what is expected does not vary"
    bad = numpy.count_nonzero(~numpy.isfinite(actual))
    if bad:
        return 0.0, f"{bad} of {actual.size} elements are not finite"
    errors = numpy.abs(actual - expected) / numpy.sqrt(numpy.mean(expected**2))
    error = float(errors.max())
    if error <= tolerance:
        return error, None
    place = tuple(map(int, numpy.unravel_index(errors.argmax(), errors.shape)))
    return error, f"error {error:.3g} at {place}, {numpy.count_nonzero(errors > tolerance)} of {errors.size} beyond {tolerance:.3g}"


def main(name, *files):
    from models import MODELS

    tolerance = MODELS[name]().tolerance()
    error, wrong = compare(*(dict(numpy.load(file)) for file in files), tolerance)
    print(json.dumps({"error": error, "tolerance": tolerance, "wrong": wrong}))


if __name__ == "__main__":
    main(*sys.argv[1:])
