// Packs and batches as generators, and selections that split or repeat samples, as Energon's
// functions may do with yield and new samples.

#include <numeric>
#include <stdexcept>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "io/error.h"
#include "tests/support/conformance.h"
#include "tests/support/error_of.h"
#include "tests/wrappers/stream_fixture.h"
#include "wrappers/batching/batch.h"
#include "wrappers/batching/packing.h"
#include "wrappers/recipe/pipeline.h"

using energon::CallContext;
using energon::Dataset;
using energon::ErrorCode;
using energon::FieldsGenerator;
using energon::Mapping;
using energon::Packing;
using energon::PackingOptions;
using energon::Sample;
using energon::SamplePart;
using energon::SelectedPart;
using energon::testing::error_of;
using energon::testing::kSkipFailures;
using energon::testing::number;
using energon::testing::NumberedStream;
using Remainder = energon::BatchOptions::Remainder;
using Parts = std::vector<std::vector<SelectedPart>>;

namespace {

// One item for each sample whose number is not divisible by 4, with a random number of the call.
FieldsGenerator one_for_each(std::span<Sample> samples, CallContext& context) {
  const auto noise = static_cast<std::int64_t>(context.rng()());
  return [samples, noise, i = std::size_t{0}]() mutable -> std::optional<Mapping> {
    while (i < samples.size() && number(samples[i]) % 4 == 0) {
      ++i;
    }
    if (i == samples.size()) {
      return std::nullopt;
    }
    const Sample& sample = samples[i++];
    return Mapping{{"number", number(sample)}, {"noise", noise}, {"txt", sample.at("txt")}};
  };
}

std::vector<std::vector<std::size_t>> triples(std::span<const Sample> samples) {
  std::vector<std::vector<std::size_t>> selection;
  for (std::size_t i = 0; i + 2 < samples.size(); i += 3) {
    selection.push_back({i + 2, i, i + 1});
  }
  return selection;
}

// The halves of each sample go into two packs; every fifth sample is used a third time.
Parts halves(std::span<const Sample> samples) {
  Parts selection(2);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    selection[0].push_back({i, {0, 10}});
    selection[1].push_back({i, {10, 20}});
    if (i % 5 == 0) {
      selection[1].push_back({i, {0, 10}});
    }
  }
  return selection;
}

Sample cut(Sample sample, const SamplePart& part) {
  Sample piece;
  piece.fields = {{"txt", sample.at("txt")}, {"begin", part.begin}, {"end", part.end}};
  return piece;
}

Mapping list_pack(std::span<Sample> samples, CallContext& context) {
  Mapping fields = energon::list_fields(samples);
  fields.emplace_back("noise", static_cast<std::int64_t>(context.rng()()));
  return fields;
}

Sample encode_several(Sample sample, CallContext& context) {
  sample.fields.emplace_back("encoded", static_cast<std::int64_t>(context.rng()()));
  return sample;
}

std::unique_ptr<Dataset> several_packing(std::unique_ptr<Dataset> inner, PackingOptions options) {
  return std::make_unique<Packing>(std::move(inner), std::move(options));
}

std::unique_ptr<Dataset> batches(std::unique_ptr<Dataset> inner,
                                 energon::GeneratedBatchOptions options) {
  return energon::generated_batches(std::move(inner), std::move(options));
}

std::int64_t integer(const Sample& sample, std::string_view field) {
  return std::get<std::int64_t>(sample.at(field).base());
}

}  // namespace

TEST_CASE("pack generators conform, and each pack is rebuilt from its key",
          "[wrappers][several_packs][conformance]") {
  NumberedStream samples;
  const bool with_postencode = GENERATE(false, true);
  PackingOptions options{.buffer_size = 7, .select = triples, .pack = one_for_each};
  if (with_postencode) {
    options.postencode = [](Sample sample, CallContext& context) {
      return number(sample) % 6 == 1 ? throw energon::SkipSample()
                                     : encode_several(std::move(sample), context);
    };
  }
  energon::testing::check_conformance<Dataset>(
      [&] { return several_packing(samples.shuffled(), options); }, 90);
}

TEST_CASE("pack generators that fail in the middle conform",
          "[wrappers][several_packs][conformance]") {
  NumberedStream samples;
  PackingOptions options{.buffer_size = 9, .select = triples};
  options.pack = [](std::span<Sample> pack, CallContext& context) -> FieldsGenerator {
    if (context.call() % 5 == 4) {
      throw std::runtime_error("no pack");
    }
    return [pack, call = context.call(), i = std::size_t{0}]() mutable -> std::optional<Mapping> {
      if (call % 3 == 2 && i == 1) {
        throw std::runtime_error("no second one");
      }
      return i < pack.size() ? std::optional(Mapping{{"n", number(pack[i++])}}) : std::nullopt;
    };
  };
  options.pack_stage.policy = kSkipFailures;
  energon::testing::check_conformance<Dataset>(
      [&] { return several_packing(samples.in_order(), options); }, 70);
}

TEST_CASE("each pack of a generator has its number, and all keys", "[wrappers][several_packs]") {
  NumberedStream samples;
  const auto stream = several_packing(samples.in_order(),
                                      {.buffer_size = 3, .select = triples, .pack = one_for_each});
  const auto first = stream->next();
  const auto second = stream->next();
  CHECK(first->restore_key.text() ==
        "Packing(0,0)[Webdataset(0,2),Webdataset(0,0),Webdataset(0,1)]");
  CHECK(second->restore_key.text() ==
        "Packing(0,1)[Webdataset(0,2),Webdataset(0,0),Webdataset(0,1)]");
  CHECK(first->keys == std::vector<std::string>{"000002", "000000", "000001"});
  CHECK(integer(*first, "number") == 2);
  CHECK(integer(*second, "number") == 1);
  CHECK(integer(*first, "noise") == integer(*second, "noise"));
  CHECK(stream->next()->restore_key.text() ==
        "Packing(1,0)[Webdataset(0,5),Webdataset(0,3),Webdataset(0,4)]");
}

TEST_CASE("generators without output end the stream with an Error, not an endless search",
          "[wrappers][several_packs]") {
  NumberedStream samples;
  const energon::BatchGenerator nothing = [](std::span<Sample>, CallContext&) -> FieldsGenerator {
    return nullptr;
  };
  PackingOptions options{.buffer_size = 6, .select = triples, .pack = nothing};
  options.pack_stage.most_left_out = 5;
  CHECK_THROWS_WITH(several_packing(samples.in_order(), options)->next(),
                    Catch::Contains("left out 5"));
  CHECK_THROWS_WITH(batches(samples.in_order(), {.batch_size = 2,
                                                 .function = nothing,
                                                 .stage = {.name = "batch", .most_left_out = 5}})
                        ->next(),
                    Catch::Contains("left out 5"));
}

TEST_CASE("damaged states of a pack generator are refused", "[wrappers][several_packs]") {
  NumberedStream samples;
  const PackingOptions options{.buffer_size = 7, .select = triples, .pack = one_for_each};
  const auto stream = several_packing(samples.in_order(), options);
  stream->skip(1);
  const energon::State good = stream->save_state();
  const auto field = [&good](const std::string& name) {
    for (std::size_t i = 0; i < good.fields.size(); ++i) {
      if (good.fields[i].first == name) {
        return i;
      }
    }
    FAIL("the state has no field " << name);
    return good.fields.size();
  };
  int number = 0;
  for (const auto& [name, value] : std::vector<std::pair<std::string, energon::StateValue>>{
           {"outputs", std::int64_t{-1}}, {"running", "damaged"}, {"running", ""}}) {
    INFO("value " << number++ << " of " << name);
    energon::State state = good;
    state.fields[field(name)].second = value;
    CHECK_THROWS_WITH(stream->restore_state(state), Catch::Contains("Packing: "));
  }
  energon::State longer = good;
  longer.fields[field("outputs")].second = std::int64_t{9};
  stream->restore_state(longer);
  CHECK_THROWS_WITH(stream->next(), Catch::Contains("makes 2 packs") && Catch::Contains("9"));
}

TEST_CASE("selections that split and repeat samples conform, and their packs are rebuilt",
          "[wrappers][several_packs][conformance]") {
  NumberedStream samples;
  const bool with_postencode = GENERATE(false, true);
  const auto max_held_bytes = GENERATE(std::uint64_t{0}, energon::kMaxHeldBytes);
  PackingOptions options{.buffer_size = 6,
                         .select = energon::SelectPartsFunction(halves),
                         .cut = cut,
                         .pack = list_pack,
                         .max_held_bytes = max_held_bytes};
  if (with_postencode) {
    options.postencode = encode_several;
  }
  energon::testing::check_conformance<Dataset>(
      [&] { return several_packing(samples.shuffled(), options); }, 45);
}

TEST_CASE("the key of a part contains the selected range and the key of its sample",
          "[wrappers][several_packs]") {
  NumberedStream samples;
  const auto stream =
      several_packing(samples.in_order(), {.buffer_size = 2,
                                           .select = energon::SelectPartsFunction(halves),
                                           .cut = cut,
                                           .pack = list_pack});
  CHECK(stream->next()->restore_key.text() ==
        "Packing(0)[Packing(0,10)/Webdataset(0,0),Packing(0,10)/Webdataset(0,1)]");
  const auto second = stream->next();
  CHECK(second->restore_key.text() ==
        "Packing(1)[Packing(10,20)/Webdataset(0,0),Packing(0,10)/Webdataset(0,0),"
        "Packing(10,20)/Webdataset(0,1)]");
  CHECK(second->keys == std::vector<std::string>{"000000", "000000", "000001"});
  CHECK(energon::source_of(*second, 1).index_in_shard == 0);
}

TEST_CASE("a part that cannot be cut is left out by the policy", "[wrappers][several_packs]") {
  NumberedStream samples;
  energon::testing::RecordingMonitor monitor;
  PackingOptions options{.buffer_size = 2,
                         .select = energon::SelectPartsFunction(halves),
                         .cut =
                             [](Sample sample, const SamplePart& part) {
                               return part.begin == 10 ? throw std::runtime_error("too short")
                                                       : cut(std::move(sample), part);
                             },
                         .pack = list_pack};
  options.select_stage = {.name = "select", .policy = kSkipFailures, .monitor = monitor};
  const auto stream = several_packing(samples.in_order(), options);
  CHECK(stream->next()->keys.size() == 2);
  CHECK(stream->next()->keys == std::vector<std::string>{"000000"});
  CHECK(monitor.stage("select").failed == 2);
  options.select_stage = {.name = "select"};
  CHECK_THAT(error_of([&] { several_packing(samples.in_order(), options)->next(); },
                      ErrorCode::kUserFunction),
             Catch::Contains("too short") && Catch::Contains("000000"));
}

TEST_CASE("selections of parts that do not exist are Errors", "[wrappers][several_packs]") {
  NumberedStream samples;
  int number = 0;
  for (const SelectedPart selected : {SelectedPart{4, {0, 1}}, SelectedPart{0, {-1, 1}}}) {
    INFO("part " << number++);
    CHECK_THROWS_AS(
        several_packing(samples.in_order(),
                        {.buffer_size = 4,
                         .select = energon::SelectPartsFunction(
                             [&selected](std::span<const Sample>) { return Parts{{selected}}; }),
                         .pack = list_pack})
            ->next(),
        energon::Error);
  }
}

TEST_CASE("batch generators conform, and each batch is rebuilt from its key",
          "[wrappers][several_packs][conformance]") {
  NumberedStream samples;
  const auto remainder = GENERATE(Remainder::kSmallerBatch, Remainder::kDrop);
  energon::testing::check_conformance<Dataset>(
      [&] {
        return batches(samples.shuffled(),
                       {.batch_size = 4, .remainder = remainder, .function = one_for_each});
      },
      90);
}

TEST_CASE("a batch generator takes N samples per call, and drops the rest if requested",
          "[wrappers][several_packs]") {
  NumberedStream samples;
  const auto count = [](std::span<Sample> group, CallContext&) -> FieldsGenerator {
    return [n = static_cast<std::int64_t>(group.size()),
            left = 2]() mutable -> std::optional<Mapping> {
      return left-- > 0 ? std::optional(Mapping{{"samples", n}}) : std::nullopt;
    };
  };
  for (const auto remainder : {Remainder::kSmallerBatch, Remainder::kDrop}) {
    CAPTURE(remainder);
    const auto stream =
        batches(samples.in_order(), {.batch_size = 10, .remainder = remainder, .function = count});
    std::vector<std::int64_t> sizes;
    while (const auto batch = stream->next()) {
      sizes.push_back(integer(*batch, "samples"));
    }
    std::vector<std::int64_t> expected(10, 10);
    if (remainder == Remainder::kSmallerBatch) {
      expected.insert(expected.end(), {5, 5});
    }
    CHECK(sizes == expected);
  }
}

TEST_CASE("a state of another batch size is refused by a batch generator",
          "[wrappers][several_packs]") {
  NumberedStream samples;
  const auto config = [&](std::int64_t batch_size) {
    return batches(samples.in_order(), {.batch_size = batch_size, .function = one_for_each})
        ->config();
  };
  CHECK(config(3) != config(4));
  CHECK(config(3) == config(3));
  CHECK_THROWS_AS(batches(samples.in_order(), {.batch_size = 0, .function = one_for_each}),
                  energon::Error);
  CHECK_THROWS_AS(batches(samples.in_order(), {.batch_size = 1}), energon::Error);
}

TEST_CASE("a whole pipeline of generators conforms", "[wrappers][several_packs][conformance]") {
  const energon::testing::TempDir folder;
  energon::HeapBufferPool memory;
  const auto dataset = energon::testing::numbered_dataset(folder, energon::testing::kTens);
  const auto make = energon::train_pipeline(
      dataset,
      {.task_encoder = {
           .select_samples_to_pack = energon::SelectPartsFunction(halves),
           .cut_selected_sample = cut,
           .postencode_sample = encode_several,
           .pack_selected_samples = [](std::span<Sample> pack, CallContext&) -> FieldsGenerator {
             return [pack, i = std::size_t{0}]() mutable {
               return i < pack.size() ? std::optional(pack[i++].fields) : std::nullopt;
             };
           },
           .batch = [](std::span<Sample> packs, CallContext&) -> FieldsGenerator {
             return [packs, left = 2]() mutable {
               return left-- > 0 ? std::optional(energon::Mapping{{"left", std::int64_t{left}},
                                                                  {"of", packs[0].at("begin")}})
                                 : std::nullopt;
             };
           }},
       .batch_size = 3,
       .packing_buffer_size = 5,
       .shuffle_buffer_size = 7,
       .repeat = false});
  energon::testing::check_conformance<Dataset>([&] { return make({.memory = memory}); }, 95);
}
