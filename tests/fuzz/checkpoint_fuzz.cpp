// Checkpoints: a safetensors file and its parts, restored into a small training. A checksum is made
// to fit, because random changes rarely survive one (safetensors_fuzz.cpp leaves it as it is). A
// checkpoint that does not fit must leave every part as it was; one that does must come out again.
#include "lathe/nn/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "lathe/core/error.h"
#include "lathe/core/files/crc32c.h"
#include "lathe/data/loader_core.h"
#include "lathe/nn/linear.h"
#include "lathe/ops/creation.h"
#include "lathe/optim/ema.h"
#include "lathe/optim/grad_scaler.h"
#include "lathe/optim/scheduler.h"
#include "lathe/optim/sgd.h"
#include "lathe/tests/data/files.h"
#include "lathe/tests/fuzz/allocation_watch.h"
#include "lathe/tests/fuzz/target.h"

namespace lathe::fuzz {
namespace {

struct Training {
  nn::Linear model{2, 1};
  optim::SGD optimizer{model.parameters(), {.lr = 0.1, .momentum = 0.9}};
  optim::StepLR scheduler{optimizer, {.step_size = 3}};
  optim::GradScaler scaler;
  optim::EMA ema{model};
  data::LoaderCore loader{10, {.batch_size = 2, .shuffle = true}};
  CheckpointParts parts{
      {"model", model}, {"optimizer", optimizer}, {"scheduler", scheduler}, {"scaler", scaler},
      {"ema", ema},     {"loader", loader}};

  Checkpoint state() const {
    Checkpoint now = collect_checkpoint(parts);
    now.tensors = now.tensors.clone();
    return now;
  }
};

bool same(const Tensor& a, const Tensor& b) {
  const auto bytes = static_cast<size_t>(a.bytes());
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (bytes == 0 || std::memcmp(a.raw_data(), b.raw_data(), bytes) == 0);
}

bool same(const StateDict& a, const StateDict& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    return x.first == y.first && same(x.second, y.second);
  });
}

// See the note in core/formats/safetensors.h.
std::string with_checksum(std::string bytes) {
  constexpr size_t kDigits = 8;
  const std::string before = R"({"__metadata__":{"lathe.crc32c":")";
  const size_t at = 8 + before.size();
  if (bytes.size() < at + kDigits || bytes.compare(8, before.size(), before) != 0) return bytes;
  bytes.replace(at, kDigits, kDigits, '0');
  const uint32_t sum = crc32c(bytes.data(), bytes.size());
  for (size_t i = 0; i < kDigits; ++i)
    bytes[at + i] = "0123456789abcdef"[sum >> (28 - 4 * i) & 0xfu];
  return bytes;
}

std::vector<std::string> seeds() {
  Training training;
  for (const Tensor& parameter : training.model.parameters())
    parameter.set_grad(ones_like(parameter));
  training.optimizer.step();
  const data::testing::TempDir directory;
  save_checkpoint(directory / "seed", training.parts, {{"lathe.step", "1"}});
  return {data::testing::read_file(directory / "seed")};
}

void feed(const std::string& bytes) {
  const std::string path = file_of(with_checksum(bytes));
  Checkpoint checkpoint;
  check_allocations(static_cast<int64_t>(bytes.size()),
                    [&] { checkpoint = read_checkpoint(path); });

  static const Training training;
  static const Checkpoint fresh = training.state();
  try {
    restore_checkpoint(checkpoint, training.parts, "fuzz.safetensors");
  } catch (const Error&) {
    if (!same(training.state().tensors, fresh.tensors))
      throw std::logic_error("a checkpoint that does not fit changed a part");
    throw;
  }
  const Checkpoint restored = training.state();
  restore_checkpoint(fresh, training.parts, "fresh");
  restore_checkpoint(restored, training.parts, "restored");
  const bool kept = same(training.state().tensors, restored.tensors);
  restore_checkpoint(fresh, training.parts, "fresh");
  if (!kept) throw std::logic_error("what was restored does not come out again");
}

const Target target("checkpoint", seeds, feed);

}  // namespace
}  // namespace lathe::fuzz
