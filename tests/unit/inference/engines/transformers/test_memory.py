"""Free memory: within control groups and the address space."""

import resource
from pathlib import Path

import torch

from assay_inference.engines.transformers.memory import _left_in_cgroups, free_bytes

CPU = torch.device("cpu")


def group(folder: Path, limit: str, used: int, inactive: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\ninactive_file {inactive}\n")


def test_each_group_around_the_process_limits_it(tmp_path: Path) -> None:
    root, own = tmp_path / "cgroup", tmp_path / "own"
    own.write_text("0::/pod/container\n")
    group(root / "pod", "1000", 700)
    group(root / "pod" / "container", "max", 300)
    group(root / "other", "1", 1)
    assert list(_left_in_cgroups(root, own)) == [300]
    group(root / "pod" / "container", "600", 300, inactive=200)
    assert sorted(_left_in_cgroups(root, own)) == [300, 500]


def test_groups_of_version_1_and_none_are_read(tmp_path: Path) -> None:
    own = tmp_path / "own"
    assert list(_left_in_cgroups(tmp_path, own)) == []
    own.write_text("5:memory:/docker/abc\n4:cpu:/\n")
    assert list(_left_in_cgroups(tmp_path, own)) == []
    memory = tmp_path / "memory"
    memory.mkdir()
    (memory / "memory.limit_in_bytes").write_text("1000")
    (memory / "memory.usage_in_bytes").write_text("400")
    (memory / "memory.stat").write_text("inactive_file 50")
    assert list(_left_in_cgroups(tmp_path, own)) == [650]


def test_a_limit_of_the_address_space_counts() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + 2**28, hard))
    try:
        left = free_bytes(CPU)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert 0 < left <= 2**28
    assert free_bytes(CPU) > left
