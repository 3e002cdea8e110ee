// Another last layer for a program. Internal: program.h is what others use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

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
/// throws: DataError that says why no such layer can be replaced: another operator stands behind
/// it, its weight is used twice or is no parameter, its convolution has groups, a slice takes some
/// of the classes, what moves dimensions meets a second size of as many, or the program has several
/// results.
NewHead with_new_head(std::string_view json, int64_t classes, const std::string& file);

}  // namespace lathe::jit::pt2
