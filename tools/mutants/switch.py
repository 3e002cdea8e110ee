"""A source with many mutants in it, each behind a switch, and what a compiler's error says about them.

Every mutant stands on a line of its own, whose number is MARK plus the mutant's: so an error names the mutant. All other lines keep
their numbers.
"""
import pathlib
import re

import lexer

MARK = 1_000_000
HEADER = pathlib.Path(__file__).resolve().with_name("switch.h")
LISTENER = HEADER.with_name("listener.h")
LOCATION = re.compile(r"([^\s:]+):(\d+)(?::\d+)?[:,]")


def switched(text, mutants):
    """The source with these mutants of it."""
    source = lexer.Source(text)
    by_place = {}
    for mutant in mutants:
        place = mutant.place
        by_place.setdefault((place.first, place.end, place.form), []).append(mutant)
    order = sorted(by_place, key=lambda p: (p[0], -p[1]))
    parts, tokens = [f'#include "{HEADER}"\n#line 1\n'], source.tokens

    def copy(start, end, places):
        """Text [start, end) with `places`, which lie within."""
        at = start
        while places:
            first, stop, form = places[0]
            begin, finish = tokens[first].start, tokens[stop - 1].end
            inner = [p for p in places[1:] if p[0] < stop]
            parts.append(text[at:begin])
            put(by_place[places[0]], form, tokens[first].line, lambda: copy(begin, finish, inner))
            at, places = finish, places[1 + len(inner):]
        parts.append(text[at:end])

    def put(those, form, line, original):
        before, after = {"statement": ("{", "}"), "condition": ("bool(", ")"), "expression": ("(", ")")}[form]
        parts.append(before)
        for mutant in those:
            on, text = f"mutants::on({mutant.id})", f"{before}{mutant.text}{after}"
            parts.append(f"\n#line {MARK + mutant.id}\n")
            parts.append(f"if ({on}) {text} else" if form == "statement" else f"{on} ? {text} :")
        parts.append(f"\n#line {line}\n{before}")
        original()
        parts.append(after + after)

    copy(0, len(text), order)
    return "".join(parts)


def with_listener(text):
    """The main source of doctest's programs, which notes its cases."""
    return f'{text}\n#include "{HEADER}"\n#include "{LISTENER}"\n'


def blamed(output, chosen):
    """The mutants of `chosen` that a failed compilation's output is about: those at an error, else any that it names, else all of a
    file that it names."""
    lines = output.splitlines()
    by_id = {mutant.id: mutant for mutant in chosen}

    def named(some):
        numbers = (int(number) - MARK for line in some for _, number in LOCATION.findall(line))
        return {by_id[n] for n in numbers if n in by_id}

    errors = [line for line in lines if re.search(r"\b(?:error|undefined reference)\b", line)]
    paths = {path for line in errors for path, _ in LOCATION.findall(line)}
    return named(errors) or named(lines) or {m for m in chosen if any(path.endswith(m.path) for path in paths)}
