#!/usr/bin/env python3
"""Checks the form of comments: what a reader looks for stands where it is looked for.

    check_contracts.py SOURCE_ROOT

- Every source file begins with a comment that says what it holds.
- In headers, a contract's keyword (dtypes, grad, amp, throws, ref) begins its line, or follows another one on a line
  that begins with one; and no line ends with a keyword.
- Each public name of a header that programs include has a contract (docs/site/headers.py says what counts).
- No comment is longer than a line of code may be, and none is a ruler torn from its title.
- Where a source of the library has its contract needs no search: in a header that it includes and whose name begins its own, as
  unary.h or unary_impl.h for unary_compare_cuda.cu, or in the one that its first comment names: "Contract: passes.h."
- That header has the source's name: its words stand in the source's, in this order, as those of conv2d_winograd_cpu.h in
  conv2d_winograd_grad_cpu.cpp; or it has the name of the folder. OTHER_NAMES lists the exceptions, each with its reason.
"""
import pathlib
import re
import sys

from tree_files import paths_below

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "docs/site"))
import headers

FOLDERS = ["core", "profile", "autograd", "ops", "nn", "graph", "optim", "data", "distributed", "train", "bridge", "c", "tools", "tiny", "course"]
WITHOUT_CONTRACTS = ("tools", "tiny", "course")  # commands, benchmarks and texts, which nobody calls
HEADERS, SOURCES = {".h", ".cuh"}, {".h", ".cuh", ".cpp", ".cu"}
COLUMNS = 100
USED = set()  # of OTHER_NAMES
OTHER_NAMES = {
    "lathe_c.h": "one header for programs in C; a source for each kind of handle",
    "core/cuda_backend.h": "all that the core asks of CUDA stands in one place; each part of it has a source",
    "data/images/decode.h": "one interface over several libraries; a source is called after its library, and encodes, too",
    "graph/onnx/onnx_export.h": "one converter; a source for each kind of node",
    "graph/onnx/onnx_import.h": "one converter; a source for each kind of node",
    "graph/pt2/pt2_call.h": "one converter; a source for each kind of node",
}
KEYWORD = r"(?:dtypes|grad|amp|throws|ref):"
COMMENT = re.compile(r"^\s*(///?)(?: (.*))?$")
BEGINS = re.compile(rf"^\s*{KEYWORD}(?:\s|$)")
INSIDE = re.compile(rf"(?<![\w`\"]){KEYWORD}(?=\s|$)")
ENDS = re.compile(rf"(?<![\w`\"]){KEYWORD}\s*$")
INCLUDE = re.compile(r'^#\s*include "lathe/([^"]+)"', re.M)
CONTRACT = re.compile(r"Contracts?: ([\w/]+\.(?:h|cuh)(?:(?:, | and |, and )[\w/]+\.(?:h|cuh))*)[.,;: ]")
RULER = re.compile(r"^\s*[-=]{4,}\s*$")


def faults_of_line(text, is_header):
    """What is wrong with a line that is a comment, without its slashes."""
    if RULER.match(text):
        yield "a ruler without its title"
    if is_header and ENDS.search(text):
        yield "the line ends with a keyword"
    elif is_header and INSIDE.search(text) and not BEGINS.match(text):
        yield f"{INSIDE.search(text)[0]} stands in the middle of the line"


def has_the_name(source, header):
    """Whether a header has the name of a source or of its folder."""
    words = iter(source.stem.split("_"))
    stem = header.stem.removesuffix("_impl").removesuffix("_cpu")
    return all(word in words for word in stem.split("_")) or header.stem == source.parent.name


def fault_of_contract(path, text, exists):
    """What is wrong with a source whose contract has to be searched for."""
    head = re.match(r"(//[^\n]*\n)*", text)[0].replace("\n// ", " ").replace("\n", " ")
    named = CONTRACT.search(head)
    if not named:
        included = {pathlib.PurePath(name).stem.removesuffix("_impl") for name in INCLUDE.findall(text)}
        words = path.stem.split("_")
        has_own = included & {"_".join(words[:n]) for n in range(1, len(words) + 1)}
        return None if has_own else f"{path}:1: no header of its name, and no \"Contract: <header>.\" in the first comment"
    places = (path.parent, *path.parent.parents)  # beside it, or above
    names = re.findall(r"[\w/]+\.\w+", named[1])
    found = [next((place / name for place in places if exists(place / name)), None) for name in names]
    if None in found:
        return f"{path}:1: its contract is in {names[found.index(None)]}, which is neither beside it nor above"
    if any(has_the_name(path, header) for header in found):
        return None
    if excepted := OTHER_NAMES.keys() & {header.as_posix() for header in found}:
        return USED.update(excepted)
    return f"{path}:1: its contract is in {names[0]}, which has another name (OTHER_NAMES)"


def faults_of(path, text, exists):
    lines = text.splitlines()
    if not lines or not lines[0].startswith("//"):
        yield f"{path}:1: no comment says what the file holds"
    if path.suffix not in HEADERS and path.parts[0] not in WITHOUT_CONTRACTS and (fault := fault_of_contract(path, text, exists)):
        yield fault
    for number, line in enumerate(lines, 1):
        comment = COMMENT.match(line)
        if comment and len(line) > COLUMNS and "http" not in line:
            yield f"{path}:{number}: {len(line)} columns"
        if comment:
            yield from (f"{path}:{number}: {fault}" for fault in faults_of_line(comment[2] or "", path.suffix in HEADERS))


def self_test():
    """The checker must see each kind of fault."""
    head = "// What it holds.\n"
    exists = {pathlib.Path(name) for name in ("ops/x.h", "ops/x_y_cpu.h", "ops/room/z.h", "ops/room.h", "graph/graph.h", *OTHER_NAMES)}.__contains__
    faults = lambda text, name="ops/x.h": list(faults_of(pathlib.Path(name), text, exists))
    assert faults("#pragma once\n") and not faults(head)
    own = head + '#include "lathe/ops/x.h"\n'
    assert faults("#include <vector>\n", "ops/x.cpp") and not faults(own, "ops/x.cpp") and not faults(own, "ops/kernels/x_cuda.cu")
    assert faults(head, "ops/x.cpp") and faults(own, "ops/y.cpp") and not faults(head, "tools/cli/x.cpp")
    named = lambda header, name: faults(f"// What it holds. Contract:\n// {header}.\n", name)
    assert not named("x.h", "ops/room/x_cuda.cpp") and not named("ops/x.h", "ops/fast_x.cpp") and not named("room.h", "ops/room/any.cpp")
    assert not named("x_y_cpu.h", "ops/x_grad_y.cpp") and not named("graph.h", "graph/print.cpp")
    assert not named("decode.h", "data/images/jpeg_turbo.cpp") and named("decode.h", "data/jpeg_turbo.cpp")
    assert named("x.h", "ops/y.cpp") and named("x.h", "ops/xy.cpp") and named("x_y_cpu.h", "ops/y_x_cpu.cpp") and named("w.h", "ops/w.cpp")
    assert named("z.h", "ops/z.cpp")  # it is in a room, where nobody looks
    assert faults(head + "/// The sum.   throws: ShapeError.\n") and faults(head + "/// The sum.   throws:\n")
    assert faults(head + "/// grad: x.   amp:\n") and not faults(head + "/// grad: x.   amp: half.\n")
    assert not faults(head + "/// The sum.\n/// throws: ShapeError.\n") and not faults(head + "int grad();  // it throws: x\n")
    declared = "#pragma once\n\nnamespace lathe {\n\nLATHE_API int f(int x);\n"
    assert not headers.without_contract("// What it holds: f, which adds one (f.cpp).\n" + declared)
    assert headers.without_contract(head + declared) == ["f"]
    assert not headers.without_contract(head + declared.replace("LATHE_API", "/// x + 1.\nLATHE_API"))
    assert not headers.without_contract(head + declared.replace(";", ";  // x + 1"))
    assert faults(head + "// " + "x" * 98) and faults(head + "// -------\n") and not faults(head + "// --- sums ----\n")


def main():
    self_test()
    root = pathlib.Path(sys.argv[1])
    paths = paths_below(root, FOLDERS, SOURCES)
    assert paths, f"no sources under {root}"
    USED.clear()
    found = [fault for path in paths for fault in faults_of(path.relative_to(root), path.read_text(encoding="utf-8"), lambda name: (root / name).exists())]
    for name in headers.public_headers(root):
        found += [f"{name}: {public} has no contract" for public in headers.without_contract((root / name).read_text(encoding="utf-8"))]
    found += [f"{name}: no source of another name has its contract there; leave it out of OTHER_NAMES" for name in OTHER_NAMES if name not in USED]
    print("\n".join(found))
    print(f"{len(paths)} files, {len(found)} faults")
    print(f"{0 if found else 1} passed, {1 if found else 0} failed, 0 skipped")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
