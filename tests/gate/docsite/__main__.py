# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the guide of this checkout as HTML, offline; every warning is an error.

It goes to `.build/docs`, or to the folder that the command line names.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ..cores import COLLECTION, FOREIGN_VARIABLES

ROOT = Path(__file__).resolve().parents[3]
BIN = Path(sys.executable).parent
PAGES = [
    str(BIN / "antsibull-docs"),
    *["collection", "--use-current", "--squash-hierarchy", "--fail-on-error", "--dest-dir"],
]
# Without what is remembered between two runs, which would hide warnings of pages that did not change.
SITE = [
    sys.executable,
    *["-m", "sphinx", "-b", "html", "-q", "-E", "-W", "--keep-going", "-c"],
    str(Path(__file__).parent),
]


def build(out: Path) -> int:
    """Write the guide into `out`, which is deleted first. Return 0 if all is well, else what the tool returned."""
    shutil.rmtree(out, ignore_errors=True)
    pages, site = out / "rst", out / "html"
    # antsibull-docs refuses a directory that others may write to.
    pages.mkdir(parents=True, mode=0o755)
    with tempfile.TemporaryDirectory() as folder:
        # Ansible finds no role where `ansible_collections` is in a path twice, and a checkout may stand anywhere.
        link = Path(folder) / COLLECTION
        link.parent.mkdir(parents=True)
        link.symlink_to(ROOT)
        environment = {
            **{name: value for name, value in os.environ.items() if not FOREIGN_VARIABLES.match(name)},
            "PATH": f"{BIN}:{os.environ.get('PATH', os.defpath)}",
            "LC_ALL": "C.UTF-8",
            "ANSIBLE_COLLECTIONS_PATH": folder,
            "ANSIBLE_HOME": f"{folder}/home",
        }
        for command in ([*PAGES, str(pages), "brine.virt"], [*SITE, str(pages), str(site)]):
            status = subprocess.run(command, cwd=folder, env=environment, check=False).returncode
            if status:
                return status
    print(f"The guide is {site}/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else ROOT / ".build/docs"))
