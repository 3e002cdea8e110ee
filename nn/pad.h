// Padding as modules. ops/pad.h has the rules.
#pragma once

#include <initializer_list>
#include <string>
#include <variant>
#include <vector>

#include "lathe/nn/module.h"
#include "lathe/ops/pad.h"

namespace lathe::nn {

/// The widths of the borders around the last kDims dimensions. Either one amount for every side, or
/// {before, after} of the last dimension, then of the dimension before it. Negative amounts crop.
template <int kDims>
struct PadAmounts {
  PadAmounts(int64_t everywhere) : list(size_t{2} * kDims, everywhere) {}
  /// throws: ValueError unless there are two amounts for each dimension.
  PadAmounts(std::initializer_list<int64_t> amounts) : list(amounts) {
    LATHE_CHECK(ValueError, amounts.size() == size_t{2} * kDims, "padding: expected ", 2 * kDims,
                " amounts, got ", amounts.size());
  }

  std::vector<int64_t> list;
};

/// Base of the padding layers.
class LATHE_API PadLayer : public Module {
 public:
  Tensor forward(const Tensor& x) final {
    if (const auto* mode = std::get_if<PadMode>(&filling_)) return pad(x, amounts_, *mode);
    return pad(x, amounts_, std::get<Scalar>(filling_));
  }

 protected:
  PadLayer(const std::vector<int64_t>& amounts, Scalar value)
      : amounts_(amounts), filling_(value) {}
  PadLayer(const std::vector<int64_t>& amounts, PadMode mode) : amounts_(amounts), filling_(mode) {}

 private:
  std::vector<int64_t> amounts_;
  std::variant<Scalar, PadMode> filling_;
};

/// Pads with zeros.
class LATHE_API ZeroPad1d final : public PadLayer {
 public:
  explicit ZeroPad1d(const PadAmounts<1>& amounts) : PadLayer(amounts.list, Scalar(0)) {}
  ZeroPad1d(Module& parent, const std::string& name, const PadAmounts<1>& amounts)
      : ZeroPad1d(amounts) {
    join(parent, name);
  }
};
class LATHE_API ZeroPad2d final : public PadLayer {
 public:
  explicit ZeroPad2d(const PadAmounts<2>& amounts) : PadLayer(amounts.list, Scalar(0)) {}
  ZeroPad2d(Module& parent, const std::string& name, const PadAmounts<2>& amounts)
      : ZeroPad2d(amounts) {
    join(parent, name);
  }
};

/// Pads with a mirror image of the elements next to the edge.
class LATHE_API ReflectionPad1d final : public PadLayer {
 public:
  explicit ReflectionPad1d(const PadAmounts<1>& amounts)
      : PadLayer(amounts.list, PadMode::kReflect) {}
  ReflectionPad1d(Module& parent, const std::string& name, const PadAmounts<1>& amounts)
      : ReflectionPad1d(amounts) {
    join(parent, name);
  }
};
class LATHE_API ReflectionPad2d final : public PadLayer {
 public:
  explicit ReflectionPad2d(const PadAmounts<2>& amounts)
      : PadLayer(amounts.list, PadMode::kReflect) {}
  ReflectionPad2d(Module& parent, const std::string& name, const PadAmounts<2>& amounts)
      : ReflectionPad2d(amounts) {
    join(parent, name);
  }
};

/// Pads by repeating the edge.
class LATHE_API ReplicationPad1d final : public PadLayer {
 public:
  explicit ReplicationPad1d(const PadAmounts<1>& amounts)
      : PadLayer(amounts.list, PadMode::kReplicate) {}
  ReplicationPad1d(Module& parent, const std::string& name, const PadAmounts<1>& amounts)
      : ReplicationPad1d(amounts) {
    join(parent, name);
  }
};
class LATHE_API ReplicationPad2d final : public PadLayer {
 public:
  explicit ReplicationPad2d(const PadAmounts<2>& amounts)
      : PadLayer(amounts.list, PadMode::kReplicate) {}
  ReplicationPad2d(Module& parent, const std::string& name, const PadAmounts<2>& amounts)
      : ReplicationPad2d(amounts) {
    join(parent, name);
  }
};

/// Pads with the elements of the opposite side.
class LATHE_API CircularPad1d final : public PadLayer {
 public:
  explicit CircularPad1d(const PadAmounts<1>& amounts)
      : PadLayer(amounts.list, PadMode::kCircular) {}
  CircularPad1d(Module& parent, const std::string& name, const PadAmounts<1>& amounts)
      : CircularPad1d(amounts) {
    join(parent, name);
  }
};
class LATHE_API CircularPad2d final : public PadLayer {
 public:
  explicit CircularPad2d(const PadAmounts<2>& amounts)
      : PadLayer(amounts.list, PadMode::kCircular) {}
  CircularPad2d(Module& parent, const std::string& name, const PadAmounts<2>& amounts)
      : CircularPad2d(amounts) {
    join(parent, name);
  }
};

/// Pads with one value.
class LATHE_API ConstantPad1d final : public PadLayer {
 public:
  ConstantPad1d(const PadAmounts<1>& amounts, Scalar value) : PadLayer(amounts.list, value) {}
  ConstantPad1d(Module& parent, const std::string& name, const PadAmounts<1>& amounts, Scalar value)
      : ConstantPad1d(amounts, value) {
    join(parent, name);
  }
};
class LATHE_API ConstantPad2d final : public PadLayer {
 public:
  ConstantPad2d(const PadAmounts<2>& amounts, Scalar value) : PadLayer(amounts.list, value) {}
  ConstantPad2d(Module& parent, const std::string& name, const PadAmounts<2>& amounts, Scalar value)
      : ConstantPad2d(amounts, value) {
    join(parent, name);
  }
};

}  // namespace lathe::nn
