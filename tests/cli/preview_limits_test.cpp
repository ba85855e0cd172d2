// The page of `energon preview --html`: which samples it shows, and how large it gets.

#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/file.h"
#include "tests/cli/energon_program.h"
#include "tests/cli/html_samples.h"
#include "tests/cli/preview_page.h"
#include "tests/support/dataset_builder.h"
#include "tests/support/recipe_folder.h"
#include "tests/support/shared_data.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"

using Catch::Contains;
using energon::testing::count_of;
using energon::testing::kTens;
using energon::testing::large_png;
using energon::testing::operator+;
using energon::testing::preview;
using energon::testing::preview_tar;
using energon::testing::RecipeFolder;
using energon::testing::run_energon;
using energon::testing::shared_data;
using energon::testing::skipped;
using energon::testing::small_png;
using energon::testing::small_wav;
using energon::testing::TarBuilder;
using energon::testing::TempDir;
using energon::testing::Words;
using energon::testing::write_jsonl;
using energon::testing::write_numbered_shards;

TEST_CASE("a page starts at the given sample and is limited", "[cli][preview][html]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  const auto usual = preview(folder.path());
  CHECK(count_of(usual.html, "<article") == 24);
  CHECK_THAT(usual.html, Contains("24 of 55 samples"));
  const auto few = preview(folder.path(), {"--limit", "2", "--start", "20"});
  CHECK(count_of(few.html, "<article") == 2);
  CHECK_THAT(few.html, Contains("<bdi>000020</bdi>") && Contains("<bdi>000021</bdi>"));
  const auto from_key = preview(folder.path(), {"--start", "000053"});
  CHECK(count_of(from_key.html, "<article") == 2);
  CHECK_THAT(from_key.html, Contains("shard-005.tar</bdi>, sample 4"));
  const auto one = preview(folder.path(), {"--key", "000012"});
  CHECK(count_of(one.html, "<article") == 1);
  CHECK_THAT(one.html, Contains("<code>Webdataset(0,12)</code>"));
  CHECK(preview(folder.path(), {"--start", "55"}).out.find(": 0 samples") != std::string::npos);
  const auto missing =
      run_energon({"preview", folder.path(), "--html", folder.file("p"), "--key", "zz"});
  CHECK(missing.exit_code == 1);
  CHECK_THAT(missing.err, Contains("no sample has the key 'zz'"));
}

TEST_CASE("a blend has a column for each dataset, with its weight", "[cli][preview][html]") {
  const RecipeFolder folder({{.name = "a", .counts = kTens}});
  write_jsonl(folder, "lines.jsonl", 20);
  const std::string blend = folder.recipe(
      "{blend: [{weight: 3, path: a, subflavors: {kind: text}}, {weight: 1, path: lines.jsonl}]}");
  const auto page = preview(blend, {"--limit", "5"});
  CHECK(page.exit_code == 0);
  CHECK(count_of(page.html, "<section class=\"column\">") == 2);
  CHECK_THAT(page.html, Contains("3 of 55 samples, weight 0.75 of 1, {&quot;kind&quot;") &&
                            Contains("<i style=\"width:75.00%\">") &&
                            Contains("2 of 20 samples, weight 0.25 of 1") &&
                            Contains("<code>Webdataset(1,1)</code>"));
  const auto key = preview(blend, {"--key", "7"});
  CHECK_THAT(key.html, Contains("<code>Webdataset(1,7)</code>"));
  const auto narrow = preview(blend, {"--limit", "1"});
  CHECK_THAT(narrow.html, Contains("1 dataset more are not shown: raise --limit"));
}

TEST_CASE("packs are shown as bars", "[cli][preview][html]") {
  const std::string tar = TarBuilder()
                              .file("a.txt", std::string(60, 'a'))
                              .file("b.txt", std::string(50, 'b'))
                              .file("c.txt", "\u4e16\u754c" + std::string(28, 'c'))
                              .file("<d>.txt", std::string(101, 'd'))
                              .end()
                              .text();
  const auto page = preview_tar(tar, {"--pack-by", "txt", "--pack-length", "100"});
  CHECK_THAT(page.html, Contains("3 samples in 2 packs of 100 characters of txt: 70.0 % full") &&
                            Contains("<i style=\"width:60.000%\" title=\"a: 60 characters of txt\">"
                                     "</i><i style=\"width:30.000%\"") &&
                            Contains("Fits into no pack: <bdi>&lt;d&gt;</bdi>, 101"));
  CHECK_THAT(preview_tar(tar, {"--pack-by", "zip", "--pack-length", "9"}).html,
             Contains("no sample has the part &#39;zip&#39; of --pack-by"));
}

TEST_CASE("preview --decode describes the tensors of images", "[cli][preview][html]") {
  const std::string tar = TarBuilder().file("a.png", small_png()).end().text();
  CHECK_THAT(preview_tar(tar, {"--decode", "torchrgb"}).html,
             Contains("<b>float32</b> (3, 3, 4)") && Contains("0 to 0.784314"));
  CHECK_THAT(preview_tar(tar).html, !Contains("float32"));
}

TEST_CASE("large originals stay out of a page", "[cli][preview][html]") {
  const auto page = preview_tar(TarBuilder()
                                    .file("a.png", large_png(std::size_t{1} << 20))
                                    .file("b.wav", small_wav(9 << 20))
                                    .file("c.txt", std::string(200'000, 'c'))
                                    .end()
                                    .text());
  CHECK_THAT(page.html, Contains("The original is not in this page.") &&
                            Contains("9.00 MiB are too large for this page.") &&
                            Contains("show all, up to 64.00 KiB"));
  CHECK(page.html.size() < 100'000);
}

TEST_CASE("a full page warns about what it leaves out", "[cli][preview][html]") {
  TarBuilder tar;
  for (int i = 0; i < 10; ++i) {
    tar.file(fmt::format("{}.wav", i), small_wav(7 << 20));
  }
  const auto page = preview_tar(tar.end().text());
  CHECK(page.exit_code == 0);
  CHECK(count_of(page.html, "<audio") == 9);
  CHECK(page.html.size() < (std::size_t{64} << 20) * 4 / 3 + 100'000);
  CHECK_THAT(page.html.substr(0, 20'000),
             Contains("the page is full at 64.00 MiB: 1 piece is left out; lower --limit"));
}

TEST_CASE("photographs and videos are shown", "[cli][preview][html]") {
  const auto images = shared_data("images");
  const auto av = shared_data("av");
  if (!images || !av) {
    return skipped();
  }
  const auto page = preview_tar(TarBuilder()
                                    .file("a.jpg", energon::read_file(*images + "/524_316.jpg"))
                                    .file("b.mp4", energon::read_file(*av + "/sync_test.mp4"))
                                    .file("c.avi", energon::read_file(*av + "/sync_test.avi"))
                                    .file("d.flac", energon::read_file(*av + "/test_audio.flac"))
                                    .end()
                                    .text());
  CHECK_THAT(page.out, Contains("no failures"));
  CHECK_THAT(page.html, Contains("JPEG, 524 × 316, RGB") &&
                            Contains("width=\"320\" height=\"193\"") &&
                            Contains("data-original=\"data:image/jpeg;base64,/9j/"));
  CHECK_THAT(page.html, Contains("video 192 × 108, 30 frames/s") &&
                            Contains("poster=\"data:image/png;base64,") &&
                            Contains("src=\"data:video/mp4;base64,") &&
                            Contains("Browsers do not play this format.") &&
                            Contains("src=\"data:audio/flac;base64,"));
}

TEST_CASE("options of pages are checked", "[cli][preview][html]") {
  const TempDir folder;
  write_numbered_shards(folder, {3});
  const auto refused = [&](const Words& more, int code, const std::string& text) {
    const auto result = run_energon(Words{"preview", folder.path()} + more);
    INFO(result.err);
    CHECK(result.exit_code == code);
    CHECK_THAT(result.err, Contains(text));
  };
  const Words html = {"--html", folder.file("page.html")};
  refused({"--key", "000001"}, 2, "--key requires --html");
  refused(html + Words{"--count", "2"}, 2, "--count excludes --html");
  refused(html + Words{"--key", "a", "--start", "b"}, 2, "excludes");
  refused(html + Words{"--limit", "0"}, 2, "0 not in range");
  refused(html + Words{"--pack-by", "txt"}, 2, "--pack-by requires --pack-length");
  refused(html + Words{"--decode", "rgb9"}, 1, "unknown image mode 'rgb9'");
  refused({"--html", folder.file("no/page.html")}, 1, "folder of the output does not exist");
}
