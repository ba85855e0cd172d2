// --decode of get and run: decoded values as a user sees them.

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

using namespace std::string_literals;  // NOLINT: texts with NUL

// A PNG of one red pixel.
const std::string kRedPixel =
    "\x89PNG\r\n\x1A\n\0\0\0\x0DIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xDE"
    "\0\0\0\x0CIDAT\x78\xDA\x63\xF8\xCF\xC0\0\0\x03\x01\x01\0\xF7\x03"
    "AC"
    "\0\0\0\0IEND\xAE"
    "B`\x82"s;

void write_shard(const TempDir& folder, const std::string& json = R"({"width": 1, "ok": true})") {
  TarBuilder tar;
  for (int i = 0; i < 6; ++i) {
    const std::string key = "s" + std::to_string(i);
    tar.file(key + ".png", kRedPixel).file(key + ".json", i == 3 ? json : R"({"width": 1})");
  }
  folder.write("a.tar", tar.end().text());
}

}  // namespace

TEST_CASE("get --decode shows the decoded sample", "[cli][decode]") {
  const TempDir folder;
  write_shard(folder);
  const auto shown = run_energon({"get", folder.path(), "s3", "--decode", "rgb8"});
  INFO(shown.err);
  REQUIRE(shown.exit_code == 0);
  const auto json = nlohmann::json::parse(shown.out);
  CHECK(json.at("png").at("dtype") == "uint8");
  CHECK(json.at("png").at("shape") == nlohmann::json{1, 1, 3});
  CHECK(json.at("json") == nlohmann::json{{"width", 1}, {"ok", true}});
}

TEST_CASE("get --decode writes one part in the format of the file's name", "[cli][decode]") {
  const TempDir folder;
  write_shard(folder);
  const auto write = [&](const std::string& part, const std::string& name) {
    return run_energon({"get", folder.path(), "s0." + part, "--decode", "torchrgb8", "--output",
                        folder.file(name)});
  };
  REQUIRE(write("png", "image.npy").exit_code == 0);
  const std::string npy = energon::read_file(folder.file("image.npy"));
  CHECK_THAT(npy, Catch::Contains("'descr': '|u1'") && Catch::Contains("(3, 1, 1)"));
  CHECK(npy.ends_with("\xFF\0\0"s));
  CHECK(npy.size() == 128 + 3);
  REQUIRE(write("png", "image.png").exit_code == 0);
  CHECK(energon::read_file(folder.file("image.png")).starts_with("\x89PNG"));
  REQUIRE(write("json", "meta.json").exit_code == 0);
  CHECK(nlohmann::json::parse(energon::read_file(folder.file("meta.json"))).at("width") == 1);

  const auto no_tensor = write("json", "meta.npy");
  CHECK(no_tensor.exit_code == 1);
  CHECK_THAT(no_tensor.err, Catch::Contains("a .npy needs a tensor"));
  const auto no_format = write("png", "image");
  CHECK(no_format.exit_code == 1);
  CHECK_THAT(no_format.err, Catch::Contains(".npy, .png, .wav"));
  const auto no_mode = run_energon({"get", folder.path(), "s0.png", "--decode", "rgb16"});
  CHECK(no_mode.exit_code == 1);
  CHECK_THAT(no_mode.err, Catch::Contains("unknown image mode 'rgb16'"));
}

TEST_CASE("run --decode prints digests of decoded values, with any number of workers",
          "[cli][decode][fork]") {
  const TempDir folder;
  write_shard(folder);
  const Words flags = {"--decode", "rgb8", "--batch-size", "2", "--epochs", "1"};
  const auto decoded = run_lines(folder.path(), flags);
  REQUIRE(decoded.size() == 3);
  CHECK(run_lines(folder.path(), flags + Words{"--num-workers", "1"}) == decoded);
  const auto raw = run_lines(folder.path(), {"--batch-size", "2", "--epochs", "1"});
  CHECK(energon::testing::keys_of(raw) == energon::testing::keys_of(decoded));
  CHECK(raw != decoded);

  // The restore key of a line gives the same batch.
  const std::string key = nlohmann::json::parse(decoded[1]).at("restore_key");
  const auto again = run_energon({"get", folder.path(), "--restore-key", key, "--decode", "rgb8",
                                  "--batch-size", "2", "--json"});
  INFO(again.err);
  REQUIRE(again.exit_code == 0);
  CHECK(nlohmann::json::parse(again.out).at("digest") ==
        nlohmann::json::parse(decoded[1]).at("digest"));
}

TEST_CASE("a part that cannot be decoded ends a run, or is left out and reported",
          "[cli][decode]") {
  const TempDir folder;
  write_shard(folder, "{");
  const Words all = {"run", folder.path(), "--decode", "--batch-size", "2", "--epochs", "1"};
  const auto failed = run_energon(all);
  CHECK(failed.exit_code == 1);
  CHECK_THAT(failed.err, Catch::Contains("part 'json'") && Catch::Contains("s3"));
  const auto skipped = run_energon(all + Words{"--on-error", "skip"});
  INFO(skipped.err);
  CHECK(skipped.exit_code == 0);
  CHECK(skipped.out.find("s3") == std::string::npos);
  CHECK_THAT(skipped.err, Catch::Contains("decode"));
}
