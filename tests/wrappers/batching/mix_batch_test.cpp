#include <catch2/catch.hpp>

#include "energon/sample/buffer_allocator.h"
#include "io/error.h"
#include "tests/support/call_function.h"
#include "tests/support/conformance.h"
#include "tests/wrappers/stream_fixture.h"
#include "wrappers/batching/batch.h"
#include "wrappers/batching/batch_functions.h"

using energon::Batch;
using energon::CallContext;
using energon::Dataset;
using energon::LeafBatch;
using energon::List;
using energon::Mapping;
using energon::Sample;
using energon::Tensor;
using energon::testing::call_function;
using energon::testing::NumberedStream;

namespace {

Tensor tensor(std::vector<std::int64_t> shape) {
  return energon::new_tensor(energon::DType::kFloat32, std::move(shape), energon::heap_memory())
      .tensor;
}

}  // namespace

TEST_CASE("mixed batches conform", "[wrappers][mix_batch][conformance]") {
  NumberedStream samples;
  energon::testing::check_conformance<Dataset>(
      [&] {
        return std::make_unique<Batch>(
            samples.two_leaves(),
            energon::BatchOptions{.batch_size = 8, .function = energon::mix_batch()});
      },
      32);
}

TEST_CASE("each leaf is batched by its function, and keys follow the rows",
          "[wrappers][mix_batch]") {
  NumberedStream samples;
  std::vector<std::vector<std::int64_t>> counts;
  Batch stream(samples.two_leaves(),
               {.batch_size = 8,
                .function = energon::mix_batch(
                    {.leaf_functions = {{1,
                                         [](std::span<Sample> batch) {
                                           for (Sample& sample : batch) {
                                             sample.fields[0].second = std::string("second leaf");
                                           }
                                           return energon::list_fields(batch);
                                         }}},
                     .mix = [&counts](std::span<LeafBatch> batches, CallContext& context) {
                       for (const LeafBatch& batch : batches) {
                         counts.push_back({batch.leaf, std::int64_t(batch.count)});
                       }
                       return energon::concat_batches(batches, context);
                     }})});
  const auto batch = stream.next();
  REQUIRE(counts.size() == 2);
  CHECK(counts[0][0] == 0);
  CHECK(counts[1][0] == 1);
  CHECK(counts[0][1] + counts[1][1] == 8);
  const auto& rows = std::get<List>(batch->at("txt").base());
  REQUIRE(rows.size() == 8);
  const auto first = static_cast<std::size_t>(counts[0][1]);
  for (std::size_t i = 0; i < 8; ++i) {
    CAPTURE(i);
    if (i < first) {
      CHECK(std::get<energon::SharedBytes>(rows[i].base()).text() ==
            std::to_string(std::stoll(std::string(batch->keys[i]))));
    } else {
      CHECK(std::get<std::string>(rows[i].base()) == "second leaf");
    }
    CHECK(batch->sources.at(i).sample == i);
  }
}

TEST_CASE("batches are joined field by field, or refused", "[wrappers][mix_batch]") {
  const Mapping nested = {{"y", tensor({1})}};
  std::vector<LeafBatch> batches = {{0, {{"x", tensor({2, 3})}, {"m", nested}}, 2},
                                    {4, {{"m", nested}, {"x", tensor({1, 3})}}, 1}};
  const Mapping fields = call_function(energon::concat_batches, batches);
  CHECK(std::get<Tensor>(fields.at(0).second.base()).shape == std::vector<std::int64_t>{3, 3});
  const auto& joined = std::get<Mapping>(fields.at(1).second.base());
  CHECK(std::get<Tensor>(joined.at(0).second.base()).shape == std::vector<std::int64_t>{2});

  batches = {{0, {{"x", tensor({2, 3})}}, 2}, {4, {{"x", tensor({1, 2})}}, 1}};
  CHECK_THROWS_WITH(call_function(energon::concat_batches, batches),
                    Catch::Contains("float32 (2, 3) in 'leaf 0' and float32 (1, 2) in 'leaf 4'"));
  batches = {{0, {}, 2}, {4, {{"x", tensor({1, 2})}}, 1}};
  CHECK_THROWS_WITH(call_function(energon::concat_batches, batches),
                    Catch::Contains("'x' is in the batch of leaf 4, but not in that of leaf 0"));
  CHECK(call_function(energon::concat_batches, std::span<LeafBatch>()).empty());
  CHECK_THROWS_AS(energon::mix_batch({.mix = nullptr}), energon::Error);
  CHECK_THROWS_AS(energon::mix_batch({.leaf_functions = {{1, nullptr}}}), energon::Error);
}
