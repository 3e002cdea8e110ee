// Checkpoints: names and prefixes of the parts, collecting and restoring them. The file itself is
// core/formats/safetensors.
#include "lathe/nn/checkpoint.h"

#include <algorithm>
#include <charconv>

#include "lathe/core/error.h"
#include "lathe/core/formats/safetensors_header.h"
#include "lathe/core/random/random_state.h"

namespace lathe {

namespace {

constexpr std::string_view kVersionKey = "lathe.checkpoint";
constexpr std::string_view kPartsKey = "lathe.parts";
constexpr std::string_view kModel = "model";  // its entries have no prefix
constexpr std::string_view kRandom = "rng";   // always in the file; no object of the caller's

std::string prefix_of(std::string_view part) { return concat(part, "."); }

/// The entry belongs to one of these parts (and not to the model).
bool is_in_sections(std::string_view entry, const std::vector<std::string>& parts) {
  const auto holds = [&](std::string_view part) {
    return entry.size() > part.size() && entry.starts_with(part) && entry[part.size()] == '.';
  };
  return holds(kRandom) || std::ranges::any_of(parts, [&](const std::string& part) {
           return part != kModel && holds(part);
         });
}

std::vector<std::string> checked_names(const CheckpointParts& parts) {
  std::vector<std::string> names;
  for (const CheckpointPart& part : parts) {
    const std::string& name = part.name();
    LATHE_CHECK(ValueError,
                !name.empty() && name != kRandom && name.find_first_of(".,") == std::string::npos,
                "checkpoint: \"", name, "\" cannot be the name of a part");
    LATHE_CHECK(ValueError, std::ranges::find(names, name) == names.end(),
                "checkpoint: two parts have the name \"", name, "\"");
    names.push_back(name);
  }
  return names;
}

int64_t version_of(const safetensors::Metadata& metadata, std::string_view file) {
  const auto found = metadata.find(kVersionKey);
  LATHE_CHECK(DataError, found != metadata.end(), file, ": not a checkpoint: its metadata lack ",
              kVersionKey, " (a weights file? nn::load reads those)");
  const std::string& text = found->second;
  int64_t version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  LATHE_CHECK(DataError, error == std::errc() && end == text.data() + text.size() && version >= 1,
              file, ": not a checkpoint: its version is \"", text, "\"");
  return version;
}

/// Checks that the metadata list the parts, each once.
void check_parts(const safetensors::Metadata& metadata, std::string_view file) {
  const auto found = metadata.find(kPartsKey);
  LATHE_CHECK(DataError, found != metadata.end(), file, ": not a checkpoint: its metadata lack ",
              kPartsKey);
  std::vector<std::string> names = checkpoint_parts(metadata);
  std::ranges::sort(names);
  const bool good = !found->second.ends_with(',') && std::ranges::find(names, "") == names.end() &&
                    std::ranges::adjacent_find(names) == names.end();
  LATHE_CHECK(DataError, good, file, ": ", kPartsKey, " is ", safetensors::in_quotes(found->second),
              ", which is no list of different parts");
}

/// Gives the parts their earlier state back, the last one first.
void give_back(const CheckpointParts& parts, const std::vector<StateDict>& before,
               const std::vector<bool>& loaded) {
  for (size_t i = parts.size(); i-- > 0;) {
    if (loaded[i]) parts[i].load(before[i]);
  }
}

}  // namespace

std::vector<std::string> checkpoint_parts(const safetensors::Metadata& metadata) {
  std::vector<std::string> names;
  const auto found = metadata.find(kPartsKey);
  if (found == metadata.end()) return names;
  for (std::string_view rest = found->second; !rest.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size());
    names.emplace_back(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return names;
}

StateDict checkpoint_section(const Checkpoint& checkpoint, std::string_view part) {
  if (part != kModel) return checkpoint.tensors.section(prefix_of(part));
  const std::vector<std::string> parts = checkpoint_parts(checkpoint.metadata);
  StateDict out;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (!is_in_sections(name, parts)) out.add(name, tensor);
  }
  return out;
}

Checkpoint collect_checkpoint(const CheckpointParts& parts, const safetensors::Metadata& metadata) {
  const std::vector<std::string> names = checked_names(parts);
  Checkpoint out{.tensors = {}, .metadata = metadata};
  std::string list;
  for (const std::string& name : names) list += concat(list.empty() ? "" : ",", name);
  for (const auto& [key, value] :
       {std::pair{kVersionKey, concat(kCheckpointVersion)}, std::pair{kPartsKey, list}}) {
    const bool is_new = out.metadata.emplace(key, value).second;
    LATHE_CHECK(ValueError, is_new, "checkpoint: the metadata ", key, " is the format's own");
  }
  for (const CheckpointPart& part : parts) {
    const StateDict state = part.state();
    if (part.name() != kModel) {
      out.tensors.add_all(prefix_of(part.name()), state);
      continue;
    }
    for (const auto& [name, tensor] : state) {
      LATHE_CHECK(ValueError, !is_in_sections(name, names), "checkpoint: the model's entry \"",
                  name, "\" has the prefix of another part");
      out.tensors.add(name, tensor);
    }
  }
  out.tensors.add_all(prefix_of(kRandom), random_state());
  return out;
}

Checkpoint read_checkpoint(const std::string& path) {
  Checkpoint out = safetensors::read(path);
  const int64_t version = version_of(out.metadata, path);
  LATHE_CHECK(DataError, version <= kCheckpointVersion, path, ": checkpoint version ", version,
              " is newer than this library's ", kCheckpointVersion);
  check_parts(out.metadata, path);
  LATHE_CHECK(DataError, out.has_checksum, path,
              ": the checkpoint's checksum is gone (damaged, or rewritten by another program)");
  return out;
}

void restore_checkpoint(const Checkpoint& checkpoint, const CheckpointParts& parts,
                        std::string_view name) {
  checked_names(parts);
  const std::vector<std::string> there = checkpoint_parts(checkpoint.metadata);
  std::string problems;
  const auto complain = [&](const auto&... text) {
    problems += concat(problems.empty() ? "" : "; ", text...);
  };
  std::vector<StateDict> before;
  for (const CheckpointPart& part : parts) {
    before.push_back(part.state().clone());
    if (std::ranges::find(there, part.name()) == there.end()) complain("it holds no ", part.name());
  }

  // Every part is tried, so that the message lists all that does not fit.
  std::vector<bool> loaded(parts.size(), false);
  const auto attempt = [&](const auto& load) {
    try {
      load();
      return true;
    } catch (const OutOfMemoryError&) {
      throw;
    } catch (const CudaError&) {
      throw;
    } catch (const Error& e) {  // the state does not fit
      complain(e.message());
    }
    return false;
  };
  try {
    for (size_t i = 0; i < parts.size(); ++i) {
      const StateDict section = checkpoint_section(checkpoint, parts[i].name());
      if (std::ranges::find(there, parts[i].name()) == there.end()) continue;
      loaded[i] = attempt([&] { parts[i].load(section); });
    }
    attempt([&] {  // last, so that it never has to be undone
      const StateDict state = checkpoint_section(checkpoint, kRandom);
      if (problems.empty()) set_random_state(state);
    });
  } catch (...) {
    give_back(parts, before, loaded);
    throw;
  }
  if (problems.empty()) return;
  give_back(parts, before, loaded);
  LATHE_FAIL(ValueError, name, ": ", problems);
}

void save_checkpoint(const std::string& path, const CheckpointParts& parts,
                     const safetensors::Metadata& metadata) {
  const Checkpoint checkpoint = collect_checkpoint(parts, metadata);
  safetensors::write(path, checkpoint.tensors, checkpoint.metadata);
}

safetensors::Metadata load_checkpoint(const std::string& path, const CheckpointParts& parts) {
  const Checkpoint checkpoint = read_checkpoint(path);
  safetensors::Metadata metadata = checkpoint.metadata;
  metadata.erase(std::string(kVersionKey));
  metadata.erase(std::string(kPartsKey));
  restore_checkpoint(checkpoint, parts, path);  // last: nothing may fail after it
  return metadata;
}

}  // namespace lathe
