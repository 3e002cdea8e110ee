"""The order of steps and their time: what gpu_check.py does next, until when, and what runs beside it.

Steps stand in the order of their worth. Each has a budget in seconds. A step may take, beside its own, the time that those before it
did not need; so no step takes the time of a later one. A step that may run `beside` others takes no time of its own: it begins with
the first of those and is ended before the first step that is none of them. An `extra` step runs if time is left behind the others.
"""
import dataclasses
import time
import traceback

SKIPPED, FAILED = "skipped", "FAILED"


@dataclasses.dataclass(frozen=True)
class Step:
    name: str
    budget: int         # seconds; of a step beside others 0
    what: str           # it does
    writes: str = "rows"
    least: int = 1      # seconds without which it is not begun
    beside: tuple = ()  # names of steps
    extra: bool = False


def total(steps):
    return sum(step.budget for step in steps if not step.extra)


def budget_lines(steps):
    """For people: every step with its share of the time."""
    lines, begin = [], 0
    for step in steps:
        if step.beside:
            when = f"beside {step.beside[0]} to {step.beside[-1]}"
        elif step.extra:
            when = f"{step.budget} s if left"
        else:
            when, begin = f"{step.budget} s, {begin} to {begin + step.budget}", begin + step.budget
        lines.append(f"    {step.name:<13} {when:<24} {step.what} → {step.writes}")
    return lines


class Schedule:
    """`actions` maps a step's name to a function of no arguments that returns a result for people, or None. Of a step beside others
    it begins the program, and returns a function that ends it."""

    def __init__(self, steps, actions, report, seconds):
        self.steps, self.actions, self.report = steps, actions, report
        self.begin = time.monotonic()
        self.end, self.step_end = self.begin + seconds, self.begin + seconds
        self.beside = {}  # name → the function that ends it
        self.passed, self.failed, self.skipped = 0, 0, 0

    def left(self):
        """Seconds until the step under way must end."""
        return self.step_end - time.monotonic()

    def run(self):
        planned = self.begin
        for step in self.steps:
            if step.beside:
                continue
            planned += 0 if step.extra else step.budget
            for other in [o for o in self.beside if step.name not in self.step(o).beside]:
                self.beside.pop(other)()
            for other in self.steps:
                if step.name in other.beside and other.name not in self.beside and step.name != other.beside[-1]:
                    self.beside[other.name] = self.actions[other.name]()
            self.run_step(step, planned)
        self.stop_others()

    def prepare(self, step, action):
        """A step before the first, which takes none of their time. Returns whether it went well."""
        seconds, self.end = self.end - self.begin, time.monotonic() + step.budget
        self.actions = {**self.actions, step.name: action}
        self.run_step(step, self.end)
        self.begin = time.monotonic()
        self.end = self.begin + seconds
        return not self.failed

    def step(self, name):
        return next(step for step in self.steps if step.name == name)

    def stop_others(self):
        while self.beside:
            self.beside.popitem()[1]()

    def run_step(self, step, planned):
        """An exception ends the step and not the run: it is the step's result, and its traceback ends the step's output."""
        begin = time.monotonic()
        if self.end - begin < min(step.least, step.budget):
            self.report.event("left", step=step.name, why=f"needs {step.least} s of {max(self.end - begin, 0):.0f}")
            return
        self.step_end = min(self.end, max(planned, begin + step.budget))
        self.report.event("step", step=step.name, budget=round(self.left()))
        try:
            result = self.actions[step.name]() or "ok"
        except Exception as error:  # output that nobody foresaw, say: the other steps still teach something
            self.report.say(traceback.format_exc())
            result = f"{FAILED}: {traceback.format_exception_only(error)[-1].strip()}"
        broken = self.report.broken_commands()
        if broken and result == "ok":
            result = f"{FAILED}: " + ", ".join(broken)
        self.failed += result.startswith(FAILED)
        self.skipped += result.startswith(SKIPPED)
        self.report.event("result", result=result, seconds=round(time.monotonic() - begin, 1))
        print(f"{step.name}: {result}, {time.monotonic() - begin:.1f} s", flush=True)
