#include <catch2/catch.hpp>

#include "tests/support/error_of.h"
#include "tests/wrappers/tensor_samples.h"
#include "wrappers/batching/batch_functions.h"

using energon::concat_pad_fields;
using energon::DType;
using energon::ErrorCode;
using energon::List;
using energon::Mapping;
using energon::pad_stack_fields;
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

std::vector<std::string> names_of(const Mapping& fields) {
  std::vector<std::string> names;
  for (const auto& [name, value] : fields) {
    names.push_back(name);
  }
  return names;
}

std::vector<Sample> pair_of(const Value& first, const Value& second) {
  return {keyed_sample("a", {{"x", first}}), keyed_sample("b", {{"x", second}})};
}

}  // namespace

TEST_CASE("concat_pad_fields joins along dimension 0 and pads the others",
          "[wrappers][padded_fields]") {
  // The result of Energon's concat_pad for torch.tensor([[1, 2], [3, 4]]) and torch.tensor([[5, 6,
  // 7]]).
  const Sample batch = made_batch(concat_pad_fields(), pair_of(int_tensor({2, 2}, {1, 2, 3, 4}),  //
                                                               int_tensor({1, 3}, {5, 6, 7})));
  CHECK(batch.tensor("x").shape == Longs{3, 3});
  CHECK(elements_of<std::int32_t>(batch.tensor("x")) == Ints{1, 2, 0, 3, 4, 0, 5, 6, 7});
  CHECK(names_of(batch.fields) == std::vector<std::string>{"x"});
  const Sample deep =
      made_batch(concat_pad_fields({.value = -1}),
                 pair_of(int_tensor({1, 1, 2}, {1, 2}), int_tensor({1, 2, 1}, {3, 4})));
  CHECK(deep.tensor("x").shape == Longs{2, 2, 2});
  CHECK(elements_of<std::int32_t>(deep.tensor("x")) == Ints{1, 2, -1, -1, 3, -1, 4, -1});
}

TEST_CASE("concat_pad_fields joins equal rows and empty tensors", "[wrappers][padded_fields]") {
  const Sample line = made_batch(concat_pad_fields(), pair_of(int_tensor({2}, {1, 2}),  //
                                                              int_tensor({1}, {3})));
  CHECK(elements_of<std::int32_t>(line.tensor("x")) == Ints{1, 2, 3});
  const Sample wide =
      made_batch(concat_pad_fields({.value = 9}), pair_of(int_tensor({0, 3}, {}),  //
                                                          int_tensor({2, 1}, {1, 2})));
  CHECK(wide.tensor("x").shape == Longs{2, 3});
  CHECK(elements_of<std::int32_t>(wide.tensor("x")) == Ints{1, 9, 9, 2, 9, 9});
}

TEST_CASE("concat_pad_fields treats other fields as generic_batch", "[wrappers][padded_fields]") {
  const auto sample = [](const std::string& key, std::int64_t number, const Tensor& tensor) {
    return keyed_sample(
        key, {{"label", number}, {"text", key}, {"inner", Mapping{{"ids", tensor}, {"ok", true}}}});
  };
  const Sample batch = made_batch(
      concat_pad_fields({.lengths = true}),
      {sample("a", 1, int_tensor({1, 2}, {1, 2})), sample("b", 2, int_tensor({1, 1}, {3}))});
  CHECK(elements_of<std::int64_t>(batch.tensor("label")) == Longs{1, 2});
  CHECK(batch.text_list("text") == std::vector<std::string_view>{"a", "b"});
  const Mapping& inner = batch.mapping("inner");
  CHECK(names_of(inner) == std::vector<std::string>{"ids", "ids_lengths", "ok"});
  CHECK(elements_of<std::int32_t>(std::get<Tensor>(inner[0].second.base())) == Ints{1, 2, 3, 0});
  const auto& lengths = std::get<Tensor>(inner[1].second.base());
  CHECK(lengths.shape == Longs{2, 2});
  CHECK(elements_of<std::int64_t>(lengths) == Longs{1, 2, 1, 1});
}

TEST_CASE("lengths of padded fields are the sizes before padding", "[wrappers][padded_fields]") {
  const auto pad = pad_stack_fields({.value = -1, .lengths = true});
  const Sample line = made_batch(pad, pair_of(int_tensor({1}, {7}), int_tensor({3}, {1, 2, 3})));
  CHECK(elements_of<std::int32_t>(line.tensor("x")) == Ints{7, -1, -1, 1, 2, 3});
  CHECK(line.tensor("x_lengths").dtype == DType::kInt64);
  CHECK(line.tensor("x_lengths").shape == Longs{2});
  CHECK(elements_of<std::int64_t>(line.tensor("x_lengths")) == Longs{1, 3});
  CHECK(names_of(line.fields) == std::vector<std::string>{"x", "x_lengths"});

  const Sample image =
      made_batch(pad, pair_of(int_tensor({2, 1}, {1, 2}), int_tensor({1, 2}, {3, 4})));
  CHECK(image.tensor("x_lengths").shape == Longs{2, 2});
  CHECK(elements_of<std::int64_t>(image.tensor("x_lengths")) == Longs{2, 1, 1, 2});

  // Also if nothing was padded; scalars and numbers have no lengths.
  const Sample equal = made_batch(pad, pair_of(int_tensor({1}, {1}), int_tensor({1}, {2})));
  CHECK(elements_of<std::int64_t>(equal.tensor("x_lengths")) == Longs{1, 1});
  CHECK(made_batch(pad, pair_of(int_tensor({}, {1}), int_tensor({}, {2}))).fields.size() == 1);
  CHECK(made_batch(pad, pair_of(std::int64_t{1}, std::int64_t{2})).fields.size() == 1);
}

TEST_CASE("lengths do not replace a field of the samples", "[wrappers][padded_fields]") {
  const auto sample = [](const std::string& key) {
    return keyed_sample(key, {{"x_lengths", std::int64_t{1}}, {"x", int_tensor({1}, {1})}});
  };
  CHECK_THAT(error_of([&] { made_batch(pad_stack_fields({.lengths = true}), {sample("a")}); },
                      ErrorCode::kInvalidArgument),
             Catch::Contains("'x_lengths'") && Catch::Contains("rename it"));
  CHECK(made_batch(pad_stack_fields(), {sample("a")}).fields.size() == 2);
}

TEST_CASE("tensors that cannot be padded and joined are named", "[wrappers][padded_fields]") {
  const auto refused = [](const Value& first, const Value& second) {
    return error_of([&] { made_batch(concat_pad_fields(), pair_of(first, second)); },
                    ErrorCode::kInvalidArgument);
  };
  using Catch::Contains;
  CHECK_THAT(refused(int_tensor({1, 1}, {1}), int_tensor({1}, {1})),
             Contains("'x'") && Contains("int32 (1, 1) in 'a'") && Contains("int32 (1) in 'b'"));
  CHECK_THAT(refused(int_tensor({}, {1}), int_tensor({}, {1})), Contains("padded and joined"));
  const Tensor other{DType::kUInt8, {1}, {}};
  CHECK_THAT(refused(int_tensor({1}, {1}), other), Contains("'b'"));
  CHECK_THAT(error_of(
                 [&] {
                   made_batch(concat_pad_fields({.value = 0.5}),
                              pair_of(int_tensor({1, 1}, {1}), int_tensor({1, 2}, {1, 2})));
                 },
                 ErrorCode::kInvalidArgument),
             Contains("int32 cannot be padded with 0.5"));
}
