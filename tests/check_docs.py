#!/usr/bin/env python3
"""Checks README.md, docs/ and the README.md of each folder against the tree: what they name exists, what they count is
right.

    check_docs.py SOURCE_ROOT

Names stand in backquotes. A name is looked for in all sources, scripts and CMake files, but not in other pages:

- a link leads to a file, and to a heading of it;
- a path that begins with a folder of the tree is there (`*` and `<op>` stand for anything, `{a,b}` for either; a suffix may
  be missing), and so is a file named without its folder;
- a flag behind `lathe COMMAND` is one that this command takes, a flag behind a script one that the script reads, a flag
  alone one of the two; a flag of another program stands behind that program's name;
- a name with `()`, `::`, an underscore or two humps is a word of the sources, `A::b` a `b` in a file that knows an `A`;
- a function followed by its file, as in `f()` (`a/b.h`) or in two columns of a table, stands in that file;
- a number in parentheses behind a flag is its default;
- a path in a comment of the sources that begins with a folder of the tree is there.

A page of docs/contributing adds something: the words of its blocks of code, and the paths that a line with "new file"
names, count as there.

The table of what PyTorch has and Lathe has not names nothing that is there.

Tables that list all of something list all of it: commands, exit codes, fuzz targets, stages of CI, rooms, options.
"""
import copy
import fnmatch
import itertools
import pathlib
import posixpath
import re
import sys

from tree_files import tree_files

SOURCES = {".h", ".cuh", ".cpp", ".cu", ".py", ".sh", ".cmake", ".txt", ".json", ".in", ".c", ".f90"}
NAMED_FILE = re.compile(r"[\w.*<>{},-]+\.(?:h|cuh|cpp|cu|py|sh|cmake)")
FLAG = r"--[a-z][a-z\d-]*(?![\w-])"  # not --no-NAME
NUMBERS = ("no one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
           "seventeen eighteen nineteen twenty").split()


def words_in(text):
    return set(re.findall(r"[A-Za-z_]\w*", text))


class Tree:
    """The files, and the words in those that are no pages."""

    def __init__(self, root):
        self.root = root
        self.files = tree_files(root)
        self.folders = {folder.as_posix() for name in self.files for folder in pathlib.PurePath(name).parents[:-1]}
        self.tops = {name for name in self.folders if "/" not in name}
        self.texts = {name: (root / name).read_text(encoding="utf-8") for name in self.files
                      if pathlib.PurePath(name).suffix in SOURCES or name == ".ci/run"}
        self.texts.pop("tests/check_docs.py", None)  # its self-test names what does not exist
        self.words_of = {name: words_in(text) for name, text in self.texts.items()}
        self.words = set().union(*self.words_of.values())
        # What CMake makes: test programs of folders, tests of scripts, fuzz targets.
        for name in self.files:
            part = pathlib.PurePath(name)
            if name.startswith("tests/") and re.search(r"_(test|fuzz)\.\w+$", name):
                self.words |= {f"test_{part.parent.name}", f"{part.parent.name}_{part.stem.removesuffix('_test')}"}

    def has(self, pattern):
        """A file or folder of this path; `*` and `<x>` stand for anything, the suffix may be missing."""
        pattern = re.sub(r"<\w+>", "*", pattern).rstrip("/")
        if pattern in self.folders or pattern in self.files:
            return True
        both = (pattern, pattern + ".*")
        return any(fnmatch.fnmatchcase(name, p) for p in both for name in [*self.files, *self.folders])

    def has_file(self, name):
        name = re.sub(r"<\w+>", "*", name)
        return any(fnmatch.fnmatchcase(file.rpartition("/")[2], name) for file in self.files)


def with_additions(tree, page):
    """The tree as it is when the page has been followed."""
    there = copy.copy(tree)
    blocks = re.findall(r"^ *```\w*\n(.*?)^ *```", page, re.S | re.M)
    there.words_of = {**tree.words_of, "": words_in("".join(blocks))}
    there.words = tree.words | there.words_of[""]
    new = [path for line in page.splitlines() if "new file" in line for path in re.findall(r"`([\w/]+\.\w+)`", line)]
    there.files = sorted({*tree.files, *new})
    there.texts = {**tree.texts, "": "".join(blocks)}
    return there


class Command:
    """The table of settings: the flags of each command, and their defaults."""

    def __init__(self, tree):
        table = tree.texts["tools/cli/settings/settings_table.cpp"]
        header = tree.texts["tools/cli/settings/settings.h"]
        self.groups = dict(re.findall(r'\{\.key = "([\w-]+)".*?\.group = G::(k\w+)', table))
        takes = {}  # constant of takes.h → keys
        texts = re.sub(r" *//.*", "", tree.texts["tools/cli/settings/takes.h"])
        for name, text in re.findall(r"^inline constexpr Takes (k\w+)(.*?);$", texts, re.M | re.S):
            groups = set(re.findall(r"Group::(k\w+)", text))
            takes[name] = {key for key, group in self.groups.items() if group in groups}
            takes[name].update(*("".join(re.findall(r'"([^"]+)"', keys)).split() for keys in re.findall(r'\.also =\s*((?:"[^"]+"\s*)+)', text)),
                               *(takes[base] for base in re.findall(r"\.base = &(k\w+)", text)))
        automatic = dict(re.findall(r'\{\.key = "([\w-]+)"[^{]*?\.automatic = "([^"]+)"', table))
        defaults = re.findall(r"^  [\w:<>]+ (\w+) = ([^;]+);", header, re.M)
        self.defaults = {key.replace("_", "-"): value.strip('"') for key, value in defaults} | automatic
        self.helps = dict(re.findall(r'\{\.key = "([\w-]+)"[^{]*?\.help = "([^"]+)"', table))
        self.commands = {name: takes[constant] for name, constant in
                         re.findall(r'\.name = "([\w -]+)",.*?\.takes = (k\w+)', tree.texts["tools/cli/run.cpp"], re.S)}
        assert self.groups and self.commands and self.defaults["keep"] == "3", "the table of settings was not read"

    def key_of(self, flag):
        name = flag.removeprefix("--")
        return name if name in self.groups else name.removeprefix("no-")

    def knows(self, flag):
        return self.key_of(flag) in self.groups or flag in ("--help", "--version", "--config")

    def fault(self, words):
        """What is wrong with a call: its words, without `lathe`."""
        name = next((n for n in (" ".join(words[:2]), words[0] if words else "") if n in self.commands), None)
        program = r"(\./\S+|PROGRAM)$"  # the flags behind it are its own
        if name == "launch":
            if "train" in words:
                begin = words.index("train")
                return self.fault(words[:begin]) or self.fault(words[begin:])
            words = list(itertools.takewhile(lambda word: not re.match(program, word), words))
        for flag in (re.match(FLAG, word) for word in words):
            if flag and not self.knows(flag[0]):
                return f"there is no {flag[0]}"
            key = self.key_of(flag[0]) if flag else None
            if name and key in self.groups and key not in self.commands[name]:
                return f"lathe {name} does not take {flag[0]}"
        return None


def alternatives(text):
    """a{b,c}d as abd and acd."""
    brace = re.search(r"\{([^{}]*)\}", text)
    if not brace:
        return [text]
    return [one for part in brace[1].split(",") for one in alternatives(text[: brace.start()] + part + text[brace.end() :])]


def faults_of_path(tree, span, folder):
    """A span that is a path. None if it is none."""
    if re.match(r"(?:/|\./|~)\S*$|build/(?!release/bin/lathe )", span):
        return []  # the user's, or what a build makes
    if not re.fullmatch(r"[\w./*<>{},-]+", span):
        return None
    parts = span.split("/")
    if span.endswith("/") and len(parts) == 2:
        ok = any(name == parts[0] or name.endswith("/" + parts[0]) for name in tree.folders)
        return [] if ok else [f"there is no folder {span}"]
    if len(parts) > 1 and parts[0] in tree.tops:
        return [f"there is no {one}" for one in alternatives(span) if not tree.has(one)]
    if len(parts) > 1 and folder and f"{folder}/{parts[0]}" in tree.folders:
        return [f"there is no {one}" for one in alternatives(span) if not tree.has(f"{folder}/{one}")]
    if NAMED_FILE.fullmatch(span):
        return [f"no file is called {one}" for one in alternatives(span) if not tree.has_file(one)]
    return None


def faults_of_call(tree, command, line):
    """A command line, or a flag alone. None if it is neither."""
    words = line.split()
    while words and re.match(r"[A-Z_]+=", words[0]):
        words = words[1:]
    if words and words[0].endswith("python3"):
        words = words[1:]
    if not words or not any(word.startswith("--") for word in words):
        return None
    program = words[0].removeprefix("build/release/bin/")
    if program == "lathe" or any(name.split()[0] == program for name in command.commands):
        fault = command.fault(words[1:] if program == "lathe" else words)
        return [fault] if fault else []
    scripts = [text for name, text in tree.texts.items()
               if name.startswith(("tools/", "tests/")) and name.endswith((".py", ".sh"))]
    if "/" in program and program in tree.texts:
        scripts = [tree.texts[program]]
    elif not program.startswith("--"):
        return None  # another program's flags
    for flag in re.findall(r"(?<![\w-])" + FLAG, line):
        is_ours = program.startswith("--") or program == "tools/train.sh"
        if not (is_ours and command.knows(flag)) and not any(re.search(re.escape(flag) + r"(?![\w-])", text) for text in scripts):
            return [f"there is no {flag}"]
    return []


def faults_of_names(tree, span):
    """Names of code in a span that is neither path nor command."""
    for name in re.findall(r"[A-Za-z_][\w:]*", span):
        *outer, last = [part for part in name.split("::") if part] or [""]
        looks_like_code = "_" in last.strip("_") or re.fullmatch(r"(?:[A-Z][a-z0-9]+){2,}|k[A-Z]\w+", last)
        called = re.search(rf"(?<![\w:]){re.escape(name)}\(", span)
        if not (looks_like_code or called or outer) or name.startswith("std::"):
            continue
        if last not in tree.words and not (last.isupper() and any(word.endswith("_" + last) for word in tree.words)):
            yield f"the sources have no {last}"
        elif outer and not any(outer[-1] in words and last in words for words in tree.words_of.values()):
            yield f"no file has both {outer[-1]} and {last}"


def prose_of(text):
    """A page without its blocks of code, the `<pre>` of folded answers among them."""
    return re.sub(r"^ *```.*?^ *```|<pre>.*?</pre>", "", text, flags=re.S | re.M)


def faults_of_spans(tree, command, text, folder):
    for span in re.findall(r"`([^`]+)`", prose_of(text)):
        span = " ".join(span.split())
        faults = faults_of_path(tree, span, folder)
        if faults is None:
            faults = faults_of_call(tree, command, span)
        if faults is None:
            faults = list(faults_of_names(tree, span))
        yield from (f"`{span}`: {fault}" for fault in faults)
    for block in re.findall(r"^ *```\w*\n(.*?)^ *```", text, re.S | re.M):
        for line in re.sub(r"\\\n", " ", block).splitlines():
            line = re.sub(r"\s#.*", "", line).strip()
            if re.match(r"(build/release/bin/)?lathe |tools/", line):
                yield from (f"`{line}`: {fault}" for fault in faults_of_call(tree, command, line) or [])


def faults_of_places(tree, text):
    """Functions followed by the files that have them: one file for all, or as many files as functions."""
    functions, files = r"`[\w:]+\([^`]*\)`", r"`(?:\w+/)+\w+\.\w+`"
    for match in re.finditer(rf"((?:{functions}(?:, | and )?)+)(?:,? | \(| in | \| )({files}(?:, {files})*)", prose_of(text)):
        names = re.findall(r"`([\w:]+)\(", match[1])
        paths = [path for path in re.findall(r"`([^`]+)`", match[2]) if path in tree.texts]
        for index, name in enumerate(names):
            path = paths[index] if len(paths) == len(names) else paths[0] if paths else None
            outer, _, last = name.rpartition("::")
            # A method is written with its class in a .cpp file, without it in a header; a function without its namespace.
            inside = path and (path.endswith((".h", ".cuh")) or re.search(rf"namespace [\w:]*\b{outer}\b", tree.texts[path]))
            if path and not re.search(rf"\b{last if inside else name}\(", tree.texts[path]):
                yield f"{name}() is not in {path}"


def faults_of_defaults(command, text):
    for flag, number in re.findall(r"`(--[a-z][\w-]*)[^`]*` \((\d[\d.e-]*)\)", text):
        default = command.defaults.get(flag[2:], "")
        if default != number and f"({number})" not in command.helps.get(flag[2:], ""):
            yield f"the default of {flag} is {default}, not {number}"


def faults_of_links(tree, text, folder):
    for target in re.findall(r"\]\(([^):]+)\)", prose_of(text)):
        path, _, heading = target.partition("#")
        page = posixpath.normpath(posixpath.join(folder, path))
        if path and page not in tree.folders and page not in tree.files:
            yield f"links to {path}, which does not exist"
        elif path and heading:
            headings = re.findall(r"^#+ (.*)", (tree.root / page).read_text(encoding="utf-8"), re.M)
            if heading not in {re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in headings}:
                yield f"links to {target}, but the page has no such heading"


def faults_of_page(tree, command, name, text):
    folder = name.rpartition("/")[0]
    if folder == "docs/contributing":
        tree = with_additions(tree, text)
    yield from faults_of_links(tree, text, folder)
    absent = absent_names(text)
    yield from (fault for fault in faults_of_spans(tree, command, text, folder) if fault.split("`")[1] not in absent)
    yield from faults_of_places(tree, text)
    yield from faults_of_defaults(command, text)


def faults_of_comments(tree, name, text):
    """Files that comments name by their path."""
    for comment in re.findall(r"(?:^|\s)(?://+|#) (.*)", text):
        for path in re.findall(r"(?<![\w/.-])(?:\w+/)+[\w*<>{},]+\.(?:h|cuh|cpp|cu|py|sh|md|cmake)\b", comment):
            for one in alternatives(path.removeprefix("lathe/")):
                if one.partition("/")[0] in tree.tops and not tree.has(one):
                    yield f"{name}: a comment names {one}, which does not exist"


def first_cells(text, heading):
    """What stands in backquotes in the first column of the table that begins with `heading`."""
    table = re.search(rf"^\| {heading} \|.*\n\|[-| ]+\n((?:\|.*\n)+)", text, re.M)
    return [span for row in table[1].splitlines() for span in re.findall(r"`([^`]+)`", row.split("|")[1])] if table else []


def lists(tree, command, pages):
    """(what, the list of a page, the list of the tree)"""
    words = lambda span: re.split(r" [A-Z\[]", span)[0]
    yield ("commands in docs/cli.md", {words(span) for span in first_cells(pages["docs/cli.md"], "Command")
                                       if span[0].islower()} - {"ckpt convert OUT"}, set(command.commands))
    codes = re.search(r"^\| Exit code.*?\n\n", pages["docs/cli.md"], re.S | re.M)[0]
    yield ("exit codes in docs/cli.md", set(re.findall(r"\b\d+\b", " ".join(re.findall(r"^\|([^|]*)\|", codes, re.M)))),
           set(re.findall(r"k\w+ = (\d+),", tree.texts["tools/cli/exit_codes.h"])))
    yield ("fuzz targets in docs/ci.md", set(first_cells(pages["docs/ci.md"], "parser")),
           {name[len("tests/fuzz/") : -len("_fuzz.cpp")] for name in tree.files if name.endswith("_fuzz.cpp")})
    yield ("stages in docs/ci.md", set(first_cells(pages["docs/ci.md"], "stage")),
           set(re.findall(r"^stage ([\w-]+)", tree.texts[".ci/run"], re.M)))
    libraries = re.findall(r"^ *lathe_op(?:tional|ened)\((\w+)", tree.texts["cmake/LatheDependencies.cmake"], re.M)
    yield ("options in docs/build.md", set(first_cells(pages["docs/build.md"], "option")),
           {"LATHE_" + name for name in libraries})
    rooms = re.findall(r'^    "([\w/]+)": ', tree.texts["tests/check_includes.py"], re.M)
    yield ("rooms in docs/design.md",
           {span.rstrip("/").rpartition("/")[2] for span in first_cells(pages["docs/design.md"], "room")},
           {room.rpartition("/")[2] for room in rooms if "/" in room and room not in ("tools/bench", "tools/cli")})
    yield ("folders in docs/map.md", {span for span in first_cells(pages["docs/map.md"], "folder")},
           {room + "/" for room in rooms if "/" not in room} | {"tools/", "tests/"})


def counts(tree):
    """(page, the words around a number (%), what the tree says)"""
    def first(path, pattern):
        match = re.search(pattern, tree.texts[path])
        assert match, f"{path} has no {pattern}"
        return int(match[1])

    yield "docs/ci.md", "all % parsers", sum(name.endswith("_fuzz.cpp") for name in tree.files)
    yield "docs/ci.md", "per folder: % links", sum(len(re.findall(r"^lathe_test\(", text, re.M))
                                                   for name, text in tree.texts.items() if name.startswith("tests/"))
    yield "docs/features.md", "% dtypes with", first("core/dtype.h", r"kNumDTypes = (\d+)")
    yield "docs/formats.md", "the % `torch.*Storage`", len(re.findall(r'{"torch \w+Storage"', tree.texts["core/formats/pth.cpp"]))
    yield "docs/formats.md", "graph of opset %,", first("graph/onnx/onnx_file.h", r"kOpset = (\d+)")
    yield "docs/guarantees.md", "at most % dimensions", first("core/shape.h", r"kMaxDims = (\d+)")
    yield "docs/cli.md", "at the start and every % steps", first("train/run_folder.h", r"kStepsBetweenCandidates = (\d+)")
    yield "docs/conv-search.md", "At most % settings of one engine", first("ops/conv/search/conv_limits.h", r"per_engine = (\d+)")
    for page, words in (("docs/conv-search.md", "but % of the engine that cuDNN names first"),
                        ("docs/cli-convolutions.md", "the search times % settings of the engine that cuDNN names first")):
        yield page, words, first("ops/conv/search/conv_limits.h", r"of_first = (\d+)")
    yield "docs/conv-search.md", "after % seconds of timed runs", first("ops/conv/search/conv_limits.h", r"double ms = (\d+)000")
    yield "docs/conv-search.md", "at most % choices", first("ops/conv/search/conv_cache_file.h", r"size_t choices = (\d+)")
    yield "ops/README.md", "each of the latest % keys", first("ops/conv/cudnn/conv2d_engines_cudnn.cpp", r"kKeys = (\d+)")
    yield "ops/README.md", "for the latest % shapes", first("ops/matmul_kernels/matmul_cublas.cpp", r"kPlans = (\d+)")
    yield "ops/README.md", "at most % MiB, comes", first("ops/matmul_kernels/matmul_plan_cublas.cpp",
                                                      r"kWorkspaceBytes = (\d+) << 20")


def absent_names(page):
    """Those in the first column of the table of what PyTorch has and Lathe has not."""
    return re.findall(r"`([\w.]+)`", " ".join(re.findall(r"^\|([^|]*)\|", page.partition("## Not here\n")[2], re.M)))


def faults_of_absences(tree, page):
    """Absent names that are there: "torch.linalg.solve" is there if a header has a solve()."""
    headers = [name for name in tree.texts if name.endswith(".h") and not name.startswith(("tests/", "tools/"))]
    for name in absent_names(page):
        last = name.rpartition(".")[2]
        for header in headers:
            if re.search(rf"(?:^|[\s*&]){last}\(|^(?:class|struct)(?: LATHE_API)? {last}\b(?! ?;)", tree.texts[header], re.M):
                yield f"says that {name} is missing, but {header} has it"


def number_of(text):
    text = text.lower().replace(",", "")
    return NUMBERS.index(text) if text in NUMBERS else int(text) if text.isdigit() else None


def fault_of_count(text, phrase, count):
    pattern = r"(\S+)".join(re.escape(part) for part in phrase.split("%")).replace(r"\ ", r"\s+")
    match = re.search(pattern, text)
    if not match:
        return f'no longer says "{phrase}": mend the page, or counts() in tests/check_docs.py'
    return None if number_of(match[1]) == count else f'"{" ".join(match[0].split())}", but it is {count}'


def fault_of_list(listed, there):
    missing, extra = sorted(there - set(listed)), sorted(set(listed) - there)
    parts = ([f"without {', '.join(missing)}"] if missing else []) + ([f"with {', '.join(extra)}"] if extra else [])
    return "; ".join(parts)


def self_test(tree, command):
    """The checker must see each kind of fault, and none where there is none."""
    def seen(text, folder="docs"):
        return [*faults_of_spans(tree, command, text, folder), *faults_of_places(tree, text), *faults_of_defaults(command, text),
                *faults_of_links(tree, text, folder)]

    wrong = ["`core/zz_none.h`", "`zz_none.cpp`", "`ops/<op>/zz_none.*`", "`core/{tensor,zz_none}.h`", "`zz_none/`",
             "[x](zz_none.md)", "[x](cli.md#zz-none)", "`--zz-none N`", "`lathe train --split test`", "`train --zz-none`",
             "`tools/fuzz.sh --zz-none`", "`/usr/bin/python3 tools/gpu_check.py --zz-none`",
             "`build/release/bin/lathe train --zz-none`", "`zz_none()`", "`ZzNone`", "`ZZ_NONE`", "`kZzNone`",
             "`Tensor::zz_none()`", "`LATHE_ZZ_NONE=1`", "`launch()` (`core/tensor.h`)",
             "`RunFolder::zz_none()` | `train/run_folder.cpp`", "| `launch()` | `core/tensor.h` |", "`--keep K` (4)",
             "`lathe launch --epochs 3 train`", "`lathe launch train --nodes 2`", "```sh\nlathe eval --epochs 3\n```"]
    right = ["`core/tensor.h`", "`core/loop_nest`", "`ops/<op>.cpp`", "`tensor.h`", "`core/{tensor,shape}.h`", "`formats/`",
             "`/no/such.h`", "[x](cli.md)", "[x](cli.md#settings)", "`--epochs 3`", "`--no-pin-memory`", "`nvcc --zz-none`",
             "`lathe train --epochs 3`", "`launch()`", "`Tensor::dim()`", "`launch()` (`core/gpu/launch.h`)",
             "`safetensors::write()` in `core/formats/safetensors.cpp`", "`RELU_AUX_BIAS`", "`--no-NAME`", "`--keep K` (3)",
             "`lathe launch -n 4 --nodes 2 train --epochs 3`", "```sh\nlathe train --epochs 3  # or --zz-none\n```",
             "<pre>\n[](int zz_none) { return 1; }\n</pre>"]
    for text in wrong:
        assert seen(text + "\n"), f"not seen: {text}"
    for text in right:
        assert not seen(text + "\n"), seen(text + "\n")
    page = "New file `ops/zz_none.h`: `ZzNone`.\n```cpp\nstruct ZzNone;\n```\n`ops/zz_none.h`\n"
    assert not list(faults_of_page(tree, command, "docs/contributing/op.md", page.replace("New", "A new")))
    assert list(faults_of_page(tree, command, "docs/contributing/op.md", page))
    assert list(faults_of_page(tree, command, "docs/op.md", page.replace("New", "A new")))
    comment = lambda path: list(faults_of_comments(tree, "x.h", f"int x;  // see {path}.\n"))
    assert comment("core/zz_none.h") and not comment("core/tensor.h") and not comment("torch/zz_none.py")
    absent = lambda name: list(faults_of_absences(tree, f"## Not here\n| {name} | |\n"))
    assert absent("`nn.Linear`") and absent("`torch.relu`") and not absent("`torch.zz_none`")
    assert fault_of_count("all twelve parsers", "all % parsers", 13) and fault_of_count("", "all % parsers", 13)
    assert not fault_of_count("all thirteen\nparsers", "all % parsers", 13)
    assert fault_of_list({"a"}, {"a", "b"}) == "without b" and not fault_of_list({"a"}, {"a"})


def main():
    tree = Tree(pathlib.Path(sys.argv[1]).resolve())
    command = Command(tree)
    self_test(tree, command)
    names = ["README.md", *sorted(name for name in tree.files if re.fullmatch(r"docs/(?:[\w-]+/)?[\w-]+\.md|\w+/README\.md", name))]
    pages = {name: (tree.root / name).read_text(encoding="utf-8") for name in names}
    faults = [f"{name}: {fault}" for name, text in pages.items() for fault in faults_of_page(tree, command, name, text)]
    faults += [fault for name, text in tree.texts.items() for fault in faults_of_comments(tree, name, text)]
    faults += [f"{what}: {fault}" for what, listed, there in lists(tree, command, pages)
               if (fault := fault_of_list(listed, there))]
    faults += [f"{page}: {fault}" for page, phrase, count in counts(tree)
               if (fault := fault_of_count(pages[page], phrase, count))]
    faults += [f"docs/coming-from-pytorch.md: {fault}" for fault in faults_of_absences(tree, pages["docs/coming-from-pytorch.md"])]
    for fault in faults:
        print(fault)
    print(f"{0 if faults else 1} passed, {1 if faults else 0} failed, 0 skipped")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
