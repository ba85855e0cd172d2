#include "io/hash.h"
#include "media/data/documents.h"
#include "tests/media/data/encoded_parts.h"
#include "tests/media/data/vectors.h"
#include "tests/support/shared_data.h"

using energon::decode_tenbin;
using energon::ErrorCode;
using energon::HeapBufferPool;
using energon::List;
using energon::SharedBytes;
using energon::Tensor;
using energon::testing::exact_copy;
using energon::testing::kind_of;
using energon::testing::numbers_of;
using energon::testing::outcome_of;
using energon::testing::outcomes_of_flips;
using energon::testing::refusal;
using energon::testing::stored_part;

namespace {

List tenbin(std::string_view bytes) {
  HeapBufferPool memory;
  return decode_tenbin(exact_copy(bytes).view, memory);
}

const auto kDecodeTenbin = [](const SharedBytes& bytes) {
  HeapBufferPool memory;
  decode_tenbin(bytes.view, memory);
};

std::string word(std::int64_t number) {
  std::string result;
  for (int i = 0; i < 8; ++i) {
    result += static_cast<char>(number >> (8 * i) & 0xFF);
  }
  return result;
}

std::string chunk(const std::string& content) {
  return "~TenBin~" + word(static_cast<std::int64_t>(content.size())) + content +
         std::string((64 - content.size() % 64) % 64, '\0');
}

// An array of type `code`, whose header ends with `shape`.
std::string array(std::string code, std::int64_t dimensions, const std::string& shape,
                  const std::string& data) {
  code.resize(8);
  return chunk(code + std::string(8, '\0') + word(dimensions) + shape) + chunk(data);
}

}  // namespace

TEST_CASE("tenbin of WebDataset gives its arrays", "[media][data]") {
  const List arrays = tenbin(stored_part(energon::testing::vectors::kTenbin));
  REQUIRE(arrays.size() == 4);
  CHECK(kind_of(arrays[0]) == "float32 (2, 3)");
  CHECK(numbers_of<float>(arrays[0]) == std::vector<float>{-1, -0.5, 0, 0.5, 1, 1.5});
  CHECK(kind_of(arrays[1]) == "int32 (2)");
  CHECK(numbers_of<std::int32_t>(arrays[1]) == std::vector<std::int32_t>{0, 65535});
  CHECK(kind_of(arrays[2]) == "int8 (1)");
  CHECK(numbers_of<std::int8_t>(arrays[2]) == std::vector<std::int8_t>{-3});
  CHECK(kind_of(arrays[3]) == "float64 (0, 2)");
  CHECK(tenbin("").empty());
  CHECK(numbers_of<float>(tenbin(array("f4", 0, "", std::string(4, '\0'))).at(0)) ==
        std::vector<float>{0});
}

TEST_CASE("tenbin parts of a real WebDataset are read", "[media][data]") {
  const auto path = energon::testing::shared_data("webdataset/tendata.tar");
  if (!path) return energon::testing::skipped();
  const auto parts = energon::testing::tar_contents(*path, ".ten");
  CHECK(parts.size() == 100);
  energon::Xxh3Stream hash;
  for (const std::string& part : parts) {
    CAPTURE(part);
    const List arrays = tenbin(part);
    REQUIRE(arrays.size() == 2);
    for (const auto& value : arrays) {
      CAPTURE(kind_of(value));
      CHECK(kind_of(value) == "float64 (28, 28)");
      hash.update(std::get<Tensor>(value.base()).data.view);
    }
  }
  // The bytes of all arrays, concatenated: webdataset 1.0.2, numpy 2.4.6 and xxhash 4.1.0.
  CHECK(energon::to_hex(hash.digest()) == "8ef8fcabad236f13");
}

TEST_CASE("tenbin types that tensors do not have are refused with the place", "[media][data]") {
  for (const std::string code : {"u8", "c8", "b1", "f3", "f", "", "f44", "i0", "i9", "\xff\xff"}) {
    INFO(code);
    CHECK_THAT(refusal(kDecodeTenbin, array(code, 1, word(0), ""), ErrorCode::kUnsupported),
               Catch::Contains("byte 0"));
  }
}

TEST_CASE("damaged tenbin is refused with the place", "[media][data]") {
  const std::string good = array("u1", 1, word(3), "abc");
  CHECK(outcome_of(kDecodeTenbin, good + good) == "value");
  CHECK_THAT(refusal(kDecodeTenbin, good + "x" + good, ErrorCode::kCorruptData),
             Catch::Contains("byte " + std::to_string(good.size())));
  for (const std::string& text :
       {array("u1", 1, word(4), "abc"), array("u1", 1, word(2), "abc"),
        array("u1", 1, word(-3), "abc"), array("u1", 2, word(3), "abc"),
        array("u1", -1, word(3), "abc"), array("u1", 1, word(3) + "x", "abc"),
        array("u1", INT64_MAX, word(3), "abc"), array("u2", 2, word(1LL << 62) + word(4), ""),
        array("u1", 2, word(1LL << 32) + word(1LL << 32), ""), "~TenBin~" + word(-1),
        "~TenBin~" + word(INT64_MAX), good + chunk("short"), good + good.substr(0, 80)}) {
    CAPTURE(text);
    CHECK(outcome_of(kDecodeTenbin, text) == "corrupt_data");
  }
}

TEST_CASE("truncated or changed tenbin is refused or read as another", "[media][data]") {
  const std::string file = stored_part(energon::testing::vectors::kTenbin);
  const auto flips = outcomes_of_flips(kDecodeTenbin, file);
  CHECK(flips.at("corrupt_data") > 200);
  CHECK(flips.count("internal") + flips.count("invalid_argument") == 0);
  for (std::size_t size = 1; size < file.size(); ++size) {
    CAPTURE(size);
    const std::string result = outcome_of(kDecodeTenbin, std::string_view(file).substr(0, size));
    // At 160, 320 and 480 an array ends; the last has no data but its chunk's head.
    CHECK((result == "corrupt_data" || size % 160 == 0));
  }
}
