#include "wrappers/batching/sort_pool.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "energon/sample/buffer_allocator.h"
#include "io/error.h"
#include "tests/support/conformance.h"
#include "tests/support/error_of.h"
#include "tests/support/memory_leaf.h"
#include "tests/wrappers/stream_fixture.h"
#include "wrappers/recipe/pipeline.h"
#include "wrappers/watch/timed_stage.h"

using energon::CallContext;
using energon::Dataset;
using energon::ErrorCode;
using energon::Sample;
using energon::SortPool;
using energon::SortPoolOptions;
using energon::testing::FailingOnce;
using energon::testing::kSkipFailures;
using energon::testing::number;
using energon::testing::NumberedStream;
using energon::testing::RecordingMonitor;
using Numbers = std::vector<std::int64_t>;

namespace {

// Each cost occurs several times in a pool.
double cost_of(std::int64_t number) { return static_cast<double>(number * 7 % 5) - 1.5; }

double by_number(const Sample& sample) { return cost_of(number(sample)); }

std::unique_ptr<Dataset> sorted(std::unique_ptr<Dataset> inner, SortPoolOptions options = {}) {
  if (!options.cost) {
    options.cost = by_number;
  }
  return std::make_unique<SortPool>(std::move(inner), std::move(options));
}

Numbers rest_of_epoch(Dataset& stream) {
  Numbers numbers;
  while (const auto sample = stream.next()) {
    numbers.push_back(number(*sample));
  }
  return numbers;
}

// `numbers`, each `pool_size` of them sorted.
Numbers sorted_in_pools(Numbers numbers, std::size_t pool_size, bool descending = false) {
  for (std::size_t begin = 0; begin < numbers.size(); begin += pool_size) {
    const auto first = numbers.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last =
        numbers.begin() + static_cast<std::ptrdiff_t>(std::min(begin + pool_size, numbers.size()));
    std::stable_sort(first, last, [descending](std::int64_t a, std::int64_t b) {
      return descending ? cost_of(a) > cost_of(b) : cost_of(a) < cost_of(b);
    });
  }
  return numbers;
}

// Cannot rebuild samples while `is_broken`.
class Breaking final : public energon::PassThrough {
 public:
  Breaking(std::unique_ptr<Dataset> inner, const bool& is_broken)
      : PassThrough(std::move(inner)), is_broken_(is_broken) {}
  Sample restore_sample(const energon::RestoreKey& key) override {
    return is_broken_ ? throw energon::Error(ErrorCode::kIo, "the disk is gone")
                      : inner().restore_sample(key);
  }

 private:
  const bool& is_broken_;
};

}  // namespace

TEST_CASE("sort pools conform", "[wrappers][sort_pool][conformance]") {
  NumberedStream samples;
  const auto pool_size = GENERATE(std::int64_t{1}, std::int64_t{11}, std::int64_t{100});
  const auto max_held_bytes =
      GENERATE(std::uint64_t{0}, std::uint64_t{300}, energon::kMaxHeldBytes);
  energon::testing::check_conformance<Dataset>(
      [&] {
        return sorted(samples.shuffled(),
                      {.pool_size = pool_size, .max_held_bytes = max_held_bytes});
      },
      120);
}

TEST_CASE("sort pools that leave out samples conform", "[wrappers][sort_pool][conformance]") {
  NumberedStream samples;
  const SortPoolOptions options = {.cost =
                                       [](const Sample& sample, CallContext& context) {
                                         if (number(sample) % 7 == 2) {
                                           throw energon::SkipSample();
                                         }
                                         return context.call() % 9 == 4
                                                    ? throw std::runtime_error("no length")
                                                    : context.rng().uniform();
                                       },
                                   .pool_size = 8,
                                   .stage = {.name = "cost", .policy = kSkipFailures}};
  const auto make = [&] { return sorted(samples.shuffled(), options); };
  // Not check_conformance(): size() includes the samples that are left out.
  const auto reference = energon::testing::steps(*make(), 120);
  for (std::size_t i = 0; i <= reference.size(); ++i) {
    CAPTURE(i);
    const auto stream = make();
    energon::testing::steps(*stream, i);
    const auto resumed = make();
    resumed->restore_state(stream->save_state());
    CHECK(energon::testing::steps(*resumed, reference.size() - i) ==
          std::vector(reference.begin() + static_cast<std::ptrdiff_t>(i), reference.end()));
  }
  const auto epoch =
      std::ranges::find(reference, energon::testing::kEndOfEpoch) - reference.begin();
  for (std::ptrdiff_t count = 0; count <= epoch; ++count) {
    CAPTURE(count);
    const auto stream = make();
    CHECK(stream->skip(count) == count);
    CHECK(energon::testing::steps(*stream, 60) ==
          std::vector(reference.begin() + count, reference.begin() + count + 60));
  }
  CHECK(make()->skip(1000) == epoch);
}

TEST_CASE("each pool is sorted stably, in each epoch", "[wrappers][sort_pool]") {
  NumberedStream samples;
  const bool descending = GENERATE(false, true);
  const auto pool_size = GENERATE(1U, 2U, 11U, 16U, 55U, 56U, 2000U);
  CAPTURE(descending, pool_size);
  const auto inner = samples.shuffled();
  const auto stream =
      sorted(samples.shuffled(), {.pool_size = pool_size, .descending = descending});
  CHECK(stream->size() == 55);
  for (int epoch = 0; epoch < 3; ++epoch) {
    CAPTURE(epoch);
    CHECK(rest_of_epoch(*stream) == sorted_in_pools(rest_of_epoch(*inner), pool_size, descending));
    stream->next_epoch();
    inner->next_epoch();
  }
}

TEST_CASE("samples pass a sort pool unchanged, one by one or together", "[wrappers][sort_pool]") {
  NumberedStream samples;
  const auto stream = sorted(samples.in_order(), {.pool_size = 8});
  const auto inner = samples.in_order();
  std::vector<Sample> many;
  sorted(samples.in_order(), {.pool_size = 8})->next_many(60, many);
  REQUIRE(many.size() == 55);
  for (const Sample& one_of_many : many) {
    const auto sample = stream->next();
    CHECK(energon::testing::label(one_of_many) == energon::testing::label(*sample));
    CHECK(energon::testing::label(inner->restore_sample(sample->restore_key)) ==
          energon::testing::label(*sample));
  }
  CHECK_FALSE(stream->next());
}

TEST_CASE("infinite costs are sorted, too", "[wrappers][sort_pool]") {
  NumberedStream samples;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto stream = sorted(samples.in_order(), {.cost =
                                                      [](const Sample& sample) {
                                                        const std::int64_t n = number(sample);
                                                        return n == 1   ? -kInfinity
                                                               : n == 0 ? kInfinity
                                                                        : static_cast<double>(n);
                                                      },
                                                  .pool_size = 4});
  const Numbers all = rest_of_epoch(*stream);
  CHECK(Numbers(all.begin(), all.begin() + 5) == Numbers{1, 2, 3, 0, 4});
}

TEST_CASE("a pool goes over the ends of passes only if the inner stream does",
          "[wrappers][sort_pool]") {
  const energon::PipelineData data{
      std::make_shared<const energon::testing::MemoryLeaf>("", std::vector<std::int64_t>{5})};
  const bool repeat = GENERATE(false, true);
  energon::TrainOptions options = {
      .sort_pool_size = 4, .shuffle_over_epochs = {}, .parallel_slices = 1, .repeat = repeat};
  options.task_encoder.cost = [](const Sample&, CallContext& context) {
    return static_cast<double>(-context.call());  // reverses each pool
  };
  energon::HeapBufferPool memory;
  const auto inner =
      energon::train_pipeline(data, {.parallel_slices = 1, .repeat = repeat})({.memory = memory});
  const auto stream = energon::train_pipeline(data, options)({.memory = memory});
  const auto pool = [&](int size) {
    Numbers numbers;
    for (int i = 0; i < size; ++i) {
      numbers.push_back(number(*inner->next()));
    }
    std::ranges::reverse(numbers);
    return numbers;
  };
  const auto next = [&](int size) {
    Numbers numbers;
    for (int i = 0; i < size; ++i) {
      numbers.push_back(number(*stream->next()));
    }
    return numbers;
  };
  CHECK(next(4) == pool(4));
  if (repeat) {
    CHECK(next(4) == pool(4));
    return;
  }
  CHECK(next(1) == pool(1));
  CHECK_FALSE(stream->next());
  CHECK_FALSE(inner->next());
  stream->next_epoch();
  inner->next_epoch();
  CHECK(next(4) == pool(4));
}

TEST_CASE("an epoch that is left in the middle leaves nothing in the pool",
          "[wrappers][sort_pool]") {
  NumberedStream samples;
  const auto stream = sorted(samples.in_order(), {.pool_size = 10});
  stream->skip(3);
  CHECK(stream->save_state().bytes("pool").size() > 4);
  stream->next_epoch();
  CHECK(stream->save_state().bytes("pool") == std::string(4, '\0'));
}

TEST_CASE("after a restore samples are read one by one, and costs are not computed again",
          "[wrappers][sort_pool]") {
  NumberedStream samples;
  int calls = 0;
  const SortPoolOptions options = {.cost =
                                       [&calls](const Sample& sample) {
                                         ++calls;
                                         return by_number(sample);
                                       },
                                   .pool_size = 10};
  const auto stream = sorted(samples.in_order(), options);
  stream->skip(4);
  auto inner = std::make_unique<FailingOnce>(samples.in_order(), -1);
  const FailingOnce& counter = *inner;
  const auto resumed = sorted(std::move(inner), options);
  calls = 0;
  resumed->restore_state(stream->save_state());
  CHECK(counter.restored() == 0);
  CHECK(resumed->skip(1) == 1);  // not rebuilt
  stream->skip(1);
  for (int sample = 1; sample <= 5; ++sample) {
    CAPTURE(sample);
    CHECK(energon::testing::label(*resumed->next()) == energon::testing::label(*stream->next()));
    CHECK(counter.restored() == sample);
  }
  CHECK(calls == 0);
  CHECK(energon::testing::label(*resumed->next()) == energon::testing::label(*stream->next()));
  CHECK(counter.restored() == 5);
  CHECK(calls == 20);  // the next pool, of both
}

TEST_CASE("samples that do not fit into the memory of a pool are read again",
          "[wrappers][sort_pool]") {
  NumberedStream samples;
  auto inner = std::make_unique<FailingOnce>(samples.in_order(), -1);
  const FailingOnce& counter = *inner;
  const auto stream = sorted(std::move(inner), {.pool_size = 10, .max_held_bytes = 0});
  CHECK(stream->skip(7) == 7);
  CHECK(counter.restored() == 0);
  CHECK(rest_of_epoch(*stream).size() == 48);
  CHECK(counter.restored() == 48);
}

TEST_CASE("a sample whose cost fails is left out, or ends the stream, by the policy",
          "[wrappers][sort_pool]") {
  NumberedStream samples;
  RecordingMonitor monitor;
  SortPoolOptions options = {.cost =
                                 [](const Sample& sample) {
                                   const std::int64_t n = number(sample);
                                   if (n == 4) {
                                     throw energon::SkipSample();
                                   }
                                   if (n == 12) {
                                     return std::numeric_limits<double>::quiet_NaN();
                                   }
                                   return n == 3 ? throw std::runtime_error("no length")
                                                 : by_number(sample);
                                 },
                             .pool_size = 10,
                             .stage = {.name = "length", .monitor = monitor}};
  const auto strict = sorted(samples.in_order(), options);
  try {
    strict->next();
    FAIL_CHECK("a sample without a cost was sorted");
  } catch (const energon::Error& error) {
    CHECK(error.code() == ErrorCode::kUserFunction);
    CHECK_THAT(error.what(), Catch::Contains("length") && Catch::Contains("no length") &&
                                 Catch::Contains("000003"));
  }
  CHECK(strict->save_state().bytes("pool") == std::string(4, '\0'));

  options.stage.policy = kSkipFailures;
  Numbers usable;
  for (std::int64_t n = 0; n < 55; ++n) {
    if (n != 3 && n != 4 && n != 12) {
      usable.push_back(n);
    }
  }
  CHECK(rest_of_epoch(*sorted(samples.in_order(), options)) == sorted_in_pools(usable, 10));
  CHECK(monitor.stage("length").failed == 2);
  CHECK(monitor.stage("length").skipped == 1);
  REQUIRE(monitor.reports().size() == 2);
  CHECK(monitor.reports()[0].samples.at(0).key == "000003");
  CHECK(monitor.reports()[1].samples.at(0).key == "000012");
  CHECK_THAT(monitor.reports()[1].cause, Catch::Contains("NaN"));
}

TEST_CASE("a NaN is an Error that names the sample", "[wrappers][sort_pool]") {
  NumberedStream samples;
  const auto stream =
      sorted(samples.in_order(),
             {.cost = [](const Sample&) { return std::numeric_limits<double>::quiet_NaN(); }});
  const std::string text =
      energon::testing::error_of([&] { stream->next(); }, ErrorCode::kInvalidArgument);
  CHECK_THAT(text, Catch::Contains("the cost of the sample is NaN") && Catch::Contains("000000"));
}

TEST_CASE("an endless stream without any usable cost is an Error", "[wrappers][sort_pool]") {
  const auto leaf =
      std::make_shared<const energon::testing::MemoryLeaf>("", std::vector<std::int64_t>{20});
  energon::TrainOptions options = {.sort_pool_size = 7};
  options.task_encoder.cost = [](const Sample&) -> double { throw energon::SkipSample(); };
  energon::HeapBufferPool memory;
  const auto stream = energon::train_pipeline({leaf}, options)({.memory = memory});
  CHECK_THROWS_WITH(stream->next(), Catch::Contains("stage 'sample_cost' left out"));
}

TEST_CASE("a sample that cannot be rebuilt is an Error, and the stream continues with it",
          "[wrappers][sort_pool]") {
  NumberedStream samples;
  const auto whole = sorted(samples.in_order(), {.pool_size = 10});
  whole->skip(3);
  const energon::State state = whole->save_state();
  bool is_broken = true;
  const auto stream =
      sorted(std::make_unique<Breaking>(samples.in_order(), is_broken), {.pool_size = 10});
  stream->restore_state(state);
  CHECK_THROWS_WITH(stream->next(),
                    Catch::Contains("cannot be rebuilt") && Catch::Contains("the disk is gone"));
  is_broken = false;
  CHECK(rest_of_epoch(*stream) == rest_of_epoch(*whole));
}

TEST_CASE("a cost draws the same random numbers again, and not those of other stages",
          "[wrappers][sort_pool]") {
  NumberedStream samples;
  const auto draws = [&](const std::string& name, std::uint32_t seed) {
    std::vector<double> drawn;
    rest_of_epoch(*sorted(samples.in_order(), {.cost =
                                                   [&drawn](const Sample&, CallContext& context) {
                                                     drawn.push_back(context.rng().uniform());
                                                     return drawn.back();
                                                   },
                                               .pool_size = 20,
                                               .stage = {.name = name, .seed = seed}}));
    CHECK(std::set(drawn.begin(), drawn.end()).size() == 55);
    return drawn;
  };
  CHECK(draws("cost", 1) == draws("cost", 1));
  CHECK(draws("cost", 1) != draws("cost", 2));
  CHECK(draws("cost", 1) != draws("noise", 1));
}

TEST_CASE("damaged states and impossible sort pools are refused", "[wrappers][sort_pool]") {
  NumberedStream samples;
  const auto stream = sorted(samples.in_order(), {.pool_size = 10});
  stream->skip(3);
  const energon::State good = stream->save_state();
  REQUIRE(good.fields.size() == 2);
  const std::string& pool = good.bytes("pool");
  for (std::size_t length = 0; length < pool.size(); ++length) {
    CAPTURE(length);
    energon::State state = good;
    state.fields[1].second = pool.substr(0, length);
    CHECK_THROWS_WITH(stream->restore_state(state), Catch::Contains("SortPool: "));
  }
  energon::State negative = good;
  negative.fields[0].second = std::int64_t{-1};
  CHECK_THROWS_WITH(stream->restore_state(negative), Catch::Contains("SortPool: "));
  CHECK(stream->save_state() == good);
  CHECK_THROWS_WITH(sorted(samples.in_order(), {.pool_size = 6})->restore_state(good),
                    Catch::Contains("7 samples in the pool, expected at most 6"));
  CHECK_THROWS_WITH(SortPool(samples.in_order(), {}), Catch::Contains("needs a cost function"));
  for (const std::int64_t pool_size : {INT64_MIN, std::int64_t{0}, (std::int64_t{1} << 24) + 1}) {
    CHECK_THROWS_WITH(sorted(samples.in_order(), {.pool_size = pool_size}),
                      Catch::Contains("sort pool size is " + std::to_string(pool_size)));
  }
}

TEST_CASE("the configuration names what the order depends on", "[wrappers][sort_pool]") {
  NumberedStream samples;
  const energon::Config config =
      sorted(samples.in_order(),
             {.pool_size = 9, .descending = true, .stage = {.name = "length", .seed = 3}})
          ->config();
  CHECK(config["type"] == "SortPool");
  CHECK(config["name"] == "length");
  CHECK(config["pool_size"] == 9);
  CHECK(config["descending"] == true);
  CHECK(config["seed"] == 3);
  CHECK(config["inner"] == samples.in_order()->config());
}

TEST_CASE("a pipeline needs both sort_pool_size and a cost", "[wrappers][sort_pool][pipeline]") {
  const energon::PipelineData data{
      std::make_shared<const energon::testing::MemoryLeaf>("", std::vector<std::int64_t>{20})};
  const auto refused = [&](std::optional<std::int64_t> pool_size, energon::CostFunction cost) {
    energon::TrainOptions train = {.sort_pool_size = pool_size};
    energon::ValOptions val = {.sort_pool_size = pool_size};
    train.task_encoder.cost = val.task_encoder.cost = std::move(cost);
    const std::string text = energon::testing::error_of([&] { train_pipeline(data, train); },
                                                        ErrorCode::kInvalidArgument);
    CHECK(text == energon::testing::error_of([&] { val_pipeline(data, val); },
                                             ErrorCode::kInvalidArgument));
    return text;
  };
  CHECK_THAT(refused(5, nullptr), Catch::Contains("set TaskEncoder::cost"));
  CHECK_THAT(refused(std::nullopt, by_number), Catch::Contains("set sort_pool_size"));
  CHECK_THAT(refused(0, by_number), Catch::Contains("sort_pool_size must be at least 1"));
  CHECK(refused(5, by_number) == "no error");
}

TEST_CASE("pipelines sort encoded samples before they are batched",
          "[wrappers][sort_pool][pipeline]") {
  const energon::PipelineData data{
      std::make_shared<const energon::testing::MemoryLeaf>("", std::vector<std::int64_t>{23})};
  energon::ValOptions options = {.batch_size = 3, .sort_pool_size = 8};
  options.task_encoder.encode_sample = energon::MapFunction([](Sample sample, CallContext&) {
    sample.fields = {{"cost", cost_of(number(sample))}};
    return sample;
  });
  options.task_encoder.cost = [](const Sample& sample) {
    return std::get<double>(sample.fields.at(0).second);
  };
  energon::HeapBufferPool memory;
  const auto stream = energon::val_pipeline(data, options)({.memory = memory});
  Numbers numbers;
  for (const auto& batch : energon::testing::epoch_numbers(*stream)) {
    numbers.insert(numbers.end(), batch.begin(), batch.end());
  }
  Numbers expected(23);
  std::iota(expected.begin(), expected.end(), std::int64_t{0});
  CHECK(numbers == sorted_in_pools(expected, 8));
}
