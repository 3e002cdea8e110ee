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
  // How many times as fast the training would be; 1: not known. `measured`: here, by the steps.
  double gain = 1;
  bool measured = false;
  std::string claim = {};  // what is commonly claimed, with its source; where nothing was measured
};

struct Check {
  std::string_view name;
  bool gpu_only;
  /// Nothing: all is good, or it does not apply.
  std::optional<Finding> (*look)(const Facts& facts);
  /// Makes the settings those of the fix, so that it can be timed; null where no flag is one.
  void (*mend)(Settings& settings, const MachineFacts& machine) = nullptr;
  // A slow-down by less than this is no finding, once it was measured; 0: it always is one.
  double worth = 1.03;
};

std::span<const Check> doctor_checks();

/// The check of this name.
/// throws: ValueError.
const Check& doctor_check(std::string_view name);

struct Diagnosis {
  std::vector<Finding> findings;          // the greatest gain first
  std::vector<std::string_view> good;     // checks without one
  std::vector<Finding> harmless;          // measured, and not worth a change
  std::vector<std::string_view> skipped;  // that the steps would have to show, and there were none
};

/// Runs all checks that the machine calls for: those of a GPU only with one.
Diagnosis diagnose(const Facts& facts);

/// After gains were measured: those below their check's `worth` become harmless. The findings are
/// sorted: measured gains before what is claimed or not known, the greatest first.
void settle(Diagnosis& diagnosis);

/// "1.25x, measured", "commonly 2x (…)", "not known".
std::string gain_text(const Finding& finding);

}  // namespace lathe::cli
