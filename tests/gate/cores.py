# SPDX-License-Identifier: GPL-3.0-or-later
"""The ansible-cores that the checks run with, and the surroundings that they run in.

Each check sees a copy of the checkout that stands at `ansible_collections/brine/virt` below `.build`. Each ansible-core
has a copy and a HOME of its own, so that two of them can work side by side.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

COLLECTION = Path("ansible_collections/brine/virt")
# A user's settings must not change what a check answers.
FOREIGN_VARIABLES = re.compile(r"^(ANSIBLE_|FORCE_COLOR|GIT_|MAKE|MFLAGS|MOLECULE|MYPY|PYTEST|PYTHON|VIRTUAL_ENV)")


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


def module_utils_of(core: Core) -> Path:
    """Return the folder of what this ansible-core sends along with modules."""
    question = "import ansible.module_utils as found; print(found.__path__[0])"
    answer = subprocess.run([str(core.bin / "python"), "-c", question], check=True, capture_output=True, text=True)
    return Path(answer.stdout.strip())


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
