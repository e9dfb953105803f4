# SPDX-License-Identifier: GPL-3.0-or-later
"""Which checks there are, and how each is called.

`make check` is for the time while one works: one ansible-core, one Python, nothing that takes long. LEFT_OUT names what
it leaves to `make test`, and LEFT_TO_FULL what that leaves to `make test-full`, which does not repeat what is in the
other.
"""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from .cores import Core, clean_environment, find_core, module_utils_of, prepare_home
from .results import Counts
from .runner import Check
from .tree import copy_tree
from .units import by_pytest
from .units.junit import read_reports

NO_NEXT = "no Python 3.12 or newer with its headers is on this machine"
# What of the output of `ansible-test sanity` is a finding; the rest is how it installed its tools.
SANITY_ERRORS = re.compile(r"^(ERROR|FATAL): (?!Command )")


# Hardly anything in there meets ansible-core. `make test` has it with the oldest one, and with the Python of an old
# hypervisor.
WITHOUT_ANSIBLE = "tests/unit/plugins/module_utils"
ON_HYPERVISORS = (WITHOUT_ANSIBLE, "tests/unit/plugins/modules")

# What of `make test` is not in `make check`.
LEFT_OUT = (
    "the guide, built by antsibull-docs and Sphinx",
    "ansible-lint",
    "ansible-test sanity",
    "unit tests with the mark `medium`, which take a second or more",
    "unit tests with Python 3.9, those of plugins and roles with ansible-core 2.21, and anything with 2.20",
    "the scenario in the lab, and molecule",
)

# What neither has.
LEFT_TO_FULL = (
    "unit tests with the mark `slow`, most of which start whole runs of Ansible",
    "four in five of the examples of hypothesis",
    "unit tests with ansible-core 2.20, and with 2.21 those of what knows nothing of Ansible",
    "the modules' unit tests by ansible-test, and the `medium` and `slow` ones with Python 3.9",
    "ansible-test sanity with every ansible-core but the newest, and pylint",
    "the integration targets of ansible-test",
    "the page of the playbook picture in a browser",
    "the collection in an execution environment",
    "the tarball as Ansible Galaxy reads it",
    "the scenarios that take long, and all but one of molecule's",
)


def unit_counts(core: Core, pattern: str) -> tuple[Counts, list[str]]:
    """Add up the unit tests in the JUnit files of one run, see read_reports."""
    return read_reports((core.copy / "tests/output/junit").glob(pattern))


def shell_scripts(copy: Path) -> list[str]:
    """Return the files of the copy that a shell runs, relative to it."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=copy, check=True, capture_output=True, text=True).stdout
    scripts = []
    for name in filter(None, listing.split("\0")):
        path = copy / name
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                first = file.readline(80)
            if name.endswith(".sh") or re.match(rb"#!.*\b(bash|sh)\b", first):
                scripts.append(name)
    return scripts


def lint_checks(core: Core, build: Path) -> list[Check]:
    """Return the checks that read the files: format, lint, types, licences, documentation."""
    copy = core.copy
    caches = build / "cache"
    check = functools.partial(Check, directory=copy, environment=clean_environment(core, build))
    # By module names: by paths, mypy would know each file under two names, as it also looks from the copy's own top.
    types = [f"--package=ansible_collections.brine.virt.{folder}" for folder in ("plugins", "tests")]
    documentation = "antsibull-docs lint-collection-docs --plugin-docs --validate-collection-refs all ."
    # The lab is a program of its own, which knows its modules by shorter names.
    lab = {**clean_environment(core, build), "MYPYPATH": "tests/lab"}
    return [
        check("format (ruff)", ["ruff", "format", "--check", "--diff", "--cache-dir", f"{caches}/ruff", "."]),
        check("lint (ruff)", ["ruff", "check", "--cache-dir", f"{caches}/ruff", "."]),
        check("types (mypy)", ["mypy", "--cache-dir", f"{caches}/mypy", *types, "--exclude", "(^|/)tests/lab/"]),
        Check(
            "types of the lab (mypy)",
            ["mypy", "--cache-dir", f"{caches}/mypy-lab", "-p", "brine_lab", "-m", "selftest"],
            copy,
            lab,
        ),
        check("rules of the project", ["python", "-m", "tests.gate.rules"]),
        check("documentation of structures", ["python", "-m", "tests.gate.options"]),
        check("schema of variables", ["python", "-m", "tests.gate.schema"]),
        check("reference of a machine", ["python", "-m", "tests.gate.reference"]),
        check("shellcheck", ["shellcheck", "--external-sources", *shell_scripts(copy)]),
        check("yamllint", ["yamllint", "--strict", "."]),
        check("licences (reuse)", ["reuse", "lint", "--lines"]),
        check(
            "docs (antsibull)",
            # It works in a temporary directory; where chance ends that one's name in an underscore, its own references
            # to it are taken for links in reStructuredText and found broken. Another name is tried then.
            ["sh", "-c", f"{documentation} || {documentation}"],
        ),
        check("changelog", ["antsibull-changelog", "lint"]),
        check("spelling (codespell)", ["codespell"]),
        installed_check(core, core, build),
    ]


def installed_check(core: Core, current: Core, build: Path) -> Check:
    """Return the proof that the collection in the copy of `current` can be built, installed and run with `core`."""
    # In a place of its own: the scenario installs the collection too, and may run at the same time.
    place = build / ("trial" if core is current else f"trial-{core.version}")
    name = "build, install, run" + ("" if core is current else f" {core.version}")
    environment = clean_environment(core, build)
    return Check(name, ["tests/gate/installed", str(core.bin), str(place)], current.copy, environment)


def ansible_lint_check(core: Core, build: Path) -> Check:
    """Return ansible-lint, which takes longer than everything else that reads the files together."""
    words = ["ansible-lint", "--offline", "--strict", "--nocolor"]
    return Check("ansible-lint", words, core.copy, clean_environment(core, build))


def guide_check(core: Core, build: Path) -> Check:
    """Return the build of the guide, in which every link to a page, plugin or option has to lead somewhere."""
    words = ["python", "-m", "tests.gate.docsite", str(build / "docs")]
    return Check("guide (sphinx)", words, core.copy, clean_environment(core, build))


def pytest_units(core: Core, build: Path, name: str, words: Sequence[str]) -> Check:
    """Return the unit tests by pytest itself: ansible-test starts a process for each test, which takes far longer.

    `words`: which, for pytest. What fails is run once more.
    """
    report = core.copy / f"tests/output/junit/pytest-{'-'.join(name.split())}.xml"
    cache = build / f"cache/pytest-{core.version}"
    again = ["python", "-m", "tests.gate.units.by_pytest", str(core.bin / "pytest"), str(report), str(cache)]
    return Check(
        f"{name} {core.version}, Python {core.python}",
        [*again, "-q", "--numprocesses=2", "--dist=worksteal", *words],
        core.copy,
        # Outside the copy, which loses what git would not commit.
        {**clean_environment(core, build), "PYTHONPYCACHEPREFIX": str(build / f"cache/bytecode-{core.version}")},
        lane=core.version,
        count=functools.partial(by_pytest.count_both, report),
    )


def has_old_python(build: Path) -> bool:
    """Whether the tools of the gate are there for the oldest Python that a hypervisor may have."""
    return (build / "venv-3.9/stamp").exists()


def old_python_units(core: Core, build: Path, name: str, words: Sequence[str]) -> Check:
    """Return the unit tests of what runs on hypervisors, with the oldest Python that one may have.

    `core`: the one whose modules are given to hypervisors. Nothing else of it can be imported, as there.
    """
    given = build / f"given-{core.version}/ansible"
    given.mkdir(parents=True, exist_ok=True)
    (given / "__init__.py").touch()
    link = given / "module_utils"
    link.unlink(missing_ok=True)
    link.symlink_to(module_utils_of(core), target_is_directory=True)
    old = replace(core, python="3.9", bin=build / "venv-3.9/bin")
    check = pytest_units(old, build, name, [*words, *ON_HYPERVISORS])
    # Its own Python runs what runs pytest.
    command = [str(core.bin / "python"), *check.command[1:]]
    return replace(check, command=command, environment={**check.environment, "PYTHONPATH": str(given.parent)})


# Without those marked `slow`, and with few examples of hypothesis; and what this leaves out.
QUICK = ("-m", "not slow", "--hypothesis-profile=quick")
LONG = ("-m", "slow or hypothesis")
# A second Python has to show what its language lacks, for which the quickest are enough in `make test`.
LONG_ON_OLD_PYTHON = ("-m", "slow or medium or hypothesis")
# The files with this mark have three in ten of the tests, and four fifths of the time.
QUICKEST = ("-m", "not slow and not medium", "--hypothesis-profile=quick")


def browser_check(core: Core, build: Path) -> Check:
    """Return the tests of the page that the playbook picture writes, in Chromium."""
    report = core.copy / "tests/output/junit/browser.xml"
    return Check(
        "picture in a browser",
        ["tests/browser/run", str(build), "-q", f"--junit-xml={report}"],
        core.copy,
        clean_environment(core, build),
        count=functools.partial(unit_counts, core, report.name),
    )


def environment_check(current: Core, build: Path) -> Check:
    """Return the proof that an execution environment can be made, and that the collection runs in it."""
    command = ["tests/gate/environment", str(build)]
    return Check("execution environment", command, current.copy, clean_environment(current, build))


def importer_check(current: Core, build: Path) -> Check:
    """Return what Ansible Galaxy looks at when the tarball is published."""
    command = ["tests/gate/importer", str(build)]
    return Check("import into Galaxy", command, current.copy, clean_environment(current, build))


def core_checks(core: Core, build: Path, *, whole: bool, newest: bool, old_python: bool) -> list[Check]:
    """Return unit tests of one ansible-core, in a lane of its own: ansible-test works in one directory.

    `whole`: with those of what has nothing to do with ansible-core. `newest`: with sanity, which compiles and imports
    with every Python of the machine that a hypervisor may have. `old_python`: also the unit tests of what runs on
    hypervisors with the oldest of them.
    """
    which = [] if whole else [f"--ignore={WITHOUT_ANSIBLE}"]
    units = [pytest_units(core, build, "unit tests", [*QUICK, *which, "tests/unit"])]
    if old_python:
        units.append(old_python_units(core, build, "unit tests of modules", QUICKEST))
    # It takes longer than all else of sanity.
    return [*units, *([sanity_check("sanity", core, build, ["--skip-test", "pylint"])] if newest else [])]


def ansible_test(name: str, core: Core, build: Path, words: Sequence[str]) -> Check:
    """Return a call of ansible-test, which works in the copy for this core and nowhere else."""
    environment = {**clean_environment(core, build), "HOME": str(core.home)}
    return Check(name, [str(core.bin / "ansible-test"), *words], core.copy, environment, lane=core.version)


def sanity_check(name: str, core: Core, build: Path, words: Sequence[str]) -> Check:
    """Return sanity tests of one ansible-core."""
    check = ansible_test(f"{name} {core.version}", core, build, ["sanity", "--venv", *words])
    return replace(check, errors=SANITY_ERRORS)


def full_checks(cores: Sequence[Core], build: Path) -> list[Check]:
    """Return what `make test` leaves to `make test-full`. cores: the oldest one first."""
    oldest, newest = cores[0], cores[-1]
    checks = [pytest_units(newest, build, "long unit tests", [*LONG, "tests/unit"])]
    if newest is not oldest:
        checks.append(pytest_units(newest, build, "other unit tests", [*QUICK, WITHOUT_ANSIBLE]))
    checks += [pytest_units(core, build, "unit tests", [*QUICK, "tests/unit"]) for core in cores[1:-1]]
    if has_old_python(build):
        checks.append(old_python_units(oldest, build, "long unit tests of modules", LONG_ON_OLD_PYTHON))
        # As those call it who take the collection in.
        words = ["units", "--venv", "--python", "3.9", "--num-workers", "2", "tests/unit/plugins/modules/"]
        count = functools.partial(unit_counts, oldest, "python3.9-*.xml")
        checks.append(replace(ansible_test("ansible-test units", oldest, build, words), count=count))
    checks += [sanity_check("sanity", core, build, ["--python", core.python]) for core in cores if core is not newest]
    checks.append(sanity_check("pylint", newest, build, ["--python", newest.python, "--test", "pylint"]))
    for core in cores:
        # What needs no hypervisor; the rest is in the scenarios.
        words = ["integration", "--venv", "--python", core.python]
        checks.append(ansible_test(f"integration targets {core.version}", core, build, words))
    return [*checks, *(check(oldest, build) for check in (browser_check, environment_check, importer_check))]


def make_catalogue(root: Path, *, quick: bool, full: bool = False) -> list[Check]:
    """Copy the checkout at `root` to where the checks want it, and return all checks.

    `quick`: without LEFT_OUT. `full`: those of LEFT_TO_FULL.
    """
    build = root / ".build"
    current = find_core(build, "2.19", "venv")
    between, following = (None if quick else find_core(build, name, f"venv-{name}") for name in ("2.20", "2.21"))
    if current is None:
        raise SystemExit("The tools of the gate are not installed: run `make check`, which installs them.")
    # Those that run tests.
    cores = [core for core in (current, between if full else None, following) if core is not None]
    for core in cores:
        copy_tree(root, core.copy)
        for report in (core.copy / "tests/output/junit").glob("*.xml"):
            report.unlink()
    if quick:
        units = pytest_units(current, build, "unit tests", [*QUICKEST, "tests/unit"])
        return [units, *lint_checks(current, build)]
    for core in cores:
        prepare_home(core, build)
    if full:
        return full_checks(cores, build)
    newest = following or current
    old_python = has_old_python(build)
    missing: list[Check] = []
    if following is None:
        missing = [Check(f"{what} 2.21", [], root, skip=NO_NEXT) for what in ("unit tests", "sanity")]
    if between is None:
        missing.append(Check("build, install, run 2.20", [], root, skip=NO_NEXT))
    if not old_python:
        missing.append(
            Check("unit tests on Python 3.9", [], root, skip="no Python 3.9 with its headers is on this machine")
        )
    lint = [ansible_lint_check(current, build), guide_check(current, build), *lint_checks(current, build)]
    if between is not None:
        lint.append(installed_check(between, current, build))
    tests: list[Check] = []
    for core in cores:
        # The lane of the newest core has more to do.
        older = old_python and core is current
        tests += core_checks(core, build, whole=core is current, newest=core is newest, old_python=older)
    # The slowest first; the short ones fill the gaps.
    return [*sorted(tests, key=lambda check: "sanity" not in check.name), *lint, *missing]
