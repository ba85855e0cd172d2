#include "wrappers/stages/tokenize.h"

#include <algorithm>
#include <cstdint>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "energon/loader/savable_data_loader.h"
#include "tests/support/call_function.h"
#include "tests/support/error_of.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"
#include "tests/wrappers/tensor_samples.h"
#include "wrappers/batching/ragged_batch.h"
#include "wrappers/recipe/order_pipeline.h"
#include "wrappers/recipe/pipeline.h"

using energon::CallRng;
using energon::DType;
using energon::Error;
using energon::ErrorCode;
using energon::List;
using energon::Sample;
using energon::Tensor;
using energon::TokenizeOptions;
using energon::Value;
using energon::testing::call_function;
using energon::testing::elements_of;
using energon::testing::error_of;
using energon::testing::TarBuilder;
using energon::testing::TempDir;

namespace {

using Ids = std::vector<std::int32_t>;

// One token for each byte, and 0 after the last. Drawn tokens start with a drawn one.
class ByteTokenizer final : public energon::Tokenizer {
 public:
  explicit ByteTokenizer(bool draws = false) : draws_(draws) {}

  Ids tokens(std::string_view text) const override {
    if (text == "bad") {
      throw Error(ErrorCode::kInvalidArgument, "no tokens for this");
    }
    Ids ids(text.begin(), text.end());
    ids.push_back(0);
    return ids;
  }
  Ids drawn_tokens(std::string_view text, CallRng& rng) const override {
    Ids ids = tokens(text);
    if (draws_) {
      ids.insert(ids.begin(), static_cast<std::int32_t>(rng.integer(1'000'000)));
    }
    return ids;
  }
  std::string text(std::span<const std::int32_t> ids) const override {
    return {ids.begin(), ids.end()};
  }
  std::int32_t vocabulary_size() const override { return 1'000'000; }
  energon::SpecialTokens special_tokens() const override { return {.end = 0}; }

 private:
  const bool draws_;
};

TokenizeOptions byte_tokens(bool draws = false) {
  return {.tokenizer = std::make_shared<ByteTokenizer>(draws)};
}

Sample made(const TokenizeOptions& options, Value text) {
  Sample sample;
  sample.set("txt", std::move(text));
  return call_function(energon::tokenize_fields(options), sample);
}

std::string refused(const TokenizeOptions& options, Value text, ErrorCode code) {
  return error_of([&] { made(options, std::move(text)); }, code);
}

// Texts "t", "tt", …, but number `bad` (from 0) is "bad".
void write_texts(const TempDir& folder, std::size_t count, std::size_t bad = 1000) {
  TarBuilder tar;
  for (std::size_t i = 0; i < count; ++i) {
    tar.file("s" + std::to_string(i) + ".txt", i == bad ? "bad" : std::string(i + 1, 't'));
  }
  folder.write("a.tar", tar.end().text());
}

energon::TrainOptions training(const TokenizeOptions& tokens) {
  energon::TrainOptions options{.batch_size = 2, .shuffle_buffer_size = 5, .repeat = false};
  options.task_encoder.tokenizer = tokens;
  options.task_encoder.batch = energon::ragged_fields({.fields = {"tokens"}});
  return options;
}

}  // namespace

TEST_CASE("tokenize turns a string into an int32 tensor", "[wrappers][tokenize]") {
  const Sample sample = made(byte_tokens(), Value("hi"));
  CHECK(sample.text("txt") == "hi");
  CHECK(sample.tensor("tokens").dtype == DType::kInt32);
  CHECK(sample.tensor("tokens").shape == std::vector<std::int64_t>{3});
  CHECK(elements_of<std::int32_t>(sample.tensor("tokens")) == Ids{'h', 'i', 0});
  const std::string bytes = "\xC3\xA9";
  CHECK(made(byte_tokens(), energon::SharedBytes{energon::as_bytes(bytes), nullptr})
            .tensor("tokens")
            .shape[0] == 3);
  const Sample list = made(byte_tokens(), List{Value("a"), Value("")});
  REQUIRE(list.list("tokens").size() == 2);
  CHECK(elements_of<std::int32_t>(std::get<Tensor>(list.list("tokens")[1].base())) == Ids{0});
}

TEST_CASE("tokenize replaces a field, or adds several", "[wrappers][tokenize]") {
  TokenizeOptions options = byte_tokens();
  options.fields = {{"txt", "copy"}, {"txt", "txt"}};
  const Sample sample = made(options, Value("a"));
  REQUIRE(sample.fields.size() == 2);
  CHECK(elements_of<std::int32_t>(sample.tensor("txt")) == Ids{'a', 0});
  CHECK(elements_of<std::int32_t>(sample.tensor("copy")) == Ids{'a', 0});
}

TEST_CASE("long texts are truncated and keep the end token", "[wrappers][tokenize]") {
  TokenizeOptions options = byte_tokens();
  options.max_length = 3;
  CHECK(elements_of<std::int32_t>(made(options, Value("abcdef")).tensor("tokens")) ==
        Ids{'a', 'b', 0});
  CHECK(elements_of<std::int32_t>(made(options, Value("ab")).tensor("tokens")) == Ids{'a', 'b', 0});
  options.max_length = 1;
  CHECK(elements_of<std::int32_t>(made(options, Value("ab")).tensor("tokens")) == Ids{0});
}

TEST_CASE("fields without text are refused by name", "[wrappers][tokenize]") {
  using Catch::Contains;
  CHECK_THAT(refused(byte_tokens(), Value(std::int64_t{3}), ErrorCode::kInvalidArgument),
             Contains("'txt'") && Contains("found the integer 3"));
  CHECK_THAT(refused(byte_tokens(), Value("\xFF"), ErrorCode::kCorruptData), Contains("'txt'"));
  CHECK_THAT(refused(byte_tokens(), Value("bad"), ErrorCode::kInvalidArgument),
             Contains("'txt': no tokens for this"));
  TokenizeOptions other = byte_tokens();
  other.fields = {{"caption", "tokens"}};
  CHECK_THAT(refused(other, Value("a"), ErrorCode::kNotFound), Contains("caption"));
}

TEST_CASE("impossible options of tokenize are refused", "[wrappers][tokenize]") {
  const auto refusal = [](const TokenizeOptions& options) {
    return error_of([&] { validate(options); }, ErrorCode::kInvalidArgument);
  };
  using Catch::Contains;
  CHECK_THAT(refusal({}), Contains("needs a tokenizer"));
  TokenizeOptions options = byte_tokens();
  options.max_length = 0;
  CHECK_THAT(refusal(options), Contains("max_length"));
  options = byte_tokens();
  options.fields = {{"txt", ""}};
  CHECK_THAT(refusal(options), Contains("need a name"));
  options.fields = {{"txt", "x"}, {"json", "x"}};
  CHECK_THAT(refusal(options), Contains("'x'"));
  energon::TrainOptions encoder;
  encoder.task_encoder.tokenizer = options;
  const TempDir folder;
  write_texts(folder, 1);
  CHECK_THROWS_AS(energon::train_dataset(folder.path(), {}, encoder), Error);
}

TEST_CASE("tokens are made in workers, and again from a restore key",
          "[wrappers][tokenize][fork]") {
  const TempDir folder;
  write_texts(folder, 23);
  const auto make = energon::train_dataset(folder.path(), {}, training(byte_tokens(true)));
  energon::SavableDataLoader loader(make, {.worker_config = {.num_workers = 2}});
  std::vector<std::uint64_t> digests;
  std::vector<Sample> batches;
  energon::SavableDataLoaderState state;
  while (auto batch = loader.next()) {
    digests.push_back(digest(*batch));
    batches.push_back(std::move(*batch));
    if (batches.size() == 4) {
      state = loader.save_state_rank();
    }
  }
  REQUIRE(batches.size() == 12);
  const auto tokens = energon::Ragged::from(batches[0].at("tokens"));
  CHECK(tokens.size() == 2);
  CHECK(static_cast<std::size_t>(tokens.length(0)) == batches[0].text_list("txt").at(0).size() + 2);
  std::vector<std::int32_t> drawn;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    CAPTURE(i);
    CHECK(digest(loader.restore_sample(batches[i].restore_key)) == digests[i]);
    drawn.push_back(
        elements_of<std::int32_t>(energon::Ragged::from(batches[i].at("tokens")).row(0))[0]);
  }
  std::ranges::sort(drawn);
  CHECK(std::ranges::adjacent_find(drawn) == drawn.end());  // each sample has its own
  loader.stop();
  energon::SavableDataLoader again(make, {.worker_config = {.num_workers = 2}});
  again.restore_state_rank(state);
  for (std::size_t i = 4; i < digests.size(); ++i) {
    CAPTURE(i);
    const auto batch = again.next();
    REQUIRE(batch);
    CHECK(digest(*batch) == digests[i]);
  }
}

TEST_CASE("a text without tokens is a failure of its stage", "[wrappers][tokenize]") {
  const TempDir folder;
  write_texts(folder, 5, 2);
  energon::ValOptions options{.batch_size = 2};
  options.task_encoder.tokenizer = byte_tokens();
  const auto run = [&] {
    energon::SavableDataLoader loader(
        energon::val_dataset(folder.path(), {.split = "train"}, options));
    std::vector<std::string> keys;
    while (const auto batch = loader.next()) {
      const auto names = batch->keys.strings();
      keys.insert(keys.end(), names.begin(), names.end());
    }
    return std::pair(keys, loader.stats());
  };
  CHECK_THAT(error_of([&] { run(); }, ErrorCode::kInvalidArgument),
             Catch::Contains("'txt'") && Catch::Contains("s2"));
  options.errors.stages = {
      {std::string(energon::stage_names::kTokenize), {.action = energon::FailureAction::kSkip}}};
  const auto [keys, stats] = run();
  CHECK(keys == std::vector<std::string>{"s0", "s1", "s3", "s4"});
  const auto& stages = stats.workers.at(0).stages;
  const auto stage = std::ranges::find(stages, "tokenize", &energon::StageStatistics::name);
  REQUIRE(stage != stages.end());
  CHECK(stage->samples == 4);
  CHECK(stage->failed == 1);
}

TEST_CASE("a state belongs to a pipeline with tokens", "[wrappers][tokenize]") {
  const TempDir folder;
  write_texts(folder, 5);
  energon::HeapBufferPool memory;
  energon::ValOptions options;
  options.task_encoder.tokenizer = byte_tokens();
  const auto make = energon::val_dataset(folder.path(), {.split = "train"}, options);
  const auto stream = make({.memory = memory});
  CHECK_THAT(stream->config().dump(), Catch::Contains(R"("name":"tokenize")"));
  // The order of such a state is known without the tokenizer.
  energon::Config config;
  config["pipeline"] = stream->config();
  const auto order = energon::order_pipeline(energon::open_data(folder.path(), {.split = "train"}),
                                             energon::ValOptions(), config)({.memory = memory});
  std::size_t count = 0;
  while (const auto sample = stream->next()) {
    const auto same = order->next();
    REQUIRE(same);
    CHECK(same->restore_key == sample->restore_key);
    ++count;
  }
  CHECK(count == 5);
}
