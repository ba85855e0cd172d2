#include <bit>
#include <cmath>

#include "io/hash.h"
#include "media/data/documents.h"
#include "tests/media/data/encoded_parts.h"
#include "tests/media/data/vectors.h"
#include "tests/support/shared_data.h"

using energon::DType;
using energon::ErrorCode;
using energon::HeapBufferPool;
using energon::NpyDecoder;
using energon::SharedBytes;
using energon::TensorSpec;
using energon::Value;
using energon::testing::exact_copy;
using energon::testing::kind_of;
using energon::testing::numbers_of;
using energon::testing::outcome_of;
using energon::testing::outcomes_of_cuts;
using energon::testing::outcomes_of_flips;
using energon::testing::refusal;
using energon::testing::stored_part;
namespace vectors = energon::testing::vectors;

namespace {

Value npy(std::string_view bytes) {
  HeapBufferPool memory;
  return NpyDecoder().decode(exact_copy(bytes).view, memory);
}

Value vector_npy(std::string_view base64) { return npy(stored_part(base64)); }

const auto kDecodeNumpyArray = [](const SharedBytes& bytes) {
  HeapBufferPool memory;
  NpyDecoder().decode(bytes.view, memory);
};

// Version 1.0 with any header.
std::string npy_of(const std::string& header, const std::string& data) {
  std::string result("\x93NUMPY\x01\x00", 8);
  result += static_cast<char>(header.size() & 0xFF);
  result += static_cast<char>(header.size() >> 8);
  return result + header + data;
}

const std::vector<float> kFloats = {-1, -0.5, 0, 0.5, 1, 1.5};

}  // namespace

TEST_CASE("arrays of NumPy keep shape, type and numbers", "[media][data]") {
  const Value floats = vector_npy(vectors::kFloat32);
  CHECK(kind_of(floats) == "float32 (2, 3)");
  CHECK(numbers_of<float>(floats) == kFloats);
  CHECK(numbers_of<float>(vector_npy(vectors::kFloat32Version2)) == kFloats);
  CHECK(numbers_of<float>(vector_npy(vectors::kFloat32Version3)) == kFloats);
  const Value truths = vector_npy(vectors::kBool);
  CHECK(kind_of(truths) == "bool (3)");
  CHECK(numbers_of<std::uint8_t>(truths) == std::vector<std::uint8_t>{1, 0, 1});
  const Value scalar = vector_npy(vectors::kInt64Scalar);
  CHECK(kind_of(scalar) == "int64 ()");
  CHECK(numbers_of<std::int64_t>(scalar) == std::vector<std::int64_t>{-5});
  CHECK(kind_of(vector_npy(vectors::kFloat16Empty)) == "float16 (0, 3)");
}

TEST_CASE("column-major and big-endian arrays are converted", "[media][data]") {
  const Value floats = vector_npy(vectors::kFloat32Fortran);
  CHECK(kind_of(floats) == "float32 (2, 3)");
  CHECK(numbers_of<float>(floats) == kFloats);
  CHECK(numbers_of<double>(vector_npy(vectors::kFloat64Big)) ==
        std::vector<double>{1.5, -2.0, 1e300});
  CHECK(numbers_of<std::int16_t>(vector_npy(vectors::kInt16BigFortran)) ==
        std::vector<std::int16_t>{1, -2, 300, -400});
  const Value cube = vector_npy(vectors::kInt8Fortran);
  CHECK(kind_of(cube) == "int8 (2, 3, 2)");
  CHECK(numbers_of<std::int8_t>(cube) ==
        std::vector<std::int8_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
}

TEST_CASE("unsigned integers are widened", "[media][data]") {
  const Value shorts = vector_npy(vectors::kUInt16);
  CHECK(kind_of(shorts) == "int32 (3)");
  CHECK(numbers_of<std::int32_t>(shorts) == std::vector<std::int32_t>{0, 40000, 65535});
  const Value ints = vector_npy(vectors::kUInt32BigFortran);
  CHECK(kind_of(ints) == "int64 (2, 2)");
  CHECK(numbers_of<std::int64_t>(ints) == std::vector<std::int64_t>{1, 4000000000, 2, 3});
}

TEST_CASE("an array of a real dataset equals that of NumPy", "[media][data]") {
  const auto path = energon::testing::shared_data("images/bbox.npy");
  if (!path) return energon::testing::skipped();
  const Value boxes = npy(energon::testing::file_text(*path));
  CHECK(kind_of(boxes) == "float32 (1, 4)");
  // numpy 2.4.6 and xxhash 4.1.0
  CHECK(energon::to_hex(energon::xxh3_64(std::get<energon::Tensor>(boxes.base()).data.view)) ==
        "2a0ca7c6548db084");
}

TEST_CASE("the header of an npy may be written in any way that Python reads", "[media][data]") {
  for (const std::string header :
       {"{'shape':(2,),'fortran_order':False,'descr':'<i2'}",
        "{ \"descr\" : \"<i2\" , \"shape\" : ( 2L , ) , \"fortran_order\" : True , }   \n",
        "{'descr': '=i2', 'fortran_order': False, 'shape': (1, 2), }\n"}) {
    INFO(header);
    CHECK(numbers_of<std::int16_t>(npy(npy_of(header, std::string("\1\0\2\0", 4)))) ==
          std::vector<std::int16_t>{1, 2});
  }
}

TEST_CASE("a damaged header of an npy is refused", "[media][data]") {
  const std::string data(8, '\0');
  for (const std::string header :
       {"", "{}", "{'descr': '<i2', 'fortran_order': False}", "{'descr': '<i2'",
        "{'descr': '<i2', 'descr': '<i2', 'fortran_order': False, 'shape': (4,)}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (4,), 'more': 1}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (4)}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (4,}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (-4,)}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (4 4,)}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<i2', 'fortran_order': 0, 'shape': (4,)}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': [4]}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (4,)} x",
        "{'descr': '<', 'fortran_order': False, 'shape': (4,)}",
        "{'descr': '', 'fortran_order': False, 'shape': (4,)}",
        "{'descr': '<<i2', 'fortran_order': False, 'shape': (4,)}",
        "{'descr: <i2, fortran_order: False, shape: (4,)}",
        "{'descr': 4, 'fortran_order': False, 'shape': (4,)}"}) {
    INFO(header);
    CHECK(outcome_of(kDecodeNumpyArray, npy_of(header, data)) == "corrupt_data");
  }
  std::string many = "{'descr': '<i2', 'fortran_order': False, 'shape': (";
  for (int i = 0; i < 65; ++i) {
    many += "1,";
  }
  CHECK_THAT(refusal(kDecodeNumpyArray, npy_of(many + ")}", data), ErrorCode::kCorruptData),
             Catch::Contains("64 dimensions"));
}

TEST_CASE("an npy must have exactly the bytes of its shape", "[media][data]") {
  const std::string start = "{'descr': '<i8', 'fortran_order': False, 'shape': (";
  CHECK_THAT(refusal(kDecodeNumpyArray, npy_of(start + "3,)}", std::string(23, '\0')),
                     ErrorCode::kCorruptData),
             Catch::Contains("23 bytes") && Catch::Contains("take 24"));
  CHECK(outcome_of(kDecodeNumpyArray, npy_of(start + "3,)}", std::string(25, '\0'))) ==
        "corrupt_data");
  for (const std::string shape : {"4611686018427387904,", "4294967296, 4294967296",
                                  "9223372036854775807, 2", "4294967296, 4294967296, 0"}) {
    INFO(shape);
    CHECK(outcome_of(kDecodeNumpyArray, npy_of(start + shape + ")}", "")) == "corrupt_data");
  }
  CHECK(outcome_of(kDecodeNumpyArray, npy_of(start + "1000000, 0, 1000000)}", "")) == "value");
}

TEST_CASE("types that tensors do not have are refused with advice", "[media][data]") {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {vectors::kUInt64, "'<u8': tensors cannot be uint64"},
      {vectors::kComplex, "'<c8': complex"},
      {vectors::kUnicode, "'<U1': strings"},
      {vectors::kTime, "'<M8[s]': times"},
      {vectors::kObjects, "pickles, which are never"},
      {vectors::kStructured, "structured"}};
  for (const auto& [vector, text] : cases) {
    CHECK_THAT(refusal(kDecodeNumpyArray, stored_part(vector), ErrorCode::kUnsupported),
               Catch::Contains(std::string(text)));
  }
  for (const std::string type : {"|i2", "<i3", "<f16", "|V2", "<b2", "<i2x", "<i", "<q8"}) {
    INFO(type);
    CHECK(outcome_of(kDecodeNumpyArray,
                     npy_of("{'descr': '" + type + "', 'fortran_order': False, 'shape': (0,)}",
                            "")) == "unsupported");
  }
  CHECK_THAT(refusal(kDecodeNumpyArray, std::string("\x93NUMPY\x04\x00\0\0\0\0", 12),
                     ErrorCode::kUnsupported),
             Catch::Contains("4.0"));
}

TEST_CASE("probe returns the shape and decode_into needs its bytes", "[media][data]") {
  const std::string encoded = stored_part(vectors::kUInt16);
  const NpyDecoder decoder;
  CHECK(decoder.probe(energon::as_bytes(encoded)) == TensorSpec{DType::kInt32, {3}});
  std::vector<std::byte> memory(13);
  for (const std::size_t size : {0, 6, 11, 13}) {
    CAPTURE(size);
    CHECK_THROWS_AS(decoder.decode_into(energon::as_bytes(encoded), std::span(memory).first(size)),
                    energon::Error);
  }
  decoder.decode_into(energon::as_bytes(encoded), std::span(memory).first(12));
  CHECK(memory[4] == std::byte{0x40});
}

TEST_CASE("an array above the limit is refused by probe", "[media][data]") {
  const auto probe = [](const SharedBytes& bytes) {
    NpyDecoder({.max_bytes = 11}).probe(bytes.view);
  };
  CHECK_THAT(refusal(probe, stored_part(vectors::kUInt16), ErrorCode::kResourceExhausted),
             Catch::Contains("12 bytes, the limit is 11"));
}

TEST_CASE("a damaged npy is refused or has other numbers", "[media][data]") {
  for (const std::string_view vector : {vectors::kFloat32, vectors::kUInt32BigFortran}) {
    CAPTURE(vector);
    const std::string encoded = stored_part(vector);
    CHECK(outcomes_of_cuts(kDecodeNumpyArray, encoded) == std::set<std::string>{"corrupt_data"});
    const auto flips = outcomes_of_flips(kDecodeNumpyArray, encoded);
    CHECK(flips.at("corrupt_data") > 100);
    CHECK(flips.count("internal") + flips.count("invalid_argument") == 0);
  }
}
