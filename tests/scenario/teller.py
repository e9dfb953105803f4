# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells the stories one after the other and counts what they prove.

A story is a module with `tell(teller, cloud)`, in the folder of its feature below stories/. It says what it begins
with in NEEDS (names of `needs.NEEDS`), and gets it whatever was told before it. What it leaves behind, `tidy` takes
away. So each can be told alone, in any order, and a failed one keeps no other from being told.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import traceback
import types
import typing as t
from pathlib import Path

from . import needs
from .cloud import Cloud, Failure
from .tidy import tidy

# In an order in which little has to be made twice.
STORIES = (
    "hypervisors",
    "provisioning",
    "machines",
    "description",
    "refusals",
    "mistakes",
    "secrets",
    "deletion",
    "two_at_once",
    "movement",
    "sudo_user",
    "evacuating",
    "ending",
)
# With the stories that take long, because real guests boot in them.
FULL_STORIES = (
    "hypervisors",
    "provisioning",
    "machines",
    "trust",
    "images",
    "storage",
    "hostile_disks",
    "description",
    "refusals",
    "secrets",
    "mistakes",
    "seeding",
    "killing",
    "deletion",
    "silence",
    "stuck",
    "two_at_once",
    "visible",
    "movement",
    "mishaps",
    "interrupted_moves",
    "journeys",
    "sudo_user",
    "evacuating",
    "fleet",
    "mixed",
    "ending",
)
# In place of names of stories: all of FULL_STORIES.
FULL = "full"


class Teller:
    """Runs the steps of a story; a failing one is shown and counted, and the story goes on unless it is vital."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed: list[str] = []
        self.skipped = 0

    def step(self, title: str, proof: t.Callable[[], t.Any], *, vital: bool = False) -> None:
        """One thing to prove. vital: without it the rest of the story makes no sense."""
        began = time.monotonic()
        print(f"   {title} ...", flush=True)
        try:
            proof()
        except Exception as exc:
            self.failed.append(title)
            words = str(exc) if isinstance(exc, Failure) else traceback.format_exc()
            print(f"   FAILED: {title}\n{words}", flush=True)
            if vital:
                raise StoryEnds(title) from exc
        else:
            self.passed += 1
            print(f"   ok: {title} ({time.monotonic() - began:.1f} s)", flush=True)

    def tell(self, name: str, cloud: Cloud) -> None:
        """One story, with what it needs before it and nothing left of it behind it."""
        print(f"-- {name}", flush=True)
        try:
            story = find_story(name)
            wanted: tuple[str, ...] = story.NEEDS
            tidy(cloud, needs.kept_for(wanted))
            for need in wanted:
                needs.provide(cloud, need)
        except Exception as exc:
            self.failed.append(f"{name}: what it needs is not there")
            words = str(exc) if isinstance(exc, Failure) else traceback.format_exc()
            print(f"   FAILED: {name} cannot begin\n{words}", flush=True)
            return
        try:
            story.tell(self, cloud)
        except StoryEnds as exc:
            print(f"-- {name} ends here, without: {exc}", flush=True)
        except Exception:
            self.failed.append(f"{name} broke off")
            print(f"   FAILED: {name} broke off\n{traceback.format_exc()}", flush=True)


class StoryEnds(Exception):
    """A vital step failed."""


def find_story(name: str) -> types.ModuleType:
    """Import the story of this name, whichever folder below stories/ it is in. Raises Failure when there is none."""
    if name not in FULL_STORIES:
        raise Failure(f"there is no story {name!r}; there are: {', '.join(FULL_STORIES)}")
    (path,) = Path(__file__).parent.glob(f"stories/*/{name}.py")
    return importlib.import_module(f"tests.scenario.stories.{path.parent.name}.{name}")


def main(arguments: list[str]) -> int:
    """Tell the stories of STORIES, or those of FULL_STORIES, or the named ones. Returns the exit status."""
    report = Path(arguments[0]) if arguments else None
    names = arguments[1:] or list(STORIES)
    if names == [FULL]:
        names = list(FULL_STORIES)
    teller = Teller()
    cloud = Cloud(Path(__file__).resolve().parents[2])
    try:
        for name in names:
            began = time.monotonic()
            teller.tell(name, cloud)
            print(f"-- {name}: {time.monotonic() - began:.0f} s", flush=True)
    except KeyboardInterrupt:
        teller.failed.append("interrupted")
    counts = {"passed": teller.passed, "failed": len(teller.failed), "skipped": teller.skipped}
    if report:
        report.write_text(json.dumps(counts), encoding="utf-8")
    for title in teller.failed:
        print(f"FAILED: {title}", file=sys.stderr)
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped", flush=True)
    return 1 if teller.failed else 0
