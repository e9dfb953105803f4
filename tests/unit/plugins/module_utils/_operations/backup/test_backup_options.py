# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of a backup that make no sense are refused before anything is done."""

from __future__ import annotations

import typing as t

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.brine.virt.plugins.module_utils._base.errors import InputError
from ansible_collections.brine.virt.plugins.module_utils._model.backup.retention import Keep
from ansible_collections.brine.virt.plugins.module_utils._operations.backup.options import (
    BackupOptions,
    read_backup_options,
)
from ansible_collections.brine.virt.plugins.modules.virt_backup import ARGUMENTS


def read(**params: t.Any) -> BackupOptions:
    validated = ArgumentSpecValidator(ARGUMENTS).validate({"name": ["web1"], "dest": "/srv/backup/", **params})
    assert not validated.error_messages
    return read_backup_options(validated.validated_parameters)


def test_what_a_task_says() -> None:
    assert read() == BackupOptions("/srv/backup")
    found = read(kind="full", keep={"last": 3}, quiesce="true", full_every=2, verify=True)
    assert (found.full, found.keep, found.quiesce, found.full_every) == (True, Keep({"last": 3}), "true", 2)
    assert found.verify
    assert (found.most_besides, read().most_besides) == (1, 6)
    assert read(keep={"last": 3}, merge_above=0).most_besides == 0


def test_a_path_as_it_is_written() -> None:
    for path, plain in (("/", "/"), ("//", "/"), ("/srv/b//", "/srv/b"), ("", ""), (None, "")):
        assert read(dest=path).destination == plain


def test_what_has_to_be_mounted() -> None:
    for value, wanted in (
        (False, None),
        ("no", None),
        (True, ""),
        ("yes", ""),
        ("True", ""),
        ("/srv/nas//", "/srv/nas"),
    ):
        assert read(must_be_mounted=value).must_be_mounted == wanted


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"name": []}, "no machine is named"),
        ({"name": ["../etc"]}, "name: '../etc' is not the name of a machine"),
        ({"name": [".."]}, "is not the name"),
        ({"full_every": 0}, "full_every: 0 is not allowed"),
        ({"freeze_timeout": 100000}, "freeze_timeout"),
        ({"keep": {"last": 0}}, "keep"),
        ({"keep": {"last": 1}, "merge_above": -1}, "merge_above: -1 is not allowed. Give 0 to"),
        ({"must_be_mounted": "srv"}, "must_be_mounted: 'srv' is not allowed. Give true, false, or an absolute path"),
        ({"merge_above": 3}, "merge_above: nothing is merged without keep"),
    ],
)
def test_what_makes_no_sense_is_refused(params: dict[str, t.Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(**params)
