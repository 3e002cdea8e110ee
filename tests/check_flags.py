#!/usr/bin/env python3
"""Checks that docs/flags.md lists every flag as the table of settings has it.

    check_flags.py SOURCE_ROOT [--write]

`--write` writes the page's tables anew.
"""
import pathlib
import re
import sys

from check_docs import Command, Tree

BEGIN, END = "<!-- from tools/cli/settings/settings_table.cpp -->\n", "<!-- end -->"
TRAINING = ["bench tips", "ckpt verify-resume", "doctor", "train"]  # the page calls these four "training"


def cell(text):
    """Text in a table of Markdown. Words with underscores or asterisks are code there."""
    text = re.sub(r"(?<!\S)((?:--)?[\w./*,-]*[_*](?:[\w./*,-]*[\w*])?)", r"`\1`", text)
    return text.replace("|", "\\|").replace("<", "&lt;")


def tables_of(command, table):
    """A table for each heading of `lathe help`, a line for each flag."""
    lines, heading = [], None
    for row in re.findall(r'^  \{(\.key = .*?)\},?(?: *//[^\n]*)?$', table, re.M | re.S):
        field = lambda name: "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', match[1])) if (
            match := re.search(rf'\.{name} = ((?:"(?:[^"\\]|\\.)*"\s*)+)', row)) else ""
        key = field("key")
        if field("heading") != heading:
            heading = field("heading")
            lines += ["", f"## {heading}", "", "| flag | default | what it does | commands |", "|---|---|---|---|"]
        value = field("unit") or field("choices").replace("|", ", ")
        default = command.defaults.get(key, "").replace("std::", "").strip("{}")
        default = {"false": "off", "true": "on"}.get(default, default.replace("'", ""))
        takers = sorted(name for name, keys in command.commands.items() if key in keys)
        names = ", ".join(takers) if len(takers) < 5 else str(len(takers))
        who = "training" if takers == TRAINING else names
        lines.append(f"| `--{key}`{' ' + cell(value) if value else ''} | {cell(default)} | {cell(field('help'))} | {who} |")
    return "\n".join(lines[1:]) + "\n"


def main():
    root, write = pathlib.Path(sys.argv[1]).resolve(), "--write" in sys.argv[2:]
    tree = Tree(root)
    made = tables_of(Command(tree), tree.texts["tools/cli/settings/settings_table.cpp"])
    assert made.count("\n| `--") > 100, "the table of settings was not read"
    page = root / "docs/flags.md"
    text = page.read_text(encoding="utf-8")
    new = text[: text.index(BEGIN) + len(BEGIN)] + made + text[text.index(END) :]
    if new != text and write:
        page.write_text(new, encoding="utf-8")
    elif new != text:
        print("docs/flags.md differs from the table of settings: python3 tests/check_flags.py . --write")
        print("0 passed, 1 failed, 0 skipped")
        return 1
    print("1 passed, 0 failed, 0 skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
