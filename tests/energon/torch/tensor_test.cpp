#include "energon/torch/tensor.h"

#include <ATen/core/MT19937RNGEngine.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/mul.h>
#include <catch2/catch.hpp>

#include "energon/loader/savable_data_loader.h"
#include "energon/order/rng.h"
#include "io/error.h"
#include "tests/support/dataset_builder.h"
#include "wrappers/recipe/pipeline.h"

using energon::SavableDataLoader;
using energon::Tensor;
using energon::testing::numbered_dataset;
using energon::testing::TempDir;

// libtorch's logging defines its own CHECK, so these tests use REQUIRE.

TEST_CASE("our generator is libtorch's", "[torch][rng]") {
  for (const std::uint32_t seed : {0U, 273211461U, 0xFFFFFFFFU}) {
    CAPTURE(seed);
    at::mt19937 torch(seed);
    energon::Mt19937 ours(seed);
    for (int i = 0; i < 2000; ++i) {
      CAPTURE(i);
      REQUIRE(ours() == torch());
    }
  }
}

TEST_CASE("a tensor goes to torch and back without a copy", "[torch]") {
  const at::Tensor original = at::arange(24, at::kInt).reshape({2, 3, 4});
  const Tensor ours = energon::from_torch(original);
  REQUIRE(ours.shape == std::vector<std::int64_t>{2, 3, 4});
  REQUIRE(ours.data.view.data() == original.data_ptr());
  const at::Tensor back = energon::to_torch(ours);
  REQUIRE(back.data_ptr() == original.data_ptr());
  REQUIRE(at::equal(back, original));
}

TEST_CASE("a tensor that is not contiguous is copied", "[torch]") {
  const at::Tensor transposed = at::arange(6, at::kLong).reshape({2, 3}).t();
  REQUIRE(at::equal(energon::to_torch(energon::from_torch(transposed)), transposed));
}

TEST_CASE("empty and scalar tensors are sent", "[torch]") {
  REQUIRE(energon::to_torch(energon::from_torch(at::arange(0, at::kFloat))).numel() == 0);
  REQUIRE(energon::to_torch(energon::from_torch(at::arange(1, at::kDouble).reshape({}))).dim() ==
          0);
}

TEST_CASE("a tensor whose size contradicts its shape is refused", "[torch]") {
  Tensor wrong = energon::from_torch(at::arange(4, at::kInt));
  wrong.shape = {5};
  CHECK_THROWS_AS(energon::to_torch(wrong), energon::Error);
}

TEST_CASE("tensors over a worker's memory outlive batch and loader", "[torch][fork]") {
  const TempDir folder;
  const auto dataset = numbered_dataset(folder, energon::testing::kTens, 5000);
  std::vector<at::Tensor> kept;
  std::vector<std::string> expected;
  {
    SavableDataLoader loader(energon::val_pipeline({dataset}, {.batch_size = 4}),
                             {.worker_config = {.num_workers = 2}});
    while (const auto batch = loader.next()) {
      for (const energon::Value& value : std::get<energon::List>(batch->at("bin").base())) {
        const auto& bytes = std::get<energon::SharedBytes>(value.base());
        kept.push_back(energon::to_torch(bytes));
        expected.emplace_back(bytes.text());
        REQUIRE(kept.back().data_ptr() == bytes.view.data());
      }
    }
  }
  REQUIRE(kept.size() == 55);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    CAPTURE(i);
    REQUIRE(std::string_view(static_cast<const char*>(kept[i].data_ptr()), kept[i].nbytes()) ==
            expected[i]);
  }
}

TEST_CASE("a function in a worker may use torch and send tensors", "[torch][fork]") {
  const TempDir folder;
  const auto dataset = numbered_dataset(folder, {6});
  const energon::MapFunction square = [](energon::Sample sample, energon::CallContext&) {
    const std::int64_t number = std::stoll(std::string(sample.keys.front()));
    const at::Tensor values = at::mul(at::arange(1000, at::kLong), number);
    sample.fields.emplace_back("values", energon::from_torch(values));
    return sample;
  };
  SavableDataLoader loader(
      energon::val_pipeline({dataset}, {.task_encoder = {.encode_sample = square}}),
      {.worker_config = {.num_workers = 1}});
  for (std::int64_t number = 0; number < 6; ++number) {
    CAPTURE(number);
    const auto sample = loader.next();
    REQUIRE(sample);
    const at::Tensor values = energon::to_torch(std::get<Tensor>(sample->at("values").base()));
    REQUIRE(at::equal(values, at::mul(at::arange(1000, at::kLong), number)));
  }
}

TEST_CASE("the tensors of a batch are found by name", "[torch]") {
  energon::Sample batch;
  batch.set("image", energon::from_torch(at::arange(6, at::kFloat).reshape({2, 3})));
  batch.set("txt", std::string("not a tensor"));
  batch.set("json", energon::Mapping{{"width", energon::from_torch(at::arange(2))}});
  const std::map<std::string, at::Tensor> tensors = energon::to_torch(batch);
  REQUIRE(tensors.size() == 2);
  REQUIRE(at::equal(tensors.at("image"), at::arange(6, at::kFloat).reshape({2, 3})));
  REQUIRE(at::equal(tensors.at("json.width"), at::arange(2)));
}
