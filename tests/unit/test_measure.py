# SPDX-License-Identifier: Apache-2.0
"""The parts of measuring that need no compiler and no child process."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest

from kope_tvm.measure import MeasureConfig, image
from kope_tvm.measure.compare import compare
from kope_tvm.measure.job import Answer, Argument, Case, Job, Use, decode_answer, decode_job
from kope_tvm.measure.patience import Patience
from kope_tvm.measure.policy import Allowed
from kope_tvm.measure.timing import Calls, run_secs
from kope_tvm.outcome import Measurement

ALLOWED = Allowed(rtol=1e-3, scale=1.0)


def test_equal_outputs_have_no_error() -> None:
    ref = np.array([1.0, np.nan, np.inf, -np.inf, 0.0], np.float32)
    assert compare(ref.copy(), ref, ALLOWED).error == 0.0
    assert compare(ref.copy(), ref, Allowed()).error == 0.0


def test_error_is_in_units_of_the_allowed_one() -> None:
    ref = np.ones((2, 3), np.float32)
    got = ref.copy()
    got[1, 2] = 1.004
    worst = compare(got, ref, ALLOWED)
    assert worst.error == pytest.approx(2.0, rel=1e-3)  # allowed: 1e-3 * (1 + scale 1)
    assert worst.place == "max_rel 2.0e-03 at [1, 2]"


def test_unwritten_nan_is_infinitely_wrong() -> None:
    ref = np.ones(4, np.float32)
    got = np.array([1, 1, np.nan, 1], np.float32)
    worst = compare(got, ref, ALLOWED)
    assert worst.error == np.inf
    assert worst.place == "nan for 1 at [2]"


def test_infinity_where_a_number_is_expected_is_wrong() -> None:
    ref = np.ones(2, np.float32)
    assert compare(np.array([1, np.inf], np.float32), ref, ALLOWED).error == np.inf
    assert compare(ref, np.array([1, np.inf], np.float32), ALLOWED).error == np.inf


def test_without_a_tolerance_the_last_bit_counts() -> None:
    ref = np.array([[7, 8]], np.int32)
    assert compare(ref, ref, Allowed()).error == 0.0
    worst = compare(np.array([[7, 9]], np.int32), ref, Allowed())
    assert worst.error == np.inf
    assert worst.place == "max_rel 1.2e-01 at [0, 1]"
    one = np.ones(1, np.float32)
    assert compare(np.nextafter(one, 2), one, Allowed()).error == np.inf


def test_a_rounded_integer_may_be_one_off_in_one_of_a_hundred() -> None:
    ref = np.zeros(400, np.int8)
    got = ref.copy()
    got[:4] = 1
    assert compare(got, ref, Allowed(steps=1)).error == 1.0
    got[4] = 1
    assert compare(got, ref, Allowed(steps=1)).error == np.inf
    got[:5] = [2, 0, 0, 0, 0]
    assert compare(got, ref, Allowed(steps=1)).error == 2.0


def test_scalar_and_empty_outputs_compare() -> None:
    two, none = np.array(2.0, np.float32), np.zeros((0, 4), np.float32)
    assert compare(two, two, ALLOWED).error == 0.0
    assert compare(none, none, ALLOWED).error == 0.0


def test_job_and_answer_survive_the_wire() -> None:
    argument = Argument("A", "float32", (4, 0), Use.UPDATE, 3)
    case = Case("uniform 0", (None, Allowed(1e-3, 0.5)), (False, True))
    target = {"kind": "llvm", "num-cores": 2}
    job = Job(target, MeasureConfig(repeat=5), 1 << 30, True, (argument,), (case,))
    assert decode_job(job.encode()) == job
    measurement = Measurement((1.0, 2.0), max_error=0.5, is_proven=True)
    answer = Answer(measurement, (argument,), (case,), "not lifted")
    assert decode_answer(answer.encode()) == answer


@pytest.mark.parametrize("packet", [b"", b"\xff\xfe", b"[]", b"{}", b'{"measurement": 1}'])
def test_garbled_answers_are_value_key_or_type_errors(packet: bytes) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        decode_answer(packet)


def test_image_returns_its_tensors_and_cannot_be_changed() -> None:
    arguments = (
        Argument("A", "float32", (3, 5), Use.READ),
        Argument("n", "int32", (), Use.SCALAR),
        Argument("B", "int8", (0, 4), Use.READ),
        Argument("C", "float16", (7,), Use.UPDATE),
        Argument("D", "int64", (2,), Use.WRITE),
    )
    dtypes = [np.dtype(n) if n else None for n in ("float32", "", "int8", "float16", "int64")]
    first = np.arange(15, dtype=np.float32).reshape(3, 5)
    empty, half, whole = np.zeros((0, 4), np.int8), np.ones(7, np.float16), np.array([1, 2])
    nothing = (None,) * 5
    cases = [Case("a", nothing, (False,) * 5), Case("b", nothing, (False,) * 4 + (True,))]
    fd = image.create()
    try:
        writer = image.Writer(fd)
        before, after = (first, None, empty, half, None), (None, None, None, half * 2, whole)
        writer.add(image.Tensors(before, after, nothing))
        before, after = (-first, None, empty, half, None), (None, None, None, half * 3, whole)
        writer.add(image.Tensors(before, after, (None, None, None, None, whole * 7)))
        image.seal(fd)
        one, two = image.read(fd, arguments, dtypes, cases)
        with pytest.raises(PermissionError):
            os.pwrite(fd, b"x", 0)
    finally:
        os.close(fd)
    assert [part is None for part in one.before] == [False, True, False, False, True]
    assert [part is None for part in one.after] == [True, True, True, False, False]
    assert one.other == nothing
    np.testing.assert_array_equal(one.before[0], first)
    np.testing.assert_array_equal(one.after[3], half * 2)
    np.testing.assert_array_equal(two.before[0], -first)
    np.testing.assert_array_equal(two.after[3], half * 3)
    np.testing.assert_array_equal(two.other[4], whole * 7)


def test_a_sleeping_process_is_over_at_its_limit_and_not_before() -> None:
    pid = os.posix_spawnp("sleep", ["sleep", "60"], os.environ)
    try:
        assert Patience(pid, 0.0).is_over()
        assert not Patience(pid, 60.0).is_over()
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def _sleeping(secs: float, counted: list[float]) -> Calls:
    def sleep() -> None:
        counted.append(secs)
        time.sleep(secs)

    return Calls(None, "main", sleep, (), None, is_host=True)


def test_a_repeat_lasts_as_long_as_asked_and_no_longer() -> None:
    counted: list[float] = []
    config = MeasureConfig(number=3, repeat=2, min_repeat_ms=20)
    each = run_secs(_sleeping(0.002, counted), config, 0.002, None)
    assert len(each) == 2
    assert all(0.002 <= secs < 0.02 for secs in each)
    assert 7 <= len(counted) <= 21


def test_few_calls_are_made_of_a_slow_function() -> None:
    counted: list[float] = []
    config = MeasureConfig(number=3, repeat=5, min_repeat_ms=5)
    assert len(run_secs(_sleeping(0.03, counted), config, 0.03, None)) == 1
    assert len(counted) == 1


def test_a_hopeless_first_call_is_the_measurement_and_a_quick_one_gets_a_second_chance() -> None:
    counted: list[float] = []
    calls = _sleeping(0.02, counted)
    assert run_secs(calls, MeasureConfig(), 0.5, 0.01) == (0.5,)
    assert counted == []
    (secs,) = run_secs(calls, MeasureConfig(), 0.1, 0.01)
    assert 0.02 <= secs < 0.1
    assert len(counted) == 1


def test_every_repeat_has_arguments_of_its_own() -> None:
    seen: list[str] = []

    def call(where: str) -> None:
        seen.append(where)
        time.sleep(0.002)

    calls = Calls(None, "main", call, ("set 0",), None, True, lambda number: (f"set {number}",))
    config = MeasureConfig(number=1, repeat=3, min_repeat_ms=4)
    assert len(run_secs(calls, config, 0.002, None)) == 3
    assert sorted(set(seen)) == ["set 0", "set 1", "set 2"]
