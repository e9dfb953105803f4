# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines are made, changed, seeded, cleared and deleted."""
