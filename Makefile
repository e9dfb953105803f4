# SPDX-License-Identifier: GPL-3.0-or-later
# Each word installs what it needs, and may be given again at any time. The work is done by the programs in tests/.

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo check test test-full bench lab-up lab-down clean

help: ## show these words
	@printf 'brine.virt: a private cloud of plain Linux hosts. Words for make:\n\n'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' Makefile | expand -t 14
	@printf '\nThey install what they need, Debian packages too; what they make stands in .build.\n'

demo: ## a private cloud before your eyes: two bare hosts, a machine on one of them, reached by Ansible
	@tests/gate/setup demo lab && tests/demo/run

check: ## the quick part of the tests: format, lint, types, documentation, sanity, unit tests
	@tests/gate/setup check && .build/venv/bin/python -m tests.gate check

test: ## everything that CI runs: check, and beside it the scenario in the lab (SCENARIO=no leaves it out, KEEP_LAB=1 leaves the lab up)
	@tests/gate/setup check $(if $(filter no,$(SCENARIO)),,demo lab) && .build/venv/bin/python -m tests.gate test

test-full: ## test, with the stories that take long: every way to seed a guest, every option of a machine
	@tests/gate/setup check $(if $(filter no,$(SCENARIO)),,demo lab) && .build/venv/bin/python -m tests.gate test-full

bench: ## how long many machines take in the lab beside virt-install and the bare tools, a move beside virsh, a first login beside a bare boot (KEEP_LAB=1 leaves the lab up)
	@tests/gate/setup demo lab && tests/benchmark/run && tests/benchmark/run --moves && tests/benchmark/run --first-login

lab-up: ## start the lab: bare hosts on this machine to try things on
	@tests/gate/setup lab && tests/lab/lab up

lab-down: ## end the lab and leave nothing of it running
	@tests/gate/down

clean: ## end the lab and remove all that was made here (.build); downloads for the lab stay in their cache
	@tests/gate/down && tests/gate/clean
