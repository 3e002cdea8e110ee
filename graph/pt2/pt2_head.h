// Another last layer for a program. Internal: program.h is what others use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::jit::pt2 {

struct NewHead {
  std::string json;    // the program for other classes
  std::string weight;  // the parameters that have another shape: "fc.weight"
  std::string bias;    // "": there is none
};

/// Changes the number of classes in the JSON of a program that parse_program() takes: the sizes of
/// the last layer's weight and bias, those of what is computed from its result, and the numbers of
/// classes that views of it name. The last layer is the linear layer or convolution from whose
/// result the program's only result comes by pooling, activations and views alone.
///   file  names the file in messages
/// throws: DataError if the last layer cannot be replaced, for one of these reasons:
///   - Another operator stands behind the layer.
///   - The layer's weight is used twice or is no parameter.
///   - The layer is a convolution with groups.
///   - A slice takes only some of the classes.
///   - An operator moves dimensions, and a second dimension has the same size as the classes.
///   - A view mixes the classes with other sizes.
///   - The program has several results.
NewHead with_new_head(std::string_view json, int64_t classes, const std::string& file);

/// The names of the last layer's weight and bias; none if there is no such layer.
std::vector<std::string> head_parameters(std::string_view json, const std::string& file);

}  // namespace lathe::jit::pt2
