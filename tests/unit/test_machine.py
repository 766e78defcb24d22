# SPDX-License-Identifier: Apache-2.0
"""Target files are read strictly, and a machine is told apart by what its kernel says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kope_tvm import host
from kope_tvm.errors import TargetError
from kope_tvm.machine import known_targets, load_target, read_target, spec_of_target, tvm_target
from kope_tvm.target import Facts

CPUINFO = "processor : 0\nflags\t\t: fpu sse sse2 avx avx2 fma avx512f avx512_vnni\n"
GOOD = '[target]\nkind = "llvm"\nmcpu = "haswell"\nmtriple = "x86_64-linux-gnu"\nnum-cores = 3\n'


def write(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def target_file(folder: Path, text: str) -> Path:
    file = folder / "board.toml"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.fixture
def server(tmp_path: Path) -> Path:
    """Return the files of a machine of 4 logical CPUs on 2 cores."""
    write(tmp_path, "proc/cpuinfo", CPUINFO)
    cpus = "sys/devices/system/cpu"
    for cpu in range(4):
        core = cpu // 2 * 2
        write(tmp_path, f"{cpus}/cpu{cpu}/topology/thread_siblings_list", f"{core}-{core + 1}\n")
        caches = (("1", "Instruction", "64K"), ("1", "Data", "48K"), ("2", "Unified", "2M"))
        for index, (level, kind, size) in enumerate(caches):
            for name, text in (("level", level), ("type", kind), ("size", size)):
                write(tmp_path, f"{cpus}/cpu{cpu}/cache/index{index}/{name}", f"{text}\n")
    write(tmp_path, f"{cpus}/cpu0/cpufreq/cpuinfo_max_freq", "2400000\n")
    return tmp_path


def test_facts_are_those_of_the_kernel(server: Path) -> None:
    assert host.detect(server, affinity=range(4)) == Facts(
        isa="avx512",
        vlen_bits=512,
        vector_registers=32,
        num_cores=2,
        l1_bytes=48 << 10,
        l2_bytes=2 << 20,
        clock_hz=2.4e9,
    )


def test_only_cores_in_the_affinity_mask_count(server: Path) -> None:
    assert host.usable_cores(server, [2, 3]) == 1


@pytest.mark.parametrize(
    ("limit", "cores"), [("max 100000", 2), ("150000 100000", 1), ("50000 100000", 1)]
)
def test_control_group_v2_bounds_the_cores(server: Path, limit: str, cores: int) -> None:
    write(server, "proc/self/cgroup", "0::/job/step\n")
    write(server, "sys/fs/cgroup/job/cpu.max", f"{limit}\n")
    assert host.usable_cores(server, range(4)) == cores


@pytest.mark.parametrize(("quota", "cores"), [("-1", 2), ("100000", 1)])
def test_control_group_v1_bounds_the_cores(server: Path, quota: str, cores: int) -> None:
    write(server, "proc/self/cgroup", "3:cpu,cpuacct:/job\n")
    write(server, "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", f"{quota}\n")
    write(server, "sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n")
    assert host.usable_cores(server, range(4)) == cores


def test_a_machine_that_says_nothing_has_one_core_and_unknown_facts(tmp_path: Path) -> None:
    assert host.detect(tmp_path, affinity=[0]) == Facts()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("flags : sse2 avx2", host.Isa("avx2", 256, 16)),
        ("flags : sse2 avx", host.Isa("sse", 128, 16)),
        ("Features : fp asimd", host.Isa("neon", 128, 32)),
        ("isa : rv64imafdcv_zvl128b_zvl256b", host.Isa("rvv", 256, 32)),
        ("isa : rv64imafdcv_zicsr", host.Isa("rvv", 128, 32)),
        ("isa : rv64imafdc_svpbmt", host.Isa()),
    ],
)
def test_vector_unit_follows_from_cpuinfo(tmp_path: Path, line: str, expected: host.Isa) -> None:
    write(tmp_path, "proc/cpuinfo", line + "\n")
    assert host.isa_of(host.cpu_flags(tmp_path)) == expected


def test_features_that_a_hypervisor_hides_are_masked() -> None:
    llvm = {"avx2", "avx512f", "avx512vnni", "fma", "popcnt"}
    assert host.masked_features(llvm, {"sse2", "avx2", "fma"}) == ("avx512f", "avx512vnni")
    assert host.masked_features(llvm, {"sse2", "avx2", "fma", "avx512f", "avx512_vnni"}) == ()


def test_known_targets_are_the_files_of_the_folder(project_dir: Path) -> None:
    files = {path.stem for path in (project_dir / "targets").glob("*.toml")}
    assert files <= set(known_targets())
    assert list(known_targets()) == sorted(known_targets())


def test_reading_a_target_needs_no_tvm() -> None:
    code = (
        "import sys; from kope_tvm.machine import known_targets, read_target;"
        "[read_target(name) for name in known_targets()]; sys.exit('tvm' in sys.modules)"
    )
    environment = {"PYTHONPATH": str(Path(host.__file__).parents[1])}
    assert (
        subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0
    )


def test_a_path_is_a_target_named_after_its_file(tmp_path: Path) -> None:
    spec = load_target(target_file(tmp_path, GOOD + '[rpc]\nkey = "b7"\n[limits]\nrun_secs = 2\n'))
    assert (spec.name, spec.rpc_key, spec.limits.run_secs) == ("board", "b7", 2)
    assert spec.tvm_target["num-cores"] == spec.facts.num_cores == 3


def test_native_stands_for_this_machine() -> None:
    spec = load_target("host")
    assert spec.tvm_target["mcpu"] not in {"native", ""}
    assert spec.facts == host.detect()


def test_what_a_file_says_stands_above_what_is_found(tmp_path: Path) -> None:
    text = '[target]\nkind = "llvm"\nmcpu = "native"\nnum-cores = 1\n[facts]\nl3_bytes = 12345\n'
    assert read_target(target_file(tmp_path, text)).facts.l3_bytes == 12345


@pytest.mark.parametrize("name", known_targets())
def test_a_target_made_by_hand_is_the_same_machine(name: str) -> None:
    spec = load_target(name)
    found = spec_of_target(tvm_target(spec))
    assert (found.key, found.facts) == (spec.key, spec.facts)


def test_unknown_name_lists_the_known_ones_and_the_fix() -> None:
    with pytest.raises(TargetError) as caught:
        load_target("x86-avx3")
    message = str(caught.value)
    assert message.startswith("unknown target 'x86-avx3'; did you mean 'x86-avx2'?")
    assert f"known targets: {', '.join(known_targets())}" in message
    assert message.endswith("add targets/x86-avx3.toml or pass a path")


def test_missing_file_is_named() -> None:
    with pytest.raises(TargetError, match=r"no/such\.toml: no such target file"):
        load_target("no/such.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[target\n", r"board\.toml: not TOML: .*line 1"),
        ("summary = 'x'\n", r"board\.toml: expected a table \[target\] with a kind"),
        ("target = 3\n", r"board\.toml: expected a table \[target\] with a kind"),
        (GOOD + "[fact]\n", r"unknown key 'fact'; known keys: facts, limits, rpc, summary, target"),
        (GOOD + "[facts]\nvlen = 1\n", r"\[facts\]: unknown key 'vlen'; known keys: .*vlen_bits"),
        (GOOD + "[facts]\nnum_cores = 1\n", r"unknown key 'num_cores'.*cores go in \[target\]"),
        (GOOD + "[facts]\nvlen_bits = '1'\n", r"vlen_bits is '1', a str; expected a int"),
        (GOOD + "[facts]\nvlen_bits = true\n", r"vlen_bits is True, a bool; expected a int"),
        (GOOD + "[facts]\nl1_bytes = -1\n", r"l1_bytes is -1; expected 0 \(unknown\) or more"),
        (GOOD + "[rpc]\nhost = 'x'\n", r"\[rpc\]: unknown key 'host'; known keys: key"),
        ('[target]\nkind = "llvm"\n', r"num-cores is None; expected a whole number from 1 up"),
        ('[target]\nkind = "llvm"\nnum-cores = 0\n', r"num-cores is 0; expected"),
        ('[target]\nkind = "abc"\nnum-cores = 1\n', r"TVM refuses \[target\]: .*\"abc\""),
        (GOOD + "tiles = 1\n", r"TVM refuses \[target\]: .*'tiles'"),
        (GOOD + 'mattr = ["avx"]\n', r"does not know feature 'avx' in mattr; expected '\+name'"),
        (GOOD + 'mattr = ["+avx9"]\n', r"does not know feature '\+avx9' in mattr"),
        (GOOD + 'mattr = ["-avx9"]\n', r"does not know feature '-avx9' in mattr"),
        (GOOD.replace("haswell", "hasswell"), r"does not know mcpu 'hasswell'.*near: haswell"),
        (GOOD.replace("x86_64", "pdp11"), r"has no code generator for 'pdp11-linux-gnu'"),
    ],
)
def test_malformed_target_is_refused_with_place_and_fix(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(TargetError, match=message):
        load_target(target_file(tmp_path, text))


def test_known_feature_may_be_switched_off(tmp_path: Path) -> None:
    spec = load_target(target_file(tmp_path, GOOD + 'mattr = ["-avx2"]\n'))
    assert spec.tvm_target["mattr"] == ["-avx2"]


def test_an_mcpu_that_llvm_lacks_is_refused_though_tvm_has_a_tag_for_it(tmp_path: Path) -> None:
    text = GOOD.replace("haswell", "spacemit-x100").replace("x86_64", "riscv64")
    with pytest.raises(TargetError, match=r"does not know mcpu 'spacemit-x100' for riscv64.*x60"):
        load_target(target_file(tmp_path, text))
