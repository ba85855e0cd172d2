#include "wrappers/batching/packing.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "tests/support/conformance.h"
#include "tests/wrappers/stream_fixture.h"
#include "wrappers/batching/batch_functions.h"

using energon::CallContext;
using energon::Dataset;
using energon::Mapping;
using energon::Packing;
using energon::PackingOptions;
using energon::Sample;
using energon::testing::epoch_numbers;
using energon::testing::FailingOnce;
using energon::testing::kSkipFailures;
using energon::testing::number;
using energon::testing::NumberedStream;
using Packs = std::vector<std::vector<std::int64_t>>;
using Selection = std::vector<std::vector<std::size_t>>;

namespace {

Mapping pack_with_noise(std::span<Sample> samples, CallContext& context) {
  Mapping fields = energon::list_fields(samples);
  fields.emplace_back("noise", static_cast<std::int64_t>(context.rng()()));
  return fields;
}

Sample encode(Sample sample, CallContext& context) {
  sample.fields.emplace_back("encoded", static_cast<std::int64_t>(context.rng()()));
  return sample;
}

// Lengths 0 to 6.
std::int64_t number_length(const Sample& sample) { return number(sample) % 7; }

// Pairs of neighbors in the buffer; the last of an odd number is dropped.
Selection pairs(std::span<const Sample> samples) {
  Selection selection;
  for (std::size_t i = 0; i + 1 < samples.size(); i += 2) {
    selection.push_back({i + 1, i});
  }
  return selection;
}

PackingOptions options(std::int64_t buffer_size, energon::SelectFunction select) {
  return {.buffer_size = buffer_size, .select = std::move(select), .pack = pack_with_noise};
}

std::unique_ptr<Dataset> packing(std::unique_ptr<Dataset> inner, PackingOptions settings) {
  return std::make_unique<Packing>(std::move(inner), std::move(settings));
}

}  // namespace

TEST_CASE("packings conform, and their packs are rebuilt from their keys",
          "[wrappers][packing][conformance]") {
  NumberedStream samples;
  const bool with_postencode = GENERATE(false, true);
  const auto max_held_bytes =
      GENERATE(std::uint64_t{0}, std::uint64_t{200}, energon::kMaxHeldBytes);
  PackingOptions settings = options(11, energon::pack_by_length(number_length, 9));
  settings.max_held_bytes = max_held_bytes;
  if (with_postencode) {
    settings.postencode = encode;
  }
  energon::testing::check_conformance<Dataset>(
      [&] { return packing(samples.shuffled(), settings); }, 50);
}

TEST_CASE("a select function draws the same random numbers again",
          "[wrappers][packing][conformance]") {
  NumberedStream samples;
  const PackingOptions settings =
      options(9, [](std::span<const Sample> buffer, CallContext& context) {
        std::vector<std::size_t> order(buffer.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::shuffle(order.begin(), order.end(), context.rng());
        return context.call() % 2 == 0 ? Selection{order} : Selection{{order.front()}};
      });
  energon::testing::check_conformance<Dataset>(
      [&] { return packing(samples.shuffled(), settings); }, 50);
}

TEST_CASE("packings that drop samples conform", "[wrappers][packing][conformance]") {
  NumberedStream samples;
  energon::testing::RecordingMonitor monitor;
  PackingOptions settings = options(9, pairs);
  settings.postencode = [](Sample sample, CallContext& context) {
    return number(sample) % 5 == 0 ? throw energon::SkipSample()
                                   : encode(std::move(sample), context);
  };
  settings.pack = [](std::span<Sample> pack, CallContext& context) {
    return context.call() % 6 == 5 ? throw std::runtime_error("no room")
                                   : pack_with_noise(pack, context);
  };
  settings.pack_stage.policy = kSkipFailures;
  energon::testing::check_conformance<Dataset>(
      [&] { return packing(samples.in_order(), settings); }, 50);
}

TEST_CASE("the buffer is refilled after each pack, and select sees all of it",
          "[wrappers][packing]") {
  NumberedStream samples;
  std::vector<std::size_t> seen;
  std::vector<std::int64_t> first;
  const auto stream =
      packing(samples.in_order(), options(6, [&](std::span<const Sample> buffer) {
                seen.push_back(buffer.size());
                first.push_back(number(buffer[0]));
                return buffer.size() < 6 ? pairs(buffer) : Selection{{0, 1, 2}, {}, {5}};
              }));
  CHECK_FALSE(stream->size());
  const Packs packs = epoch_numbers(*stream);
  CHECK(Packs(packs.begin(), packs.begin() + 4) == Packs{{0, 1, 2}, {5}, {6, 7, 8}, {11}});
  CHECK(seen == std::vector<std::size_t>{6, 6, 6, 6, 6, 6, 6, 6, 6, 1});
  CHECK(first == std::vector<std::int64_t>{0, 6, 12, 18, 24, 30, 36, 42, 48, 54});
  stream->next_epoch();
  CHECK(epoch_numbers(*stream) == packs);
}

TEST_CASE("samples that were not selected are counted as skipped", "[wrappers][packing]") {
  NumberedStream samples;
  energon::testing::RecordingMonitor monitor;
  PackingOptions settings = options(11, pairs);
  settings.select_stage.monitor = monitor;
  const auto stream = packing(samples.in_order(), settings);
  CHECK(epoch_numbers(*stream).size() == 25);
  CHECK(monitor.stage("select").skipped == 5);
  CHECK(monitor.stage("select").failed == 0);
  CHECK(monitor.drops() == 5);
}

TEST_CASE("too many buffers in a row without a pack are an Error", "[wrappers][packing]") {
  NumberedStream samples;
  PackingOptions settings = options(5, [](std::span<const Sample> buffer) {
    return number(buffer[0]) == 15 ? Selection{{0}} : Selection{};
  });
  settings.tolerance = 3;
  const auto stream = packing(samples.in_order(), settings);
  CHECK(energon::testing::numbers(*stream->next()) == std::vector<std::int64_t>{15});
  CHECK_THROWS_WITH(stream->next(), Catch::Contains("no pack from 4 buffers of 5 samples") &&
                                        Catch::Contains("tolerance is 3"));
  settings.tolerance = 100;
  const auto tolerant = packing(samples.in_order(), settings);
  CHECK(epoch_numbers(*tolerant) == Packs{{15}});
}

TEST_CASE("selections that name a sample twice, or a missing one, are Errors",
          "[wrappers][packing]") {
  NumberedStream samples;
  for (const Selection& selection : {Selection{{0, 4}}, Selection{{0}, {1, 0}}}) {
    CAPTURE(selection);
    PackingOptions settings =
        options(4, [&selection](std::span<const Sample>) { return selection; });
    settings.select_stage.policy = kSkipFailures;
    CHECK_THROWS_WITH(packing(samples.in_order(), settings)->next(),
                      Catch::Contains("selection 0 names position"));
  }
  PackingOptions nameless = options(
      4, [](std::span<const Sample>) -> Selection { throw energon::UnpackableSamples({}, "?"); });
  nameless.select_stage.policy = kSkipFailures;
  CHECK_THROWS_WITH(packing(samples.in_order(), nameless)->next(), Catch::Contains("lists none"));
}

TEST_CASE("each part of packing has its own policy", "[wrappers][packing]") {
  NumberedStream samples;
  energon::testing::RecordingMonitor monitor;
  PackingOptions settings = options(6, [](std::span<const Sample> buffer) {
    return number(buffer[0]) == 6 ? throw std::runtime_error("no model") : pairs(buffer);
  });
  settings.postencode = [](Sample sample, CallContext& context) {
    return number(sample) <= 2 ? throw std::runtime_error("no image")
                               : encode(std::move(sample), context);
  };
  settings.pack = [](std::span<Sample> pack, CallContext& context) {
    return number(pack[0]) == 3 ? throw std::runtime_error("no room")
                                : pack_with_noise(pack, context);
  };
  settings.select_stage = {.name = "select", .policy = kSkipFailures, .monitor = monitor};
  settings.postencode_stage = {.name = "postencode", .policy = kSkipFailures, .monitor = monitor};
  settings.pack_stage = {.name = "pack", .policy = kSkipFailures, .monitor = monitor};
  const auto stream = packing(samples.in_order(), settings);
  // {1, 0} has no sample left; {3, 2} has only one, and fails as a pack; {5, 4} succeeds; the
  // samples from 6 to 11 were never selected.
  const auto first = stream->next();
  CHECK(first->keys == std::vector<std::string>{"000005", "000004"});
  CHECK(first->restore_key.text() == "Packing(1)[Map(4)/Webdataset(0,5),Map(5)/Webdataset(0,4)]");
  CHECK(stream->next()->keys == std::vector<std::string>{"000013", "000012"});
  CHECK(monitor.stage("postencode").failed == 3);
  CHECK(monitor.stage("pack").failed == 1);
  CHECK(monitor.stage("select").failed == 6);
}

TEST_CASE("samples that do not fit into a pack are left out by the policy", "[wrappers][packing]") {
  NumberedStream samples;
  energon::testing::RecordingMonitor monitor;
  PackingOptions settings = options(11, energon::pack_by_length(number_length, 5));
  settings.select_stage = {.name = "select", .policy = kSkipFailures, .monitor = monitor};
  std::size_t packed = 0;
  for (const auto& pack : epoch_numbers(*packing(samples.in_order(), settings))) {
    CAPTURE(pack);
    packed += pack.size();
    CHECK(std::none_of(pack.begin(), pack.end(), [](auto n) { return n % 7 == 6; }));
  }
  CHECK(packed == 48);
  CHECK(monitor.stage("select").failed == 7);
  CHECK(monitor.reports().at(0).samples.at(0).key == "000006");
  settings.select_stage = {.name = "select"};
  try {
    packing(samples.in_order(), settings)->next();
    FAIL_CHECK("a sample of length 6 went into packs of 5");
  } catch (const energon::Error& error) {
    CHECK_THAT(error.what(), Catch::Contains("length 6") && Catch::Contains("000006"));
  }
}

TEST_CASE("after a restore packs are read one by one", "[wrappers][packing]") {
  NumberedStream samples;
  const PackingOptions settings = options(10, pairs);
  const auto stream = packing(samples.in_order(), settings);
  stream->skip(2);
  auto inner = std::make_unique<FailingOnce>(samples.in_order(), -1);
  const FailingOnce& counter = *inner;
  const auto resumed = packing(std::move(inner), settings);
  resumed->restore_state(stream->save_state());
  CHECK(counter.restored() == 0);
  for (int pack = 1; pack <= 3; ++pack) {
    CAPTURE(pack);
    CHECK(energon::testing::label(*resumed->next()) == energon::testing::label(*stream->next()));
    CHECK(counter.restored() == 2 * pack);
  }
  // Two of the next ten were read before the state was saved, and wait in it.
  CHECK(energon::testing::label(*resumed->next()) == energon::testing::label(*stream->next()));
  CHECK(counter.restored() == 6 + 2);
}

TEST_CASE("an epoch that ends in the middle of the packs has no effect on the next",
          "[wrappers][packing]") {
  NumberedStream samples;
  const auto stream = packing(samples.in_order(), options(10, pairs));
  stream->skip(2);
  stream->next_epoch();
  CHECK(stream->next()->keys == packing(samples.in_order(), options(10, pairs))->next()->keys);
}

TEST_CASE("damaged states and impossible packings are refused", "[wrappers][packing]") {
  NumberedStream samples;
  const auto stream = packing(samples.in_order(), options(10, pairs));
  stream->skip(2);
  const energon::State good = stream->save_state();
  using Integers = std::vector<std::int64_t>;
  int number = 0;
  for (const auto& [field, value] : std::vector<std::pair<std::size_t, energon::StateValue>>{
           {0, std::int64_t{-1}},
           {1, std::int64_t{-1}},
           {2, std::int64_t{-1}},
           {3, "damaged"},
           {4, std::string(4, '\0')},
           {5, Integers{2, 2, 1}},
           {5, Integers{2, 2, 3}},
           {5, Integers{6, 0}},
           {5, Integers{INT64_MAX, INT64_MAX, 8}}}) {
    INFO("value " << number++ << " of field " << field);
    energon::State state = good;
    state.fields[field].second = value;
    CHECK_THROWS_WITH(stream->restore_state(state), Catch::Contains("Packing: "));
  }
  CHECK(stream->save_state() == good);
  CHECK_THROWS_WITH(packing(samples.in_order(), options(7, pairs))->restore_state(good),
                    Catch::Contains("8 buffered samples, expected at most 7"));
  CHECK_THROWS_AS(packing(samples.in_order(), options(0, pairs)), energon::Error);
  CHECK_THROWS_AS(packing(samples.in_order(), options(1, nullptr)), energon::Error);
  CHECK_THROWS_AS(packing(samples.in_order(), {.select = pairs}), energon::Error);
}
