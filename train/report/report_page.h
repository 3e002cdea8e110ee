// The page report.html: a run, or several side by side. report_file.h writes it while a training
// goes on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/train/report/run_files.h"

namespace lathe::report {

/// An image that the model got wrong.
struct WrongImage {
  std::string png;  // the bytes of a PNG file
  std::string label, predicted;
  double probability;  // of `predicted`
  double loss;
  int64_t index;     // in the data set
  std::string file;  // of the image; "" if it has none of its own
};

/// What an evaluation adds to the report of a run.
struct ReportEvaluation {
  std::string about;  // "test images with best.safetensors"
  double loss = 0, accuracy = 0;
  std::vector<std::string> classes;
  std::vector<std::vector<int64_t>> confusion;  // a row per label, a column per prediction
  std::vector<WrongImage> worst;                // the worst first
};

/// The report of one run: results, curves, what its evaluation adds (nullptr: nothing), settings,
/// environment, and the end of its log.
LATHE_API std::string report_page(const RunFiles& run, const ReportEvaluation* evaluation);

/// Two runs or more: results and differing settings in a column each, and their curves in the same
/// charts.
LATHE_API std::string comparison_page(const std::vector<RunFiles>& runs);

}  // namespace lathe::report
