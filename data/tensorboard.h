// EventWriter: writes files that TensorBoard shows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "lathe/core/config.h"
#include "lathe/core/tensor.h"

namespace lathe {

struct EventWriterOptions {
  /// Appended to the file's name, after a dot.
  std::string suffix = {};
  /// The first step of the new file, if the folder has earlier files of the same run. TensorBoard
  /// then ignores the entries of the earlier files from this step on. -1: a new run.
  int64_t first_step = -1;
};

/// Writes one file events.out.tfevents.* into a folder. `tensorboard --logdir FOLDER` shows the
/// file while it grows. Each call appends one record with one write, so a killed process leaves at
/// most the last record incomplete; TensorBoard ignores that record. A tag names a curve, with '/'
/// between groups: "loss/train". Only one thread at a time may use an EventWriter.
/// ref: TensorFlow's util/event.proto, framework/summary.proto and lib/io/record_writer.h in
/// tensorflow/core
class LATHE_API EventWriter {
 public:
  /// Makes the folder, if it is missing, and a new file in it. As with TensorFlow, the file's name
  /// has the time, the host and the process.
  /// throws: FileError.
  explicit EventWriter(const std::filesystem::path& folder, const EventWriterOptions& options = {});
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  // These functions throw FileError if the record cannot be written. The file then ends before that
  // record.

  /// Adds a point to a curve. TensorBoard keeps `value` as f32.
  void add_scalar(std::string_view tag, double value, int64_t step);
  /// Adds the distribution of `values` (any shape, dtype and device) over 30 ranges of equal width.
  /// Values that are not finite are left out.
  void add_histogram(std::string_view tag, const Tensor& values, int64_t step);
  /// Adds an image [3,H,W], [1,H,W] or [H,W], u8 or floating in [0,1], as for image::write.
  /// throws: what image::encode throws.
  void add_image(std::string_view tag, const Tensor& image, int64_t step);
  /// Adds a text in Markdown.
  void add_text(std::string_view tag, std::string_view text, int64_t step);

  const std::filesystem::path& file() const { return file_; }

 private:
  void append(const std::string& event);

  std::filesystem::path file_;
  int descriptor_ = -1;
};

}  // namespace lathe
