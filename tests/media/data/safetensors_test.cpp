#include "media/data/documents.h"
#include "tests/media/data/encoded_parts.h"
#include "tests/media/data/vectors.h"

using energon::decode_safetensors;
using energon::DecodeLimits;
using energon::ErrorCode;
using energon::HeapBufferPool;
using energon::Mapping;
using energon::SharedBytes;
using energon::Tensor;
using energon::Value;
using energon::testing::exact_copy;
using energon::testing::is_same;
using energon::testing::kind_of;
using energon::testing::numbers_of;
using energon::testing::outcome_of;
using energon::testing::outcomes_of_cuts;
using energon::testing::outcomes_of_flips;
using energon::testing::refusal;
using energon::testing::stored_part;
namespace vectors = energon::testing::vectors;

namespace {

Mapping tensors_of(const SharedBytes& encoded) {
  HeapBufferPool memory;
  return decode_safetensors(encoded, DecodeLimits(), memory);
}

Value find(const Mapping& mapping, std::string_view name) {
  for (const auto& [key, value] : mapping) {
    if (key == name) {
      return value;
    }
  }
  FAIL("no " << name);
  return {};
}

const auto kDecodeSafetensors = [](const SharedBytes& bytes) { tensors_of(bytes); };

// A file with any header.
std::string file_of(const std::string& header, std::size_t data_bytes) {
  std::string result(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) {
    result[i] = static_cast<char>(header.size() >> (8 * i) & 0xFF);
  }
  return result + header + std::string(data_bytes, '\x01');
}

bool lies_in(const Value& value, const SharedBytes& bytes) {
  const auto* const begin = std::get<Tensor>(value.base()).data.view.data();
  return begin >= bytes.view.data() && begin < bytes.view.data() + bytes.size();
}

}  // namespace

TEST_CASE("tensors of safetensors are read by name", "[media][data]") {
  const Mapping tensors = tensors_of(exact_copy(stored_part(vectors::kSafetensors)));
  CHECK(tensors.size() == 7);
  CHECK(kind_of(find(tensors, "weight")) == "float32 (2, 3)");
  CHECK(numbers_of<float>(find(tensors, "weight")) == std::vector<float>{-1, -0.5, 0, 0.5, 1, 1.5});
  CHECK(kind_of(find(tensors, "index")) == "int64 (1, 2)");
  CHECK(numbers_of<std::int64_t>(find(tensors, "index")) == std::vector<std::int64_t>{1, -2});
  CHECK(numbers_of<std::int32_t>(find(tensors, "u2")) == std::vector<std::int32_t>{7, 65535});
  CHECK(numbers_of<std::int64_t>(find(tensors, "u4")) == std::vector<std::int64_t>{4000000000});
  CHECK(numbers_of<std::uint8_t>(find(tensors, "flag")) == std::vector<std::uint8_t>{1, 0, 1});
  CHECK(kind_of(find(tensors, "flag")) == "bool (3)");
  CHECK(kind_of(find(tensors, "empty")) == "float16 (0, 4)");
  const auto metadata = std::get<Mapping>(find(tensors, "__metadata__").base());
  CHECK(metadata.size() == 2);
  CHECK(is_same(find(metadata, "format"), "pt"));
  CHECK(is_same(find(metadata, "note"), "ä"));
  const Mapping half = tensors_of(exact_copy(stored_part(vectors::kSafetensorsBfloat16)));
  CHECK(kind_of(half.at(0).second) == "bfloat16 (2)");
  CHECK(numbers_of<std::uint16_t>(half.at(0).second) == std::vector<std::uint16_t>{0x3F80, 0xC000});
}

TEST_CASE("aligned safetensors are views of the part, others copies", "[media][data]") {
  const SharedBytes part = exact_copy(stored_part(vectors::kSafetensors));
  const Mapping tensors = tensors_of(part);
  CHECK(lies_in(find(tensors, "weight"), part));
  CHECK(lies_in(find(tensors, "index"), part));
  CHECK_FALSE(lies_in(find(tensors, "u2"), part));
  const SharedBytes shifted_owner = exact_copy("x" + stored_part(vectors::kSafetensors));
  const SharedBytes shifted{shifted_owner.view.subspan(1), shifted_owner.owner};
  const Mapping copies = tensors_of(shifted);
  CHECK_FALSE(lies_in(find(copies, "weight"), shifted));
  CHECK(lies_in(find(copies, "flag"), shifted));
  CHECK(is_same(tensors, copies));
}

TEST_CASE("safetensors of other types are refused by name", "[media][data]") {
  CHECK_THAT(refusal(kDecodeSafetensors, stored_part(vectors::kSafetensorsFloat8),
                     ErrorCode::kUnsupported),
             Catch::Contains("'w8'") && Catch::Contains("F8_E4M3"));
  CHECK_THAT(refusal(kDecodeSafetensors,
                     file_of(R"({"x":{"dtype":"U64","shape":[1],"data_offsets":[0,8]}})", 8),
                     ErrorCode::kUnsupported),
             Catch::Contains("'x'") && Catch::Contains("U64"));
}

TEST_CASE("safetensors must cover the data exactly once", "[media][data]") {
  const auto two = [](const std::string& first, const std::string& second) {
    return file_of(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":)" + first +
                       R"(},"b":{"dtype":"U8","shape":[2],"data_offsets":)" + second + "}}",
                   4);
  };
  CHECK(outcome_of(kDecodeSafetensors, two("[0,2]", "[2,4]")) == "value");
  CHECK(outcome_of(kDecodeSafetensors, two("[2,4]", "[0,2]")) == "value");
  CHECK_THAT(refusal(kDecodeSafetensors, two("[0,2]", "[1,3]"), ErrorCode::kCorruptData),
             Catch::Contains("overlap"));
  CHECK(outcome_of(kDecodeSafetensors, two("[0,2]", "[0,2]")) == "corrupt_data");
  CHECK_THAT(refusal(kDecodeSafetensors, two("[0,2]", "[3,5]"), ErrorCode::kCorruptData),
             Catch::Contains("gap"));
  CHECK(outcome_of(kDecodeSafetensors, two("[1,3]", "[3,5]")) == "corrupt_data");
  CHECK_THAT(refusal(kDecodeSafetensors, two("[0,2]", "[2,4]") + "x", ErrorCode::kCorruptData),
             Catch::Contains("expected 4 bytes of tensors, found 5"));
}

TEST_CASE("safetensors with more bytes than an integer can hold are refused", "[media][data]") {
  const std::string header =
      R"({"a":{"dtype":"F64","shape":[1152921504606846976],"data_offsets":[0,0]}})";
  CHECK_THAT(refusal(kDecodeSafetensors, file_of(header, 0), ErrorCode::kCorruptData),
             Catch::Contains("(1152921504606846976) elements of 8 bytes"));
}

TEST_CASE("a damaged header of safetensors is refused", "[media][data]") {
  const auto entry = [](const std::string& inside) {
    return file_of("{\"x\":{" + inside + "}}", 2);
  };
  const std::string dtype = "\"dtype\":\"U8\"";
  for (const std::string& text :
       {entry(""), entry(dtype), entry(dtype + ",\"shape\":[2]"),
        entry(dtype + ",\"shape\":2,\"data_offsets\":[0,2]"),
        entry(dtype + ",\"shape\":[-2],\"data_offsets\":[0,2]"),
        entry(dtype + ",\"shape\":[2.0],\"data_offsets\":[0,2]"),
        entry(dtype + ",\"shape\":[3],\"data_offsets\":[0,2]"),
        entry(dtype + ",\"shape\":[2],\"data_offsets\":[0]"),
        entry(dtype + ",\"shape\":[2],\"data_offsets\":[2,0]"),
        entry(dtype + ",\"shape\":[2],\"data_offsets\":[0,2,4]"),
        entry(dtype + ",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,2]"),
        entry("\"dtype\":1,\"shape\":[2],\"data_offsets\":[0,2]"), file_of("{\"x\":1}", 0),
        file_of("[]", 0), file_of("", 0), file_of(" {}", 0), file_of("{", 0),
        file_of("{\"__metadata__\":1}", 0), file_of("{\"__metadata__\":{\"a\":1}}", 0)}) {
    INFO(text.substr(8));
    CHECK(outcome_of(kDecodeSafetensors, text) == "corrupt_data");
  }
  CHECK(outcome_of(kDecodeSafetensors, file_of("{}   ", 0)) == "value");
}

TEST_CASE("a header that is only declared takes no memory", "[media][data]") {
  CHECK(outcome_of(kDecodeSafetensors, std::string("\xff\xff\xff\x03\0\0\0\0{}", 10)) ==
        "corrupt_data");
  CHECK_THAT(
      refusal(kDecodeSafetensors, std::string(8, '\xff') + "{}", ErrorCode::kResourceExhausted),
      Catch::Contains("100000000"));
  const auto decode = [](const SharedBytes& bytes) {
    HeapBufferPool memory;
    decode_safetensors(bytes, {.max_bytes = 20000}, memory);
  };
  CHECK(outcome_of(decode, stored_part(vectors::kSafetensors)) == "value");
  const std::string large = R"({"x":{"dtype":"U16","shape":[6000],"data_offsets":[0,12000]}})";
  CHECK_THAT(refusal(decode, file_of(large, 12000), ErrorCode::kResourceExhausted),
             Catch::Contains("24000"));
}

TEST_CASE("damaged safetensors are refused or read as others", "[media][data]") {
  const std::string file = stored_part(vectors::kSafetensors);
  CHECK(outcomes_of_cuts(kDecodeSafetensors, file) == std::set<std::string>{"corrupt_data"});
  const auto flips = outcomes_of_flips(kDecodeSafetensors, file);
  CHECK(flips.at("corrupt_data") > 500);
  CHECK(flips.count("internal") + flips.count("invalid_argument") == 0);
}
