"""The documentation site's address stands in the package's metadata alone; without it nothing of the site is named."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from email.message import Message
from importlib.metadata import PackageNotFoundError

import pytest

from tests.report.samples import full_report, process_report
from tracer.report import Report, rendered_as
from tracer.report import sarif as site

ADDRESS = "https://docs.example"


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    site.site_address.cache_clear()
    yield
    site.site_address.cache_clear()


@pytest.fixture
def configured(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package whose ``[project.urls]`` names the site."""
    told = Message()
    told["Project-URL"] = "Source, https://code.example/tracer"
    told["Project-URL"] = f"Documentation, {ADDRESS}"
    monkeypatch.setattr(site, "metadata", lambda name: told)


def test_without_an_address_a_log_has_no_link() -> None:
    log = json.loads(rendered_as("sarif", full_report()))
    driver = log["runs"][0]["tool"]["driver"]
    assert "informationUri" not in driver
    assert all("helpUri" not in rule for rule in driver["rules"])


def test_a_package_that_is_not_installed_names_no_site(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Message:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(site, "metadata", missing)
    assert site.site_address() == ""


@pytest.mark.usefixtures("configured")
def test_the_address_ends_in_one_slash() -> None:
    assert site.site_address() == f"{ADDRESS}/"


@pytest.mark.usefixtures("configured")
@pytest.mark.parametrize("made", [full_report, process_report])
def test_a_rule_that_cites_evidence_leads_to_its_page(made: Callable[[], Report]) -> None:
    report = made()
    driver = json.loads(rendered_as("sarif", report))["runs"][0]["tool"]["driver"]
    assert driver["informationUri"] == f"{ADDRESS}/"
    linked = {rule["id"]: rule["helpUri"] for rule in driver["rules"] if "helpUri" in rule}
    cited = {finding.rule for finding in report.findings if finding.evidence}
    assert linked == {rule: f"{ADDRESS}/rules/{rule}.html" for rule in cited}
