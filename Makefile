# Every target is one line: what it runs says how.  Set-up is done as needed (tests/env/bootstrap.sh).
.DEFAULT_GOAL := help
.PHONY: help demo test soak matrix vm lint gen bench bench-compare clean

help: ## this list
	@sed -n 's/^\([a-z-]*\): .*## /  make \1|/p' Makefile | expand -t 2 | awk -F '|' '{printf "%-22s %s\n", $$1, $$2}'

demo: ## run a pod with two containers on a real Docker Engine (as root)
	@tests/env/run.sh demo

test: ## run all tests on an engine of their own, within 15 minutes (as root)
	@tests/env/run.sh test

soak: ## run all tests with their full counts, and critest in several ways, on all engines: hours (as root)
	@tests/env/run.sh soak

matrix: ## judge by crictl and critest on several generations of Docker Engine (as root)
	@tests/env/run.sh matrix

vm: ## test in a virtual machine with systemd, cgroup v2 and AppArmor (as root; SUITE=bookworm or sid)
	@tests/env/run.sh vm

lint: ## run ruff, mypy, the import contracts and the length check
	@tests/env/run.sh lint

gen: ## write the stubs in crishim/cri from api/
	@tests/env/run.sh gen

bench: ## measure, and write docs/performance.md (as root)
	@tests/env/run.sh bench

bench-compare: ## print the ratios of two results: make bench-compare A.json B.json
	@tests/env/run.sh bench-compare $(or $(strip $(A) $(B)),$(RESULTS))

# The files behind bench-compare are goals to make: nothing is to be done for them.
ifeq ($(firstword $(MAKECMDGOALS)),bench-compare)
RESULTS := $(wordlist 2,$(words $(MAKECMDGOALS)),$(MAKECMDGOALS))
.PHONY: $(RESULTS)
$(RESULTS): ; @:
endif

clean: ## remove .venv, .cache and what tools left in the checkout
	@tests/env/run.sh clean
