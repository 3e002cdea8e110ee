// The checks of `lathe doctor`: one function each, in a table.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/tools/cli/observe/doctor_facts.h"

namespace lathe::cli {

/// What a check found.
struct Finding {
  std::string_view check;  // its name
  std::string where;       // the flag, the layer, or file:line
  std::string what;        // one sentence
  std::string fix;         // "--workers 2"; the flag to type, or what to change
  // How many times as fast the training would be with the fix; 1: not known. `measured`: the gain
  // was measured on this machine.
  double gain = 1;
  bool measured = false;
  std::string claim = {};  // what is commonly claimed, with its source; where nothing was measured
};

struct Check {
  std::string_view name;
  bool gpu_only;
  /// Looks at the facts. → nothing if all is good or the check does not apply
  std::optional<Finding> (*look)(const Facts& facts);
  /// Applies the fix of a doctor's finding to `settings`, so that its effect can be timed. Null if
  /// the fix is not a flag.
  void (*mend)(Settings& settings, const MachineFacts& machine) = nullptr;
  // If the measured gain is smaller, settle() counts the finding as harmless; 0: it always stays.
  double worth = 1.03;
};

std::span<const Check> doctor_checks();

/// The check of this name.
/// throws: ValueError.
const Check& doctor_check(std::string_view name);

struct Diagnosis {
  std::vector<Finding> findings;          // the greatest gain first
  std::vector<std::string_view> good;     // checks without a finding
  std::vector<Finding> harmless;          // measured, and not worth a change
  std::vector<std::string_view> skipped;  // checks that need measured steps, if there were none
};

/// Runs all checks; those of a GPU only if the machine has one.
Diagnosis diagnose(const Facts& facts);

/// Call it after gains were measured. Findings whose gain is below their check's `worth` become
/// harmless. Sorts the other findings: measured gains first, the greatest of them at the top.
void settle(Diagnosis& diagnosis);

/// The gain as text: "1.25x, measured", "not measured (commonly 2x, …)", "not measured".
std::string gain_text(const Finding& finding);

}  // namespace lathe::cli
