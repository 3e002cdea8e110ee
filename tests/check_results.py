#!/usr/bin/env python3
"""Checks the records of measurements in docs/results/, and that pages quote them as they are.

    check_results.py SOURCE_ROOT [--write]

A record is a JSON object of strings: `question`, `machine`, `date` (YYYY-MM-DD), `versions`, `command`, `conclusion`; and a table:
`columns`, a list of strings, and `rows`, lists of as many strings or numbers. The script that `command` names is there.

A page quotes a record in two ways. Between `<!-- result NAME -->` and `<!-- end -->` stands its table; `<!-- result NAME: A | B -->`
takes the columns A and B only. A figure in a sentence is the text of a link, as in `[2.1x](results/NAME.json)`, and stands in the record.
docs/results/README.md lists all records, newest first. `--write` writes tables and list anew from the records.

A figure in a sentence of a page without a link is a fault: a number with a unit of speed or time. Blocks of code and tables of a page's own are
left out, and so are PAGES_WITHOUT_RECORDS.
"""
import json
import pathlib
import re
import sys

from tree_files import tree_files

TEXTS = ("question", "machine", "date", "versions", "command", "conclusion")
BLOCK = re.compile(r"<!-- result ([\w-]+)(?:: ([^>]*?))? -->\n(.*?)<!-- end -->", re.S)
QUOTED = re.compile(r"\[([^\]\[]+)\]\((?:docs/)?results/([\w-]+)\.json\)")
FIGURE = re.compile(r"(?<![\w.])\d(?:[\d.,]*\d)?(?: ?(?:images/s|img/s|ms|us|µs|ns|GB/s|Gflop/s|TFLOP/s|times as (?:fast|long))|x)(?!\w|\.\d)")
INDEX = "docs/results/README.md"
# They explain how something works or is tested: numbers are parts of the explanation, or assumptions of a model.
PAGES_WITHOUT_RECORDS = ("docs/ci.md", "docs/design.md", "docs/gpu-testing.md", "docs/scaling.md", "docs/tour/", "docs/contributing/")


def fault_of_record(record, files):
    if not isinstance(record, dict) or set(record) != {*TEXTS, "columns", "rows"}:
        return f"is not an object of {', '.join(TEXTS)}, columns and rows"
    for key in TEXTS:
        if not isinstance(record[key], str) or not record[key].strip():
            return f"{key} is not a text"
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", record["date"]):
        return f"date is {record['date']}, not YYYY-MM-DD"
    columns, rows = record["columns"], record["rows"]
    if not (isinstance(columns, list) and columns and all(isinstance(column, str) for column in columns)):
        return "columns is not a list of texts"
    if len(set(columns)) < len(columns):
        return "two columns have one name"
    if not (isinstance(rows, list) and rows):
        return "rows is not a list"
    for number, row in enumerate(rows, 1):
        if not isinstance(row, list) or len(row) != len(columns):
            return f"row {number} does not have {len(columns)} fields"
        if any(isinstance(field, bool) or not isinstance(field, (str, int, float)) for field in row):
            return f"row {number} has a field that is neither a text nor a number"
    missing = [path for path in re.findall(r"\b(?:tools|tests|examples)/[\w/.]+\.(?:py|sh|cpp)\b", record["command"]) if path not in files]
    return f"command names {missing[0]}, which is not there" if missing else None


def line_of(fields):
    return "| " + " | ".join(str(field) for field in fields) + " |\n"


def table_of(record, columns=None):
    """The table as Markdown, or the named columns of it. Raises KeyError for a column that the record lacks."""
    chosen = [name.strip() for name in columns.split("|")] if columns else record["columns"]
    for name in chosen:
        if name not in record["columns"]:
            raise KeyError(name)
    at = [record["columns"].index(name) for name in chosen]
    return line_of(chosen) + "|" + "---|" * len(chosen) + "\n" + "".join(line_of(row[i] for i in at) for row in record["rows"])


def block_of(name, record, columns, page):
    """What stands between the two comments."""
    path = "results/" if page.startswith("docs/") else "docs/results/"
    caption = f"{record['machine']}; {record['versions']}; {record['date']} ([record]({path}{name}.json))."
    return f"{caption[0].upper()}{caption[1:]}\n\n{table_of(record, columns)}"


def index_of(records):
    newest = sorted(sorted(records), key=lambda name: records[name]["date"], reverse=True)
    rows = ([records[name]["date"], f"[{records[name]['question']}]({name}.json)", records[name]["conclusion"]] for name in newest)
    return line_of(("date", "question", "answer")) + "|---|---|---|\n" + "".join(map(line_of, rows))


def rewritten(page, text, records, faults):
    """The page with its tables as the records have them."""
    def block(match):
        name, columns, _ = match.groups()
        if name not in records:
            faults.append(f"{page}: there is no record {name}")
            return match[0]
        try:
            return match[0][: match.start(3) - match.start()] + block_of(name, records[name], columns, page) + "<!-- end -->"
        except KeyError as column:
            faults.append(f"{page}: the record {name} has no column {column}")
            return match[0]

    if page == INDEX:
        return re.sub(r"(<!-- all results -->\n).*(<!-- end -->)", lambda match: match[1] + index_of(records) + match[2], text, flags=re.S)
    return BLOCK.sub(block, text)


def numbers_in(text):
    return {float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?:\.\d+)?", text)}


def faults_of_figures(page, text, records):
    text = re.sub(r"<!--.*?-->", "", BLOCK.sub("", text), flags=re.S)
    text = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.S | re.M)
    for figure, name in QUOTED.findall(text):
        if name not in records:
            yield f"there is no record {name}"
        elif not numbers_in(figure) <= numbers_in(json.dumps(records[name], ensure_ascii=False)):
            yield f"“{figure}” is not in the record {name}"
    rest = "\n".join(line for line in QUOTED.sub("", text).split("\n") if not line.startswith("|"))
    rest = re.sub(r"`[^`]*`", "", rest)
    for match in FIGURE.finditer(rest):
        yield f"“{match[0].strip()}” is a figure without a record: …{rest[max(0, match.start() - 40) : match.end() + 20]!r}…"


def self_test():
    good = {**{key: "x" for key in TEXTS}, "date": "2026-11-29", "command": "tools/a.py --b", "columns": ["a", "b"], "rows": [["x", 2.1]]}
    assert fault_of_record(good, {"tools/a.py"}) is None
    for wrong in ({"question": ""}, {"date": "yesterday"}, {"columns": []}, {"columns": ["a", "a"]}, {"rows": []}, {"rows": [["x"]]}, {"rows": [["x", None]]},
                  {"command": "tools/none.py"}, {"machine": 3}, {"more": "x"}):
        assert fault_of_record({**good, **wrong}, {"tools/a.py"}), wrong
    records, faults = {"r": good}, []
    page = rewritten("docs/x.md", "<!-- result r: b -->\n<!-- end -->", records, faults)
    assert "| b |\n|---|\n| 2.1 |\n" in page and not faults and rewritten("docs/x.md", page, records, faults) == page
    assert page != rewritten("docs/x.md", page.replace("2.1", "2.2"), {"r": {**good, "rows": [["x", 2.3]]}}, faults)
    rewritten("docs/x.md", "<!-- result r: c -->\n<!-- end --><!-- result s -->\n<!-- end -->", records, faults)
    assert len(faults) == 2
    seen = lambda text: list(faults_of_figures("docs/x.md", text, records))
    assert not seen("[2.1x](results/r.json), and 3 files\n| 5 ms |\n```\n5 ms\n```\n") and not seen(page)
    for text in ("2.1x as fast\n", "it takes 5 ms\n", "5.1 times as fast.\n", "it takes 5 ms.\n", "[2.2x](results/r.json)\n", "[2.1x](results/s.json)\n"):
        assert seen(text), text


def main():
    root, write = pathlib.Path(sys.argv[1]).resolve(), "--write" in sys.argv[2:]
    self_test()
    files = set(tree_files(root))
    faults, records = [], {}
    for path in sorted(name for name in files if re.fullmatch(r"docs/results/[\w-]+\.json", name)):
        try:
            record = json.loads((root / path).read_text(encoding="utf-8"))
        except ValueError as error:
            faults.append(f"{path}: {error}")
            continue
        fault = fault_of_record(record, files)
        if fault:
            faults.append(f"{path}: {fault}")
        else:
            records[pathlib.PurePath(path).stem] = record
    for page in sorted(name for name in files if name == "README.md" or re.fullmatch(r"docs/.*\.md", name)):
        text = (root / page).read_text(encoding="utf-8")
        new = rewritten(page, text, records, faults)
        if new != text and write:
            (root / page).write_text(new, encoding="utf-8")
        elif new != text:
            faults.append(f"{page}: a table differs from its record: python3 tests/check_results.py . --write")
        if not page.startswith(PAGES_WITHOUT_RECORDS):
            faults += [f"{page}: {fault}" for fault in faults_of_figures(page, new, records)]
    for fault in faults:
        print(fault)
    print(f"{0 if faults else 1} passed, {1 if faults else 0} failed, 0 skipped")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
