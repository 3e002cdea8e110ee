// Reading ONNX's messages: nodes, attributes, tensors.
#include "lathe/graph/onnx/onnx_proto.h"

#include <bit>
#include <cstring>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/core/formats/tensor_bytes.h"
#include "lathe/core/printable.h"
#include "lathe/core/shape.h"

namespace lathe::jit::onnx {

namespace {

// TensorProto.DataType.
constexpr std::pair<int64_t, DType> kTypes[] = {{1, kF32},  {2, kU8},   {3, kI8},   {5, kI16},
                                                {6, kI32},  {7, kI64},  {9, kBool}, {10, kF16},
                                                {11, kF64}, {16, kBF16}};

NodeAttribute read_attribute(ProtobufReader in) {
  NodeAttribute out;
  int64_t kind = 0;
  while (in.next()) {
    switch (in.field()) {
      case 1: out.name = in.text(); break;
      case 2: out.real = in.real(); break;
      case 3: out.integer = in.integer(); break;
      case 4:
      case 5: out.bytes = in.text(); break;
      case 7: in.append_to(out.reals); break;
      case 8: in.append_to(out.integers); break;
      case 20: kind = in.integer(); break;
      default: break;
    }
  }
  out.kind = static_cast<NodeAttribute::Kind>(kind >= 0 && kind < 256 ? kind : 0);
  return out;
}

/// A TensorProto as it stands in the file. The values stand in one of the last four fields.
struct TensorFields {
  int64_t type = 0;
  std::vector<int64_t> sizes = {};
  bool is_elsewhere = false;
  std::optional<std::string_view> raw = {};  // little-endian, row-major
  std::vector<int64_t> integers = {};        // also the bits of half floats
  std::vector<float> floats = {};
  std::vector<double> doubles = {};
};

TensorFields read_fields(ProtobufReader in) {
  TensorFields out;
  while (in.next()) {
    switch (in.field()) {
      case 1: in.append_to(out.sizes); break;
      case 2: out.type = in.integer(); break;
      case 4: in.append_to(out.floats); break;
      case 5:
      case 7: in.append_to(out.integers); break;
      case 9: out.raw = in.text(); break;
      case 10: in.append_to(out.doubles); break;
      case 13: out.is_elsewhere = true; break;
      case 14: out.is_elsewhere |= in.integer() != 0; break;
      default: break;
    }
  }
  return out;
}

template <class To, class From>
void copy_converted(const Tensor& t, const std::vector<From>& values) {
  To* const to = t.data<To>();
  for (size_t i = 0; i < values.size(); ++i) to[i] = static_cast<To>(values[i]);
}

void copy_integers(const Tensor& t, const std::vector<int64_t>& values) {
  auto* const to = static_cast<char*>(t.raw_data());
  const size_t size = size_of(t.dtype());
  for (size_t i = 0; i < values.size(); ++i) {
    // The lowest bytes of a number, which are its first on a little-endian machine.
    const auto bits = static_cast<uint64_t>(values[i]);
    for (size_t b = 0; b < size; ++b) {
      const size_t place = std::endian::native == std::endian::little ? b : size - 1 - b;
      to[i * size + place] = static_cast<char>(bits >> (8 * b) & 0xff);
    }
  }
}

}  // namespace

FileNode read_node(ProtobufReader in) {
  FileNode out;
  while (in.next()) {
    switch (in.field()) {
      case 1: out.inputs.push_back(in.text()); break;
      case 2: out.outputs.push_back(in.text()); break;
      case 3: out.name = in.text(); break;
      case 4: out.op = in.text(); break;
      case 5: out.attributes.push_back(read_attribute(in.message())); break;
      case 7: out.domain = in.text(); break;
      default: break;
    }
  }
  return out;
}

std::optional<DType> dtype_of_number(int64_t number) {
  for (const auto& [of_file, dtype] : kTypes) {
    if (of_file == number) return dtype;
  }
  return std::nullopt;
}

int64_t number_of(DType dtype) {
  for (const auto& [of_file, ours] : kTypes) {
    if (ours == dtype) return of_file;
  }
  LATHE_FAIL(DTypeError, "onnx: there is no such type as ", dtype);
}

std::string_view read_tensor_name(ProtobufReader in) {
  std::string_view name;
  while (in.next()) {
    if (in.field() == 8) name = in.text();
  }
  return name;
}

Tensor read_tensor(ProtobufReader in, std::string_view file) {
  const std::string name = printable(read_tensor_name(in));
  const auto wrong = [&](const std::string& what) {
    LATHE_FAIL(DataError, file, ": tensor \"", name, "\" at byte ", in.begin(), ": ", what);
  };
  const TensorFields values = read_fields(in);
  if (values.is_elsewhere) {
    wrong("its values are in another file (\"external data\"); save the model with them inside");
  }
  const auto dtype = dtype_of_number(values.type);
  if (!dtype) wrong(concat("type ", values.type, " of onnx.TensorProto has no dtype here"));
  if (values.sizes.size() > kMaxDims) {
    wrong(concat(values.sizes.size(), " dimensions are more than ", kMaxDims));
  }
  Shape shape;
  for (const int64_t size : values.sizes) {
    if (size < 0) wrong(concat("a negative size: ", size));
    shape.push_back(size);
  }
  int64_t count = 0;
  try {
    count = numel_of(shape);
  } catch (const ShapeError& e) {
    wrong(e.message());
  }
  const size_t held = values.raw
                          ? values.raw->size() / size_of(*dtype)
                          : values.floats.size() + values.integers.size() + values.doubles.size();
  const bool fits = values.raw       ? values.raw->size() % size_of(*dtype) == 0
                    : *dtype == kF32 ? held == values.floats.size()
                    : *dtype == kF64 ? held == values.doubles.size()
                                     : held == values.integers.size();
  if (!fits || static_cast<int64_t>(held) != count) {
    wrong(concat("it has ", held, " values of its type, ", *dtype, shape, " needs ", count));
  }
  const Tensor t = empty(shape, {.dtype = *dtype});
  if (count == 0) return t;
  if (values.raw) {
    std::memcpy(t.raw_data(), values.raw->data(), values.raw->size());
    if constexpr (std::endian::native == std::endian::big) {
      swap_bytes(t.raw_data(), count, size_of(*dtype));
    }
  } else if (*dtype == kF32) {
    copy_converted<float>(t, values.floats);
  } else if (*dtype == kF64) {
    copy_converted<double>(t, values.doubles);
  } else {
    copy_integers(t, values.integers);
  }
  if (*dtype == kBool) check_bools(t.raw_data(), count, concat(file, ": tensor \"", name, "\""));
  return t;
}

}  // namespace lathe::jit::onnx
