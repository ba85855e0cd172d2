#include "media/data/documents.h"
#include "tests/media/data/encoded_parts.h"

using energon::decode_torch_file;
using energon::DecodeLimits;
using energon::ErrorCode;
using energon::HeapBufferPool;
using energon::List;
using energon::Mapping;
using energon::Null;
using energon::SharedBytes;
using energon::Tensor;
using energon::Value;
using energon::testing::data_file;
using energon::testing::exact_copy;
using energon::testing::is_same;
using energon::testing::kind_of;
using energon::testing::numbers_of;
using energon::testing::outcomes_of_cuts;
using energon::testing::outcomes_of_flips;
using energon::testing::refusal;

namespace {

Value torch_file(std::string_view bytes) {
  HeapBufferPool memory;
  return decode_torch_file(exact_copy(bytes).view, DecodeLimits(), memory);
}

const auto kDecodeTorchFile = [](const SharedBytes& bytes) {
  HeapBufferPool memory;
  decode_torch_file(bytes.view, DecodeLimits(), memory);
};

std::string unsupported(const std::string& file) {
  return refusal(kDecodeTorchFile, data_file(file), ErrorCode::kUnsupported);
}

}  // namespace

TEST_CASE("tensors of torch.save become row-major, whatever their strides", "[media][data]") {
  for (const std::string file : {"values.pt", "values_protocol4.pt"}) {
    INFO(file);
    const Mapping values = std::get<Mapping>(torch_file(data_file(file)).base());
    REQUIRE(values.size() == 23);
    const auto expect = [&](std::size_t at, const std::string& name, const std::string& kind) {
      CHECK(values[at].first == name);
      CHECK(kind_of(values[at].second) == kind);
    };
    expect(0, "all", "float32 (3, 4)");
    CHECK(numbers_of<float>(values[0].second) ==
          std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
    expect(1, "transposed", "float32 (4, 3)");
    CHECK(numbers_of<float>(values[1].second) ==
          std::vector<float>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11});
    expect(2, "column", "float32 (3)");
    CHECK(numbers_of<float>(values[2].second) == std::vector<float>{1, 5, 9});
    expect(3, "every second", "float32 (6)");
    CHECK(numbers_of<float>(values[3].second) == std::vector<float>{1, 3, 5, 7, 9, 11});
    expect(4, "expanded", "int64 (2, 3)");
    CHECK(numbers_of<std::int64_t>(values[4].second) == std::vector<std::int64_t>(6, 7));
    expect(5, "scalar", "float32 ()");
    CHECK(numbers_of<float>(values[5].second) == std::vector<float>{2.5});
    expect(7, "empty", "float32 (0, 5)");
    expect(9, "parameter", "float32 (2)");
    CHECK(numbers_of<float>(values[9].second) == std::vector<float>{1, 1});
  }
}

TEST_CASE("a tensor that torch.save saw twice shares its memory", "[media][data]") {
  const Mapping values = std::get<Mapping>(torch_file(data_file("values.pt")).base());
  CHECK(values.at(8).first == "again");
  CHECK(std::get<Tensor>(values.at(8).second.base()).data.view.data() ==
        std::get<Tensor>(values.at(0).second.base()).data.view.data());
}

TEST_CASE("plain values of torch.save become values of their kind", "[media][data]") {
  const std::int64_t big = std::int64_t{1} << 40;
  const auto list = [](const std::vector<std::int64_t>& numbers) {
    return List(numbers.begin(), numbers.end());
  };
  const Mapping expected = {
      {"none", Null()},
      {"3", "integer key"},
      {"size", list({1, 2})},
      {"tuple", list({1, 2, 3, 4})},
      {"one", list({1})},
      {"two", list({1, 2})},
      {"yes", true},
      {"no", false},
      {"float", -0.5},
      {"whole", list({0, 255, 256, 65535, 65536, -1, big, -big, INT64_MAX, INT64_MIN})},
      {"text", "Grüße"},
      {"dict", Mapping()},
      {"list", List()},
      {"", List()}};
  for (const std::string file : {"values.pt", "values_protocol4.pt"}) {
    CAPTURE(file);
    Mapping values = std::get<Mapping>(torch_file(data_file(file)).base());
    std::erase_if(values, [](const auto& value) {
      return std::holds_alternative<Tensor>(value.second.base());
    });
    CHECK(is_same(values, expected));
  }
  const List bytes = std::get<List>(torch_file(data_file("bytes_protocol4.pt")).base());
  CHECK(std::get<SharedBytes>(bytes.at(0).base()).text() == std::string_view("\x00\xff", 2));
  CHECK(std::get<SharedBytes>(bytes.at(1).base()).text() == std::string(300, 'z'));
}

TEST_CASE("a state_dict is a mapping of its tensors", "[media][data]") {
  const Mapping state = std::get<Mapping>(torch_file(data_file("state_dict.pt")).base());
  REQUIRE(state.size() == 5);
  CHECK(state[0].first == "norm.weight");
  CHECK(numbers_of<float>(state[0].second) == std::vector<float>{1, 1});
  CHECK(state[4].first == "norm.num_batches_tracked");
  CHECK(kind_of(state[4].second) == "int64 ()");
}

TEST_CASE("all dtypes of tensors are read from torch.save", "[media][data]") {
  const List tensors = std::get<List>(torch_file(data_file("dtypes.pt")).base());
  REQUIRE(tensors.size() == 10);
  const std::vector<std::string> kinds = {"uint8",   "int8",     "int16",   "int32",   "int64",
                                          "float16", "bfloat16", "float32", "float64", "bool"};
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    CAPTURE(i);
    CHECK(kind_of(tensors[i]) == kinds[i] + " (3)");
  }
  CHECK(numbers_of<std::int16_t>(tensors[2]) == std::vector<std::int16_t>{1, 0, 3});
  CHECK(numbers_of<std::uint16_t>(tensors[5]) == std::vector<std::uint16_t>{0x3C00, 0, 0x4200});
  CHECK(numbers_of<std::uint16_t>(tensors[6]) == std::vector<std::uint16_t>{0x3F80, 0, 0x4040});
  CHECK(numbers_of<double>(tensors[8]) == std::vector<double>{1, 0, 3});
  CHECK(numbers_of<std::uint8_t>(tensors[9]) == std::vector<std::uint8_t>{1, 0, 1});
}

TEST_CASE("types that torch.save can write but tensors do not have are refused by name",
          "[media][data]") {
  CHECK_THAT(unsupported("complex.pt"), Catch::Contains("torch.ComplexFloatStorage"));
  CHECK_THAT(unsupported("uint16.pt"), Catch::Contains("torch._utils._rebuild_tensor_v3"));
  CHECK_THAT(unsupported("numpy_scalar.pt"),
             Catch::Contains("numpy._core.multiarray.scalar") && Catch::Contains("Python numbers"));
  CHECK_THAT(unsupported("negated.pt"), Catch::Contains("clone()"));
  CHECK_THAT(unsupported("old.pt"), Catch::Contains("save it again"));
}

TEST_CASE("torch files above the limit are refused", "[media][data]") {
  const auto refused = [](const DecodeLimits& limits, const std::string& file) {
    const auto decode = [&](const SharedBytes& bytes) {
      HeapBufferPool memory;
      decode_torch_file(bytes.view, limits, memory);
    };
    return refusal(decode, data_file(file), ErrorCode::kResourceExhausted);
  };
  CHECK_THAT(refused({.max_bytes = 100}, "dtypes.pt"), Catch::Contains("the limit is 100"));
  CHECK_THAT(refused({.max_bytes = 3000}, "dtypes.pt"), Catch::Contains("the pickle"));
  CHECK_THAT(refused({.max_depth = 1}, "values.pt"), Catch::Contains("max_depth"));
}

TEST_CASE("a damaged torch file is refused or read as another one", "[media][data]") {
  const std::string file = data_file("values.pt");
  const auto cuts = outcomes_of_cuts(kDecodeTorchFile, file);
  CHECK(cuts == std::set<std::string>{"corrupt_data"});
  const auto flips = outcomes_of_flips(kDecodeTorchFile, file);
  CHECK(flips.at("corrupt_data") > 3000);
  CHECK(flips.count("internal") + flips.count("invalid_argument") == 0);
}
