# SPDX-License-Identifier: Apache-2.0
"""The command line answers at once, in the promised form, with the promised exit codes."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kope_tvm.chat.budget import Limits
from kope_tvm.chat.dialogue import Spent
from kope_tvm.cli import main
from kope_tvm.commands.tune import default_work_dir, parse_dims, spell_report
from kope_tvm.console import plain, table
from kope_tvm.doctor import Finding, broken, examine
from kope_tvm.errors import UsageError
from kope_tvm.machine import known_targets
from kope_tvm.operators import parse_operator
from kope_tvm.report import TaskReport, TuneReport

SECRET = "sk-never-to-be-seen"
TUNE = ("tune", "op:x", "--target", "host")


def kope(*args: str) -> Result:
    return CliRunner().invoke(main, args)


def kope_in_a_process(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kope_tvm.cli", *args]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a memory folder of its own, and a clean environment."""
    monkeypatch.setenv("KOPE_HOME", str(tmp_path / "home"))
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "KOPE_MODEL", "KOPE_DEADLINE_S"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def test_help_names_every_file_of_the_folder(project_dir: Path) -> None:
    folder = project_dir / "python" / "kope_tvm" / "commands"
    files = [*folder.glob("*.py"), *(path.parent for path in folder.glob("*/__init__.py"))]
    names = {path.stem for path in files} - {"__init__"}
    shown = kope("--help")
    assert shown.exit_code == 0
    assert {"doctor", "targets", "tune", "compile", "run", "memory", "bench"} <= names
    assert all(f"\n  {name} " in shown.output for name in names)


@pytest.mark.parametrize("args", [("--help",), ("tune", "--help"), ("targets",)])
def test_help_and_targets_answer_without_tvm(args: tuple[str, ...]) -> None:
    code = (
        "import sys; from kope_tvm.cli import main; main(sys.argv[1:], standalone_mode=False);"
        "sys.exit(sorted({'tvm', 'numpy', 'sqlalchemy', 'networkx', 'openai'} & set(sys.modules)))"
    )
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True)
    assert done.stderr in {"", "[]\n"}
    assert time.perf_counter() - began < 5  # The import of TVM is caught above; this is a hang.


def test_targets_table_has_a_row_for_each() -> None:
    lines = kope("targets").output.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", *known_targets()]


def test_targets_as_json_is_one_object() -> None:
    found = json.loads(kope("targets", "--json").stdout)
    assert [each["name"] for each in found["targets"]] == list(known_targets())


def test_one_target_in_detail() -> None:
    found = json.loads(kope("targets", "spacemit-k1", "--json").stdout)
    assert found["facts"]["vlen_bits"] == 256
    assert found["tvm_target"]["num-cores"] == 8
    assert "facts.vlen_bits           256" in kope("targets", "spacemit-k1").output


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("targets", "k320"), "unknown target 'k320'; known targets: "),
        ((*TUNE, "--proposer", "chat"), "set OPENAI_BASE_URL or OPENAI_API_KEY and KOPE_MODEL"),
        ((*TUNE, "--proposer", "x"), "known proposers: auto, experience, chat, replay, "),
        ((*TUNE, "--proposer", "replay"), "give the record to answer from with --exchanges"),
        ((*TUNE, "--proposer", "replay", "--exchanges", "no"), "no: no exchanges can be read"),
        ((*TUNE, "--proposer", "replay", "--exchanges", __file__), "test_cli.py:1: not an exch"),
        ((*TUNE, "--exchanges", __file__), "--exchanges is for --proposer replay"),
        ((*TUNE, "--max-calls", "-1"), "--max-calls"),
        ((*TUNE, "--max-usd", "x"), "--max-usd"),
        ((*TUNE, "--dim", "n"), "expected NAME=SIZE"),
        ((*TUNE, "--trials", "0"), "--trials"),
        (("tune", "op:x"), "--target"),
        (("run", "no.so"), "no.so: no such file; `kope compile"),
        (("run",), "OUT.so"),
        (("bench", "--json", "no/such/file.json"), "no folder 'no/such'"),
        (("bench", "--suite", "op:matmull:m=8"), "unknown operator 'matmull'"),
        (
            ("compile", "m", "--target", "host", "--work-dir", "no", "-o", "x.so"),
            "--work-dir no: no such folder",
        ),
        (("dance",), "No such command 'dance'"),
    ],
)
def test_wrong_call_exits_2_and_writes_nothing(
    home: Path, tmp_path: Path, args: tuple[str, ...], message: str
) -> None:
    result = kope(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_money_without_a_price_is_refused_where_a_model_would_be_asked(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("KOPE_MODEL", "m1")
    for proposer in ("auto", "chat"):
        result = kope(*TUNE, "--proposer", proposer, "--max-usd", "1")
        assert result.exit_code == 2
        assert "usd_per_million_input and usd_per_million_output in kope.toml" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("spent", "limits", "text"),
    [
        (Spent(3, 6000, 900), Limits(), "model: 3 calls, 6000+900 tokens"),
        (
            Spent(1, 50, 9, 0.01234),
            Limits(max_usd=1.5),
            "model: 1 call, 50+9 tokens, $0.0123 (cap $1.5)",
        ),
        (
            Spent(2, 9, 1),
            Limits(500, None, 4),
            "model: 2 calls, 9+1 tokens (cap 4 calls, 500 tokens)",
        ),
    ],
)
def test_what_a_model_cost_is_a_line_of_the_report(spent: Spent, limits: Limits, text: str) -> None:
    report = TuneReport((), 4, 0, 1.0, 0.5, 0.2, "work", ("a notice",), spent)
    assert spell_report(report, limits).splitlines()[1:3] == ["a notice", text]
    assert plain(report)["spent"]["tokens"] == spent.tokens


def test_what_was_refused_is_a_line_of_the_report() -> None:
    inf = float("inf")
    row = TaskReport("f", "key", 1.0, 1, 1.0, inf, "", "", 2, 1, (("E_STEP", 2), ("E_CALL", 1)))
    report = TuneReport((row, row), 4, 0, 1.0, 0.5, 0.2, "work")
    assert "refused: 4 E_STEP, 2 E_CALL" in spell_report(report).splitlines()


def test_the_gain_of_all_and_of_the_optimised_stand_side_by_side() -> None:
    rows = [
        replace(
            TaskReport("f", "key", 1.0, 1, gain, 1.0, "", "", 0, 0),
            correct=True,
            faster=gain > 1.03,
            gain=gain,
        )
        for gain in (4.0, 1.02, 1.0, 0.5)
    ]
    report = TuneReport(tuple(rows), 4, 0, 1.0, 0.5, 0.2, "work")
    assert (report.speedup_of_all, report.speedup_of_optimised) == (4.0**0.25, 4.0)
    text = "speedup: 1.41x of all 4, a fallback counted as 1.0; 4.00x of the optimised, 1 of 4"
    assert text in spell_report(report).splitlines()
    stays = "f: the untuned function stays: 1.02x beside it, 1.03x needed"
    assert stays in spell_report(report).splitlines()


def test_a_run_without_a_model_has_no_line_on_its_cost() -> None:
    report = TuneReport((), 4, 0, 1.0, 0.5, 0.2, "work")
    assert len(spell_report(report, Limits(max_tokens=9)).splitlines()) == 2


def test_bench_lists_specs_that_tune_takes() -> None:
    words = kope("bench", "--list").output.split()
    specs = [word for word in words if word.startswith("op:")]
    assert "op:matmul:m=512,n=512,k=512,dtype=float32" in specs
    assert all(parse_operator(spec) for spec in specs)


def test_error_under_json_is_one_object_too() -> None:
    result = kope("targets", "k320", "--json")
    assert result.exit_code == 2
    error = json.loads(result.stdout)["error"]
    assert error["kind"] == "TargetError"
    assert error["message"] in result.stderr


def test_failed_work_exits_1(home: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")
    result = kope("memory", "stats", "--memory", str(blocked / "memory.sqlite"))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: memory ")


def test_stats_of_a_new_memory_are_zero(home: Path) -> None:
    held = json.loads(kope("memory", "stats", "--json").stdout)
    assert held["place"] == str(home / "memory.sqlite")
    assert {value for name, value in held.items() if name != "place"} == {0}


def test_doctor_finds_this_machine_usable_and_tells_no_secret(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://me:{SECRET}@127.0.0.1:1/v1")
    monkeypatch.setenv("KOPE_MODEL", "m1")
    result = kope("doctor", "--json")
    assert result.exit_code == 0
    assert SECRET not in result.output
    found = {each["name"]: each for each in json.loads(result.stdout)["findings"]}
    expected = "base_url http://127.0.0.1:1/v1, model m1, OPENAI_API_KEY set, Connection refused"
    assert found["endpoint"]["value"] == expected
    assert not found["endpoint"]["ok"]
    assert {"python", "apache-tvm", "llvm", "host", "threads", "memory"} <= set(found)
    assert not home.exists()


def test_doctor_reports_a_broken_settings_file_as_a_finding(home: Path, tmp_path: Path) -> None:
    (tmp_path / "kope.toml").write_text("base_url = \n", encoding="utf-8")
    found = {one.name: one for one in examine({})}
    assert not found["endpoint"].ok
    assert found["endpoint"].value.startswith("kope.toml: not TOML")
    assert not found["endpoint"].required


def test_only_required_findings_break(home: Path) -> None:
    assert not broken((Finding("qemu", False, "missing", "install it"),))
    assert broken((Finding("llvm", False, "missing", "install it", required=True),))


def test_dims_are_names_and_sizes() -> None:
    assert parse_dims(["batch=1", "x.2=16"]) == {"batch": 1, "x.2": 16}


@pytest.mark.parametrize("given", ["batch", "=1", "batch=", "batch=-1", "batch=0", "batch=a"])
def test_malformed_dim_is_refused(given: str) -> None:
    with pytest.raises(UsageError, match="expected NAME=SIZE"):
        parse_dims([given])


@pytest.mark.parametrize(
    ("model", "target", "folder"),
    [
        ("models/net.onnx", "host", "net-host"),
        ("op:matmul:m=8,n=8", "x/y.toml", "op-matmul-m=8-n=8-y"),
        ("../..", "host", "host"),
    ],
)
def test_default_work_dir_is_named_after_model_and_target(
    model: str, target: str, folder: str
) -> None:
    assert default_work_dir(model, target) == Path("kope-work") / folder


@dataclass(frozen=True)
class Pair:
    a: float
    b: tuple[int, ...]

    @property
    def total(self) -> float:
        return self.a + sum(self.b)


def test_json_has_properties_and_no_infinity() -> None:
    assert plain(Pair(1.5, (1, 2))) == {"a": 1.5, "b": [1, 2], "total": 4.5}
    assert plain({"x": Pair(math.inf, ())}) == {"x": {"a": None, "b": [], "total": None}}


def test_table_is_aligned_and_uncut() -> None:
    assert table(("A", "B"), [("long" * 50, 1)]).splitlines()[0] == "A" + " " * 201 + "B"


def test_json_is_alone_on_stdout_in_a_real_process() -> None:
    done = kope_in_a_process("targets", "host", "--json")
    assert (done.returncode, json.loads(done.stdout)["name"]) == (0, "host")


def test_wrong_call_exits_2_in_a_real_process() -> None:
    done = kope_in_a_process("targets", "k320")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: unknown target 'k320'")
