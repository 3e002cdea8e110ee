"""What became of the mutants: a file of JSON lines as they come, and a table at the end."""
import collections
import json
import os
import pathlib

KILLED, TIMED_OUT, SURVIVED, NOT_REACHED, EQUIVALENT, NOT_COMPILED, NOT_BUILT = (
    "killed", "timed out", "survived", "not reached", "equivalent", "does not compile", "not built")
COLUMNS = (KILLED, TIMED_OUT, SURVIVED, NOT_REACHED, EQUIVALENT)
EQUIVALENTS = pathlib.Path(__file__).resolve().with_name("equivalent.txt")


def equivalents(path=EQUIVALENTS):
    """{(path and function, line, changed line): reason}. One mutant is four lines: these three, the reason after "= ", then an empty one."""
    found = {}
    for block in path.read_text().split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if lines:
            source, before, after, reason = lines
            found[source, before.removeprefix("- "), after.removeprefix("+ ")] = reason.removeprefix("= ")
    return found


class Results:
    """The file, which an interrupted run goes on with. `run` says of what run it is: {"seed": 1, ...}."""

    def __init__(self, path, run):
        self.path, self.run, self.rows = path, run, []
        lines = path.read_text().splitlines() if path.is_file() else []
        if len(lines) == 1 and not lines[0].endswith("}"):  # the write that was interrupted
            path.write_text("")
            lines = []
        if not lines:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._append(run)
            return
        if json.loads(lines[0]) != json.loads(json.dumps(run)):
            raise ValueError(f"{path} is of another run: {lines[0]}, not {json.dumps(run)}")
        for line in lines[1:]:
            try:
                self.rows.append(json.loads(line))
            except json.JSONDecodeError:  # the write that was interrupted
                text = path.read_text()
                path.write_text(text[:text.rindex(line)])

    def add(self, mutant, status, by="", seconds=0.0, reached_by=0):
        row = {"id": mutant.id, "status": status, "path": mutant.path, "line": mutant.line, "function": mutant.place.function, "kind": mutant.kind,
               "before": mutant.before, "after": mutant.after, "by": by, "seconds": round(seconds, 1), "reached_by": reached_by}
        self.rows.append(row)
        self._append(row)

    def done(self):
        return {row["id"] for row in self.rows}

    def _append(self, row):
        with open(self.path, "a") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())


def table(rows, name, key):
    """One line for each folder or kind."""
    groups = collections.defaultdict(collections.Counter)
    for row in rows:
        if row["status"] in COLUMNS:
            for group in (key(row), "all"):
                groups[group][row["status"]] += 1
    lines = [f"{name:<22}{'mutants':>9}" + "".join(f"{column:>13}" for column in COLUMNS) + f"{'killed of':>11}"]
    for group in sorted(groups, key=lambda g: (g == "all", g)):
        counts = groups[group]
        real = counts.total() - counts[EQUIVALENT]
        share = f"{100 * (counts[KILLED] + counts[TIMED_OUT]) / real:.0f} %" if real else "-"
        lines.append(f"{group:<22}{counts.total():>9}" + "".join(f"{counts[column]:>13}" for column in COLUMNS) + f"{share:>11}")
    return lines


def text(rows, run):
    """The whole report: tables by folder and by kind, then what nobody noticed."""
    lines = [", ".join(f"{name} {value}" for name, value in run.items()), ""]
    lines += table(rows, "folder", lambda row: row["path"].split("/")[0]) + [""]
    lines += table(rows, "kind", lambda row: row["kind"])
    others = collections.Counter(row["status"] for row in rows)
    lines.append(f"\nkilled of: the share of those that are not equivalent; beside these {others[NOT_COMPILED]} do not compile and "
                 f"{others[NOT_BUILT]} are in sources that were not built")
    for status in (SURVIVED, NOT_REACHED):
        for row in sorted((r for r in rows if r["status"] == status), key=lambda r: (r["path"], r["line"])):
            lines += ["", f"{status}: {row['path']} {row['function']}, line {row['line']} ({row['kind']}), mutant {row['id']}", f"- {row['before']}", f"+ {row['after']}"]
    return "\n".join(lines)
