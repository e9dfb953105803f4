# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checksums as users write them: ``sha256:<hex>``, ``sha512:<hex>``, or where a list of them lies; and such lists.

Distributions publish them beside their images: lines of sha256sum(1) (``<hex>  file``, ``<hex> *file``), lines of its
option --tag and of openssl-dgst(1) (``SHA256 (file) = <hex>``), either of them inside a PGP signature or among
comments, or one hash alone. The signature is not verified: what is to be trusted is the address.
"""

from __future__ import annotations

import posixpath
import re
import typing as t
from dataclasses import dataclass

from ..._base.errors import ConflictError, InputError, one_of_these
from ..url import shown_url

# How many hex digits each has.
DIGITS = {"sha256": 64, "sha512": 128}
_HEX = re.compile(r"^[0-9a-f]+\Z")
_ADDRESS = re.compile(r"^(?:(?P<algorithm>[^:/]*):)?(?P<url>https?://.*)\Z", re.IGNORECASE | re.DOTALL)
_RIGHT_SHA256 = "Write it like sha256:<64 hex digits>"
_RIGHT = f"{_RIGHT_SHA256} or sha512:<128>"
_RIGHT_OR_ADDRESS = f"{_RIGHT}, or give the address of a checksum file, as in https://example.org/SHA256SUMS"
_ALGORITHMS = {digits: algorithm for algorithm, digits in DIGITS.items()}
_GNU = re.compile(r"^(?P<digest>[0-9a-fA-F]{64,128})[ \t]+\*?(?P<file>\S.*)$")
_BSD = re.compile(r"^(?P<algorithm>[\w/-]+) ?\((?P<file>.+)\) ?= ?(?P<digest>[0-9a-fA-F]{64,128})$")
_BARE = re.compile(r"^[0-9a-fA-F]{64,128}$")
# How openssl(1) calls what others call SHA256.
_BSD_NAMES = {"SHA256": "sha256", "SHA2-256": "sha256", "SHA512": "sha512", "SHA2-512": "sha512"}


@dataclass(frozen=True)
class Checksum:
    """What the bytes of a file are to hash to; digest in lower case hex."""

    algorithm: str
    digest: str

    def __str__(self) -> str:
        return f"{self.algorithm}:{self.digest}"


@dataclass(frozen=True)
class ChecksumFile:
    """A list of checksums on the web; algorithm None: whichever it has for the file."""

    url: str
    algorithm: str | None = None


def read_checksum(value: t.Any, where: str | None = None) -> Checksum | ChecksumFile:
    """A checksum, or the checksum file that has it: its address alone, or after an algorithm as get_url writes it.

    Raises InputError, naming ``where``, for anything else.
    """
    match = _ADDRESS.match(str(value).strip())
    if match is None:
        return parse_checksum(value, where, _RIGHT_OR_ADDRESS)
    algorithm = match["algorithm"]
    if algorithm is None:
        return ChecksumFile(match["url"])
    if algorithm.strip().lower() not in DIGITS:
        raise _no_checksum(value, where, _RIGHT_OR_ADDRESS)
    return ChecksumFile(match["url"], algorithm.strip().lower())


def parse_checksum(value: t.Any, where: str | None = None, hint: str = _RIGHT) -> Checksum:
    """A checksum from its text. Raises InputError, naming ``where``, with what would be right, for anything else."""
    algorithm, colon, digest = str(value).strip().lower().partition(":")
    if not colon or algorithm not in DIGITS:
        raise _no_checksum(value, where, hint)
    digest = digest.strip()
    if len(digest) != DIGITS[algorithm] or not _HEX.match(digest):
        raise _no_checksum(value, where, f"A {algorithm} has {DIGITS[algorithm]} hex digits")
    return Checksum(algorithm, digest)


def _no_checksum(value: t.Any, where: str | None, hint: str) -> InputError:
    """The error for what a user wrote, without the password of an address."""
    shown = shown_url(value) if isinstance(value, str) else value
    return InputError(f"{shown!r} is not a checksum", where=where, hint=hint)


def read_content_checksum(value: t.Any) -> Checksum | None:
    """What a user says that an image itself hashes to; images are named after their sha256, so it is one."""
    if value is None:
        return None
    checksum = parse_checksum(value, "content_checksum", _RIGHT_SHA256)
    if checksum.algorithm != "sha256":
        raise InputError(
            f"{value!r} is not a sha256", where="content_checksum", hint="Stored images are identified by their sha256"
        )
    return checksum


def verify_digests(digests: t.Mapping[str, str], wanted: Checksum, what: str, where: str = "checksum") -> None:
    """Raises ConflictError when a file has another checksum. digests: hex by algorithm; what: the file, in words."""
    found = digests[wanted.algorithm]
    if found != wanted.digest:
        raise ConflictError(
            f"{what} has the {wanted.algorithm} {found}, not {wanted.digest}",
            where=where,
            hint="Nothing was stored. Either this is the wrong file, or the checksum belongs to another file",
        )


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
    entries = [entry for line in lines for entry in _entry(line)]
    alone = [line for line in lines if _BARE.match(line)]
    if not entries and len(alone) == 1:
        # What may stand around it is the armor of a signature.
        return [(file_name, checksum) for checksum in _checksum(alone[0], None)]
    return entries


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
