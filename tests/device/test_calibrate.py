# SPDX-License-Identifier: Apache-2.0
"""A board's times give its weights back; a second simulated machine stands for the board."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from simulated_code import K1, looped

from kope_tvm.cli import main
from kope_tvm.device.calibrate import fitted, kernels, measured, one_core
from kope_tvm.device.emulate import emulated_board
from kope_tvm.device.simulate.board import simulated_board
from kope_tvm.device.simulate.calibration import MARK, Calibration, Weights, keep, kept
from kope_tvm.device.simulate.fit import fit
from kope_tvm.device.simulate.program import simulate
from kope_tvm.errors import KopeError
from kope_tvm.machine import load_target

pytestmark = pytest.mark.device
BOARD = Weights(vector=1.6, scalar=1.25, l1=1.4, l2=2.0, memory=0.6)
CALL_SECS = 3e-7
CALIBRATION = Calibration("x60-256", "2026-11-30", BOARD)
EIGHT = "\n".join(f"vfmacc.vf v{8 + i}, fa0, v16" for i in range(8))
M1 = "vsetvli t1, zero, e32, m1, ta, ma"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KOPE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_the_search_finds_what_a_formula_hides() -> None:
    shares = [(3, 1, 1, 0, 0), (1, 3, 1, 0, 0), (1, 1, 4, 0, 0), (1, 1, 1, 5, 0), (1, 1, 1, 1, 6)]

    def formula(weights: Weights) -> list[float]:
        factors = asdict(weights).values()
        sums = [sum(x * y for x, y in zip(each, factors, strict=True)) for each in shares * 2]
        return [1e-6 * total * (1 + number) for number, total in enumerate(sums)]

    found = fit(formula, [secs + CALL_SECS for secs in formula(BOARD)])
    for name, value in vars(BOARD).items():
        assert getattr(found.weights, name) == pytest.approx(value, rel=0.02)
    assert found.call_secs == pytest.approx(CALL_SECS, rel=0.1)
    assert found.after.error < 0.01 < 0.2 < found.before.error


def test_what_no_kernel_feels_stays_as_it_was() -> None:
    found = fit(lambda weights: [weights.vector, weights.vector * 2], [3.0, 6.0])
    assert found.weights.vector == pytest.approx(3.0, rel=0.02)
    assert (found.weights.l2, found.weights.memory) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("body", "before", "weights", "ratio"),
    [
        (EIGHT, M1, Weights(vector=2.0), 16 / 9),
        (EIGHT, M1, Weights(memory=3.0, l2=3.0, l1=3.0), 1.0),
        ("vle32.v v8, (a1)", M1, Weights(l1=1.5), 1.5),
        ("div t2, t3, t4", "", Weights(scalar=1.5), 1.5),
    ],
)
def test_a_calibrated_machine_charges_more_for_what_it_should(
    body: str, before: str, weights: Weights, ratio: float, tmp_path: Path
) -> None:
    program = looped(tmp_path, body, before)
    plain = simulate(program, K1).regions[-1]
    keep(replace(CALIBRATION, weights=weights), K1)
    dearer = simulate(program, K1).regions[-1]
    assert dearer.cycles / plain.cycles == pytest.approx(ratio, rel=0.05)
    assert plain.line.startswith(f"{MARK}: ")
    assert dearer.line.startswith("simulated, calibrated 2026-11-30 on x60-256: ")


def test_it_is_kept_for_the_core_class_alone(home: Path) -> None:
    spec = load_target("spacemit-k1")
    path = keep(CALIBRATION, spec)
    assert path == home / "calibrations" / "x60-256.json"
    assert kept(spec) == kept(one_core(spec)) == CALIBRATION
    assert kept(load_target("spacemit-k3-x100")) is None
    path.write_text("{", encoding="utf-8")
    with pytest.raises(KopeError, match=r"x60-256\.json cannot be read"):
        kept(spec)


@pytest.mark.slow
def test_the_weights_of_another_machine_are_found_back() -> None:
    spec = load_target("spacemit-k1")
    chosen = tuple(kernels(spec, num_each=1, num_large=1))
    with simulated_board(one_core(spec), weights=BOARD) as board:
        secs = measured(board.place, chosen)
    found = fitted(chosen, secs, spec, lambda _text: None)
    for name, value in vars(BOARD).items():
        assert getattr(found.calibration.weights, name) == pytest.approx(value, rel=0.15), found
    assert found.fit.after.error < 0.03 < 0.3 < found.fit.before.error
    assert found.fit.after.rank_correlation > 0.98
    assert found.calibration.core == "x60-256"


@pytest.mark.slow
@pytest.mark.parametrize("word", ["emulated", "simulated"])
def test_a_board_without_times_of_its_own_is_refused(word: str, home: Path) -> None:
    spec = load_target("spacemit-k1")
    up = emulated_board if word == "emulated" else simulated_board
    with up(spec) as board:
        command = ["device", "calibrate", "--target", spec.name]
        done = CliRunner().invoke(main, [*command, "--tracker", board.place.tracker])
    assert done.exit_code == 1
    assert f"is {word}: a simulated machine would be calibrated against itself" in done.output
    assert not (home / "calibrations").exists()
