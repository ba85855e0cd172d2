#include "media/data/npy_writer.h"

#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/error.h"

namespace energon {
namespace {

// The header ends with a line break at a multiple of this many bytes.
constexpr std::size_t kHeaderAlignment = 64;
constexpr std::size_t kPreambleBytes = 10;  // magic, version, length of the header

std::string_view descr_of(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return "|u1";
    case DType::kInt8:
      return "|i1";
    case DType::kInt16:
      return "<i2";
    case DType::kInt32:
      return "<i4";
    case DType::kInt64:
      return "<i8";
    case DType::kFloat16:
      return "<f2";
    case DType::kFloat32:
      return "<f4";
    case DType::kFloat64:
      return "<f8";
    case DType::kBool:
      return "|b1";
    case DType::kBFloat16:
      break;
  }
  throw Error(ErrorCode::kUnsupported,
              fmt::format("a file of NumPy cannot have {}; choose a mode that gives float32",
                          to_string(dtype)));
}

}  // namespace

std::string encode_npy(const Tensor& tensor) {
  const std::string_view comma = tensor.shape.size() == 1 ? "," : "";
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                   descr_of(tensor.dtype), fmt::join(tensor.shape, ", "), comma);
  const std::size_t unpadded = kPreambleBytes + header.size() + 1;
  const std::size_t padded =
      (unpadded + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment;
  header.append(padded - unpadded, ' ');
  header.push_back('\n');
  std::string file("\x93NUMPY\x01\x00", 8);
  file.push_back(static_cast<char>(header.size() & 0xFF));
  file.push_back(static_cast<char>(header.size() >> 8));
  return file + header + std::string(tensor.data.text());
}

}  // namespace energon
