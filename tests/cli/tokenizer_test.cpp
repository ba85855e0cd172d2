// --tokenizer of get and run.

#include <string>

#include <catch2/catch.hpp>

#include "io/file.h"
#include "tests/cli/energon_program.h"
#include "tests/support/tar_builder.h"

using energon::testing::run_lines;
using energon::testing::operator+;
using energon::testing::run_energon;
using energon::testing::TarBuilder;
using energon::testing::TempDir;
using energon::testing::Words;

namespace {

// Trained by the script next to it; expected.json contains the output of spm_encode.
std::string model(const std::string& name) {
  return std::string(ENERGON_SOURCE_DIR) + "/tests/media/tokens/data/" + name;
}

void write_texts(const TempDir& folder) {
  TarBuilder tar;
  for (int i = 0; i < 6; ++i) {
    const std::string key = "s" + std::to_string(i);
    tar.file(key + ".txt", i == 0 ? "a dog runs in the park." : "text " + std::to_string(i))
        .file(key + ".json", R"({"n": 1})");
  }
  folder.write("a.tar", tar.end().text());
}

}  // namespace

TEST_CASE("get --tokenizer shows the tokens of a sample", "[cli][tokenizer]") {
  const TempDir folder;
  write_texts(folder);
  const Words get = {"get", folder.path(), "s0", "--tokenizer", model("unigram.model")};
  const auto shown = run_energon(get + Words{"--decode"});
  INFO(shown.err);
  REQUIRE(shown.exit_code == 0);
  const auto json = nlohmann::json::parse(shown.out);
  CHECK(json.at("txt") == "a dog runs in the park.");
  CHECK(json.at("json").at("n") == 1);
  CHECK(json.at("tokens").at("dtype") == "int32");
  const auto expected = nlohmann::json::parse(energon::read_file(model("expected.json")));
  const auto& ids = expected.at("unigram").at("texts").at(0).at("ids");
  CHECK(json.at("tokens").at("shape") == nlohmann::json::array({ids.size()}));
  // Also without --decode, and in another field.
  const auto replaced =
      run_energon({"get", folder.path(), "s0.txt", "--tokenizer", model("unigram.model"),
                   "--tokenize", "txt", "--output", folder.file("ids.npy")});
  INFO(replaced.err);
  REQUIRE(replaced.exit_code == 0);
  const std::string npy = energon::read_file(folder.file("ids.npy"));
  CHECK_THAT(npy, Catch::Contains("'<i4'"));
  REQUIRE(npy.size() == 128 + 4 * ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    CHECK(static_cast<unsigned char>(npy[128 + 4 * i]) == ids[i].get<int>());
  }
}

TEST_CASE("run --tokenizer gives the same with any number of workers, and again by restore key",
          "[cli][tokenizer][fork]") {
  const TempDir folder;
  write_texts(folder);
  const Words flags = {"--decode",     "--tokenizer", model("bpe.model"), "--tokenize", "txt=ids",
                       "--batch-size", "2",           "--epochs",         "1"};
  const auto tokens = run_lines(folder.path(), flags);
  REQUIRE(tokens.size() == 3);
  CHECK(run_lines(folder.path(), flags + Words{"--num-workers", "1"}) == tokens);
  CHECK(run_lines(folder.path(), {"--decode", "--batch-size", "2", "--epochs", "1"}) != tokens);
  const auto line = nlohmann::json::parse(tokens[1]);
  const auto again = run_energon({"get", folder.path(), "--restore-key", line.at("restore_key"),
                                  "--decode", "--tokenizer", model("bpe.model"), "--tokenize",
                                  "txt=ids", "--batch-size", "2", "--json"});
  INFO(again.err);
  REQUIRE(again.exit_code == 0);
  CHECK(nlohmann::json::parse(again.out).at("digest") == line.at("digest"));
  CHECK_THAT(again.out, Catch::Contains("\"ids\""));
}

TEST_CASE("a tokenizer that cannot be used is refused", "[cli][tokenizer]") {
  const TempDir folder;
  write_texts(folder);
  const auto refused = [&](const Words& flags) {
    const auto result = run_energon(Words{"run", folder.path(), "--epochs", "1"} + flags);
    CHECK(result.exit_code != 0);
    return result.err;
  };
  using Catch::Contains;
  CHECK_THAT(refused({"--tokenize", "txt"}), Contains("--tokenizer"));
  CHECK_THAT(refused({"--tokenizer", folder.file("none.model")}), Contains("none.model"));
  CHECK_THAT(refused({"--tokenizer", folder.file("a.tar")}), Contains("a.tar"));
  CHECK_THAT(refused({"--tokenizer", model("bpe.model"), "--tokenize", "=x"}),
             Contains("FIELD=TO"));
  CHECK_THAT(refused({"--tokenizer", model("bpe.model"), "--tokenize", "caption"}),
             Contains("caption"));
}
