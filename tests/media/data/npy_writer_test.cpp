#include <cstring>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/sample/buffer_allocator.h"
#include "io/error.h"
#include "media/data/documents.h"
#include "tests/support/error_of.h"

using energon::DType;
using energon::Tensor;

namespace {

Tensor counting(DType dtype, std::vector<std::int64_t> shape) {
  energon::NewTensor made = energon::new_tensor(dtype, std::move(shape), energon::heap_memory());
  for (std::size_t i = 0; i < made.bytes.size(); ++i) {
    made.bytes[i] = static_cast<std::byte>(dtype == DType::kBool ? i % 2 : i);
  }
  return made.tensor;
}

}  // namespace

TEST_CASE("a tensor that is written is read unchanged", "[media][npy_writer]") {
  for (const DType dtype :
       {DType::kUInt8, DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64, DType::kFloat16,
        DType::kFloat32, DType::kFloat64, DType::kBool}) {
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{}, {3}, {0, 4}, {2, 3, 5}}) {
      INFO(energon::to_string(dtype) << " with " << shape.size() << " dimensions");
      const Tensor tensor = counting(dtype, shape);
      const std::string file = energon::encode_npy(tensor);
      CHECK((file.size() - tensor.data.size()) % 64 == 0);
      const Tensor again =
          energon::NpyDecoder().decode(energon::as_bytes(file), energon::heap_memory());
      CHECK(again.dtype == dtype);
      CHECK(again.shape == shape);
      CHECK(again.data.text() == tensor.data.text());
    }
  }
}

TEST_CASE("the header is the one that NumPy writes", "[media][npy_writer]") {
  const std::string file = energon::encode_npy(counting(DType::kInt16, {3}));
  CHECK(file.substr(0, 10) == std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  CHECK(file.substr(10, 53) == "{'descr': '<i2', 'fortran_order': False, 'shape': (3,");
  CHECK(file[127] == '\n');
}

TEST_CASE("bfloat16 is refused, because NumPy does not have it", "[media][npy_writer]") {
  CHECK_THAT(
      energon::testing::error_of([] { energon::encode_npy(counting(DType::kBFloat16, {1})); },
                                 energon::ErrorCode::kUnsupported),
      Catch::Contains("bfloat16"));
}
