# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines are created, changed, seeded, cleaned up and deleted."""
