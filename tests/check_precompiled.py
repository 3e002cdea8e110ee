#!/usr/bin/env python3
"""Checks that every source would compile without the precompiled headers (cmake/LathePrecompiled.cmake), which hide a missing
#include: a header of the standard library is there for each std:: name that a file uses, and one of Lathe's for each name
that a precompiled header of Lathe's declares. The file includes it, or a header of Lathe's that the file includes does.

    check_precompiled.py SOURCE_ROOT
"""
import collections
import functools
import pathlib
import re
import sys

from tree_files import paths_below

FOLDERS = ("core", "autograd", "data", "graph", "nn", "ops", "optim", "profile", "train", "tools/cli")
SOURCES = {".h", ".cpp"}

# Headers, any of which is enough: names of namespace std.
NAMES = {
    "algorithm": "all_of any_of clamp copy copy_if copy_n count count_if equal fill fill_n find find_if generate is_sorted "
                 "lexicographical_compare lower_bound max_element min_element minmax none_of nth_element remove_if replace reverse rotate sort "
                 "stable_sort transform unique upper_bound",
    "algorithm string vector functional utility": "max min",
    "algorithm ranges": "ranges",
    "any": "any any_cast",
    "array": "array",
    "atomic": "atomic atomic_thread_fence memory_order_acquire memory_order_relaxed memory_order_release",
    "bit": "bit_cast bit_ceil bit_floor bit_width countl_zero countr_zero has_single_bit popcount",
    "bitset": "bitset",
    "charconv": "from_chars from_chars_result to_chars",
    "chrono": "chrono",
    "cmath": "ceil copysign cos erf erfc exp expm1 fabs floor fma frexp isfinite isinf isnan ldexp log log1p log2 lround llround "
             "nearbyint nextafter pow rint round signbit sin sqrt tanh trunc",
    "cmath cstdlib": "abs",
    "complex": "complex",
    "concepts ranges algorithm iterator": "convertible_to floating_point integral invocable same_as",
    "condition_variable": "condition_variable",
    "cstdio": "FILE fopen fputs snprintf",
    "cstdlib string": "strtod strtol strtoull",
    "cstdlib": "exit free getenv malloc",
    "cstring": "memchr memcmp memcpy memmove memset strcmp strerror strlen",
    "deque": "deque",
    "exception stdexcept memory new": "current_exception exception exception_ptr rethrow_exception terminate uncaught_exceptions",
    "filesystem": "filesystem",
    "fstream": "fstream ifstream ofstream",
    "functional": "cref function greater hash less multiplies plus ref reference_wrapper",
    "functional string string_view memory": "hash",
    "future": "async future packaged_task promise",
    "iomanip": "put_time setfill setprecision setw",
    "iosfwd ostream iostream sstream fstream string": "ostream",
    "iostream": "cerr cin cout",
    "iterator vector string map set array span string_view": "back_inserter distance make_move_iterator next prev",
    "iterator": "istreambuf_iterator ostream_iterator",
    "limits": "numeric_limits",
    "list": "list",
    "locale": "locale",
    "map": "map multimap",
    "memory": "addressof enable_shared_from_this make_shared make_unique make_unique_for_overwrite shared_ptr unique_ptr weak_ptr",
    "mutex": "call_once lock_guard mutex once_flag recursive_mutex scoped_lock unique_lock",
    "mutex shared_mutex": "unique_lock",
    "new memory vector string": "align_val_t bad_alloc nothrow",
    "numbers": "numbers",
    "numeric": "accumulate gcd inner_product iota lcm partial_sum reduce",
    "optional": "nullopt optional",
    "queue": "priority_queue queue",
    "random": "mt19937 mt19937_64 normal_distribution uniform_int_distribution uniform_real_distribution",
    "regex": "regex smatch",
    "set": "multiset set",
    "shared_mutex": "shared_lock shared_mutex",
    "source_location": "source_location",
    "span": "span",
    "sstream": "istringstream ostringstream stringstream",
    "stdexcept": "invalid_argument logic_error out_of_range runtime_error",
    "string": "getline stod stoi stoll string to_string u8string wstring",
    "string_view string": "string_view",
    "system_error filesystem thread mutex charconv fstream": "errc error_code generic_category system_error",
    "thread": "jthread this_thread thread",
    "tuple": "apply make_tuple tuple",
    "tuple map functional memory": "tie",
    "type_traits concepts utility functional memory tuple optional algorithm vector span bit": "conditional_t decay_t invoke_result_t "
        "is_base_of_v is_const_v is_floating_point_v is_integral_v is_invocable_v is_same_v is_trivially_copyable_v remove_cvref_t void_t",
    "unordered_map": "unordered_map unordered_multimap",
    "unordered_set": "unordered_set",
    "utility optional variant any": "in_place",
    "utility": "cmp_equal cmp_greater cmp_less index_sequence make_index_sequence unreachable",
    "utility map tuple vector string memory functional algorithm": "exchange forward move pair",
    "variant": "get_if holds_alternative monostate variant visit",
    "vector": "vector",
}
ENOUGH = collections.defaultdict(set)  # name: headers
for headers, names in NAMES.items():
    for name in names.split():
        ENOUGH[name].update(headers.split())

INCLUDE_STD = re.compile(r"^\s*#\s*include <([a-z_0-9]+)>", re.M)
INCLUDE_OWN = re.compile(r'^\s*#\s*include "lathe/([^"]+)"', re.M)
USE_STD = re.compile(r"\bstd::([a-z_0-9]+)")
USE_OWN = re.compile(r"(?<![\w.>:])([A-Z]\w+)")
DECLARATION = re.compile(r"^(?:class|struct|enum class)\s+(?:LATHE_API\s+)?([A-Z]\w+)\s*(?:final\s*)?[:{]|#\s*define\s+(LATHE_\w+)", re.M)
ANY_DECLARATION = re.compile(r"\b(?:class|struct|enum|using|typename)\s+(?:LATHE_API\s+)?([A-Z]\w+)|#\s*define\s+(\w+)")
PRECOMPILED = re.compile(r'"\$\{PROJECT_SOURCE_DIR\}/([^"]+\.h)"')


def code_of(text):
    """Without comments and string literals, but for the file names of includes."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    return "\n".join(line if line.lstrip().startswith("#") else re.sub(r'"(\\.|[^"\\])*"', '""', line) for line in text.split("\n"))


class Tree:
    def __init__(self, root):
        self.root = root

    @functools.lru_cache(None)
    def code(self, name):
        path = self.root / name
        return code_of(path.read_text(encoding="utf-8")) if path.exists() else ""

    @functools.lru_cache(None)
    def included(self, name):
        """The file and all of Lathe's headers that it includes, and the headers of the standard library that these name."""
        own, standard, left = set(), set(), [name]
        while left:
            at = left.pop()
            if at in own:
                continue
            own.add(at)
            standard.update(INCLUDE_STD.findall(self.code(at)))
            left += INCLUDE_OWN.findall(self.code(at))
        return frozenset(own), frozenset(standard)

    @functools.lru_cache(None)
    def declared(self, name):
        """The names that one file declares, also inside of classes and without saying more than that."""
        return frozenset("".join(names) for names in ANY_DECLARATION.findall(self.code(name)))

    def precompiled(self):
        """Names that Lathe's precompiled headers declare: name → headers that do."""
        found = collections.defaultdict(set)
        for list_file in ("CMakeLists.txt", "tools/cli/CMakeLists.txt"):
            calls = re.findall(r"lathe_precompile\((.*?)\)", (self.root / list_file).read_text(encoding="utf-8"), re.S)
            headers = {header for call in calls for header in PRECOMPILED.findall(call)}
            assert headers, f"{list_file}: no lathe_precompile(… a header of Lathe's)"
            for header in sorted(set().union(*(self.included(header)[0] for header in headers))):
                for names in DECLARATION.findall(self.code(header)):
                    found["".join(names)].add(header)
        return found


def faults_in(tree, name, declared):
    own, standard = tree.included(name)
    for used in sorted(set(USE_STD.findall(tree.code(name)))):
        if used in ENOUGH and not ENOUGH[used] & standard:
            yield f"{name}: std::{used} needs <{sorted(ENOUGH[used])[0]}>"
    for used in sorted(set(USE_OWN.findall(tree.code(name))) & declared.keys()):
        if not any(used in tree.declared(header) for header in own):  # another of this name will do: the compiler sees to that
            yield f'{name}: {used} needs "lathe/{sorted(declared[used])[0]}"'


def self_test(root, declared):
    """The checker must see both kinds of fault, directly and behind a header that does not help."""
    class Planted(Tree):
        texts = {"a.cpp": '#include "lathe/b.h"\nstd::vector<int> v;\nTensor t;\n// std::map', "b.h": "#include <string>\n",
                 "c.cpp": '#include "lathe/d.h"\nauto n = std::max(1, 2); Tensor t;', "d.h": '#include <vector>\n#include "lathe/core/tensor.h"',
                 "core/tensor.h": "class LATHE_API Tensor {};"}

        def code(self, name):
            return code_of(self.texts.get(name, ""))

    tree = Planted(root)
    assert len(list(faults_in(tree, "a.cpp", declared))) == 2, list(faults_in(tree, "a.cpp", declared))
    assert not list(faults_in(tree, "c.cpp", declared)), list(faults_in(tree, "c.cpp", declared))


def main():
    root = pathlib.Path(sys.argv[1])
    tree = Tree(root)
    declared = tree.precompiled()
    assert "core/tensor.h" in declared["Tensor"] and declared["LATHE_CHECK"], "the declarations were not found"
    self_test(root, declared)
    files = [path.relative_to(root).as_posix() for path in paths_below(root, FOLDERS, SOURCES)]
    found = [text for name in files for text in faults_in(tree, name, declared)]
    print("\n".join(found))
    assert files, f"no sources under {root}"
    print(f"{len(files)} files, {len(ENOUGH)} names of the standard library, {len(declared)} of precompiled headers")
    print(f"{0 if found else 1} passed, {1 if found else 0} failed, 0 skipped")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
