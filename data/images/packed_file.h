// Packed files: decoded images, their labels and the class names in one file, which is mapped into
// memory and read in place. packed_images.h is the data set over one.
//
// All numbers are little-endian; crc is CRC-32C (core/files/crc32c.h).
//
//   head    16 bytes   89 'L' 'P' 'K' 0D 0A 1A 0A, u32 version (1), u32 0
//   images             one after another: u8 [channels, height, width], then the byte E5
//   table   16 each    u32 height, u32 width, u32 label, u32 crc of the image's bytes
//   values  16 each    f64 mean, f64 std of every channel, of x / 255
//   names              per class: u32 length, the bytes
//   tail    48 bytes   u64 images, u64 of them for training (the first ones; the others are for
//                      testing), u64 bytes of all images, u64 bytes of all names, u32 classes,
//                      u32 channels, u32 crc of head, table, values, names and the tail so far,
//                      'L' 'P' 'K' 'E'
//
// The table and names stand behind the images, so that a file is written in one pass. The byte E5
// shows a reader of the mapped file that an image is still complete; see core/files/mapped_file.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/files/file.h"
#include "lathe/core/files/mapped_file.h"
#include "lathe/data/transforms/transforms.h"

namespace lathe::data {

inline constexpr uint32_t kPackedVersion = 1;

/// What all images of a packed file have in common.
struct PackedInfo {
  int64_t channels = 3;
  std::vector<std::string> class_names;
  std::vector<double> mean, std;  // of each channel, of x / 255
};

/// Writes a packed file beside `path`; commit() moves it there. Without commit() nothing is left of
/// it (AtomicFile).
class LATHE_API PackedWriter {
 public:
  /// throws: ValueError unless there are 1 to 16 channels, each with a mean and a positive std, and
  /// at least one class; FileError.
  PackedWriter(const std::string& path, PackedInfo info);

  /// Appends an image of bytes [channels, height, width], row-major.
  /// throws: ValueError for a side that is not 1 to 65536, or a label that is no class; FileError.
  void add(const uint8_t* pixels, int64_t height, int64_t width, int64_t label);

  /// The images so far are for training, the following ones for testing. Without this call all are
  /// for training.
  void begin_test() { train_images_ = size(); }

  int64_t size() const { return images_; }  // so far
  /// Images of each class, so far.
  const std::vector<int64_t>& class_sizes() const { return class_sizes_; }
  const PackedInfo& info() const { return info_; }

  /// After the last image: writes what follows the images and waits until all is on the disk. This
  /// is the slow part of commit().
  /// throws: StateError without images; FileError.
  void finish();

  /// Moves the file to `path`. Call it once, last; finish() may come before.
  /// throws: as finish().
  void commit();

 private:
  PackedInfo info_;
  std::vector<int64_t> class_sizes_;
  AtomicFile file_;
  std::string head_, table_;
  int64_t images_ = 0, image_bytes_ = 0, train_images_ = -1;
  bool is_finished_ = false;
};

/// True if `path` is a regular file that begins as a packed file does, complete or not. False if
/// the file cannot be read.
LATHE_API bool is_packed_file(const std::string& path);

/// A packed file, opened for reading. Several threads may read at the same time.
///
/// Opening verifies and keeps everything but the images' bytes: first sizes against each other and
/// the file's size, before memory is allocated for them, then the checksum, then every value. An
/// image's bytes are compared with their checksum when they are read for the first time. An index i
/// outside [0, size()) is undefined behaviour, as in std::vector.
class LATHE_API PackedFile {
 public:
  /// throws: FileError; DataError naming the file and what does not fit.
  explicit PackedFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const PackedInfo& info() const { return info_; }
  int64_t size() const { return static_cast<int64_t>(images_.size()); }
  int64_t train_images() const { return train_images_; }  // the first ones

  ImageSpec spec(int64_t i) const {
    return {info_.channels, images_[static_cast<size_t>(i)].height,
            images_[static_cast<size_t>(i)].width};
  }
  int64_t label(int64_t i) const { return images_[static_cast<size_t>(i)].label; }

  /// Calls use(pixels) with the bytes of image i, in place in the mapped file. Only the calling
  /// thread may touch them (MappedFile::read).
  /// throws: FileError if the file was cut off or cannot be read, DataError if the image is
  /// damaged; what use() has made must then be discarded. What use() throws.
  template <class Use>
  void read(int64_t i, Use&& use) const {
    const int64_t count = spec(i).pixels();
    bool sound = true;
    file_.read(images_[static_cast<size_t>(i)].offset, count + 1, [&](const std::byte* bytes) {
      const auto* pixels = reinterpret_cast<const uint8_t*>(bytes);
      sound = is_sound(i, pixels, count);
      if (!sound) return;
      use(pixels);
      sound = pixels[count] == kImageEnd;
    });
    if (!sound) fail_damaged(i);
  }

  /// A hint to fetch the cache lines of image i.
  void prefetch(int64_t i) const noexcept {
    file_.prefetch(images_[static_cast<size_t>(i)].offset, spec(i).pixels());
  }

 private:
  static constexpr uint8_t kImageEnd = 0xe5;
  friend class PackedWriter;

  struct Image {
    int64_t offset;
    uint32_t height, width, label, crc;
  };

  void read_table(std::string_view table, int64_t image_bytes);
  bool is_sound(int64_t i, const uint8_t* pixels, int64_t count) const;
  [[noreturn]] void fail_damaged(int64_t i) const;

  MappedFile file_;
  PackedInfo info_;
  int64_t train_images_ = 0;
  std::vector<Image> images_;
  std::unique_ptr<std::atomic<bool>[]> compared_;  // found equal to its checksum
};

}  // namespace lathe::data
