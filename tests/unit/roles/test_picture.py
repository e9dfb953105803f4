# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook brine.virt.picture on libvirt's test driver."""

from __future__ import annotations

import os
import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.brine.virt.tests.unit.roles.ansible_runs import run_last_play

# Each starts a whole run of Ansible.
pytestmark = pytest.mark.slow
TITLE = "{{ lookup(&#39;pipe&#39;, &#39;touch /tmp/never&#39;) }}"


def draw(directory: Path, uri: str, *words: str, **more: t.Any) -> tuple[int, str]:
    """The status of a run, and what it says. Its variables of the inventory do not count."""
    return run_last_play(
        directory, "picture", uri, "virt_hypervisors=all", *words, file="/no/where", title=["x"], **more
    )


def changes(output: str) -> int:
    """How many changes a run reports."""
    (number,) = set(re.findall(r"changed=(\d+)", output))
    return int(number)


def test_the_page_is_written_once_and_its_time_is_no_change(tmp_path: Path, node_uri: str) -> None:
    mask = os.umask(0o027)
    try:
        status, output = draw(tmp_path, node_uri)
    finally:
        os.umask(mask)
    file = tmp_path / "cloud.html"
    assert (status, changes(output)) == (0, 1), output
    assert f"Wrote {file}: hypervisors 1, machines 3" in output
    assert file.stat().st_mode & 0o777 == 0o640
    page = file.read_text(encoding="utf-8")
    # Guest's text stays text, and the machine has the address that only a read-write connection gives.
    assert TITLE in page
    assert '<span class="address"><bdi>192.168.122.' in page

    stamped = re.sub(r'<time datetime="[^"]*">', '<time datetime="1970-01-01T00:00:00+00:00">', page)
    file.write_text(stamped, encoding="utf-8")
    status, output = draw(tmp_path, node_uri, "--check")
    assert (status, changes(output)) == (0, 0), output
    assert file.read_text(encoding="utf-8") == stamped
    status, output = draw(tmp_path, node_uri)
    assert (status, changes(output)) == (0, 0), output
    assert "1970-01-01" not in file.read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.glob("*.html*")] == ["cloud.html"]

    status, output = draw(tmp_path, node_uri, "title=Other")
    assert (status, changes(output)) == (0, 1), output
    assert "<title>Other</title>" in file.read_text(encoding="utf-8")


def test_check_mode_writes_nothing(tmp_path: Path, node_uri: str) -> None:
    status, output = draw(tmp_path, node_uri, "file=page.html", "--check", "--diff")
    assert (status, changes(output)) == (0, 1), output
    assert f"Would write {tmp_path / 'page.html'}: hypervisors 1, machines 3" in output
    assert "<!DOCTYPE" not in output
    assert not (tmp_path / "page.html").exists()


def test_a_file_of_somebody_else_is_kept(tmp_path: Path, node_uri: str) -> None:
    file = tmp_path / "notes.html"
    for content in (b"<p>mine</p>", b"", b"\xff\x00"):
        file.write_bytes(content)
        status, output = draw(tmp_path, node_uri, f"file={file}")
        sentence = f"{file} exists and is not a page of this playbook. Remove it, or name another file. Nothing was"
        assert (status, sentence in output) == (2, True), output
        assert file.read_bytes() == content


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        ("", "The name of the file is empty. Give one with -e file=cloud.html. Nothing was written."),
        ("missing/cloud.html", "missing on this computer. Create it, or name another file. Nothing was written."),
        ("playbooks", "playbooks is a directory. Name a file in it with -e file="),
    ],
)
def test_where_it_cannot_go_is_one_sentence(tmp_path: Path, node_uri: str, file: str, sentence: str) -> None:
    status, output = draw(tmp_path, node_uri, f"file={file}")
    assert (status, output.count(sentence) >= 1) == (2, True), output
    # It is said before anybody is asked.
    assert "Get the facts" not in output


def test_hypervisors_that_do_not_answer_are_on_the_page(tmp_path: Path) -> None:
    status, output = draw(tmp_path, "test:///no/such/file.xml", "file=~/page.html")
    assert status == 2, output
    assert "hv1: did not answer: cannot connect to test:///no/such/file.xml" in output
    assert "No hypervisor answered." in output
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<b><bdi>hv1</bdi></b> <bdi>did not answer: cannot connect to test:///no/such/file.xml" in page


def test_a_wrong_variable_of_a_hypervisor_is_one_sentence(tmp_path: Path, node_uri: str) -> None:
    status, output = draw(tmp_path, node_uri, virt_memory_ratio="much")
    assert (status, "hv1: virt_memory_ratio: 'much' is not a number. Nothing was written." in output) == (2, True), (
        output
    )
    assert "caused by" not in output
    assert not (tmp_path / "cloud.html").exists()
