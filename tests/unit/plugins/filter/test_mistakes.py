# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter brine.virt.mistakes: what hypervisors said against images and machines, each once."""

from __future__ import annotations

import inspect
import typing as t

import pytest
import yaml
from ansible.errors import AnsibleFilterError

from ansible_collections.brine.virt.plugins.filter.mistakes import DOCUMENTATION, FilterModule, mistakes_filter

NO_FILE = {"item": "gone", "msg": "src: there is no file gone.qcow2 on the controller. For a file there, use path"}
STORED = {"item": "tiny", "image": {"name": "tiny"}, "msg": "", "changed": True}


def test_nothing_is_wrong() -> None:
    assert mistakes_filter({"hv1": {"results": [STORED]}, "hv2": {}}, {"hv1": {"machines": []}, "hv2": {}}) == []


def test_a_file_that_is_missing_on_the_controller_is_one_sentence_without_a_hypervisor() -> None:
    answer = {"results": [STORED, NO_FILE]}
    assert mistakes_filter({"hv1": answer, "hv2": answer}) == [f"virt_images.gone.{NO_FILE['msg']}"]


def test_what_several_hypervisors_say_is_said_once_with_their_names() -> None:
    full = {"results": [{"item": "tiny", "msg": "pool images is not active"}]}
    one = {"msg": "virt_vms[1].memory: too much\nvirt_vms[2].nics[eth0]: there is no bridge 'br7'"}
    assert mistakes_filter({"hv1": full, "hv2": full}, {"hv1": {"machines": []}, "hv2": one}) == [
        "hv1, hv2: virt_images.tiny: pool images is not active",
        "hv2: virt_vms[1].memory: too much",
        "hv2: virt_vms[2].nics[eth0]: there is no bridge 'br7'",
    ]


def test_a_hypervisor_that_has_gone_silent_meanwhile_is_named() -> None:
    gone = {"unreachable": True, "msg": "no route to host"}
    assert mistakes_filter({"hv1": {}}, {"hv1": gone}) == ["hv1: no route to host"]


def test_an_image_of_the_command_line_stands_in_no_list() -> None:
    assert mistakes_filter({"hv1": {"results": [NO_FILE]}}, where="") == [f"image.{NO_FILE['msg']}"]


@pytest.mark.parametrize(
    ("images", "text"),
    [
        ({"a": {"src": "x", "chekcsum": "y"}}, "virt_images.a: unknown option 'chekcsum'. Did you mean checksum?"),
        ({True: {5: "y"}}, "virt_images.true: unknown option '5'. Known: checksum"),
        ({"a": "x.qcow2"}, "virt_images.a: 'x.qcow2' is not a mapping of options"),
    ],
)
def test_a_word_that_no_image_has_is_named(images: dict[t.Any, t.Any], text: str) -> None:
    (sentence,) = mistakes_filter({}, images=images)
    assert sentence.startswith(text)


def test_a_password_in_the_address_of_an_image_is_not_repeated() -> None:
    (sentence,) = mistakes_filter({}, images={"a": "https://me:hunter22@h/a.qcow2?token=abcdefgh"})
    assert sentence.startswith("virt_images.a: a text is not a mapping of options. Known: checksum")


def test_what_is_no_answer_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="is not a mapping"):
        mistakes_filter(["hv1"])


def test_the_documentation_names_every_argument_with_its_default() -> None:
    options = yaml.safe_load(DOCUMENTATION)["options"]
    arguments = list(inspect.signature(FilterModule().filters()["mistakes"]).parameters.values())[1:]
    defaults = {name: option.get("default") for name, option in options.items() if name != "_input"}
    assert {a.name: a.default for a in arguments} == {name: default or None for name, default in defaults.items()}
