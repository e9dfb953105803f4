# Copyright (c) 2026 brine.virt contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter brine.virt.picture: the page as a browser's parser sees it."""

from __future__ import annotations

import base64
import copy
import hashlib
import re
import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.brine.virt.plugins.filter.picture import FilterModule
from ansible_collections.brine.virt.tests.unit.plugins.plugin_utils._picture.pages import (
    FLEET,
    HOST,
    HOSTILE,
    MADE,
    OLD,
    WEB,
    Page,
    hostile_fleet,
)

FILTER = FilterModule().filters()["picture"]


def picture(*arguments: t.Any, **options: t.Any) -> str:
    """The page that the filter makes."""
    page: str = FILTER(*arguments, **options)["page"]
    return page


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(picture(FLEET, MADE))


@pytest.mark.parametrize(
    "shown",
    [
        "As of 2026-11-22 10:00 UTC",
        "web1 running 2 vCPU, 2 GiB",
        "old shutoff ? vCPU, ? not created by brine.virt",
        "Serves the shop",
        "192.0.2.17 2001:db8::17 web front end image debian 8 GiB on 1 disk",
        "Pending: memory, disks.data",
        "Being moved from hv1.example.org to hv2.example.org",
        "the guest agent does not answer",
        "2 machines 1 running, 1 shutoff",
        "In maintenance since 2026-11-21T10:00:00Z: new disks",
        "libvirt 9.0.0 QEMU 7.2.19 x86_64 no KVM: machines are emulated certificates: 12 days left",
        "Certificate libvirt_server ends 2026-12-04 (/etc/pki/s.pem)",
        "Not active: 1 pool broken",
        "Being moved here: db7",
        "the bridges are not known",
        "hv3 did not answer: Connection timed out",
        "hv4 it was not asked (--limit)",
        "4 Hypervisors",
        "No machines",
    ],
)
def test_it_shows(page: Page, shown: str) -> None:
    text = page.text
    # In the totals the number comes after its name, and the style turns that round.
    number, _space, name = shown.partition(" ")
    assert shown in text or f"{name} {number}" in text, text


def test_nothing_is_said_of_what_is_not_known(page: Page) -> None:
    assert "None" not in page.text
    bare = {"hv1": {"host": {key: HOST[key] for key in ("memory", "vcpus", "pools")}, "machines": [OLD]}}
    text = Page(picture(bare, MADE)).text
    for word in ("None", "certificate", "libvirt ", "QEMU", "up ", "snapshot", "image ", "maintenance"):
        assert word not in text.partition("Hypervisors by")[2].partition("Made by the playbook")[0], word


def test_facts_that_only_some_answers_have() -> None:
    host = {**HOST, "release": "Debian 12", "uptime_seconds": 3 * 86400 + 5}
    machine = {**WEB, "snapshots": ["one", "two"], "jobs": [{"type": "backup", "percent": 43.2}]}
    text = Page(picture({"hv1": {"host": host, "machines": [machine]}}, MADE)).text
    assert "Debian 12 libvirt 9.0.0" in text
    assert "up 3 days" in text
    assert "2 snapshots" in text
    assert "Job: backup, 43%" in text


def test_hypervisors_are_in_natural_order(page: Page) -> None:
    assert list(page.values("data-name")) == ["hv2", "hv10"]


def test_bars_count_as_placement_does(page: Page) -> None:
    labels = [value for tag, name, value in page.attributes if (tag, name) == ("svg", "aria-label")]
    memory = "Memory: 3 of 8 GiB committed, 2 GiB of that by running machines, 5 GiB free"
    assert f"{memory} (8.2 GiB in the hypervisor, 256 MiB reserved)" in labels
    vcpus = "vCPUs: 3 of 32 committed, 2 of that by running machines, 29 free"
    assert f"{vcpus} (4 CPUs in the hypervisor, ratio 8)" in labels
    assert "default: 20 of 100 GiB used, 80 GiB free, disks may grow by 7 GiB" in labels
    tight = Page(picture(FLEET, MADE, {"hv2": {"virt_memory_ratio": "0.25", "virt_vcpu_ratio": 0.5}}))
    assert "Memory: 3 of 2 GiB committed" in tight.text
    assert "vCPUs: 3 of 2 committed" in tight.text
    assert "Memory: 3 of 2 GiB committed" not in page.text


def test_the_page_may_load_nothing_and_run_only_its_own_script(page: Page) -> None:
    assert (page.tags["script"], page.tags["style"]) == (1, 1)
    (policy,) = [value for value in page.values("content") if "default-src" in value]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for name in ("style", "script"):
        digest = base64.b64encode(hashlib.sha256(page.raw[name].encode()).digest()).decode()
        assert rules[f"{name}-src"] == f"'sha256-{digest}'"
    assert not {"img", "link", "iframe", "object", "embed", "base", "video", "audio", "source"} & page.tags.keys()
    names = {name for _tag, name, _value in page.attributes}
    # An inline style or handler would not work under the policy either.
    assert not {"src", "srcset", "style", "action", "formaction"} & names
    assert not [name for name in names if name.startswith("on")]
    assert all(value.startswith("#") for value in page.values("href"))
    assert not re.search(r"url\(|@import|https?:|//[a-z]", page.raw["style"])
    assert not re.search(r"https?:|fetch|XMLHttp|innerHTML|eval|import", page.raw["script"])


def test_the_script_finds_what_it_looks_for(page: Page) -> None:
    script = page.raw["script"]
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'by\("([^"]+)"\)', script)) <= set(ids)
    for name in re.findall(r"for \(const id of \[([^\]]+)\]", script):
        assert {one.strip(' "') for one in name.split(",")} <= set(ids)
    for name in set(re.findall(r"\bdataset\.(\w+)", script)) - {"theme"}:
        assert page.values(f"data-{name}"), name
    for name in re.findall(r'querySelector(?:All)?\("(?:details)?\.(\w+)"\)', script):
        assert any(name in value.split() for value in page.values("class")), name
    # Each choice of an order has its way to compare, and the other way round.
    orders = re.findall(
        r"^    (\w+): ", script.partition("const machineOrders = {")[2].partition("};")[0], re.MULTILINE
    )
    assert orders == ["name", "state", "memory", "vcpus", "address"]
    assert set(orders) <= set(page.values("value"))


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_guest_may_write_is_text(page: Page, text: str) -> None:
    hostile = Page(picture(hostile_fleet(text), MADE, title=text))
    assert hostile.tags == page.tags
    assert hostile.raw == page.raw
    assert sorted(set(name for _tag, name, _value in hostile.attributes)) == sorted(
        set(name for _tag, name, _value in page.attributes)
    )
    assert all(value.startswith("#") for value in hostile.values("href"))
    seen = re.sub(r"\s+", " ", text)
    # Title twice; name, title, error, tag (and its option), address, pending, move, image; facts of the hypervisor.
    assert hostile.text.count(seen) >= 15
    assert f"{seen} running 2 vCPU" in hostile.text
    assert f"Pending: {seen}" in hostile.text
    assert text in hostile.values("value")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u202eb", "a[U+202E]b"),
        ("\u2066a\u2069", "[U+2066]a[U+2069]"),
        ("a\x00b\x1b[2J", "a[U+0000]b[U+001B][2J"),
        ("a\ud800b", "a[U+D800]b"),
        ("one\ntwo\tthree", "one two three"),
        ("Grüße, 世界, שלום", "Grüße, 世界, שלום"),
    ],
)
def test_what_cannot_be_seen_is_shown_by_its_code_point(text: str, shown: str) -> None:
    written = picture({"hv1": {"host": HOST, "machines": [{**WEB, "title": text, "name": text}]}}, MADE)
    found = Page(written.encode("utf-8").decode("utf-8"))
    assert found.text.count(shown) == 2
    assert shown == text or text not in written


def test_the_same_input_gives_the_same_page() -> None:
    one, same = FILTER(FLEET, MADE), FILTER(copy.deepcopy(FLEET), MADE)
    assert one == same
    later_fleet = copy.deepcopy(FLEET)
    for record in (later_fleet["hv2"]["host"], later_fleet["hv2"]["machines"][1]):
        record["uptime_seconds"] = 7200
    later = FILTER(later_fleet, "2026-11-22T13:00:00+01:00")
    assert later["page"].count("up 2 hours") == 2
    assert 'As of <time datetime="2026-11-22T12:00:00+00:00">2026-11-22 12:00 UTC' in later["page"]
    assert one["contents"] == later["contents"]
    other = copy.deepcopy(FLEET)
    other["hv2"]["machines"][1]["state"] = "running"
    assert one["contents"] != FILTER(other, MADE)["contents"]
    assert Page(one["page"]).values("content").count(one["contents"]) == 1


def test_what_it_says_beside_the_page() -> None:
    made = FILTER(FLEET, MADE, errors="return")
    assert {key: made[key] for key in made if key not in ("page", "contents")} == {
        "hypervisors": 2,
        "machines": 2,
        "silent": {"hv3": "did not answer: Connection timed out", "hv4": "it was not asked (--limit)"},
        "errors": [],
    }


def test_a_machine_on_two_hypervisors_is_a_warning() -> None:
    fleet = {name: {"host": HOST, "machines": [OLD]} for name in ("hv1", "hv2")}
    text = Page(picture(fleet, MADE)).text
    assert "There is a machine old on each of hv1, hv2: the live inventory lists them as old_hv1, old_hv2" in text


def test_what_needs_attention_can_be_found() -> None:
    half = {**OLD, "name": "half", "building": True}
    crashed = {**OLD, "name": "gone", "state": "crashed"}
    good = {**OLD, "name": "good"}
    text = picture({"hv1": {"host": HOST, "machines": [half, crashed, good, WEB]}}, MADE)
    entries = re.findall(r'<li class="machine (\w+)"([^>]*)>.*?<bdi>(\w+)</bdi>', text, re.DOTALL)
    assert [(name, style, "data-attention" in attributes) for style, attributes, name in entries] == [
        ("gone", "bad", True),
        ("good", "off", False),
        ("half", "held", True),
        ("web1", "on", True),
    ]
    assert "half on hv1 is unfinished: a run is creating it" in Page(text).text
    assert "gone : crashed on hv1" in Page(text).text


def test_a_large_cloud_is_a_moderate_file() -> None:
    fleet = {
        f"hv{number}": {"host": HOST, "machines": [{**WEB, "name": f"web{number}-{one}"} for one in range(20)]}
        for number in range(50)
    }
    text = picture(fleet, MADE)
    assert len(text) < 1.5 * 1024**2
    assert Page(text).tags["article"] == 50
    # So many are folded away at first.
    assert '<details class="list" open>' not in text
    assert '<details class="list" open>' in picture(FLEET, MADE)


@pytest.mark.parametrize(
    ("fleet", "options", "message"),
    [
        ([], {}, "the input is not a mapping of hypervisors. Give NAME: {host: FACTS, machines: RECORDS} for each"),
        ({}, {}, "hosts: there is no hypervisor"),
        ({"hv1": 5}, {}, "hv1: this is neither the facts of a hypervisor nor a sentence"),
        ({"hv1": {"host": HOST}}, {}, "hv1.machines: this is not a list of machines. Give what virt_info returned"),
        ({"hv1": {"host": {"memory": {}}, "machines": []}}, {}, "hosts['hv1']: this is neither the facts"),
        ({"hv1": {"host": HOST, "machines": [{"name": "a"}]}}, {}, "hv1.machines: this is not a list of machines"),
        (FLEET, {"made": "noon"}, "made: 'noon' is not a time. Give it in ISO 8601"),
        (FLEET, {"made": "2026-11-22T10:00:00"}, "made: '2026-11-22T10:00:00' is not a time"),
        (FLEET, {"settings": {"hv2": {"virt_memory_ratio": "x"}}}, "hv2: virt_memory_ratio: 'x' is not a number"),
    ],
)
def test_wrong_input_is_one_sentence(fleet: t.Any, options: dict[str, t.Any], message: str) -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        FILTER(fleet, **{"made": MADE, **options})
    assert str(caught.value).startswith(f"brine.virt.picture: {message}")
    assert "\n" not in str(caught.value)
    (sentence,) = FILTER(fleet, **{"made": MADE, "errors": "return", **options})["errors"]
    assert sentence.startswith(message)
