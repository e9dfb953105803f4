# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies a checkout to where Ansible's tools want a collection to stand.

ansible-test refuses a collection outside `ansible_collections/NAMESPACE/NAME`, while a clone may stand anywhere. The
copy holds what git would commit (tracked files and new files that are not ignored), as a git repository of its own,
because the tools ask git which files there are. Files that did not change keep their times, so that the tools' caches
stay warm.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

# Made by the tools inside the copy; worth keeping between two runs.
KEPT = {Path(".git"), Path("tests/output")}


def listed_files(root: Path) -> list[Path]:
    """Return the files that git would commit in `root`, relative to it, less those deleted in the work tree."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    files = {Path(name) for name in listing.split("\0") if name}
    return sorted(path for path in files if os.path.lexists(root / path))


def is_same(source: Path, copy: Path) -> bool:
    """Tell whether `copy` is what a copy of `source` would be: same kind, length, time and mode."""
    if source.is_symlink() or copy.is_symlink():
        return source.is_symlink() and copy.is_symlink() and os.readlink(source) == os.readlink(copy)
    if not copy.is_file():
        return False
    ours, theirs = source.stat(), copy.stat()
    return (ours.st_size, ours.st_mtime_ns, ours.st_mode) == (theirs.st_size, theirs.st_mtime_ns, theirs.st_mode)


def remove_strangers(copy: Path, files: set[Path]) -> None:
    """Remove from `copy` every file that is not in `files`, and the directories that this leaves empty."""
    for folder, folders, names in os.walk(copy, topdown=False):
        here = Path(folder).relative_to(copy)
        if any(here == kept or kept in here.parents for kept in KEPT):
            continue
        for name in [*names, *(name for name in folders if (Path(folder) / name).is_symlink())]:
            if here / name not in files:
                (Path(folder) / name).unlink()
        if here != Path() and not os.listdir(folder):
            os.rmdir(folder)


def copy_tree(root: Path, copy: Path) -> None:
    """Make `copy` hold exactly the files that git would commit in `root`, and make git know them there."""
    files = listed_files(root)
    copy.mkdir(parents=True, exist_ok=True)
    remove_strangers(copy, set(files))
    for path in files:
        if not is_same(root / path, copy / path):
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            (copy / path).unlink(missing_ok=True)
            shutil.copy2(root / path, copy / path, follow_symlinks=False)
    subprocess.run(["git", "init", "-q"], cwd=copy, check=True)
    subprocess.run(["git", "add", "--all"], cwd=copy, check=True)


if __name__ == "__main__":
    copy_tree(Path.cwd(), Path(sys.argv[1]).absolute())
