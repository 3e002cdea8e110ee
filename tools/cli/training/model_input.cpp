// ModelInput to metadata and back, and as a transform.
#include "lathe/tools/cli/training/model_input.h"

#include "lathe/core/json.h"
#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/parse_value.h"

namespace lathe::cli {
namespace {

constexpr const char *kNames = "lathe.class_names", *kChannels = "lathe.image_channels",
                     *kResize = "lathe.image_resize", *kSize = "lathe.image_size",
                     *kMean = "lathe.image_mean", *kStd = "lathe.image_std";
constexpr const char* kKeys[] = {kNames, kChannels, kResize, kSize, kMean, kStd};

std::string text_of(const std::vector<double>& numbers) {
  std::vector<std::string> texts;
  for (const double number : numbers) texts.push_back(number_text(number));
  return joined(texts, ",");
}

std::vector<double> numbers_in(const std::string& key, const std::string& text, int64_t count) {
  std::vector<double> numbers;
  for (const std::string& part : split_list(text))
    numbers.push_back(parse_number(key, part, -1e6, 1e6));
  if (static_cast<int64_t>(numbers.size()) != count)
    throw UsageError(formatted("{}: expected {} numbers, got \"{}\"", key, count, text));
  return numbers;
}

std::vector<std::string> class_names_in(const std::string& text) {
  const nlohmann::json list = nlohmann::json::parse(text, nullptr, false);
  std::vector<std::string> names;
  if (list.is_array()) {
    for (const auto& name : list) {
      if (!name.is_string()) break;
      names.push_back(name.get<std::string>());
    }
  }
  if (names.empty() || names.size() != list.size())
    throw UsageError(formatted("{}: expected a JSON list of names", kNames));
  return names;
}

}  // namespace

safetensors::Metadata metadata_of(const ModelInput& input) {
  const nlohmann::json names = input.class_names;
  return {{kNames, names.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)},
          {kChannels, std::to_string(input.channels)},
          {kResize,
           input.keeps_ratio ? std::to_string(input.resize) : formatted("{0}x{0}", input.resize)},
          {kSize, std::to_string(input.side)},
          {kMean, text_of(input.mean)},
          {kStd, text_of(input.std)}};
}

safetensors::Metadata input_entries(const safetensors::Metadata& metadata) {
  safetensors::Metadata out;
  for (const char* key : kKeys) {
    if (const auto found = metadata.find(key); found != metadata.end()) out.insert(*found);
  }
  return out;
}

ModelInput model_input_in(const safetensors::Metadata& metadata, std::string_view file) try {
  const auto text = [&](const char* key) -> const std::string& {
    const auto found = metadata.find(key);
    if (found == metadata.end())
      throw UsageError(formatted("it has no {}; a checkpoint that `lathe train` writes has", key));
    return found->second;
  };
  ModelInput out;
  out.class_names = class_names_in(text(kNames));
  out.channels = parse_integer(kChannels, text(kChannels), 1, 3);
  if (out.channels == 2) throw UsageError(formatted("{}: expected 1 or 3, got 2", kChannels));
  out.side = parse_integer(kSize, text(kSize), 1, kMostSide);
  const std::string& resize = text(kResize);
  const size_t sign = std::min(resize.find('x'), resize.size());
  out.resize = parse_integer(kResize, resize.substr(0, sign), 1, kMostSide);
  out.keeps_ratio = sign == resize.size();
  if (!out.keeps_ratio && resize.substr(sign + 1) != resize.substr(0, sign))
    throw UsageError(formatted("{}: expected 256 or 28x28, got \"{}\"", kResize, resize));
  out.mean = numbers_in(kMean, text(kMean), out.channels);
  out.std = numbers_in(kStd, text(kStd), out.channels);
  for (const double std : out.std) {
    if (std <= 0)
      throw UsageError(formatted("{}: expected numbers above 0, got \"{}\"", kStd, text(kStd)));
  }
  return out;
} catch (const UsageError& e) {
  throw CommandError(ExitCode::kData, formatted("{}: {}", file, e.what()));
}

ModelInput usual_input(int64_t classes, int64_t side) {
  ModelInput out{.class_names = {},
                 .channels = 3,
                 .side = side,
                 .resize = side * 256 / 224,
                 .keeps_ratio = true,
                 .mean = {0.485, 0.456, 0.406},
                 .std = {0.229, 0.224, 0.225}};
  for (int64_t i = 0; i < classes; ++i) out.class_names.push_back(std::to_string(i));
  return out;
}

data::Transform transform_of(const ModelInput& input) {
  const bool grey = input.channels == 1;
  const data::Transform resized =
      input.keeps_ratio ? data::resize(input.resize) : data::resize(input.resize, input.resize);
  const data::Transform sized = resized.then(data::center_crop(input.side));
  const auto three = [&](const std::vector<double>& values) {
    return grey ? std::vector<double>(3, values[0]) : values;
  };
  return (grey ? sized.then(data::grayscale()) : sized)
      .then(data::normalize(three(input.mean), three(input.std)));
}

}  // namespace lathe::cli
