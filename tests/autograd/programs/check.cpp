// A program's verdict, and how a failing one is made small; see generator.h.
#include <map>

#include "generator.h"
#include "interpreter.h"
#include "reference.h"

namespace lathe::programs {

std::optional<Meaning> meaning_of(const Program& program) {
  Reference reference;
  for (const Statement& s : program.lines) {
    if (!reference.allows(s)) return std::nullopt;
    reference.run(s);
  }
  reference.finish();
  if (!reference.exact()) return std::nullopt;
  return Meaning{reference.log(), reference.saved_written()};
}

namespace {

std::string text_of(const std::vector<double>& values) {
  std::string text = "[";
  for (const double v : values) text += (text.size() > 1 ? ", " : "") + concat(v);
  return text + "]";
}

std::string place_of(const Program& program, size_t line) {
  if (line == program.lines.size()) return "at the end";
  const Program one{0, {program.lines[line]}};
  std::string text = source(one);
  text.pop_back();
  return concat("line ", line + 1, ", ", text);
}

}  // namespace

Verdict check(const Program& program) {
  const auto meaning = meaning_of(program);
  if (!meaning) return {};
  const Log &want = meaning->log, got = run_lathe(program);
  const size_t compared = got.entries.size() - (got.error.empty() ? 0 : 1);
  for (size_t i = 0; i < compared; ++i) {
    if (got.entries[i] == want.entries[i]) continue;
    return {false, concat(place_of(program, want.line[i]), ": got ", text_of(got.entries[i]),
                          ", want ", text_of(want.entries[i]))};
  }
  if (got.error.empty()) return {};
  const bool expected = meaning->saved_written < got.line.back() &&
                        got.error.find("modified by an in-place operation") != std::string::npos;
  if (expected) return {true, ""};
  return {false, concat(place_of(program, got.line.back()), ": ", got.error)};
}

namespace {

/// The program without one line, and without all that needs it.
Program without(const Program& program, size_t line) {
  Program rest{program.seed, {}};
  std::map<int, int> renamed;
  int next = 0;
  for (size_t n = 0; n < program.lines.size(); ++n) {
    Statement s = program.lines[n];
    bool kept = n != line;
    for (int& in : s.in) {
      const auto found = renamed.find(in);
      kept = kept && found != renamed.end();
      if (found != renamed.end()) in = found->second;
    }
    if (!kept) continue;
    const bool several = s.op == Op::kGrad && s.out >= 0;
    const int results = s.out < 0 ? 0 : several ? static_cast<int>(s.in.size()) - 1 : 1;
    for (int r = 0; r < results; ++r) renamed[s.out + r] = next + r;
    if (s.out >= 0) s.out = next;
    next += results;
    rest.lines.push_back(s);
  }
  return rest;
}

}  // namespace

Program smallest_failing(const Program& program) {
  Program best = program;
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (size_t line = best.lines.size(); line-- > 0;) {
      const Program candidate = without(best, line);
      if (candidate.lines.empty() || check(candidate).wrong.empty()) continue;
      best = candidate;
      smaller = true;
      break;
    }
  }
  return best;
}

}  // namespace lathe::programs
