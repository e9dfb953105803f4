# SPDX-License-Identifier: GPL-3.0-or-later
"""Moves to a hypervisor of a later Debian release and back. The lab has it as its third host, or gets it."""

from __future__ import annotations

import typing as t

from ...cloud import Cloud, must
from ...moving import forget, has_moved, life, migrate, refused, volumes
from ...needs import NEWER, TINY, newer, store_tiny
from ...runner import ScenarioRun

NEEDS = ("hypervisors", "tiny")


def run(scenario: ScenarioRun, cloud: Cloud) -> None:
    scenario.step(f"{NEWER}, of a later release, becomes a hypervisor", lambda: _third(cloud))
    scenario.step(f"a machine of {cloud.hosts[0]} moves to it", lambda: _to_newer(cloud))
    scenario.step("a machine of a type that only it supports is refused elsewhere", lambda: _to_older(cloud))


def _third(cloud: Cloud) -> None:
    newer(cloud)
    answer = cloud.play_well("hypervisors", live=False)
    must(answer.recap("changed") == 0, answer.text)


def _to_newer(cloud: Cloud) -> None:
    here = cloud.hosts[0]
    answer, _result = cloud.init(here, **{**TINY, "name": "climber"})
    must(answer.status == 0, answer.text)
    try:
        alive, had = life(cloud, "climber"), volumes(cloud, here, "climber")
        answer = cloud.play_well("migrate", "-e", "vm=climber", "-e", f"to={NEWER}")
        has_moved(cloud, "climber", here, NEWER, had)
        must(life(cloud, "climber").address == alive.address, "it has another address")
        answer, _result = migrate(cloud, NEWER, name="climber", target=here)
        must(answer.status == 0, answer.text)
        has_moved(cloud, "climber", NEWER, here, had)
    finally:
        forget(cloud, "climber")


def _to_older(cloud: Cloud) -> None:
    store_tiny(cloud, NEWER)
    spec: dict[str, t.Any] = {**TINY, "name": "modern"}
    answer, _result = cloud.init(NEWER, **spec)
    must(answer.status == 0, answer.text)
    try:
        alive = life(cloud, "modern")
        refused(cloud, "modern", cloud.hosts[0], r"the machine type pc-q35-\S+ is not known there")
        alive.goes_on(cloud)
    finally:
        forget(cloud, "modern")
