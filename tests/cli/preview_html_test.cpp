// The page of `energon preview --html`: what it shows, and that data cannot become markup.

#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/file.h"
#include "tests/cli/energon_program.h"
#include "tests/cli/html_samples.h"
#include "tests/cli/preview_page.h"
#include "tests/support/dataset_builder.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"

using Catch::Contains;
using energon::testing::count_of;
using energon::testing::kTens;
using energon::testing::preview;
using energon::testing::preview_tar;
using energon::testing::run_energon;
using energon::testing::small_npy;
using energon::testing::small_png;
using energon::testing::small_wav;
using energon::testing::TarBuilder;
using energon::testing::TempDir;
using energon::testing::write_numbered_shards;

TEST_CASE("a page shows each part by its kind", "[cli][preview][html]") {
  const auto page = preview_tar(TarBuilder()
                                    .file("a.png", small_png())
                                    .file("a.txt", "a caption\nof two lines")
                                    .file("a.json", R"({"n": 1, "deep": {"list": [1, 2]}})")
                                    .file("a.cls", "42")
                                    .file("a.npy", small_npy())
                                    .file("a.wav", small_wav(800))
                                    .file("a.bin", std::string("\0\1\xFF"
                                                               "ABC",
                                                               6))
                                    .file("b.txt", "other")
                                    .end()
                                    .text());
  CHECK(page.exit_code == 0);
  CHECK_THAT(page.out, Contains("page.html: 2 samples, ") && Contains("no failures"));
  CHECK(count_of(page.html, "<article>") == 2);
  CHECK_THAT(page.html, Contains("<h2><bdi>a</bdi></h2><p><bdi>a.tar</bdi>, sample 0") &&
                            Contains("<code>Webdataset(0,1)</code>"));
  CHECK_THAT(page.html, Contains("<h3><bdi>png</bdi> <small>81 bytes, PNG, 4 × 3, RGB") &&
                            Contains("<img src=\"data:image/png;base64,") &&
                            Contains("data-original=\"data:image/png;base64,iVBORw0KGgoAAAANSUhEUg"
                                     "AAAAQAAAADCAIAAAA7ljmR"));
  CHECK_THAT(page.html, Contains(">a caption\nof two lines</pre>"));
  CHECK_THAT(page.html, Contains("<b>n</b>: <span class=\"number\">1</span>") &&
                            Contains("<b>deep</b>: <details open><summary>{…}"));
  CHECK_THAT(page.html, Contains("<p class=\"large\">42</p>"));
  CHECK_THAT(page.html,
             Contains("<b>float32</b> (4,) [1, 2.5, -3, nan]") && Contains("1 not finite"));
  CHECK_THAT(page.html, Contains("sound 8000 Hz, 1 channel, 0.10 s") &&
                            Contains("<audio controls preload=\"metadata\" src=\"data:audio/wav"));
  CHECK_THAT(page.html, Contains("000000  00 01 ff 41 42 43        ...ABC"));
}

TEST_CASE("a page shows images as in training, with a note on image viewers",
          "[cli][preview][html]") {
  const auto image = [](const std::string& name) {
    return energon::read_file(ENERGON_SOURCE_DIR "/tests/media/image/data/" + name);
  };
  const auto jpeg = preview_tar(TarBuilder().file("a.jpg", image("exif6.jpg")).end().text());
  CHECK_THAT(jpeg.html, Contains("JPEG, 20 × 12, RGB, orientation 6 not applied") &&
                            Contains("width=\"20\" height=\"12\"") &&
                            Contains("Shown as in training: EXIF orientation 6 is not applied. "
                                     "Viewers turn it by 90° clockwise.") &&
                            Contains("img { image-orientation: none; }"));
  const auto tiff = preview_tar(TarBuilder().file("a.tiff", image("turned.tiff")).end().text());
  CHECK_THAT(tiff.html, Contains("TIFF, 13 × 19, RGB, orientation 6 applied") &&
                            Contains("width=\"13\" height=\"19\"") &&
                            !Contains("Shown as in training"));
  const auto upright = preview_tar(TarBuilder().file("a.png", small_png()).end().text());
  CHECK_THAT(upright.html, !Contains("Shown as in training"));
}

TEST_CASE("a page needs no other files", "[cli][preview][html]") {
  const auto page =
      preview_tar(TarBuilder().file("a.png", small_png()).file("a.txt", "text").end().text());
  CHECK_THAT(page.html, Catch::StartsWith("<!DOCTYPE html>\n") && Catch::EndsWith("</html>\n"));
  CHECK_THAT(page.html, Contains("default-src 'none'; img-src data:; media-src data:") &&
                            Contains("script-src 'sha256-"));
  CHECK_THAT(page.html, Contains("prefers-color-scheme: dark") && Contains("width=device-width"));
  CHECK_THAT(page.html,
             !Contains("http:") && !Contains("https:") && !Contains("<link") && !Contains("url("));
  CHECK(count_of(page.html, "src=") == count_of(page.html, "src=\"data:"));
  CHECK(count_of(page.html, "<script") == 1);
}

TEST_CASE("data cannot become markup", "[cli][preview][html]") {
  const std::string evil = "</pre></script><script>alert(1)</script><img src=x onerror='y'>\"&";
  const auto page =
      preview_tar(TarBuilder()
                      .file("<script>alert(1).txt", evil)
                      .file("<script>alert(1).<b>", "\x1b[31m")
                      .file("<script>alert(1).json", R"({"<i>": "</span><script>\u001b[0m"})")
                      .file("\" onload=\"x.txt", "tab\tand \xE2\x80\xAEturned \xFF\xC0\xAF\x01")
                      .end()
                      .text());
  CHECK(page.exit_code == 0);
  CHECK(count_of(page.html, "<script") == 1);
  CHECK_THAT(page.html, !Contains("<img src=x") && !Contains("<i>") && !Contains("\x1b") &&
                            !Contains("\xE2\x80\xAE") && !Contains("\xFF"));
  CHECK_THAT(page.html, Contains("<h2><bdi>&lt;script&gt;alert(1)</bdi></h2>") &&
                            Contains("<bdi>&lt;b&gt;</bdi>") &&
                            Contains("script&gt;\\x1b[0m&quot;") &&
                            Contains("&lt;/pre&gt;&lt;/script&gt;") &&
                            Contains("<h2><bdi>&quot; onload=&quot;x</bdi></h2>") &&
                            Contains("onerror=&#39;y&#39;&gt;&quot;&amp;"));
  CHECK_THAT(page.html, Contains("tab\tand \\u202eturned \\xff\\xc0\\xaf\\x01</pre>"));
}

TEST_CASE("parts that cannot be decoded are red with the reason", "[cli][preview][html]") {
  const std::string png = small_png();
  const auto page = preview_tar(TarBuilder()
                                    .file("a.png", png.substr(0, 60))
                                    .file("b.json", R"({"a": 1,})")
                                    .file("c.txt", "caf\xE9")
                                    .file("d.cls", "cat")
                                    .file("e.mp4", "no video")
                                    .file("f.npy", small_npy().substr(0, 130))
                                    .file("g.jpg", "")
                                    .file("h.png.gz", "no gzip")
                                    .file("i.txt", "well")
                                    .file("j.blob", "\xFF\xD8\xFF damaged, but nobody said jpg")
                                    .end()
                                    .text());
  CHECK(page.exit_code == 0);
  CHECK_THAT(page.out, Contains("10 samples") && Contains("8 failures"));
  CHECK(count_of(page.html, "<article class=\"bad\">") == 8);
  CHECK(count_of(page.html, "<section class=\"bad\">") == 8);
  CHECK(count_of(page.html, "Cannot be decoded: ") == 8);
  CHECK_THAT(page.html, Contains("Cannot be decoded: the text is not UTF-8: byte 3 is 0xe9") &&
                            Contains(">caf\\xe9</pre>") && Contains(">{&quot;a&quot;: 1,}</pre>"));
}

TEST_CASE("every truncation of a part gives a page", "[cli][preview][html]") {
  TarBuilder tar;
  int number = 0;
  for (const auto& [name, bytes] :
       std::vector<std::pair<std::string, std::string>>{{"png", small_png()},
                                                        {"wav", small_wav(4)},
                                                        {"npy", small_npy()},
                                                        {"json", R"({"a": [1, {"b": null}]})"},
                                                        {"mp", std::string("\x82\xA1"
                                                                           "a\x93\1\2\3\xA1"
                                                                           "b\xC4\2xy",
                                                                           13)}}) {
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      tar.file(fmt::format("{:06}.{}", number++, name), bytes.substr(0, size));
    }
  }
  const auto page = preview_tar(tar.end().text(), {"--limit", "1000"});
  CHECK(page.exit_code == 0);
  CHECK(count_of(page.html, "<article") == static_cast<std::size_t>(number));
  CHECK_THAT(page.out, Contains(" failures"));
}

TEST_CASE("a damaged sample and a broken shard are cards among the others",
          "[cli][preview][html]") {
  const TempDir folder;
  write_numbered_shards(folder, kTens);
  REQUIRE(
      run_energon({"prepare", folder.path(), "--split-ratio", "1,0,0", "--checksums"}).exit_code ==
      0);
  std::string shard = energon::read_file(folder.file("shard-000.tar"));
  shard[2 * 1024 + 512] ^= 1;  // a payload byte of the third sample
  folder.write("shard-000.tar", shard);
  folder.write("shard-005.tar", energon::read_file(folder.file("shard-005.tar")).substr(0, 2000));
  const auto page = preview(folder.path());
  CHECK(page.exit_code == 0);
  CHECK_THAT(page.out, Contains("24 samples") && Contains("2 failures"));
  CHECK(count_of(page.html, "<article class=\"bad\">") == 2);
  CHECK_THAT(page.html, Contains("<p class=\"reason\">") && Contains("checksum") &&
                            Contains("<p>shard-000.tar, sample 2</p>") &&
                            Contains("<p>shard-005.tar</p>"));
}

TEST_CASE("data that cannot be opened gives a page with the reason", "[cli][preview][html]") {
  const std::string tar = TarBuilder().file("a.txt", std::string(3000, 'a')).end().text();
  const auto page = preview_tar(tar.substr(0, 1500));
  CHECK(page.exit_code == 1);
  CHECK_THAT(page.html, Contains("<article class=\"bad\">") && Contains("truncated"));
}
