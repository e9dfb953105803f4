# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checksums as users write them: ``sha256:<hex>`` or ``sha512:<hex>``."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ansible_collections.brine.virt.plugins.module_utils._errors import ConflictError, InputError

_DIGITS = {"sha256": 64, "sha512": 128}
_HEX = re.compile(r"^[0-9a-f]+$")


@dataclass(frozen=True)
class Checksum:
    """What the bytes of a file are to hash to; digest in lower case hex."""

    algorithm: str
    digest: str

    def __str__(self) -> str:
        return f"{self.algorithm}:{self.digest}"


def parse_checksum(value: t.Any, where: str | None = None) -> Checksum:
    """A checksum from its text. Raises InputError, naming ``where``, for anything else."""
    algorithm, colon, digest = str(value).strip().lower().partition(":")
    if not colon or algorithm not in _DIGITS:
        raise InputError(
            f"{value!r} is not a checksum", where=where, hint="Write it like sha256:<64 hex digits> or sha512:<128>"
        )
    digest = digest.strip()
    if len(digest) != _DIGITS[algorithm] or not _HEX.match(digest):
        raise InputError(
            f"{value!r} is not a checksum", where=where, hint=f"A {algorithm} has {_DIGITS[algorithm]} hex digits"
        )
    return Checksum(algorithm, digest)


def verify_digests(digests: t.Mapping[str, str], wanted: Checksum, what: str) -> None:
    """Raises ConflictError when a file has another checksum. digests: hex by algorithm; what: the file, in words."""
    found = digests[wanted.algorithm]
    if found != wanted.digest:
        raise ConflictError(
            f"{what} has the {wanted.algorithm} {found}, not {wanted.digest}",
            where="checksum",
            hint="Nothing was stored. Either the file is not the one you mean, or the checksum is another file's",
        )
