// Drives a target without libFuzzer, as an ordinary test: `replay PARSER [DIRECTORY...]`. It gets
// every seed, cut at every length, with every byte changed, and with random changes, then the files
// of the directories. The same inputs in every run.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <random>

#include "lathe/tests/data/files.h"
#include "lathe/tests/fuzz/target.h"

namespace {

constexpr size_t kEverywhere =
    512;  // seeds up to this size are cut and changed at every byte, longer ones at as many
constexpr int kRandomInputs = 3000;

struct Replay {
  explicit Replay(const lathe::fuzz::Target& of) : target(of) {}

  const lathe::fuzz::Target& target;
  int inputs = 0, accepted = 0;

  void operator()(const std::string& bytes) {
    ++inputs;
    accepted += target.try_input(bytes);
  }
};

std::string mutate(std::string bytes, std::mt19937& random) {
  for (auto n = random() % 4 + 1; n > 0 && !bytes.empty(); --n) {
    const size_t at = random() % bytes.size();
    switch (random() % 4) {
      case 0: bytes[at] = static_cast<char>(random()); break;
      case 1: bytes.erase(at, random() % 8 + 1); break;
      case 2: bytes.insert(at, bytes, random() % bytes.size(), random() % 8 + 1); break;
      default: bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
    }
  }
  return bytes;
}

void run_seeds(Replay& replay) {
  const auto seeds = replay.target.seeds();
  for (const std::string& seed : seeds) {
    const int before = replay.accepted;
    replay(seed);
    if (replay.accepted == before) throw std::runtime_error("a seed was refused");
    const size_t step = seed.size() / kEverywhere + 1;
    for (size_t at = 0; at < seed.size(); at += step) {
      replay(seed.substr(0, at));
      for (const char value : {'\0', '\x7f', '\xff', static_cast<char>(seed[at] + 1)}) {
        std::string changed = seed;
        changed[at] = value;
        replay(changed);
      }
    }
  }
  std::mt19937 random(7);
  for (int i = 0; i < kRandomInputs; ++i) replay(mutate(seeds[random() % seeds.size()], random));
}

}  // namespace

int main(int argc, char** argv) {
  std::optional<Replay> replay;
  bool ok = true;
  try {
    replay.emplace(lathe::fuzz::target_named(argc > 1 ? argv[1] : ""));
    run_seeds(*replay);
    for (int i = 2; i < argc; ++i) {
      for (const auto& file : std::filesystem::directory_iterator(argv[i]))
        (*replay)(lathe::data::testing::read_file(file.path()));
    }
  } catch (const std::exception& error) {
    ok = false;
    std::printf("input %d: %s\n", replay ? replay->inputs : 0, error.what());
  }
  if (replay) std::printf("%d inputs, %d accepted\n", replay->inputs, replay->accepted);
  std::printf("%d passed, %d failed, 0 skipped\n", ok, !ok);
  return ok ? 0 : 1;
}
