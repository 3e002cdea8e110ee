// The hashes of a checkpoint's entries and parts.
#include <doctest/doctest.h>

#include <string>

#include "lathe/core/files/hash.h"
#include "lathe/lathe.h"
#include "lathe/train/checkpoint_hashes.h"
#include "small_training.h"

using namespace lathe;

TEST_CASE("checkpoint hashes: of the values as they are in the file, by parts") {
  test::Net net;
  const Checkpoint all = collect_checkpoint({{"model", net.model}, {"optimizer", *net.optimizer}});
  const auto entries = train::hash_entries(all);
  REQUIRE(entries.size() == all.tensors.size());
  const Tensor weight = net.model.parameters()[0];
  CHECK(entries[0].name == "0.weight");
  CHECK(entries[0].part == "model");
  CHECK(entries[0].type == "f32[8,4]");
  CHECK(entries[0].bytes == 8 * 4 * 4);
  const std::string bytes(static_cast<const char*>(weight.raw_data()), 8 * 4 * 4);
  CHECK(entries[0].sha256 == sha256_hex(bytes));

  const auto parts = train::hash_parts(entries);
  REQUIRE(parts.size() >= 2);
  CHECK(parts[0].part == "model");
  CHECK(parts[1].part == "optimizer");
  int64_t sum = 0;
  for (const auto& part : parts) sum += part.entries;
  CHECK(sum == static_cast<int64_t>(entries.size()));
  {
    const NoGrad off;
    net.model.parameters()[0].fill_(0.5);
  }
  const auto changed = train::hash_parts(train::hash_entries(
      collect_checkpoint({{"model", net.model}, {"optimizer", *net.optimizer}})));
  CHECK(changed[0].sha256 != parts[0].sha256);
  CHECK(changed[1].sha256 == parts[1].sha256);
}
