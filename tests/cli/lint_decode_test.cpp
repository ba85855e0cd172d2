// `energon lint --decode`: every part is decoded.

#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/file.h"
#include "tests/cli/energon_program.h"
#include "tests/cli/html_samples.h"
#include "tests/support/shared_data.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"

using Catch::Contains;
using energon::testing::operator+;
using energon::testing::run_energon;
using energon::testing::shared_data;
using energon::testing::skipped;
using energon::testing::small_npy;
using energon::testing::small_png;
using energon::testing::small_wav;
using energon::testing::TarBuilder;
using energon::testing::TempDir;
using energon::testing::Words;

namespace {

energon::testing::ProgramResult lint_tar(const std::string& tar, const Words& more) {
  const TempDir folder;
  folder.write("a.tar", tar);
  return run_energon(Words{"lint", folder.path()} + more);
}

}  // namespace

TEST_CASE("lint decodes every part that has a decoder", "[cli][lint]") {
  const std::string tar = TarBuilder()
                              .file("a.png", small_png())
                              .file("a.wav", small_wav(100))
                              .file("a.npy", small_npy())
                              .file("a.bin", "bytes")
                              .file("b.cls", "7")
                              .end()
                              .text();
  const auto decoded = lint_tar(tar, {"--decode"});
  INFO(decoded.out);
  CHECK(decoded.exit_code == 0);
  CHECK_THAT(decoded.out, Contains("2 samples in 1 shard scanned, 0 compared with checksums, "
                                   "4 parts decoded: no problems"));
  CHECK_THAT(lint_tar(tar, {}).out, Contains("with checksums: no problems"));
}

TEST_CASE("lint --decode names each part that cannot be decoded, and why", "[cli][lint]") {
  std::string png = small_png();
  png[50] ^= 1;  // a compressed pixel; the header is intact
  const TarBuilder first = TarBuilder().file("a.txt", "first").file("b.png", png);
  const std::uint64_t content = 3 * 512;  // after two headers and one text
  const std::string tar = TarBuilder(first)
                              .file("c.txt", "caf\xE9")
                              .file("d.cls", "cat")
                              .file("e.npy", small_npy().substr(0, 130))
                              .end()
                              .text();
  const auto plain = lint_tar(tar, {});
  CHECK(plain.exit_code == 0);
  const auto decoded = lint_tar(tar, {"--decode"});
  INFO(decoded.out);
  CHECK(decoded.exit_code == 1);
  CHECK_THAT(
      decoded.out,
      Contains(
          fmt::format("a.tar: byte {}: sample 'b': part 'png' cannot be decoded: ", content)) &&
          Contains("sample 'c': part 'txt' cannot be decoded: the text is not UTF-8: byte 3") &&
          Contains("sample 'd': part 'cls' cannot be decoded: ") &&
          Contains("sample 'e': part 'npy' cannot be decoded: ") &&
          Contains("5 parts decoded: 4 problems"));
}

TEST_CASE("lint --decode decodes sound and video to their ends", "[cli][lint]") {
  const auto av = shared_data("av");
  if (!av) {
    return skipped();
  }
  const std::string video = energon::read_file(*av + "/sync_test.mkv");
  std::string damaged = video;
  for (std::size_t at = damaged.size() * 2 / 3; at < damaged.size() * 2 / 3 + 4000; ++at) {
    damaged[at] = '\x55';
  }
  const std::string sound = energon::read_file(*av + "/test_audio.flac");
  const auto good =
      lint_tar(TarBuilder().file("a.mkv", video).file("b.flac", sound).end().text(), {"--decode"});
  INFO(good.out);
  CHECK(good.exit_code == 0);
  const auto bad = lint_tar(TarBuilder()
                                .file("a.mkv", damaged)
                                .file("b.flac", sound.substr(0, sound.size() / 2))
                                .end()
                                .text(),
                            {"--decode"});
  INFO(bad.out);
  CHECK(bad.exit_code == 1);
  CHECK_THAT(bad.out, Contains("sample 'a': part 'mkv' cannot be decoded: ") &&
                          Contains("sample 'b': part 'flac' cannot be decoded: ") &&
                          Contains("2 problems"));
}

TEST_CASE("lint --decode looks into the lines of a JSONL file", "[cli][lint]") {
  const TempDir folder;
  const std::string deep = "{\"a\": " + std::string(100, '[') + std::string(100, ']') + "}";
  folder.write("rows.jsonl", "{\"a\": 1}\n" + deep + "\n");
  CHECK(run_energon({"lint", folder.file("rows.jsonl")}).exit_code == 0);
  const auto decoded = run_energon({"lint", folder.file("rows.jsonl"), "--decode"});
  INFO(decoded.out);
  CHECK(decoded.exit_code == 1);
  CHECK_THAT(decoded.out, Contains("rows.jsonl: byte 9: line 2 cannot be decoded: ") &&
                              Contains("2 parts decoded: 1 problem"));
}
