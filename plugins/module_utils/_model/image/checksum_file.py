# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checksum files as distributions publish them beside their images: which checksum is a file's.

Lines of sha256sum(1) (``<hex>  file``, ``<hex> *file``), lines of its option --tag and of openssl-dgst(1)
(``SHA256 (file) = <hex>``), either of them inside a PGP signature or among comments, or one hash alone. The signature
is not verified: what is to be trusted is the address.
"""

from __future__ import annotations

import posixpath
import re
import typing as t

from ..._base.errors import InputError, one_of_these
from .checksum import DIGITS, Checksum

_ALGORITHMS = {digits: algorithm for algorithm, digits in DIGITS.items()}
_GNU = re.compile(r"^(?P<digest>[0-9a-fA-F]{64,128})[ \t]+\*?(?P<file>\S.*)$")
_BSD = re.compile(r"^(?P<algorithm>[\w/-]+) ?\((?P<file>.+)\) ?= ?(?P<digest>[0-9a-fA-F]{64,128})$")
_BARE = re.compile(r"^[0-9a-fA-F]{64,128}$")
# How openssl(1) calls what others call SHA256.
_BSD_NAMES = {"SHA256": "sha256", "SHA2-256": "sha256", "SHA512": "sha512", "SHA2-512": "sha512"}


def find_checksum(text: str, file_name: str, algorithm: str | None, what: str, where: str | None = None) -> Checksum:
    """The checksum of a file in the text of a checksum file; the longer one when there are two and none is asked for.

    what: the checksum file, in words, for complaints. Raises InputError, naming ``where``, when it has none for this
    file, or several that differ.
    """
    entries = _entries(text, file_name)
    # The name as it stands there, else a name in some folder: lists may be made at the top of a tree.
    found = {checksum for name, checksum in entries if name == file_name}
    found = found or {checksum for name, checksum in entries if posixpath.basename(name) == file_name}
    if not found:
        names = {posixpath.basename(name) for name, _checksum in entries}
        raise InputError(
            f"{what} has no checksum of {file_name}",
            where=where,
            hint=one_of_these(file_name, names) if names else "It has no line with a sha256 or sha512",
        )
    algorithms = sorted({checksum.algorithm for checksum in found}, key=lambda name: DIGITS[name])
    if algorithm is not None and algorithm not in algorithms:
        raise InputError(f"{what} has no {algorithm} of {file_name}, only its {algorithms[0]}", where=where)
    wanted = algorithm or algorithms[-1]
    chosen = {checksum for checksum in found if checksum.algorithm == wanted}
    if len(chosen) > 1:
        raise InputError(
            f"{what} has {len(chosen)} different checksums of {file_name}",
            where=where,
            hint="Give the checksum itself",
        )
    return chosen.pop()


def _entries(text: str, file_name: str) -> list[tuple[str, Checksum]]:
    lines = [line.strip() for line in text.lstrip("\ufeff").splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    if len(lines) == 1 and _BARE.match(lines[0]):
        return [(file_name, checksum) for checksum in _checksum(lines[0], None)]
    return [entry for line in lines for entry in _entry(line)]


def _entry(line: str) -> t.Iterator[tuple[str, Checksum]]:
    match = _BSD.match(line)
    if match:
        # Other hashes of the same length have other names: BLAKE2, SHA512/256.
        if match["algorithm"].upper() not in _BSD_NAMES:
            return
        stated = _BSD_NAMES[match["algorithm"].upper()]
    else:
        match = _GNU.match(line)
        stated = None
    if match:
        name = match["file"]
        for checksum in _checksum(match["digest"], stated):
            yield name[2:] if name.startswith("./") else name, checksum


def _checksum(digest: str, stated: str | None) -> t.Iterator[Checksum]:
    algorithm = _ALGORITHMS.get(len(digest))
    if algorithm is not None and stated in (None, algorithm):
        yield Checksum(algorithm, digest.lower())
