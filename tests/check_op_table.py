#!/usr/bin/env python3
"""Checks that the table in ops/README.md keeps its word.

    check_op_table.py SOURCE_ROOT

- Every op of ops/CMakeLists.txt has a row; every function of its header that returns a tensor is named by one.
- Every function that a row names is declared in the header that the row links, and that header is in lathe.h.
- Every test that a row names exists and mentions the function.
- An op with gradients is a GradientCase in one of those tests, for second gradients one that is checked twice.
- "emulated" stands where ops/ or a room of it lists a CUDA kernel, <op>_cuda.cu, and nowhere else.
- An element-wise op has a case of its name in a test of values: of one operand, in the table of elementwise_test.cpp. If its
  functor calls a function of libm, which a GPU rounds in another way, its error stands in ulps_of() of tests/cuda/unary_test.cpp
  or binary_test.cpp. UnaryOp ends with the tests that return bool, where the loop of unary_test.cpp ends.
- An op with kernels and gradients is in graph/op_table.cpp, or stands in NOT_IN_GRAPHS: jit::trace refuses a function that calls it.
- The op has its line in an op_rows_*.cpp, for which op_table_test.cpp compares the columns amp and cpu with what the op does.
"""
import pathlib
import re
import sys

from tree_files import paths_below

COLUMNS = ["API", "grad", "grad²", "amp", "cpu", "cuda", "test"]
NOT_IN_UMBRELLA = {"strided_adjoint.h", "resample.h"}  # parts of other ops
NO_DTYPE_OF_THEIR_OWN = {"randperm"}  # op_rows_*.cpp feed them nothing

# Ops with kernels that graph/op_table.cpp does not have. A function that calls one of these cannot be traced.
NOT_IN_GRAPHS = set("""
    acosh addmm asinh atanh index_add index_put masked_fill_ max_pool2d_with_indices put scatter scatter_add sort take topk
    """.split())
# These are made of ops that it has.
NOT_IN_GRAPHS |= set("baddbmm frac index_copy index_fill lerp mm mv".split())
# And these compute gradients of ops that it has, or a part of them.
NOT_IN_GRAPHS |= set("conv2d_input_grad conv2d_weight_grad resample sum_to_shape".split())


class Table:
    """Rows as dictionaries: the columns, and `header`, `functions`."""

    def __init__(self, text):
        self.rows, self.problems = [], []
        for line in text.splitlines():
            if not line.startswith("| ["):
                continue
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            link = re.match(r"\[([^\]]+)\]\(([^)]+)\)", cells[0])
            if len(cells) != len(COLUMNS) or not link:
                self.problems.append(f"not a row of {len(COLUMNS)} columns: {line}")
                continue
            row = dict(zip(COLUMNS, cells))
            row["header"] = link.group(2)
            row["functions"] = [link.group(1)] + [name.strip() for name in cells[0][link.end() :].split(",") if name.strip()]
            self.rows.append(row)

    def functions(self):
        return {function for row in self.rows for function in row["functions"]}


def words_of(text, name):
    """The words of a CMake list set(name …)."""
    body = re.search(rf"set\({name}\b(.*?)\n\)", text, re.S)
    return re.sub(r"#.*", "", body.group(1)).split() if body else []


def without_comments(text):
    return re.sub(r"//.*", "", text)


def ops_declared_in(header):
    """Names of the exported functions that return tensors, outside `detail`."""
    text = re.sub(r"namespace detail \{.*?\n\}", "", without_comments(header), flags=re.S)
    result = r"(?:const\s+Tensor&|Tensors?|ValuesAndIndices)"
    return set(re.findall(rf"LATHE_API\s+{result}\s+([a-z]\w*)\s*\(", text))


def gradient_cases(text):
    """{op: True if one of its cases is checked twice} of tests that call check_gradients (compare.h)."""
    cases = {}
    for start in re.finditer(r'\{\s*"(\w+)(?: [^"]*)?",', text):
        depth, at = 1, start.end()
        while depth and at < len(text):
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        twice = not re.search(r",\s*(\.twice = )?false\s*\}$", text[start.start() : at])
        cases[start.group(1)] = cases.get(start.group(1), False) or twice
    return cases


def test_path(root, word):
    folder = root / "tests" if "/" in word else root / "tests" / "ops"
    return folder / f"{word}_test.cpp"


def problems_of_row(row, root, cuda_words, umbrella, measured):
    header = (root / "ops" / row["header"]).resolve()
    name = row["functions"][0]
    if not header.exists():
        yield f"{name}: there is no {row['header']}"
        return
    tests = {word.strip(): test_path(root, word.strip()) for word in row["test"].split(",")}
    for word, path in tests.items():
        if not path.exists():
            yield f"{name}: there is no test {path.relative_to(root)}"
    texts = {word: path.read_text(encoding="utf-8") for word, path in tests.items() if path.exists()}
    if header.suffix != ".h":  # a row that stands for forwarding methods
        return

    if root / "ops" in header.parents and header.name not in NOT_IN_UMBRELLA and f'"lathe/ops/{row["header"]}"' not in umbrella:
        yield f"{name}: {row['header']} is not in lathe.h"
    if (row["cuda"] == "emulated") != (header.stem in cuda_words):
        yield f"{name}: cuda says '{row['cuda']}' but {header.stem} is {'' if header.stem in cuda_words else 'not '}listed as a kernel"
    cases = gradient_cases("".join(text for text in texts.values() if "check_gradients" in text))
    declared = without_comments(header.read_text(encoding="utf-8"))
    for function in row["functions"]:
        if not re.search(rf"\b{function}\s*\(", declared):
            yield f"{function}: not declared in {row['header']}"
        if not any(re.search(rf"\b{function}\b", text) for text in texts.values()):
            yield f"{function}: no test of its row mentions it: {row['test']}"
        if row["grad"] and function not in cases:
            yield f"{function}: its row says grad, but no GradientCase in {row['test']} has its name"
        if row["grad²"] and not cases.get(function, False):
            yield f"{function}: its row says grad², but no case is checked twice"
        if row["grad²"] and not row["grad"]:
            yield f"{function}: grad² without grad"
        if function not in measured | NO_DTYPE_OF_THEIR_OWN:
            yield f"{function}: no line in an op_rows_*.cpp of tests/ops"


def problems_of_graphs(rows, table):
    """Ops that nobody decided about: neither graphs have them nor NOT_IN_GRAPHS. `table` is the text of graph/op_table.cpp."""
    held = set(re.findall(r'\b(?:add[12]?|make_op|training_norm)\(\s*"(\w+)"', table))
    for row in rows:
        for name in row["functions"] if row["cuda"] == "emulated" and row["grad"] else []:
            if name not in held and name not in NOT_IN_GRAPHS:
                yield f"{name}: has no line in graph/op_table.cpp, so jit::trace refuses it: add one, or the name to NOT_IN_GRAPHS"
            elif name in held and name in NOT_IN_GRAPHS:
                yield f"{name}: is in graph/op_table.cpp and in NOT_IN_GRAPHS"


EXACT = "fabs|floor|ceil|nearbyint|trunc|sqrt|fmod|copysign"  # rounded alike everywhere


def problems_of_values(rows, read):
    """Element-wise ops whose values nobody compares with a formula. `read(word)` is the text of a test in tests/ops/."""
    for row in rows:
        if row["header"] not in ("unary.h", "binary.h") or not row["grad"]:
            continue
        tests = [word.strip() for word in row["test"].split(",")]
        values = "".join(read(word) for word in tests if "/" not in word and not word.endswith("_gradients"))
        for name in row["functions"]:
            case = rf'\{{"{name}"' if row["header"] == "unary.h" else rf'"[^"\n]*\b{name}\b[^"\n]*"'
            if not name.endswith("_grad") and not re.search(case, values):
                yield f"{name}: no test of values of its row has a case of its name: {row['test']}"


def problems_of_libm(kind, functors, ulps):
    """Functors of libm's functions without an error on a GPU."""
    for name, body in re.findall(r"^struct (\w+) *\{(.*?)^(?=struct|//|template|\})", functors, re.S | re.M):
        if re.search(rf"std::(?!(?:{EXACT})\(|is_|numeric)\w+\(|\bfast_\w+\(", body) and f"{kind}Op::k{name}:" not in ulps:
            yield f"k{name}: its functor calls a function of libm, but ulps_of() in tests/cuda/{kind.lower()}_test.cpp has no case for it"


def problems_of_order(enumeration):
    """Names that the GPU's test does not reach."""
    if not re.search(r"kIsFinite,\s*\}", enumeration):
        yield "UnaryOp: kIsFinite is not the last, where the loop of tests/cuda/unary_test.cpp ends"


def self_test():
    """The checks of element-wise ops must see each kind of fault."""
    def row(header):
        return [{"header": header, "grad": "x", "functions": ["cbrt"], "test": "values, values_gradients, cuda/values"}]

    texts = {"values": '{"sqrt", sqrt', "values_gradients": '{"cbrt", cbrt'}
    assert list(problems_of_values(row("unary.h"), texts.get)) and list(problems_of_values(row("binary.h"), texts.get))
    texts["values"] = 'TEST_CASE("cbrt, sqrt: values")'
    assert list(problems_of_values(row("unary.h"), texts.get)) and not list(problems_of_values(row("binary.h"), texts.get))
    texts["values"] = '{"cbrt", cbrt'
    assert not list(problems_of_values(row("unary.h"), texts.get))
    kernel = [{"grad": "x", "cuda": "emulated", "functions": ["cbrt"]}]
    for wrong in ('add1("sqrt", x)', 'add1("sqrt", x); kFloat[] = {"cbrt"}'):
        assert list(problems_of_graphs(kernel, wrong)), wrong
    assert not list(problems_of_graphs(kernel, 'add1("sqrt", x), add1("cbrt", x)'))
    kernel[0]["functions"] = ["frac"]
    assert list(problems_of_graphs(kernel, 'make_op(\n "frac", x)')) and not list(problems_of_graphs(kernel, 'add1("sqrt", x)'))
    functors = "struct Cbrt { T operator()(T x) const { return std::%s(x); } };\n// end\n"
    assert list(problems_of_libm("Unary", functors % "cbrt", "")) and not list(problems_of_libm("Unary", functors % "sqrt", ""))
    assert not list(problems_of_libm("Unary", functors % "cbrt", "case UnaryOp::kCbrt: return 1;"))
    assert list(problems_of_libm("Binary", functors % "cbrt", "case UnaryOp::kCbrt: return 1;"))
    assert list(problems_of_order("kIsFinite,\n  kCbrt,\n};")) and not list(problems_of_order("kIsFinite,\n};"))


def main():
    self_test()
    root = pathlib.Path(sys.argv[1]).resolve()
    read = lambda path: (root / path).read_text(encoding="utf-8")
    lists = read("ops/CMakeLists.txt")
    words, cuda_words = words_of(lists, "LATHE_OPS"), words_of(lists, "LATHE_OPS_CUDA")
    for room in paths_below(root, ["ops"], {".txt"}):
        if room.name == "CMakeLists.txt" and room.parent.parent == root / "ops":
            cuda_words += re.findall(r"\b(\w+)_cuda\.cu\b", room.read_text(encoding="utf-8"))
    table = Table(read("ops/README.md"))
    lines = "".join(path.read_text(encoding="utf-8") for path in sorted((root / "tests/ops").glob("op_rows_*.cpp")))
    measured = set(re.findall(r'\{"(\w+)", \[\]\(T x\)', lines))
    problems = list(table.problems)
    assert words and table.rows and measured, "nothing was read"

    headers = {pathlib.PurePath(row["header"]).with_suffix("").as_posix() for row in table.rows}  # "losses/nll_loss" is a word, too
    problems += [f"{word} of LATHE_OPS has no row" for word in words if word not in headers]
    for word in words:
        header = root / "ops" / f"{word}.h"
        if header.exists():
            missing = ops_declared_in(header.read_text(encoding="utf-8")) - table.functions()
            problems += [f"{name} of ops/{word}.h has no row" for name in sorted(missing)]
    for row in table.rows:
        problems += problems_of_row(row, root, cuda_words, read("lathe.h"), measured)
    problems += problems_of_values(table.rows, lambda word: read(f"tests/ops/{word}_test.cpp"))
    for kind in ("Unary", "Binary"):
        problems += problems_of_libm(kind, read(f"ops/elementwise_kernels/{kind.lower()}_math.h"), read(f"tests/cuda/{kind.lower()}_test.cpp"))
    problems += problems_of_graphs(table.rows, read("graph/op_table.cpp"))
    problems += problems_of_order(read("ops/unary.h"))

    for problem in problems:
        print(problem)
    print(f"{0 if problems else 1} passed, {1 if problems else 0} failed, 0 skipped")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
