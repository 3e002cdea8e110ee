#!/usr/bin/env bash
# Packs a finished build for a machine with a GPU on which nothing can be compiled or installed in the time at hand: the
# command, the test programs, the libraries that they need (not glibc's, not CUDA's), the recorder of kernel times, batch
# norm in two sizes of block, and the tools. tools/gpu_check.py --programs FILE runs it in the tree. Without the tree, in an
# empty folder:
#     python3 -c 'import tarfile; tarfile.open("FILE.tar.xz").extractall()' && python3 tools/gpu_check.py
#     tools/gpu_pack.sh BUILD FILE.tar.xz [TEST...; default: all test programs with a case for a GPU]
# Needs the headers of CUPTI, which the CUDA toolkit has.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$(realpath "$1")
file=$(realpath -m "$2")
shift 2
cuda=${CUDA_PATH:-/usr/local/cuda}
# Programs without a case for a GPU; test_bridge has two, and needs the libraries of OpenCV.
left_out=" test_bridge test_c test_conv_search test_cudnn_plans test_debug test_faults test_generalisation test_ptx \
test_random_programs test_state test_tiny "
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

mkdir -p "$folder/lib" "$folder/tests"
git -C "$root" describe --always --dirty >"$folder/commit" 2>/dev/null || true
strip -o "$folder/lathe" "$build/bin/lathe"
for program in "$build"/tests/*/test_* "$build"/tests/*/*/test_*; do
  name=$(basename "$program")
  if [ $# -gt 0 ]; then [[ " $* " == *" $name "* ]] || continue; else [[ "$left_out" != *" $name "* ]] || continue; fi
  if [ -f "$program" ] && [ -x "$program" ]; then strip -o "$folder/tests/$name" "$program"; fi
done
ldd "$folder/lathe" "$folder"/tests/* | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
  grep -v -E '/(libc|libm|libpthread|libdl|librt|libresolv|libgcc_s|libstdc\+\+|ld-linux[^/]*)\.so' |
  xargs -r cp -L -t "$folder/lib"
dnnl=$(ldconfig -p | awk '/libdnnl\.so\.[0-9]+ / { print $NF; exit }')
[ -z "$dnnl" ] || cp -L "$dnnl" /usr/lib/x86_64-linux-gnu/libgomp.so.1 "$folder/lib"
g++ -std=c++20 -O2 -shared -fPIC -I"$cuda/include" "$root/tools/bench/record_kernels.cpp" -o "$folder/lib/librecord_kernels.so" \
  -L"$cuda/lib64" -L"$cuda/lib" -lcupti
python3 "$root/tools/bench/batch_norm_blocks.py" "$build" "$folder"
(cd "$root" && cp --parents tools/gpu_check.py tools/gpu/*.py tools/bench/*.py tests/cli/{device_test,driver,runs}.py "$folder")

mkdir -p "$(dirname "$file")"
tar -C "$folder" -cf - . | xz -T0 --x86 --lzma2=preset=1,dict=256MiB >"$file.part"
mv "$file.part" "$file"
ls -lh "$file"
