# SPDX-License-Identifier: GPL-3.0-or-later
"""Bare hosts become hypervisors that trust each other, and go again."""
