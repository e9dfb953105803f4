# SPDX-License-Identifier: GPL-3.0-or-later
"""Scenarios about backups of machines, and restores."""
