#!/usr/bin/env bash
# usage: tools/test_with_python.sh BUILD [PYTHON]: runs the tests that need packages of Python (NumPy, safetensors, PyTorch, torchvision,
# onnx, onnxscript, onnxruntime, tensorboard) with that Python, python3 unless it is named. A test whose package is not installed is
# skipped with the reason. tools/test.sh does not run them; it compares with files that these packages made.
#   python3 -m venv /tmp/v && /tmp/v/bin/pip install numpy safetensors onnx onnxruntime
#   tools/test_with_python.sh build/release /tmp/v/bin/python
set -euo pipefail
build=${1:?usage: tools/test_with_python.sh BUILD [PYTHON]}
python=${2:-python3}
tests=$(dirname "$0")/../tests
export PYTHONDONTWRITEBYTECODE=1
cmake --build "$build" --target safetensors_copy npz_copy write_events random_programs model_logits onnx_export onnx_run
with_zlib=$(grep -c '^ZLIB_LIBRARY_RELEASE:FILEPATH=/' "$build/CMakeCache.txt" || true)
"$python" "$tests/core/safetensors_python_test.py" "$build/tests/core/safetensors_copy"
"$python" "$tests/core/npz_python_test.py" "$build/tests/core/npz_copy" "$with_zlib"
"$python" "$tests/data/tensorboard_python_test.py" "$build/tests/data/write_events"
"$python" "$tests/autograd/random_programs_torch_test.py" "$build/tests/autograd/random_programs"
"$python" "$tests/ops/golden_programs.py" --check "$tests/ops/golden_programs.txt"
"$python" "$tests/nn/torch_weights_test.py" "$build/tests/nn/model_logits"
"$python" "$tests/graph/onnx_python_test.py" "$build/tests/graph/onnx_export"
"$python" "$tests/graph/onnx_nodes_test.py" "$build/tests/graph/onnx_run"
"$python" "$tests/graph/onnx_models_test.py" "$build/tests/graph/onnx_run"
