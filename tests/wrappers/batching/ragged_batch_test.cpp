#include "wrappers/batching/ragged_batch.h"

#include <catch2/catch.hpp>

#include "energon/sample/buffer_allocator.h"
#include "tests/support/error_of.h"
#include "tests/wrappers/tensor_samples.h"

using energon::DType;
using energon::ErrorCode;
using energon::List;
using energon::Mapping;
using energon::Ragged;
using energon::ragged_fields;
using energon::Sample;
using energon::Tensor;
using energon::Value;
using energon::testing::elements_of;
using energon::testing::error_of;
using energon::testing::int_tensor;
using energon::testing::keyed_sample;
using energon::testing::made_batch;

namespace {

using Ints = std::vector<std::int32_t>;
using Longs = std::vector<std::int64_t>;

// One field x of samples a, b, ….
std::vector<Sample> samples_of(const std::vector<Value>& values) {
  std::vector<Sample> samples;
  for (const Value& value : values) {
    samples.push_back(
        keyed_sample(std::string(1, static_cast<char>('a' + samples.size())), {{"x", value}}));
  }
  return samples;
}

Ragged ragged_x(const std::vector<Value>& values) {
  return Ragged::from(made_batch(ragged_fields({.fields = {"x"}}), samples_of(values)).at("x"));
}

std::string refused(const std::vector<Value>& values) {
  return error_of([&] { ragged_x(values); }, ErrorCode::kInvalidArgument);
}

}  // namespace

TEST_CASE("ragged_fields joins tensors and stores the start of each", "[wrappers][ragged_batch]") {
  const Ragged x =
      ragged_x({int_tensor({2}, {1, 2}), int_tensor({0}, {}), int_tensor({3}, {3, 4, 5})});
  CHECK(x.values.shape == Longs{5});
  CHECK(elements_of<std::int32_t>(x.values) == Ints{1, 2, 3, 4, 5});
  CHECK(x.offsets.dtype == DType::kInt64);
  CHECK(elements_of<std::int64_t>(x.offsets) == Longs{0, 2, 2, 5});
  REQUIRE(x.size() == 3);
  CHECK(elements_of<std::int32_t>(x.row(0)) == Ints{1, 2});
  CHECK(x.row(1).shape == Longs{0});
  CHECK(elements_of<std::int32_t>(x.row(2)) == Ints{3, 4, 5});
  CHECK(x.row(2).data.view.data() == x.values.data.view.data() + 8);  // no copy
  CHECK(x.length(2) == 3);
  CHECK(x.begin(2) == 2);
  CHECK_THAT(error_of([&] { x.row(3); }, ErrorCode::kInvalidArgument), Catch::Contains("no row 3"));
  CHECK_THROWS_AS(x.row(-1), energon::Error);
}

TEST_CASE("rows of a ragged field may have dimensions", "[wrappers][ragged_batch]") {
  const Ragged x = ragged_x({int_tensor({2, 2}, {1, 2, 3, 4}), int_tensor({1, 2}, {5, 6})});
  CHECK(x.values.shape == Longs{3, 2});
  CHECK(x.row(0).shape == Longs{2, 2});
  CHECK(elements_of<std::int32_t>(x.row(1)) == Ints{5, 6});
}

TEST_CASE("lists of tensors are ragged by item", "[wrappers][ragged_batch]") {
  const Value two = List{int_tensor({1, 2}, {1, 2}), int_tensor({1, 2}, {3, 4})};
  const Value one = List{int_tensor({1, 2}, {5, 6})};
  const Ragged x = ragged_x({two, Value(List()), one});
  CHECK(x.values.shape == Longs{3, 1, 2});
  CHECK(elements_of<std::int32_t>(x.values) == Ints{1, 2, 3, 4, 5, 6});
  CHECK(elements_of<std::int64_t>(x.offsets) == Longs{0, 2, 2, 3});
  const Ragged none = ragged_x({Value(List()), Value(List())});
  CHECK(none.values.dtype == DType::kUInt8);
  CHECK(none.size() == 2);
  CHECK(none.length(1) == 0);
  CHECK_THAT(refused({two, Value(List{int_tensor({2, 2}, {1, 2, 3, 4})})}),
             Catch::Contains("'x'") && Catch::Contains("'b'"));
}

TEST_CASE("without names all tensors become ragged, other fields as in generic_batch",
          "[wrappers][ragged_batch]") {
  const auto sample = [](const std::string& key, const Tensor& ids) {
    return keyed_sample(key, {{"ids", ids},
                              {"scalar", int_tensor({}, {7})},
                              {"label", std::int64_t{3}},
                              {"text", key},
                              {"words", List{Value(key)}},
                              {"none", List()},
                              {"inner", Mapping{{"ids", ids}}}});
  };
  const auto samples = [&] {
    return std::vector<Sample>{sample("a", int_tensor({1}, {1})),
                               sample("b", int_tensor({2}, {2, 3}))};
  };
  const Sample batch = made_batch(ragged_fields(), samples());
  CHECK(Ragged::from(batch.at("ids")).length(1) == 2);
  CHECK(batch.tensor("scalar").shape == Longs{2});
  CHECK(batch.tensor("label").shape == Longs{2});
  CHECK(batch.text_list("text").size() == 2);
  CHECK(batch.list("words").size() == 2);
  CHECK(batch.list("none").size() == 2);  // the kind of elements is unknown
  CHECK(Ragged::from(batch.mapping("inner").at(0).second).size() == 2);

  const Sample named = made_batch(ragged_fields({.fields = {"inner.ids"}}), samples());
  CHECK(named.tensor("ids").shape == Longs{2, 2});  // padded
  CHECK(Ragged::from(named.mapping("inner").at(0).second).values.shape == Longs{3});
}

TEST_CASE("a field that cannot be ragged is refused by name", "[wrappers][ragged_batch]") {
  using Catch::Contains;
  CHECK_THAT(refused({Value("text"), Value("text")}), Contains("'x'") && Contains("can be ragged"));
  CHECK_THAT(refused({int_tensor({}, {1})}), Contains("'x'"));
  CHECK_THAT(refused({int_tensor({1, 2}, {1, 2}), int_tensor({1, 3}, {1, 2, 3})}),
             Contains("int32 (1, 3) in 'b'"));
  CHECK_THAT(
      error_of([&] { made_batch(ragged_fields({.fields = {"y"}}), samples_of({Value("t")})); },
               ErrorCode::kInvalidArgument),
      Contains("'y'") && Contains("they have x"));
}

TEST_CASE("adjacent tensors are joined without a copy", "[wrappers][ragged_batch]") {
  energon::HeapBufferPool pool;
  energon::BatchMemory memory(pool);
  const Ints sixteen(16, 1);  // 64 bytes, the alignment of the memory
  std::vector<Value> values;
  for (int i = 0; i < 3; ++i) {
    values.emplace_back(int_tensor({16}, sixteen, memory));
  }
  values.emplace_back(int_tensor({1}, {2}, memory));
  const std::byte* const first = std::get<Tensor>(values[0].base()).data.view.data();
  const Ragged x = ragged_x(values);
  CHECK(x.values.data.view.data() == first);
  CHECK(x.values.shape == Longs{49});
  CHECK(elements_of<std::int32_t>(x.row(3)) == Ints{2});

  std::swap(values[0], values[1]);  // no longer in the order of the memory
  CHECK(ragged_x(values).values.data.view.data() != first);
}

TEST_CASE("Ragged::from refuses fields that are not ragged", "[wrappers][ragged_batch]") {
  const auto offsets = [](const Longs& numbers) {
    energon::NewTensor result = energon::new_tensor(
        DType::kInt64, {static_cast<std::int64_t>(numbers.size())}, energon::heap_memory());
    std::memcpy(result.bytes.data(), numbers.data(), result.bytes.size());
    return result.tensor;
  };
  const auto refusal = [](const Value& field) {
    return error_of([&] { Ragged::from(field); }, ErrorCode::kInvalidArgument);
  };
  const auto of = [&](const Longs& numbers) -> Value {
    return Mapping{{"values", int_tensor({3}, {1, 2, 3})}, {"offsets", offsets(numbers)}};
  };
  using Catch::Contains;
  CHECK(Ragged::from(of({0, 1, 3})).size() == 2);
  CHECK_THAT(refusal(of({1, 3})), Contains("ascend from 0"));
  CHECK_THAT(refusal(of({0, 2})), Contains("to the 3 rows"));
  CHECK_THAT(refusal(of({0, 4, 3})), Contains("ascend"));
  CHECK_THAT(refusal(of({0, -1, 3})), Contains("ascend"));
  CHECK_THAT(refusal(Value("text")), Contains("a string"));
  CHECK_THAT(refusal(Value(Mapping{{"values", int_tensor({3}, {1, 2, 3})}})),
             Contains("'offsets'"));
  CHECK_THAT(refusal(Value(
                 Mapping{{"values", int_tensor({1}, {1})}, {"offsets", int_tensor({2}, {0, 1})}})),
             Contains("int64"));
  Tensor cut = int_tensor({3}, {1, 2, 3});
  cut.data.view = cut.data.view.first(8);
  CHECK_THAT(refusal(Value(Mapping{{"values", cut}, {"offsets", offsets({0, 3})}})),
             Contains("8 bytes"));
}
