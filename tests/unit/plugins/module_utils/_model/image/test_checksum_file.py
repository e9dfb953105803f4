# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checksum files as distributions publish them."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.image.checksum import Checksum, find_checksum

A256, B256 = (hashlib.sha256(text).hexdigest() for text in (b"a", b"b"))
A512, B512 = (hashlib.sha512(text).hexdigest() for text in (b"a", b"b"))

DEBIAN = f"{B512}  debian-13-genericcloud-amd64.json\n{A512}  debian-13-genericcloud-amd64.qcow2\n"
UBUNTU = f"{A256} *noble-server-cloudimg-amd64.img\n{B256} *noble-server-cloudimg-amd64.manifest\n"
FEDORA = f"""\
-----BEGIN PGP SIGNED MESSAGE-----
Hash: SHA256

# Fedora-Cloud-Base-Generic-42-1.1.x86_64.qcow2: 533594112 bytes
SHA256 (Fedora-Cloud-Base-Generic-42-1.1.x86_64.qcow2) = {A256}
# Fedora-Cloud-Base-AmazonEC2-42-1.1.x86_64.raw.xz: 374034356 bytes
SHA256 (Fedora-Cloud-Base-AmazonEC2-42-1.1.x86_64.raw.xz) = {B256}
-----BEGIN PGP SIGNATURE-----

iQIzBAEBCAAdFiEEsPTcQ8ZvA5xAk/ynyKt5MqFa9pMFAmf5FgAACgkQyKt5MqFa
=abcd
-----END PGP SIGNATURE-----
"""


@pytest.mark.parametrize(
    ("text", "name", "algorithm", "checksum"),
    [
        (DEBIAN, "debian-13-genericcloud-amd64.qcow2", None, Checksum("sha512", A512)),
        (DEBIAN, "debian-13-genericcloud-amd64.qcow2", "sha512", Checksum("sha512", A512)),
        (UBUNTU, "noble-server-cloudimg-amd64.img", None, Checksum("sha256", A256)),
        (UBUNTU.replace("\n", "\r\n").upper(), "NOBLE-SERVER-CLOUDIMG-AMD64.IMG", None, Checksum("sha256", A256)),
        (FEDORA, "Fedora-Cloud-Base-Generic-42-1.1.x86_64.qcow2", None, Checksum("sha256", A256)),
        (FEDORA, "Fedora-Cloud-Base-AmazonEC2-42-1.1.x86_64.raw.xz", "sha256", Checksum("sha256", B256)),
        # openssl dgst
        (f"SHA2-256(x.raw)= {A256}", "x.raw", None, Checksum("sha256", A256)),
        # One hash alone, with or without a line's end, with a comment, with a mark of its encoding.
        (A256, "x.raw", None, Checksum("sha256", A256)),
        (f"\ufeff# x\n{A512}\n\n", "x.raw", "sha512", Checksum("sha512", A512)),
        # The same in a signature.
        (
            FEDORA.replace(FEDORA[FEDORA.index("# F") : FEDORA.index("-----BEGIN PGP SIGNATURE")], f"{A256}\n"),
            "x",
            None,
            Checksum("sha256", A256),
        ),
        # Names in folders.
        (f"{A256}  ./x.raw\n{B256}  ./y.raw", "x.raw", None, Checksum("sha256", A256)),
        (f"{A256}  images/x.raw\n{B256}  y.raw", "x.raw", None, Checksum("sha256", A256)),
        (f"{B256}  old/x.raw\n{A256}  x.raw", "x.raw", None, Checksum("sha256", A256)),
        (f"{A256}  a name with blanks.raw", "a name with blanks.raw", None, Checksum("sha256", A256)),
        # The longer of two, unless one is asked for; other hashes of the same length are others.
        (f"{A256}  x\n{A512}  x", "x", None, Checksum("sha512", A512)),
        (f"{A256}  x\n{A512}  x", "x", "sha256", Checksum("sha256", A256)),
        (f"BLAKE2b (x) = {B512}\nMD5 (x) = {'0' * 32}\nSHA512 (x) = {A512}", "x", None, Checksum("sha512", A512)),
        (f"SHA512/256 (x) = {B256}\nSHA256 (x) = {A256}", "x", None, Checksum("sha256", A256)),
        # The same twice is no contradiction.
        (f"{A256}  x\n{A256} *x", "x", None, Checksum("sha256", A256)),
    ],
)
def test_a_files_checksum_is_found(text: str, name: str, algorithm: str | None, checksum: Checksum) -> None:
    assert find_checksum(text, name, algorithm, "LIST") == checksum


@pytest.mark.parametrize(
    ("text", "name", "algorithm", "says"),
    [
        (
            DEBIAN,
            "debian-13-genericcloud-arm64.qcow2",
            None,
            "LIST has no checksum of debian-13-genericcloud-arm64.qcow2. "
            "Did you mean debian-13-genericcloud-amd64.qcow2?",
        ),
        (FEDORA, "x", None, "LIST has no checksum of x. Known: Fedora-Cloud-Base-AmazonEC2"),
        ("<html>404</html>", "x", None, "LIST has no checksum of x. It has no line with a sha256 or sha512"),
        ("", "x", None, "LIST has no checksum of x. It has no line"),
        (f"{A256[1:]}  x", "x", None, "LIST has no checksum of x. It has no line"),
        (f"{A256}{A256[:2]}  x", "x", None, "LIST has no checksum of x. It has no line"),
        (f"SHA512 (x) = {A256}", "x", None, "LIST has no checksum of x. It has no line"),
        (A256, "x", "sha512", "LIST has no sha512 of x, only its sha256"),
        (UBUNTU, "noble-server-cloudimg-amd64.img", "sha512", "LIST has no sha512 of noble-server"),
        (f"{A256}  x\n{B256}  x", "x", None, "LIST has 2 different checksums of x. Give the checksum itself"),
        (f"{A256}\n{B256}", "x", None, "LIST has no checksum of x. It has no line"),
    ],
)
def test_what_is_not_there_is_one_sentence(text: str, name: str, algorithm: str | None, says: str) -> None:
    with pytest.raises(InputError) as caught:
        find_checksum(text, name, algorithm, "LIST", "checksum")
    assert str(caught.value).startswith(f"checksum: {says}")


NAMES = st.text("abcABC019._-+() ", min_size=1, max_size=20).map(str.strip).filter(lambda name: name not in ("", "."))
FORMATS = (
    "{digest}  {name}",
    "{digest} *{name}",
    "{digest}  ./{name}",
    "{algorithm} ({name}) = {digest}",
)


@given(
    names=st.lists(NAMES, min_size=1, max_size=6, unique=True),
    algorithm=st.sampled_from(["sha256", "sha512"]),
    line=st.sampled_from(FORMATS),
    noise=st.lists(st.sampled_from(["", "# comment", "-----BEGIN PGP SIGNATURE-----", "iQIzBAEBCAAdFi=="]), max_size=3),
)
def test_any_list_of_any_names_gives_each_its_own(
    names: list[str], algorithm: str, line: str, noise: list[str]
) -> None:
    digests = {name: hashlib.new(algorithm, name.encode()).hexdigest() for name in names}
    lines = [line.format(digest=digests[name], name=name, algorithm=algorithm.upper()) for name in names]
    text = "\n".join([*noise, *lines, *noise])
    for name in names:
        assert find_checksum(text, name, None, "LIST") == Checksum(algorithm, digests[name])


@given(st.text())
def test_no_text_at_all_is_more_than_a_complaint(text: str) -> None:
    with pytest.raises(InputError):
        find_checksum(text.replace(" ", ""), "x.qcow2", None, "LIST")


@pytest.mark.parametrize("options", [[], ["--tag"], ["--binary"]])
@pytest.mark.parametrize("tool", ["sha256sum", "sha512sum"])
def test_what_the_tools_write_is_read(tmp_path: t.Any, tool: str, options: list[str]) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    (tmp_path / "one.raw").write_bytes(b"a")
    (tmp_path / "two.raw").write_bytes(b"b")
    text = subprocess.run([tool, *options, "one.raw", "two.raw"], cwd=tmp_path, capture_output=True, check=True).stdout
    algorithm = tool[:6]
    assert find_checksum(text.decode(), "two.raw", None, "LIST").digest == {"sha256": B256, "sha512": B512}[algorithm]
