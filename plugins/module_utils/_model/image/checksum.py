# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checksums as users write them: ``sha256:<hex>``, ``sha512:<hex>``, or where a list of them lies."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ..._base.errors import ConflictError, InputError
from ..url import shown_url

# How many hex digits each has.
DIGITS = {"sha256": 64, "sha512": 128}
_HEX = re.compile(r"^[0-9a-f]+\Z")
_ADDRESS = re.compile(r"^(?:(?P<algorithm>[^:/]*):)?(?P<url>https?://.*)\Z", re.IGNORECASE | re.DOTALL)
_RIGHT = (
    "Write it like sha256:<64 hex digits> or sha512:<128>, or give the address of a checksum file, as in "
    "https://example.org/SHA256SUMS"
)


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
        return parse_checksum(value, where)
    algorithm = match["algorithm"]
    if algorithm is None:
        return ChecksumFile(match["url"])
    if algorithm.strip().lower() not in DIGITS:
        raise _no_checksum(value, where, _RIGHT)
    return ChecksumFile(match["url"], algorithm.strip().lower())


def parse_checksum(value: t.Any, where: str | None = None) -> Checksum:
    """A checksum from its text. Raises InputError, naming ``where``, for anything else."""
    algorithm, colon, digest = str(value).strip().lower().partition(":")
    if not colon or algorithm not in DIGITS:
        raise _no_checksum(value, where, _RIGHT)
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
    checksum = parse_checksum(value, "content_checksum")
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
