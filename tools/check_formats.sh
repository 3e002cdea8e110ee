#!/usr/bin/env bash
# usage: tools/check_formats.sh BUILD [PYTHON]: exchanges files with Python's packages (NumPy, safetensors, PyTorch, torchvision, onnx,
# onnxruntime) of that Python, python3 unless it is named. What is not installed is skipped with the reason; whatever is
# exchanged must agree.
#   python3 -m venv /tmp/v && /tmp/v/bin/pip install numpy safetensors onnx onnxruntime
#   tools/check_formats.sh build/release /tmp/v/bin/python
set -euo pipefail
build=${1:?usage: tools/check_formats.sh BUILD [PYTHON]}
python=${2:-python3}
tests=$(dirname "$0")/../tests
export PYTHONDONTWRITEBYTECODE=1
cmake --build "$build" --target safetensors_copy npz_copy model_logits onnx_export onnx_run
with_zlib=$(grep -c '^ZLIB_LIBRARY_RELEASE:FILEPATH=/' "$build/CMakeCache.txt" || true)
"$python" "$tests/core/safetensors_python_test.py" "$build/tests/core/safetensors_copy"
"$python" "$tests/core/npz_python_test.py" "$build/tests/core/npz_copy" "$with_zlib"
"$python" "$tests/nn/torch_weights_test.py" "$build/tests/nn/model_logits"
"$python" "$tests/graph/onnx_python_test.py" "$build/tests/graph/onnx_export"
"$python" "$tests/graph/onnx_nodes_test.py" "$build/tests/graph/onnx_run"
"$python" "$tests/graph/onnx_models_test.py" "$build/tests/graph/onnx_run"
