# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An action that sends files, by Ansible itself: on this host, up to the volume that the test driver cannot fill."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.brine.virt.plugins.action import virt_image, virt_volume
from ansible_collections.brine.virt.plugins.plugin_utils._sending_action import SendingAction

RUN = "import sys; from ansible.cli.playbook import PlaybookCLI; PlaybookCLI.cli_executor(['play', *sys.argv[1:]])"


def test_both_are_such_actions() -> None:
    for plugin in (virt_image, virt_volume):
        assert issubclass(plugin.ActionModule, SendingAction)
        assert plugin.ActionModule.module == plugin.__name__.replace("ansible_collections.", "").replace(
            ".plugins.action", ""
        )


@pytest.fixture
def run(tmp_path: Path, fixtures: Path, other_process: dict[str, str]) -> t.Callable[..., str]:
    def run(task: dict[str, t.Any], *options: str, **more: t.Any) -> str:
        play = {
            "hosts": "localhost",
            "connection": "local",
            "gather_facts": False,
            "module_defaults": {"group/brine.virt.virt": {"uri": f"test://{fixtures}/node.xml"}},
            "vars": {"ansible_python_interpreter": sys.executable},
            "tasks": [task],
            **more,
        }
        (tmp_path / "play.yml").write_text(json.dumps([play]))
        environment = {
            **other_process,
            "ANSIBLE_COLLECTIONS_PATH": other_process["PYTHONPATH"].split(os.pathsep)[0],
            "ANSIBLE_HOME": str(tmp_path / "ansible"),
            "ANSIBLE_LOCAL_TEMP": str(tmp_path / "local"),
            "ANSIBLE_REMOTE_TMP": str(tmp_path / "remote"),
            "ANSIBLE_NOCOLOR": "1",
        }
        done = subprocess.run(
            [sys.executable, "-c", RUN, "-i", "localhost,", "-vvv", *options, str(tmp_path / "play.yml")],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        return done.stdout + done.stderr

    return run


@pytest.mark.slow
def test_a_file_is_sent_once_the_module_lacks_it(run: t.Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "data.raw").write_bytes(b"\x01" * 1024 * 1024)
    task = {"brine.virt.virt_volume": {"volumes": [{"name": "fresh.raw", "src": "data.raw"}]}}
    ahead = run(task, "--check")
    assert "create volume fresh.raw in pool default from data.raw" in ahead
    assert "/volume0" not in ahead
    said = run(task)
    # Ansible says where it has put the file.
    assert "/volume0" in said
    assert "virStorageVolUpload" in said
    for word in ("_sent_files", "_only_asked", "needed_files"):
        assert f'"{word}"' not in said.partition("fatal:")[2]


@pytest.mark.slow
def test_in_check_mode_nothing_is_run_on_the_hypervisor_for_an_image_that_is_listed(
    run: t.Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "data.raw").write_bytes(b"\x01" * 1024)
    sha256 = hashlib.sha256(b"\x01" * 1024).hexdigest()
    volume = f"data-{sha256[:16]}.raw"
    listed = {
        "name": "data",
        "volume": volume,
        "pool": "images",
        "path": f"/images/{volume}",
        "size_bytes": 1024,
        "virtual_size_bytes": 1024,
        "provenance": f"content sha256:{sha256}",
    }
    task = {"brine.virt.virt_image": {"name": "data", "src": "data.raw", "known_images": [listed]}}
    # A module that is run fails.
    nothing: dict[str, t.Any] = {"module_defaults": {}, "vars": {"ansible_python_interpreter": "/none/python"}}
    said = run(task, "--check", **nothing)
    assert "ok: [localhost]" in said, said
    assert f'"path": "/images/{volume}"' in said
    assert not (tmp_path / "remote").exists()
    assert "/none/python" in run(task, **nothing).partition("fatal: ")[2]


@pytest.mark.parametrize("module", ["virt_volume", "virt_image"])
def test_a_file_that_is_not_there_is_named(run: t.Callable[..., str], module: str) -> None:
    said = run({f"brine.virt.{module}": {"name": "a", "src": "none.raw"}})
    assert "src: there is no file none.raw on the controller. For a file on the hypervisor, use path" in said


def test_a_url_for_a_file_is_not_repeated() -> None:
    with pytest.raises(AnsibleActionFail) as caught:
        SendingAction.local_path(t.cast("t.Any", None), "http://me:secret@example.org/a.qcow2", "volumes[0].src")
    assert str(caught.value.message) == "volumes[0].src: a file on the controller is expected, and this is a URL"
