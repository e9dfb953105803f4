# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checksums as users write them."""

from __future__ import annotations

import hashlib
import typing as t

import pytest

from ansible_collections.brine.virt.plugins.module_utils._base.errors import ConflictError, InputError
from ansible_collections.brine.virt.plugins.module_utils._model.image.checksum import (
    Checksum,
    ChecksumFile,
    parse_checksum,
    read_checksum,
    read_content_checksum,
    verify_digests,
)

SHA256 = hashlib.sha256(b"x").hexdigest()
SHA512 = hashlib.sha512(b"x").hexdigest()


@pytest.mark.parametrize(
    ("text", "checksum"),
    [
        (f"sha256:{SHA256}", Checksum("sha256", SHA256)),
        (f" SHA512: {SHA512.upper()} ", Checksum("sha512", SHA512)),
    ],
)
def test_a_checksum_is_read(text: str, checksum: Checksum) -> None:
    assert parse_checksum(text) == checksum
    assert parse_checksum(str(checksum)) == checksum


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (SHA256, "Write it like sha256:"),
        (f"md5:{SHA256[:32]}", "Write it like sha256:"),
        ("sha256:", "A sha256 has 64 hex digits"),
        (f"sha256:{SHA256[1:]}g", "A sha256 has 64 hex digits"),
        (f"sha512:{SHA256}", "A sha512 has 128 hex digits"),
        (None, "Write it like sha256:"),
    ],
)
def test_what_is_no_checksum_is_refused_with_its_place(text: t.Any, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_checksum(text, "checksum")
    assert str(caught.value).startswith(f"checksum: {text!r} is not a checksum. {hint}")


URL = "https://example.org/pub/SHA256SUMS?x=sha512:1"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"sha256:{SHA256}", Checksum("sha256", SHA256)),
        (URL, ChecksumFile(URL)),
        ("HTTP://EXAMPLE.ORG/X", ChecksumFile("HTTP://EXAMPLE.ORG/X")),
        (f" sha256:{URL}", ChecksumFile(URL, "sha256")),
        (f"SHA512: {URL}", None),
        (f"SHA512:{URL}", ChecksumFile(URL, "sha512")),
        (f"md5:{URL}", None),
        ("ftp://example.org/SHA256SUMS", None),
        ("file:///etc/passwd", None),
        ("sha256:file:///etc/passwd", None),
    ],
)
def test_a_checksum_may_lie_at_an_address(text: str, found: Checksum | ChecksumFile | None) -> None:
    if found is not None:
        assert read_checksum(text, "checksum") == found
        return
    with pytest.raises(InputError, match="^checksum: .* is not a checksum"):
        read_checksum(text, "checksum")


def test_only_where_an_address_may_stand_one_is_asked_for() -> None:
    for read, right in (
        (
            read_checksum,
            "sha256:<64 hex digits> or sha512:<128>, or give the address of a checksum file, as in https://",
        ),
        (parse_checksum, "sha256:<64 hex digits> or sha512:<128>$"),
        (read_content_checksum, "sha256:<64 hex digits>$"),
    ):
        with pytest.raises(InputError, match=f"'x' is not a checksum. Write it like {right}"):
            read("x")


def test_other_bytes_are_named_by_both_hashes() -> None:
    verify_digests({"sha256": SHA256}, Checksum("sha256", SHA256), "a.qcow2")
    with pytest.raises(ConflictError, match=f"checksum: a.qcow2 has the sha256 {SHA256}, not {'0' * 64}"):
        verify_digests({"sha256": SHA256}, Checksum("sha256", "0" * 64), "a.qcow2")
