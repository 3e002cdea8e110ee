// ConvKey: everything that decides which engine computes a convolution fastest, or at all. Two
// calls with equal keys share an engine, so a missing field would give one call's engine to
// another. The search that uses the keys: conv_search.h.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lathe/core/config.h"
#include "lathe/core/dtype.h"
#include "lathe/ops/conv/conv_pass.h"

namespace lathe {

/// How an engine is chosen. Words: heuristic, benchmark, deterministic.
enum class ConvMode : uint8_t {
  kHeuristic,  // the library's first guess that can be made ready
  kBenchmark,  // all guesses are timed, the fastest wins
  // The first guess that always gives the same bits. Nothing is timed, and no file is read.
  kDeterministic,
};

/// A tensor as the engine sees it: dtype, sizes, strides and alignment.
struct ConvTensor {
  DType dtype = kF32;
  std::array<int64_t, 4> dims{}, strides{};  // in elements; all 0: the pass has no such tensor
  int64_t alignment = 0;                     // of its address in bytes: 1, 2, 4, 8 or 16

  bool exists() const { return alignment != 0; }
  auto operator<=>(const ConvTensor&) const = default;
};

/// The device and the libraries that compute.
struct ConvMachine {
  std::string device;        // "NVIDIA H200"
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  std::string library;          // "cudnn 9.19.0"
  std::string runtime, driver;  // CUDA versions: "13.0"

  auto operator<=>(const ConvMachine&) const = default;
};

/// A ConvMachine as keys hold it. Copies share one object, so copying a key copies no text. It is
/// compared by value, which is immediate for a shared object.
class LATHE_API SharedMachine {
 public:
  SharedMachine() = default;  // of ConvMachine{}
  SharedMachine(ConvMachine machine);

  const ConvMachine& operator*() const;
  const ConvMachine* operator->() const { return &**this; }

  bool operator==(const SharedMachine& other) const {
    return machine_ == other.machine_ || **this == *other;
  }
  std::strong_ordering operator<=>(const SharedMachine& other) const {
    return machine_ == other.machine_ ? std::strong_ordering::equal : **this <=> *other;
  }

 private:
  std::shared_ptr<const ConvMachine> machine_;  // null for ConvMachine{}
};

/// A plain value. The compiler generates the comparisons from the fields, so none can be forgotten.
/// The fields that differ most often come first.
struct ConvKey {
  ConvPass pass = ConvPass::kForward;
  ConvMode mode = ConvMode::kHeuristic;
  ConvTensor x, w, y;                                              // or their gradients: dx, dw, dy
  ConvTensor bias;                                                 // added by the same kernel
  ConvFusion fusion = ConvFusion::kNone;                           // never with `bias`
  DType compute = kF32;                                            // the dtype of sums
  std::array<int64_t, 2> stride{1, 1}, pad{0, 0}, dilation{1, 1};  // {rows, columns}
  int64_t groups = 1;
  bool tf32 = false;  // f32 products may be rounded to TF32
  int64_t workspace_limit_bytes = 0;
  SharedMachine machine;

  bool deterministic() const { return mode == ConvMode::kDeterministic; }
  auto operator<=>(const ConvKey&) const = default;
};

/// Hashes what differs between the convolutions of one program. It leaves out the machine and all
/// strides but those of the channels.
struct LATHE_API ConvKeyHash {
  size_t operator()(const ConvKey& key) const noexcept;
};

/// One line, for logs and files:
///   backward_weight none benchmark x=f16[128,64,32,32]/[65536,1,2048,64]@16 w=… y=… bias=-
///   residual=- compute=f32 stride=[1,1] pad=[1,1] dilation=[1,1] groups=1 tf32=no
///   workspace=1073741824 device="NVIDIA H200" sm=9.0 multiprocessors=132 library="cudnn 9.19.0"
///   runtime="13.0" driver="13.0"
/// The second word is `bias` if there is one, else the fusion's (conv_pass.h). `residual=-` says
/// nothing; earlier versions could have had a tensor there.
LATHE_API void append_text(std::string& out, const ConvKey& key);
LATHE_API void append_text(std::string& out, const ConvTensor& tensor);
LATHE_API void append_text(std::string& out, ConvPass pass);
LATHE_API void append_text(std::string& out, ConvFusion fusion);
LATHE_API void append_text(std::string& out, ConvMode mode);

/// The key with exactly this text.
/// throws: DataError for any other text.
LATHE_API ConvKey parse_conv_key(std::string_view text);

}  // namespace lathe
