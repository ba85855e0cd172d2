#include "wrappers/batching/batch_functions.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include <catch2/catch.hpp>

#include "energon/sample/buffer_allocator.h"
#include "io/error.h"
#include "tests/support/call_function.h"

using energon::DType;
using energon::List;
using energon::Mapping;
using energon::Sample;
using energon::SharedBytes;
using energon::Tensor;
using energon::Value;
using energon::testing::call_function;
using Shape = std::vector<std::int64_t>;

namespace {

// A sample whose field i has the i-th name and value.
Sample sample(const std::string& key, Mapping fields) {
  Sample result;
  result.keys = {key};
  result.fields = std::move(fields);
  return result;
}

Sample sample_of(const std::string& key, Value value) {
  return sample(key, {{"x", std::move(value)}});
}

template <class Number>
Tensor tensor(DType dtype, Shape shape, const std::vector<Number>& numbers) {
  energon::NewTensor result = energon::new_tensor(dtype, std::move(shape), energon::heap_memory());
  REQUIRE(result.bytes.size() == numbers.size() * sizeof(Number));
  if (!numbers.empty()) {
    std::memcpy(result.bytes.data(), numbers.data(), result.bytes.size());
  }
  return result.tensor;
}

Tensor ints(Shape shape, const std::vector<std::int32_t>& numbers) {
  return tensor(DType::kInt32, std::move(shape), numbers);
}

template <class Number>
std::vector<Number> elements(const Tensor& tensor) {
  std::vector<Number> numbers(tensor.data.size() / sizeof(Number));
  if (!numbers.empty()) {
    std::memcpy(numbers.data(), tensor.data.view.data(), tensor.data.size());
  }
  return numbers;
}

const Tensor& tensor_of(const Mapping& fields, std::size_t field = 0) {
  const auto& result = std::get<Tensor>(fields.at(field).second.base());
  CHECK(reinterpret_cast<std::uintptr_t>(result.data.view.data()) % 64 == 0);
  return result;
}

// The message of the Error that `function` throws for the samples.
std::string refusal(const energon::BatchFunction& function, std::vector<Sample> samples) {
  try {
    call_function(function, samples);
  } catch (const energon::Error& error) {
    CHECK(error.code() == energon::ErrorCode::kInvalidArgument);
    return error.message();
  }
  return "nothing was refused";
}

// The padding element for float16 or another dtype.
template <class Number>
Number padded_with(DType dtype, double value) {
  std::vector<Sample> samples = {sample_of("a", tensor(dtype, {1}, std::vector<Number>(1))),
                                 sample_of("b", tensor(dtype, {0}, std::vector<Number>()))};
  return elements<Number>(
             tensor_of(call_function(energon::pad_stack_fields({.value = value}), samples)))
      .at(1);
}

}  // namespace

TEST_CASE("list_fields gathers each part of all samples", "[wrappers][batch_functions]") {
  const Value one = std::int64_t{1};
  std::vector<Sample> samples = {sample("a", {{"txt", one}, {"jpg", one}}),
                                 sample("b", {{"jpg", one}, {"txt", one}})};
  const Mapping fields = energon::list_fields(samples);
  REQUIRE(fields.size() == 2);
  CHECK(fields[0].first == "txt");
  CHECK(std::get<List>(fields[1].second.base()).size() == 2);
}

TEST_CASE("a sample without a part that others have is named", "[wrappers][batch_functions]") {
  const Value one = std::int64_t{1};
  const Mapping text = {{"txt", one}};
  const Mapping both = {{"txt", one}, {"jpg", one}};
  using Catch::Contains;
  int number = 0;
  for (const energon::BatchFunction& function :
       {energon::BatchFunction(energon::list_fields), energon::BatchFunction(energon::stack_fields),
        energon::BatchFunction(energon::generic_batch)}) {
    INFO("function " << number++);
    CHECK_THAT(refusal(function, {sample("a", text), sample("b", both)}),
               Contains("'jpg'") && Contains("'a'"));
    CHECK_THAT(refusal(function, {sample("a", both), sample("b", text), sample("c", both)}),
               Contains("'jpg'") && Contains("'b'"));
    CHECK_THAT(refusal(function, {sample("a", both), sample("b", text)}),
               Contains("'jpg'") && Contains("'b'"));
  }
}

TEST_CASE("stack_fields puts equal shapes into one tensor", "[wrappers][batch_functions]") {
  std::vector<Sample> samples = {
      sample("a", {{"x", ints({2, 1}, {1, 2})}, {"n", std::int64_t{7}}, {"d", 0.5}}),
      sample("b", {{"x", ints({2, 1}, {3, 4})}, {"n", std::int64_t{8}}, {"d", 1.5}})};
  const Mapping fields = call_function(energon::stack_fields, samples);
  CHECK(tensor_of(fields).shape == Shape{2, 2, 1});
  CHECK(elements<std::int32_t>(tensor_of(fields)) == std::vector<std::int32_t>{1, 2, 3, 4});
  CHECK(tensor_of(fields, 1).dtype == DType::kInt64);
  CHECK(elements<std::int64_t>(tensor_of(fields, 1)) == std::vector<std::int64_t>{7, 8});
  CHECK(tensor_of(fields, 2).shape == Shape{2});
  CHECK(elements<double>(tensor_of(fields, 2)) == std::vector<double>{0.5, 1.5});
}

TEST_CASE("adjacent tensors are stacked in place", "[wrappers][batch_functions]") {
  energon::HeapBufferPool pool;
  energon::BatchMemory memory(pool);
  const Shape shape = {2, 64};
  std::vector<Sample> samples;
  for (int i = 0; i < 3; ++i) {
    energon::NewTensor row = energon::new_tensor(DType::kUInt8, shape, memory);
    std::ranges::fill(row.bytes, static_cast<std::byte>(i));
    samples.push_back(sample_of(std::to_string(i), row.tensor));
  }
  const Tensor rows[] = {samples[0].tensor("x"), samples[1].tensor("x"), samples[2].tensor("x")};
  const auto stacked = [](const energon::BatchFunction& function, std::vector<Sample> batch) {
    return tensor_of(call_function(function, std::span(batch)));
  };
  int number = 0;
  for (const energon::BatchFunction& function :
       {energon::BatchFunction(energon::stack_fields), energon::pad_stack_fields(),
        energon::BatchFunction(energon::generic_batch)}) {
    INFO("function " << number++);
    const Tensor all = stacked(function, samples);
    CHECK(all.shape == Shape{3, 2, 64});
    CHECK(all.data.view.data() == rows[0].data.view.data());
    CHECK(all.data.owner == rows[0].data.owner);
    CHECK(std::to_integer<int>(all.data.view.back()) == 2);
  }
  // In another order, or with a gap, they are copied.
  for (const std::vector<Sample>& others :
       {std::vector<Sample>{samples[1], samples[0]}, std::vector<Sample>{samples[0], samples[2]}}) {
    const Tensor copied = stacked(energon::stack_fields, others);
    CHECK(copied.data.owner != rows[0].data.owner);
    CHECK(copied.data.view[0] == others[0].tensor("x").data.view[0]);
    CHECK(copied.data.view[128] == others[1].tensor("x").data.view[0]);
  }
}

TEST_CASE("booleans become one tensor", "[wrappers][batch_functions]") {
  std::vector<Sample> samples = {sample_of("a", true), sample_of("b", false)};
  const Tensor truths = tensor_of(call_function(energon::generic_batch, samples));
  CHECK(truths.dtype == DType::kBool);
  CHECK(elements<std::uint8_t>(truths) == std::vector<std::uint8_t>{1, 0});
  CHECK_THAT(
      refusal(energon::stack_fields, {sample_of("a", energon::Null()), sample_of("b", true)}),
      Catch::Contains("null in 'a' and a boolean in 'b'"));
}

TEST_CASE("tensors that cannot be stacked are refused with field, samples and shapes",
          "[wrappers][batch_functions]") {
  CHECK(refusal(energon::stack_fields,
                {sample_of("a", ints({2}, {1, 2})), sample_of("b", ints({1}, {3}))}) ==
        "field 'x' has tensors that cannot be stacked: it is int32 (2) in 'a' and int32 (1) in "
        "'b'");
  CHECK_THAT(
      refusal(energon::stack_fields, {sample_of("a", ints({1}, {1})),
                                      sample_of("b", tensor<float>(DType::kFloat32, {1}, {3}))}),
      Catch::Contains("int32 (1) in 'a' and float32 (1) in 'b'"));
  CHECK_THAT(refusal(energon::stack_fields, {sample_of("a", SharedBytes())}),
             Catch::Contains("'x' of 'a' is raw bytes: decode the part"));
  CHECK(
      refusal(energon::stack_fields,
              {sample_of("a", ints({1}, {1})), sample_of("b", std::string("text"))}) ==
      "field 'x' is a tensor in 'a' and a string in 'b'; only tensors and numbers can be stacked");
  Tensor short_one = ints({2}, {1, 2});
  short_one.shape = {3};
  CHECK_THAT(refusal(energon::stack_fields, {sample_of("a", short_one)}),
             Catch::Contains("int32 (3) with 8 bytes of data, expected 12"));
  short_one.shape = {-1};
  CHECK_THAT(refusal(energon::generic_batch, {sample_of("a", short_one)}),
             Catch::Contains("shape (-1)"));
  short_one.shape = {INT64_MAX, INT64_MAX};
  CHECK_THAT(refusal(energon::concat_fields, {sample_of("a", short_one)}),
             Catch::Contains("invalid tensor shape"));
}

TEST_CASE("pad_stack_fields pads to the largest size of each dimension",
          "[wrappers][batch_functions]") {
  std::vector<Sample> samples = {sample_of("a", ints({2, 2}, {1, 2, 3, 4})),
                                 sample_of("b", ints({1, 3}, {5, 6, 7})),
                                 sample_of("c", ints({0, 1}, {}))};
  const Mapping fields = call_function(energon::pad_stack_fields({.value = -1}), samples);
  CHECK(tensor_of(fields).shape == Shape{3, 2, 3});
  CHECK(elements<std::int32_t>(tensor_of(fields)) ==
        std::vector<std::int32_t>{1, 2, -1, 3, 4, -1, 5, 6, 7, -1, -1, -1, -1, -1, -1, -1, -1, -1});
  std::vector<Sample> cubes = {sample_of("a", ints({1, 2, 1}, {1, 2})),
                               sample_of("b", ints({2, 1, 1}, {3, 4}))};
  CHECK(elements<std::int32_t>(tensor_of(call_function(energon::pad_stack_fields(), cubes))) ==
        std::vector<std::int32_t>{1, 2, 0, 0, 3, 0, 4, 0});
  std::vector<Sample> scalars = {sample_of("a", ints({}, {1})), sample_of("b", ints({}, {2}))};
  CHECK(tensor_of(call_function(energon::pad_stack_fields(), scalars)).shape == Shape{2});
  CHECK_THAT(refusal(energon::pad_stack_fields(),
                     {sample_of("a", ints({2}, {1, 2})), sample_of("b", ints({1, 1}, {3}))}),
             Catch::Contains("int32 (2) in 'a' and int32 (1, 1) in 'b'"));
}

TEST_CASE("the padding value of tensors must fit their dtype", "[wrappers][batch_functions]") {
  CHECK(padded_with<std::uint8_t>(DType::kUInt8, 255) == 255);
  CHECK(padded_with<std::int8_t>(DType::kInt8, -128) == -128);
  CHECK(padded_with<std::int16_t>(DType::kInt16, -2) == -2);
  CHECK(padded_with<std::int64_t>(DType::kInt64, -0x1p63) == INT64_MIN);
  CHECK(padded_with<std::uint8_t>(DType::kBool, 1) == 1);
  CHECK(padded_with<float>(DType::kFloat32, 0.5) == 0.5F);
  CHECK(std::isnan(padded_with<double>(DType::kFloat64, std::nan(""))));
  for (const auto& [dtype, value] : std::vector<std::pair<DType, double>>{
           {DType::kUInt8, -1}, {DType::kUInt8, 256}, {DType::kInt8, 0.5}, {DType::kBool, 2}}) {
    INFO(value);
    CHECK_THROWS_WITH(padded_with<std::int8_t>(dtype, value), Catch::Contains("cannot be padded"));
  }
  CHECK_THROWS_WITH(padded_with<std::int64_t>(DType::kInt64, 0x1p63), Catch::Contains("int64"));
  CHECK_THROWS_AS(padded_with<std::int32_t>(DType::kInt32, std::nan("")), energon::Error);
}

TEST_CASE("float16 and bfloat16 are rounded to the nearest, ties to even",
          "[wrappers][batch_functions]") {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const auto& [value, bits] : std::vector<std::pair<double, int>>{{0, 0},
                                                                       {-0.0, 0x8000},
                                                                       {1, 0x3c00},
                                                                       {-2, 0xc000},
                                                                       {65504, 0x7bff},
                                                                       {65519, 0x7bff},
                                                                       {65520, 0x7c00},
                                                                       {-infinity, 0xfc00},
                                                                       {0x1p-24, 1},
                                                                       {0x1p-25, 0},
                                                                       {0x1.8p-25, 1},
                                                                       {0x1p-14, 0x400},
                                                                       {0x1.ff8p-15, 0x3ff},
                                                                       {0x1.ffep-15, 0x400},
                                                                       {1 + 0x1p-11, 0x3c00},
                                                                       {1 + 0x1.8p-10, 0x3c02},
                                                                       {0x1.ffep0, 0x4000},
                                                                       {0.1, 0x2e66},
                                                                       {std::nan(""), 0x7e00}}) {
    INFO(value);
    CHECK(padded_with<std::uint16_t>(DType::kFloat16, value) == bits);
  }
  for (const auto& [value, bits] : std::vector<std::pair<double, int>>{{0, 0},
                                                                       {-1, 0xbf80},
                                                                       {1 + 0x1p-8, 0x3f80},
                                                                       {1 + 0x1.8p-7, 0x3f82},
                                                                       {infinity, 0x7f80},
                                                                       {3.4e38, 0x7f80},
                                                                       {std::nan(""), 0x7fc0}}) {
    INFO(value);
    CHECK(padded_with<std::uint16_t>(DType::kBFloat16, value) == bits);
  }
}

TEST_CASE("concat_fields joins tensors along the first dimension, and lists",
          "[wrappers][batch_functions]") {
  const List text = {std::string("one")};
  std::vector<Sample> samples = {sample("a", {{"x", ints({1, 2}, {1, 2})}, {"l", text}}),
                                 sample("b", {{"x", ints({0, 2}, {})}, {"l", List()}}),
                                 sample("c", {{"x", ints({2, 2}, {3, 4, 5, 6})}, {"l", text}})};
  const Mapping fields = call_function(energon::concat_fields, samples);
  CHECK(tensor_of(fields).shape == Shape{3, 2});
  CHECK(elements<std::int32_t>(tensor_of(fields)) == std::vector<std::int32_t>{1, 2, 3, 4, 5, 6});
  CHECK(std::get<List>(fields[1].second.base()).size() == 2);
  CHECK_THAT(refusal(energon::concat_fields,
                     {sample_of("a", ints({1, 2}, {1, 2})), sample_of("b", ints({1, 1}, {3}))}),
             Catch::Contains("int32 (1, 2) in 'a' and int32 (1, 1) in 'b'"));
  CHECK_THAT(refusal(energon::concat_fields, {sample_of("a", ints({}, {1}))}),
             Catch::Contains("int32 ()"));
  CHECK_THAT(refusal(energon::concat_fields, {sample_of("a", std::int64_t{1})}),
             Catch::Contains("only tensors, lists and mappings"));
}

TEST_CASE("generic_batch decides by the kind of each field", "[wrappers][batch_functions]") {
  const auto make = [](const std::string& key, std::int64_t n) {
    return sample(key, {{"image", ints({n}, std::vector<std::int32_t>(std::size_t(n), 9))},
                        {"label", n},
                        {"meta", Mapping{{"weight", 0.5 * double(n)}, {"name", key}}},
                        {"raw", SharedBytes()},
                        {"mixed", n == 1 ? Value(n) : Value(key)}});
  };
  std::vector<Sample> samples = {make("a", 1), make("b", 3)};
  const Mapping fields = call_function(energon::generic_batch, samples);
  CHECK(tensor_of(fields, 0).shape == Shape{2, 3});
  CHECK(elements<std::int32_t>(tensor_of(fields)) == std::vector<std::int32_t>{9, 0, 0, 9, 9, 9});
  CHECK(elements<std::int64_t>(tensor_of(fields, 1)) == std::vector<std::int64_t>{1, 3});
  const auto& meta = std::get<Mapping>(fields[2].second.base());
  CHECK(elements<double>(tensor_of(meta, 0)) == std::vector<double>{0.5, 1.5});
  CHECK(std::get<List>(meta[1].second.base()).size() == 2);
  CHECK(std::get<List>(fields[3].second.base()).size() == 2);
  CHECK(std::get<List>(fields[4].second.base()).size() == 2);
  CHECK_THAT(refusal(energon::generic_batch,
                     {sample_of("a", Mapping{{"in", 1.0}}), sample_of("b", Mapping{})}),
             Catch::Contains("'x.in' is missing in sample 'b'"));
}

TEST_CASE("energon_batch lists numbers and booleans, and stacks tensors",
          "[wrappers][batch_functions]") {
  const auto make = [](const std::string& key, std::int64_t n) {
    return sample(key, {{"image", ints({n}, std::vector<std::int32_t>(std::size_t(n), 9))},
                        {"label", n},
                        {"is_last", n == 3},
                        {"meta", Mapping{{"weight", 0.5 * double(n)}}}});
  };
  std::vector<Sample> samples = {make("a", 1), make("b", 3)};
  const Mapping fields = call_function(energon::energon_batch, samples);
  CHECK(tensor_of(fields, 0).shape == Shape{2, 3});
  const auto last_of = [](const Mapping& mapping, std::size_t field) {
    const auto& list = std::get<List>(mapping.at(field).second.base());
    REQUIRE(list.size() == 2);
    return list[1].base();
  };
  CHECK(std::get<std::int64_t>(last_of(fields, 1)) == 3);
  CHECK(std::get<bool>(last_of(fields, 2)));
  CHECK(std::get<double>(last_of(std::get<Mapping>(fields.at(3).second.base()), 0)) == 1.5);
}

TEST_CASE("payloads of parts are listed, not copied", "[wrappers][batch_functions]") {
  const auto owner = std::make_shared<const std::string>("payload");
  const SharedBytes part{energon::as_bytes(*owner), owner};
  int number = 0;
  for (const energon::BatchFunction& function : {energon::BatchFunction(energon::list_fields),
                                                 energon::BatchFunction(energon::generic_batch)}) {
    INFO("function " << number++);
    std::vector<Sample> samples = {sample_of("a", part)};
    const Mapping fields = call_function(function, samples);
    const auto& list = std::get<List>(fields.at(0).second.base());
    CHECK(std::get<SharedBytes>(list.at(0).base()).view.data() == part.view.data());
  }
}

TEST_CASE("batches of no samples have no fields", "[wrappers][batch_functions]") {
  CHECK(energon::list_fields({}).empty());
  CHECK(call_function(energon::stack_fields, std::span<Sample>()).empty());
  CHECK(call_function(energon::generic_batch, std::span<Sample>()).empty());
}
