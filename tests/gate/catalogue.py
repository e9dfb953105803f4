# SPDX-License-Identifier: GPL-3.0-or-later
"""Which checks there are, and how each is called.

Each check sees a copy of the checkout that stands at `ansible_collections/brine/virt` below `.build`. Each ansible-core
has a copy and a HOME of its own, so that two of them can work side by side.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from .runner import Check, Counts
from .tree import copy_tree

COLLECTION = Path("ansible_collections/brine/virt")
NO_NEXT = "no Python 3.12 or newer with its headers is on this machine"
# What of the output of `ansible-test sanity` is a finding; the rest is how it installed its tools.
SANITY_TELLS = re.compile(r"^(ERROR|FATAL): (?!Command )")
# A user's settings must not change what a check answers.
FOREIGN_VARIABLES = re.compile(r"^(ANSIBLE_|FORCE_COLOR|GIT_|MAKE|MFLAGS|MYPY|PYTEST|PYTHON|VIRTUAL_ENV)")


@dataclass(frozen=True)
class Core:
    """An ansible-core and where it works.

    `bin`: its commands. `collections`: what holds the copy of the collection. `home`: HOME for ansible-test.
    """

    version: str
    python: str
    bin: Path
    collections: Path
    home: Path

    @property
    def copy(self) -> Path:
        """The copy of the collection."""
        return self.collections / COLLECTION


def find_core(build: Path, version: str, environment: str) -> Core | None:
    """Return the ansible-core in the virtual environment `environment`, or None when it is not there."""
    python = build / environment / "bin/python"
    if not (build / environment / "stamp").exists():
        return None
    minor = subprocess.run(
        [str(python), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    return Core(version, minor, python.parent, build / f"core-{version}", build / f"home-{version}")


def clean_environment(core: Core, build: Path) -> dict[str, str]:
    """Return the environment of a check: the user's without what would change the answer, our tools first on PATH."""
    kept = {name: value for name, value in os.environ.items() if not FOREIGN_VARIABLES.match(name)}
    return {
        **kept,
        "PATH": f"{core.bin}:{build / 'pythons'}:{os.environ.get('PATH', os.defpath)}",
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_COLLECTIONS_PATH": str(core.collections),
        "ANSIBLE_HOME": str(build / "ansible-home"),
        "ANSIBLE_NOCOLOR": "1",
        "NO_COLOR": "1",
        "PYTHONUNBUFFERED": "1",
    }


def wanted_pip(core: Core) -> str:
    """Return the version of pip that this ansible-test installs first: it is asked, not known here."""
    question = (
        "import types; from ansible_test._internal.python_requirements import get_venv_packages;"
        "print(get_venv_packages(types.SimpleNamespace(version='3.11'))['pip'])"
    )
    answer = subprocess.run([str(core.bin / "python"), "-c", question], check=True, capture_output=True, text=True)
    return answer.stdout.strip()


def prepare_home(core: Core, build: Path) -> None:
    """Make the HOME in which ansible-test of this core works.

    ansible-test makes its environments without pip and then downloads a script that installs one. The script's place in
    its cache is filled here from the package index instead: the same pip, one download source less, and nothing left in
    the user's HOME.
    """
    for name in (".config/pip", ".cache/pip"):
        theirs, ours = Path.home() / name, core.home / name
        ours.parent.mkdir(parents=True, exist_ok=True)
        if theirs.is_dir() and not ours.is_symlink():
            ours.symlink_to(theirs)
    version = wanted_pip(core)
    cache = core.home / ".ansible/test/cache"
    script = cache / f"get_pip_{version.replace('.', '_')}.py"
    if script.exists():
        return
    cache.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [str(core.bin / "pip"), "download", "-q", "--no-deps", "-d", str(cache), f"pip=={version}"],
        check=True,
        stdin=subprocess.DEVNULL,
        env=clean_environment(core, build),
    )
    script.write_text(
        "import os, sys\n"
        "here = os.path.dirname(os.path.abspath(__file__))\n"
        f"sys.path.insert(0, os.path.join(here, 'pip-{version}-py3-none-any.whl'))\n"
        "from pip._internal.cli.main import main\n"
        "wanted = [word for word in sys.argv[1:] if word not in ('--no-setuptools', '--no-wheel')]\n"
        "sys.exit(main(['install', '--no-index', '--find-links', here, *wanted]))\n",
        encoding="utf-8",
    )


def unit_counts(core: Core, python: str) -> Counts:
    """Add up the unit tests that ansible-test reported for one Python in its JUnit files."""
    counts = Counts()
    for report in (core.copy / "tests/output/junit").glob(f"python{python}-*.xml"):
        for suite in ElementTree.parse(report).getroot().iter("testsuite"):
            total, skipped = (int(suite.get(name, "0")) for name in ("tests", "skipped"))
            failed = sum(int(suite.get(name, "0")) for name in ("failures", "errors"))
            counts += Counts(total - failed - skipped, failed, skipped)
    return counts


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
    # The lab is a program of its own, which knows its modules by shorter names.
    lab = {**clean_environment(core, build), "MYPYPATH": "tests/lab"}
    return [
        check("format (ruff)", ["ruff", "format", "--check", "--diff", "--cache-dir", f"{caches}/ruff", "."]),
        check("lint (ruff)", ["ruff", "check", "--cache-dir", f"{caches}/ruff", "."]),
        check("types (mypy)", ["mypy", "--cache-dir", f"{caches}/mypy", *types, "--exclude", "/tests/lab/"]),
        Check("types of the lab (mypy)", ["mypy", "--cache-dir", f"{caches}/mypy-lab", "-p", "brine_lab"], copy, lab),
        check("rules of the house", ["python", "-m", "tests.gate.rules"]),
        check("shellcheck", ["shellcheck", "--external-sources", *shell_scripts(copy)]),
        check("yamllint", ["yamllint", "--strict", "."]),
        check("licences (reuse)", ["reuse", "lint", "--lines"]),
        check("ansible-lint", ["ansible-lint", "--offline", "--strict", "--nocolor"]),
        check(
            "docs (antsibull)",
            ["antsibull-docs", "lint-collection-docs", "--plugin-docs", "--validate-collection-refs", "all", "."],
        ),
        check("changelog", ["antsibull-changelog", "lint"]),
        check("build, install, run", ["tests/gate/installed", str(core.bin), str(build)]),
    ]


def ansible_test_checks(core: Core, build: Path, *, all_pythons: bool, old_python: str | None) -> list[Check]:
    """Return sanity and unit tests of one ansible-core.

    `all_pythons`: sanity also compiles and imports with every Python of the machine that a hypervisor may have.
    `old_python`: one more Python, older than the controller's, for the unit tests of what runs on hypervisors.
    """
    environment = {**clean_environment(core, build), "HOME": str(core.home)}
    check = functools.partial(Check, directory=core.copy, environment=environment, lane=core.version)
    tool = str(core.bin / "ansible-test")
    pythons = [] if all_pythons else ["--python", core.python]
    units = [
        check(
            f"unit tests {core.version}, Python {python}",
            [tool, "units", "--venv", "--python", python, "--num-workers", "2"],
            count=functools.partial(unit_counts, core, python),
        )
        for python in (core.python, old_python)
        if python
    ]
    return [*units, check(f"sanity {core.version}", [tool, "sanity", "--venv", *pythons], telling=SANITY_TELLS)]


def make_catalogue(root: Path) -> list[Check]:
    """Copy the checkout at `root` to where the checks want it, and return all checks."""
    build = root / ".build"
    current, following = find_core(build, "2.19", "venv"), find_core(build, "2.21", "venv-2.21")
    if current is None:
        raise SystemExit("The tools of the gate are not installed: run `make check`, which installs them.")
    for core in filter(None, (current, following)):
        copy_tree(root, core.copy)
        prepare_home(core, build)
        for report in (core.copy / "tests/output/junit").glob("*.xml"):
            report.unlink()
    newest = following or current
    old_python = "3.9" if (build / "pythons/python3.9").exists() else None
    oldest: list[Check] = []
    if following is None:
        oldest = [Check(f"{what} 2.21", [], root, skip=NO_NEXT) for what in ("unit tests", "sanity")]
    if old_python is None:
        oldest.append(Check("unit tests on Python 3.9", [], root, skip="no Python 3.9 is on this machine"))
    lint = lint_checks(current, build)
    tests: list[Check] = []
    for core in filter(None, (current, following)):
        newer = core is newest
        tests += ansible_test_checks(core, build, all_pythons=newer, old_python=old_python if newer else None)
    # The slowest first; the short ones fill the gaps.
    return [*sorted(tests, key=lambda check: "sanity" not in check.name), *lint, *oldest]
