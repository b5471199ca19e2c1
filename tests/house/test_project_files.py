"""The files around the code agree with it: Python versions, hooks, coverage, templates."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_workflow_runs_the_gate_on_every_python_that_is_named():
    job = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["check"]
    named = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", name)]

    assert job["strategy"]["matrix"]["python"] == named
    assert job["steps"][-1] == {"run": ".ci/run"}


def test_hooks_run_tools_of_the_environment_alone():
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]

    assert [repo["repo"] for repo in config["repos"]] == ["local"]
    assert {hook["language"] for hook in hooks} <= {"system", "script"}
    assert {hook["entry"].split()[0] for hook in hooks} >= {"ruff", "mypy", "lint-imports"}


@pytest.mark.parametrize(
    ("subject", "fits"),
    [
        ("redis: resend EVAL on NOSCRIPT for cancelled callers", True),
        ("tests, docs: follow the renamed classes", True),
        ("Merge branch 'a3'", True),
        ("Owe nothing to nobody where one queue is served", False),
        ("redis:", False),
        (f"engine: {'x' * 64}", True),
        (f"engine: {'x' * 65}", False),
    ],
)
def test_the_subject_of_a_commit_is_short_and_names_its_area(subject: str, fits: bool, tmp_path: Path):
    message = tmp_path / "message"
    message.write_text(
        f"{subject}\n\nA body may be as long as it takes to give the reason, whatever the subject must be.\n"
    )

    ended = subprocess.run([ROOT / ".ci/commit-subject", message], capture_output=True, text=True, check=False)

    assert (ended.returncode == 0) is fits
    assert bool(ended.stderr) is not fits


def test_every_tool_of_the_makefile_is_constrained():
    pinned = {line.partition("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()}
    wanted = [re.match(r"[\w.-]+", line) for line in PROJECT["optional-dependencies"]["dev"]]

    assert {name[0].lower() for name in wanted if name and name[0] != "packhorse"} <= pinned


@pytest.mark.parametrize("name", ["bug_report.md", "feature_request.md"])
def test_an_issue_template_can_be_read(name: str):
    _, front, body = (ROOT / ".github/ISSUE_TEMPLATE" / name).read_text().split("---\n", 2)

    assert {"name", "about", "labels"} <= set(yaml.safe_load(front))
    assert body.strip()
