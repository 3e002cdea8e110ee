#!/usr/bin/env python3
"""Makes the pages of the site from the tree: docs/, the README of folders, a page for each record and for each public header, and a page for
each source file that a page links to.

    make_pages.py SOURCE_ROOT FOLDER     # FOLDER is new, or was made by this script
"""
import json
import pathlib
import posixpath
import re
import shutil
import sys

import headers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests"))
from check_results import table_of
from tree_files import tree_files

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
LANGUAGE = {".h": "cpp", ".cpp": "cpp", ".cuh": "cpp", ".cu": "cpp", ".py": "python", ".sh": "sh", ".json": "json", ".cmake": "cmake", ".txt": "cmake"}
NOT_SEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"
REFERENCE = "---\nsearch:\n  boost: 0.1\n---\n\n"  # a guide that explains a word comes before the headers that use it


def page_of(path):
    """The page of a file of the tree: docs/x.md is x.md, a source file has one below source/."""
    if path == "README.md":
        return "index.md"
    if re.fullmatch(r"docs/results/[\w-]+\.json", path):
        return path.removeprefix("docs/").removesuffix(".json") + ".md"
    if path.startswith("docs/") and path.endswith((".md", ".svg", ".png")):
        return path.removeprefix("docs/")
    return path if path.endswith(".md") else f"source/{path}.md"


class Site:
    def __init__(self, root, folder):
        self.root, self.folder = root, folder
        self.files = set(tree_files(root))
        self.folders = {parent.as_posix() for name in self.files for parent in pathlib.PurePath(name).parents}
        self.sources = set()  # files and folders that pages link to
        self.texts = {name: (root / name).read_text(encoding="utf-8", errors="replace") for name in self.files
                      if name.endswith((".md", ".h", ".cpp", ".py"))}

    def write(self, page, text):
        path = self.folder / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def relinked(self, text, path):
        """The text of a page with its links to files turned into links to their pages."""
        def link(match):
            picture, label, target = match.groups()
            if re.match(r"\w+:|#", target):
                return match[0]
            file, _, anchor = target.partition("#")
            name = posixpath.normpath(posixpath.join(posixpath.dirname(path), file))
            if name in self.folders and f"{name}/README.md" in self.files:
                name += "/README.md"
            if name not in self.files and name not in self.folders:
                return match[0]  # mkdocs says that it is dead
            if not name.endswith((".md", ".svg", ".png")) and not re.fullmatch(r"docs/results/[\w-]+\.json", name):
                self.sources.add(name)
            new = posixpath.relpath(page_of(name), posixpath.dirname(page_of(path)) or ".")
            return f"{picture}[{label}]({new}{'#' + anchor if anchor else ''})"

        blocks = re.split(r"(^ *```.*?^ *```$)", text, flags=re.S | re.M)
        return "".join(block if number % 2 else LINK.sub(link, block) for number, block in enumerate(blocks))

    def add_pages(self):
        for name in sorted(self.files):
            if name.endswith(".md"):
                self.write(page_of(name), self.relinked(self.texts[name], name))
            elif name.startswith("docs/") and name.endswith((".svg", ".png")):
                target = self.folder / page_of(name)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self.root / name, target)
            elif re.fullmatch(r"docs/results/[\w-]+\.json", name):
                record = json.loads((self.root / name).read_text(encoding="utf-8"))
                about = "".join(f"- {key}: {record[key]}\n" for key in ("machine", "versions", "date"))
                self.write(page_of(name), f"# {record['question']}\n\n{record['conclusion']}\n\n{table_of(record)}\n{about}\n"
                                          f"```sh\n{record['command']}\n```\n")

    def mentions(self, header, entry):
        """Tests and examples that have a name of an entry."""
        names = "|".join(re.escape(name.rpartition("::")[2]) for name in entry.names)
        word = re.compile(rf"\b(?:{names})\b")
        stem = pathlib.PurePath(header).stem
        tests = [path for path in sorted(self.texts) if path.startswith("tests/") and path.endswith("_test.cpp")
                 and stem in path and word.search(self.texts[path])]
        used = [path for path in sorted(self.texts) if path.startswith("examples/") and path.endswith(".cpp") and word.search(self.texts[path])]
        return tests[:3], used[:4]

    def add_reference(self):
        index = {}
        for header in headers.public_headers(self.root):
            text = self.texts[header]
            entries = headers.entries_of(text)
            if not entries:
                continue
            source = posixpath.relpath(f"source/{header}.md", posixpath.dirname(f"api/{header}"))
            self.sources.add(header)
            purpose = re.sub(r"([\[\]<>*])", r"\\\1", headers.purpose_of(text))
            parts = [f"# {header}\n\n{purpose}\n\n```cpp\n#include <lathe/{header}>\n```\n"]
            for entry in entries:
                tests, used = self.mentions(header, entry)
                self.sources.update(tests + used)
                places = [f"[source]({source})"]
                for title, paths in (("tests", tests), ("used in", used)):
                    links = ", ".join(f"[{path.rpartition('/')[2]}]({posixpath.relpath(page_of(path), posixpath.dirname(f'api/{header}'))})" for path in paths)
                    places += [f"{title}: {links}"] if links else []
                contract = f"```text\n{entry.contract}\n```\n\n" if entry.contract else ""
                declarations = ";\n".join(entry.declarations).replace("LATHE_API ", "")
                parts.append(f"## {', '.join(entry.names)}\n\n```cpp\n{declarations};\n```\n\n{contract}{' · '.join(places)}\n")
            self.write(f"api/{header}.md", REFERENCE + "\n".join(parts))
            names = list(dict.fromkeys(name for entry in entries for name in entry.names if "::" not in name))
            index.setdefault(header.partition("/")[0], []).append((header, names))
        lines = ["# API reference\n", "Every public name of the headers, with its contract. `#include <lathe/lathe.h>` has most of them; training as a library is `<lathe/train.h>`.\n"]
        for folder, rows in index.items():
            lines += [f"## {folder}\n", "| header | names |", "|---|---|"]
            lines += [f"| [{header}]({header}.md) | {', '.join(f'`{name}`' for name in names)} |" for header, names in rows] + [""]
        self.write("api/README.md", "\n".join(lines))

    def add_sources(self):
        for name in self.sources & self.folders:
            self.sources |= {path for path in self.files if path.startswith(name + "/")}
        for name in sorted(self.sources):
            page = page_of(name)
            if name in self.folders:
                below = sorted(path for path in self.files if path.startswith(name + "/") and not path.endswith(".md"))
                links = "".join(f"- [{path}]({posixpath.relpath(page_of(path), posixpath.dirname(page))})\n" for path in below)
                self.write(page, f"{NOT_SEARCHED}# {name}/\n\n{links}")
            elif not name.endswith(".md"):
                text = (self.root / name).read_text(encoding="utf-8", errors="replace")
                self.write(page, f"{NOT_SEARCHED}# {name}\n\n````{LANGUAGE.get(pathlib.PurePath(name).suffix, 'text')}\n{text}````\n")


def main():
    root, folder = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    if folder.exists() and not (folder / "index.md").is_file():
        sys.exit(f"make_pages.py: {folder} is there, and this script did not make it")
    shutil.rmtree(folder, ignore_errors=True)
    site = Site(root, folder)
    site.add_pages()
    site.add_reference()
    site.add_sources()


if __name__ == "__main__":
    sys.exit(main())
