// Kernels of groups, by text and GPU. Contract: group_kernel.h.
#include "lathe/graph/fused/group_kernel.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/cuda_backend.h"
#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/core/log.h"
#include "lathe/graph/fused/kernel_compiler.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/plans/lru_cache.h"

namespace lathe::jit {

namespace {

constexpr const char* kKernelName = "lathe_fused";
constexpr size_t kMostKernels = 512;

LoadedGroup load(const std::string& text, Device gpu) {
  LoadedGroup made;
  try {
    const cuda::ComputeCapability capability = cuda::compute_capability(gpu);
    made.target = kernel_target(capability.major, capability.minor);
    made.kernel.emplace(compile_kernels(text, made.target), kKernelName, gpu);
  } catch (const NoCudaError& absent) {
    made.why_not = absent.message();
  } catch (const Error& error) {
    made.why_not = error.message();
    // Behind the first line stands all of NVRTC's log and of the text, which only the log gets.
    warn_once(made.why_not,
              concat("the ops of a group run one by one on ", gpu, ": ", made.why_not));
    // CUDA_ERROR_OUT_OF_MEMORY and NVRTC_ERROR_OUT_OF_MEMORY pass when the program frees memory.
    made.is_final = made.why_not.find("OUT_OF_MEMORY") == std::string::npos;
  }
  made.why_not.resize(std::min(made.why_not.find('\n'), made.why_not.size()));
  return made;
}

/// A text on a GPU.
struct KnownText {
  std::mutex mutex;                    // also while NVRTC compiles: nobody compiles a text twice
  std::optional<LoadedGroup> group{};  // stays as it is from then on
  int64_t calls = 0, pause = 0;        // since memory was short, and until it is tried again
};

/// The text's entry, which stays where it is; null if there are too many.
KnownText* known_text(const std::string& text, Device gpu) {
  static std::mutex mutex;
  static auto& known = *new std::map<std::pair<std::string, int>, KnownText>;
  const std::lock_guard lock(mutex);
  const std::pair key(text, gpu.index);
  const auto found = known.find(key);
  if (found != known.end()) return &found->second;
  return known.size() < kMostKernels ? &known[key] : nullptr;
}

/// What this process has loaded, or tried to. What it returns stays where it is.
const LoadedGroup& loaded_kernel(const std::string& text, Device gpu) {
  static const LoadedGroup captured{.why_not = "not compiled before a CUDA graph was captured",
                                    .is_final = false};
  static const LoadedGroup no_memory{.why_not = "its kernel could not be loaded for lack of memory",
                                     .is_final = false};
  static const LoadedGroup full{.why_not = concat("more than ", kMostKernels, " kernels")};
  KnownText* const known = known_text(text, gpu);
  if (known == nullptr) return full;
  const std::lock_guard lock(known->mutex);
  if (known->group) return *known->group;
  if (cuda::capture_underway(gpu)) return captured;
  if (known->calls++ < known->pause) return no_memory;
  LoadedGroup made = load(text, gpu);
  if (made.is_final) return known->group.emplace(std::move(made));
  known->pause = 2 * known->pause + 1;  // a try takes tenths of a second
  known->calls = 0;
  return no_memory;
}

/// True if packets of `packet` elements may be read and written from `t`'s first element on.
bool holds_kernel_packets(const Tensor& t, int packet) {
  return reinterpret_cast<uintptr_t>(t.raw_data()) %
             (size_of(t.dtype()) * static_cast<size_t>(packet)) ==
         0;
}

/// The values of a kernel's parameters.
class Arguments {
 public:
  void add_integer(int64_t value) { std::memcpy(place(), &value, sizeof(value)); }
  void add_pointer(const Tensor& t) { add_integer(reinterpret_cast<int64_t>(t.raw_data())); }
  /// A cuda::Number: in the GPU's memory, or the number itself.
  void add_number(const Tensor& t) {
    char* const to = place();
    const void* const data = t.raw_data();
    if (t.device().is_cuda()) {
      std::memcpy(to, &data, sizeof(data));
    } else {
      std::memcpy(to + sizeof(data), data, size_of(t.dtype()));
    }
  }

  std::vector<void*> pointers() {
    std::vector<void*> all;
    for (Value& value : values_) all.push_back(value.bytes);
    return all;
  }

 private:
  struct alignas(16) Value {
    char bytes[16] = {};
  };
  char* place() { return values_.emplace_back().bytes; }

  std::vector<Value> values_;
};

}  // namespace

GroupKernel::GroupKernel(const PointwisePlan& plan)
    : source_(kernel_source(plan, kKernelName)), results_(plan.results()) {}

const LoadedGroup& GroupKernel::on(Device gpu) const {
  static const LoadedGroup none{.why_not = "it computes with integers"};
  if (!source_) return none;
  {
    const std::lock_guard lock(mutex_);
    const auto found = loaded_.find(gpu.index);
    if (found != loaded_.end()) return *found->second;
  }
  const LoadedGroup& made = loaded_kernel(source_->text, gpu);  // other GPUs need not wait for it
  if (!made.is_final) return made;
  const std::lock_guard lock(mutex_);
  loaded_[gpu.index] = &made;
  return made;
}

Tensors GroupKernel::run(const LoadedGroup& loaded, const Tensors& inputs) const {
  const NoGrad off;
  const Tensor* full = nullptr;
  bool aligned = true;
  Tensors numbers, made;
  for (const int i : source_->inputs) {
    full = &inputs[static_cast<size_t>(i)];
    aligned &= holds_kernel_packets(*full, source_->packet);
  }
  for (const auto& [input, dtype] : source_->numbers)
    numbers.push_back(cast(inputs[static_cast<size_t>(input)], dtype));
  for (const DType dtype : source_->results) made.push_back(empty_like(*full, dtype));
  const int64_t n = full->numel(), packets = aligned ? n / source_->packet : 0;
  Arguments arguments;
  arguments.add_integer(n);
  arguments.add_integer(packets);
  for (const int i : source_->inputs) arguments.add_pointer(inputs[static_cast<size_t>(i)]);
  for (const Tensor& number : numbers) arguments.add_number(number);
  for (const Tensor& y : made) arguments.add_pointer(y);
  std::vector<void*> pointers = arguments.pointers();
  loaded.kernel->launch(std::max(packets, n - packets * source_->packet), pointers);
  Tensors results;
  for (const int i : results_) results.push_back(made[static_cast<size_t>(i)]);
  return results;
}

std::shared_ptr<const GroupKernel> group_kernel(const PointwiseProgram& program,
                                                const InputForms& inputs) {
  using Pointer = std::shared_ptr<const GroupKernel>;
  static LruCache<std::string, Pointer> cache(256);
  return *cache.get(key_of(program, inputs), [&]() -> Pointer {
    const std::optional<PointwisePlan> plan = PointwisePlan::of(program, inputs);
    return plan ? std::make_shared<const GroupKernel>(*plan) : nullptr;
  });
}

}  // namespace lathe::jit
