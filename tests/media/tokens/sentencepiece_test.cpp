#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "io/error.h"
#include "io/file.h"
#include "media/tokens/tokenizer.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_dir.h"

using energon::CallRng;
using energon::ErrorCode;
using energon::open_sentencepiece;
using energon::sentencepiece_tokenizer;
using energon::SentencePieceOptions;
using energon::Tokenizer;
using energon::testing::error_of;

namespace {

using Ids = std::vector<std::int32_t>;

/// The bytes of tests/media/tokens/data/`name`.
std::string token_file(const std::string& name) {
  return energon::read_file(std::string(ENERGON_SOURCE_DIR) + "/tests/media/tokens/data/" + name);
}

/// A piece of a model with a score of 0, a message of Protocol Buffers; type 1 is normal, 2
/// unknown.
std::string piece(const std::string& text, char type) {
  const std::string fields = "\x0A" + std::string(1, static_cast<char>(text.size())) + text +
                             std::string("\x15\0\0\0\0\x18", 6) + type;
  return "\x0A" + std::string(1, static_cast<char>(fields.size())) + fields;
}

/// A model that has only <unk>, a and b.
std::string small_model() { return piece("<unk>", 2) + piece("a", 1) + piece("b", 1); }

std::shared_ptr<const Tokenizer> tokenizer(const std::string& name,
                                           const SentencePieceOptions& options = {}) {
  return sentencepiece_tokenizer(energon::as_bytes(token_file(name)), options);
}

// The results of spm_encode for strings (data/make_models.py).
nlohmann::json expected() { return nlohmann::json::parse(token_file("expected.json")); }

const std::string kText = "a dog runs in the park.";

}  // namespace

TEST_CASE("tokens equal those of spm_encode", "[media][sentencepiece]") {
  const nlohmann::json models = expected();
  REQUIRE(models.size() == 2);
  for (const auto& [name, model] : models.items()) {
    const auto made = tokenizer(name + ".model");
    REQUIRE(model.at("texts").size() == 9);
    for (const auto& text : model.at("texts")) {
      INFO(name << ": " << text.at("text"));
      CHECK(made->tokens(text.at("text").get<std::string>()) == text.at("ids").get<Ids>());
    }
  }
}

TEST_CASE("special tokens and the size of the vocabulary come from the model",
          "[media][sentencepiece]") {
  const auto unigram = tokenizer("unigram.model");
  CHECK(unigram->vocabulary_size() == 160);
  CHECK(unigram->special_tokens().unknown == 0);
  CHECK(unigram->special_tokens().begin == 1);
  CHECK(unigram->special_tokens().end == 2);
  CHECK(unigram->special_tokens().pad == 3);
  const auto bpe = tokenizer("bpe.model");
  CHECK(bpe->vocabulary_size() == 380);
  CHECK_FALSE(bpe->special_tokens().pad);
}

TEST_CASE("tokens become the text again", "[media][sentencepiece]") {
  const auto bpe = tokenizer("bpe.model");
  CHECK(bpe->text(bpe->tokens(kText)) == kText);
  CHECK(bpe->text(bpe->tokens("zebra 42 \u2603")) == "zebra 42 \u2603");  // by bytes
  CHECK(bpe->text({}).empty());
  CHECK(tokenizer("unigram.model")->text(Ids{11, 6, 18, 84, 88, 28, 6, 7, 94, 31}) == kText);
  for (const std::int32_t wrong : {-1, 380}) {
    CAPTURE(wrong);
    CHECK_THAT(error_of(
                   [&] {
                     bpe->text(Ids{5, wrong});
                   },
                   ErrorCode::kInvalidArgument),
               Catch::Contains("token 1 is " + std::to_string(wrong)));
  }
}

TEST_CASE("begin and end are added on request", "[media][sentencepiece]") {
  const Ids plain = tokenizer("unigram.model")->tokens(kText);
  Ids both = tokenizer("unigram.model", {.add_begin = true, .add_end = true})->tokens(kText);
  REQUIRE(both.size() == plain.size() + 2);
  CHECK(both.front() == 1);
  CHECK(both.back() == 2);
  CHECK(Ids(both.begin() + 1, both.end() - 1) == plain);
  CHECK(tokenizer("unigram.model", {.add_end = true})->tokens("") == Ids{2});
  CHECK_THAT(
      error_of(
          [] { sentencepiece_tokenizer(energon::as_bytes(small_model()), {.add_begin = true}); },
          ErrorCode::kInvalidArgument),
      Catch::Contains("add_begin"));
}

TEST_CASE("sampling draws among the best, only with the generator of its caller",
          "[media][sentencepiece]") {
  const auto sampling = tokenizer("unigram.model", {.sampling = {{.candidates = 3, .alpha = 0.2}}});
  const auto best = expected().at("unigram").at("best").at("ids").get<std::vector<Ids>>();
  std::map<Ids, int> drawn;
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    CallRng rng(seed);
    CallRng again(seed);
    const Ids ids = sampling->drawn_tokens(kText, rng);
    CHECK(sampling->drawn_tokens(kText, again) == ids);
    ++drawn[ids];
  }
  // The three best of spm_encode, the best one most often, and each by p^0.2.
  REQUIRE(drawn.size() == 3);
  for (const Ids& ids : best) {
    CAPTURE(ids);
    CHECK(drawn[ids] > 50);
  }
  CHECK(drawn[best[0]] > drawn[best[2]]);
  CHECK(sampling->tokens(kText) == best[0]);
  CallRng rng(1);
  CHECK(sampling->drawn_tokens("", rng).empty());
  // With a large alpha the best one is drawn nearly always, without sampling always.
  const auto sharp = tokenizer("unigram.model", {.sampling = {{.candidates = 3, .alpha = 100}}});
  CHECK(sharp->drawn_tokens(kText, rng) == best[0]);
  CHECK(tokenizer("unigram.model")->drawn_tokens(kText, rng) == best[0]);
}

TEST_CASE("invalid options of sampling are refused", "[media][sentencepiece]") {
  const auto refused = [](const std::string& name, int candidates, double alpha, ErrorCode code) {
    return error_of(
        [&] { tokenizer(name, {.sampling = {{.candidates = candidates, .alpha = alpha}}}); }, code);
  };
  using Catch::Contains;
  CHECK_THAT(refused("bpe.model", 8, 1, ErrorCode::kUnsupported), Contains("unigram"));
  CHECK_THAT(refused("unigram.model", 1, 1, ErrorCode::kInvalidArgument), Contains("2 to 1024"));
  CHECK_THAT(refused("unigram.model", 1025, 1, ErrorCode::kInvalidArgument), Contains("1025"));
  CHECK_THAT(refused("unigram.model", 8, -1, ErrorCode::kInvalidArgument), Contains("alpha -1"));
}

TEST_CASE("files that cannot be read are named", "[media][sentencepiece]") {
  const energon::testing::TempDir folder;
  CHECK_THAT(error_of([&] { open_sentencepiece(folder.file("none.model")); }, ErrorCode::kNotFound),
             Catch::Contains("none.model"));
  folder.write("text.model", "this is not a model");
  CHECK_THAT(
      error_of([&] { open_sentencepiece(folder.file("text.model")); }, ErrorCode::kCorruptData),
      Catch::Contains("text.model"));
  folder.write("ok.model", token_file("bpe.model"));
  CHECK(open_sentencepiece(folder.file("ok.model"))->vocabulary_size() == 380);
}

TEST_CASE("a truncated model is an error or a smaller model", "[media][sentencepiece]") {
  for (const std::string name : {"unigram.model", "bpe.model"}) {
    CAPTURE(name);
    const std::string model = token_file(name);
    int errors = 0;
    for (std::size_t size = 0; size < model.size(); size += 7) {
      CAPTURE(size);
      try {
        const auto tokenizer =
            sentencepiece_tokenizer(energon::as_bytes(std::string_view(model).substr(0, size)));
        CHECK(tokenizer->vocabulary_size() > 0);
      } catch (const energon::Error& error) {
        CHECK(error.code() == ErrorCode::kCorruptData);
        ++errors;
      }
    }
    CHECK(errors > 100);  // all that end within a piece
  }
}
