// Splitting and joining batches.

#include "protocols/accelerate/batch_slices.h"

#include <catch2/catch.hpp>

#include "io/error.h"
#include "protocols/accelerate/batch_slices.h"
#include "protocols/accelerate/dispatch_part.h"
#include "tests/protocols/numbered_batches.h"

using energon::Mapping;
using energon::Sample;
using energon::testing::numbered_batch;
using energon::testing::show;

namespace {

Sample batch(std::vector<std::int64_t> numbers) { return numbered_batch(numbers); }

}  // namespace

TEST_CASE("a slice of a batch shares its memory", "[distributed]") {
  const Sample whole = batch({5, 6, 7, 8});
  const Sample slice = energon::slice_batch(whole, 1, 3);
  CHECK(show(slice) == "[6,7]");
  CHECK(std::get<energon::Tensor>(slice.fields[0].second.base()).data.view.data() ==
        std::get<energon::Tensor>(whole.fields[0].second.base()).data.view.data() + 8);
  CHECK(show(energon::slice_batch(whole, 0, 4)) == show(whole));
  CHECK(show(energon::slice_batch(whole, 2, 2)) == "[]");
}

TEST_CASE("only the whole batch keeps its restore key and its place", "[distributed]") {
  Sample whole = batch({1, 2});
  whole.restore_key = energon::RestoreKey::leaf(energon::Stage::kWebdataset, {0, 1});
  whole.place = energon::BatchPlace{.logical_shard = 1, .epoch = 0, .turn = 4};
  CHECK(energon::slice_batch(whole, 0, 2).restore_key == whole.restore_key);
  CHECK(energon::slice_batch(whole, 0, 2).place == whole.place);
  CHECK(energon::slice_batch(whole, 0, 1).restore_key.empty());
  CHECK_FALSE(energon::slice_batch(whole, 0, 1).place);
  CHECK_FALSE(energon::concatenate_batches(std::vector{whole, whole}).place);
}

TEST_CASE("batches that pad an epoch have no place", "[distributed]") {
  energon::FirstBatches first;
  Sample whole = batch({1, 2});
  whole.place = energon::BatchPlace{.logical_shard = 1, .epoch = 0, .turn = 4};
  first.add(whole);
  energon::testing::ScriptedSource unused([](std::int64_t) { return std::nullopt; });
  CHECK_FALSE(first.rebuild(unused)[0].place);
}

TEST_CASE("batches are joined and can be split anywhere", "[distributed]") {
  const std::vector<Sample> batches = {batch({0, 1, 2}), batch({3}), batch({4, 5})};
  CHECK(show(energon::concatenate_batches(batches)) == "[0,1,2,3,4,5]");
  for (std::int64_t begin = 0; begin < 6; ++begin) {
    CAPTURE(begin);
    for (std::int64_t end = begin + 1; end <= 6; ++end) {
      CAPTURE(end);
      std::vector<std::int64_t> expected;
      for (std::int64_t i = begin; i < end; ++i) {
        expected.push_back(i);
      }
      CHECK(show(energon::slice_batches(batches, begin, end)) == show(batch(expected)));
    }
  }
}

TEST_CASE("mappings are split and joined field by field", "[distributed]") {
  const auto nested = [](std::vector<std::int64_t> numbers) {
    Sample outer = batch(numbers);
    outer.fields = {{"inner", Mapping(outer.fields)}};
    return outer;
  };
  const std::vector<Sample> batches = {nested({0, 1}), nested({2})};
  const Sample joined = energon::slice_batches(batches, 1, 3);
  Sample inner = joined;
  inner.fields = std::get<Mapping>(joined.at("inner").base());
  CHECK(show(inner) == "[1,2]");
}

TEST_CASE("mismatched fields are named", "[distributed]") {
  const auto error = [](const std::function<void(Sample&)>& change) {
    std::vector<Sample> batches = {batch({0, 1}), batch({2, 3})};
    change(batches[1]);
    try {
      energon::check_concatenation(batches);
    } catch (const energon::Error& error) {
      return error.message();
    }
    return std::string("fits");
  };
  CHECK(error([](Sample&) {}) == "fits");
  CHECK_THAT(error([](Sample& other) { other.fields[2].second = std::string("letters"); }),
             Catch::Contains("'kind' belongs to the batch as a whole and differs"));
  CHECK_THAT(error([](Sample& other) { other.fields[1].second = std::int64_t{7}; }),
             Catch::Contains("'text' has different types"));
  CHECK_THAT(error([](Sample& other) { other.fields[0].first = "count"; }),
             Catch::Contains("'number' is not at the same place"));
  CHECK_THAT(error([](Sample& other) {
               std::get<energon::Tensor>(other.fields[0].second.base()).dtype =
                   energon::DType::kFloat64;
             }),
             Catch::Contains("int64") && Catch::Contains("float64"));
}

TEST_CASE("a batch survives a round trip through bytes", "[distributed]") {
  Sample original = batch({3, 1, 2});
  original.place = energon::BatchPlace{.logical_shard = 1, .epoch = 2, .turn = 3};
  const auto structure = energon::encode_structure(original);
  energon::HeapBufferPool memory;
  const energon::Buffer data = memory.allocate(structure.data_bytes);
  energon::copy_data(structure, data.bytes);
  const Sample copy = energon::decode_batch(structure.bytes, data);
  CHECK(show(copy) == "[3,1,2]");
  CHECK(digest(copy) == digest(original));
  CHECK(copy.place == original.place);
  CHECK_THROWS_AS(energon::decode_batch(structure.bytes, {data.bytes.first(5), data.owner}),
                  energon::Error);
}
