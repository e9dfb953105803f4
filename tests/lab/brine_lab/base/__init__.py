# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 brine.virt contributors
"""What every part of the lab uses: its names and places, its state, its locks, and other programs."""
