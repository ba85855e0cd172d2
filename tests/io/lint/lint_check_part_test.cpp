// LintOptions::check_part: its arguments, and the effect of its results.

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "io/lint/lint.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"

using energon::lint;
using energon::LintOptions;
using energon::LintReport;
using energon::ReadPart;
using energon::testing::TarBuilder;
using energon::testing::TempDir;

namespace {

/// Records the parts and their contents; reports those that contain "bad".
class Recorder {
 public:
  LintOptions options() {
    return {.check_part = [this](std::string_view part,
                                 const ReadPart& read) -> std::optional<std::string> {
      const energon::SharedBytes content = read();
      const std::lock_guard lock(mutex_);
      seen_.push_back(std::string(part) + "=" + std::string(content.text()));
      return content.text().find("bad") == std::string_view::npos ? std::nullopt
                                                                  : std::optional("is bad");
    }};
  }

  std::vector<std::string> seen() {
    std::sort(seen_.begin(), seen_.end());
    return seen_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> seen_;
};

}  // namespace

TEST_CASE("lint passes every part of every shard to the check", "[io][lint]") {
  const TempDir folder;
  folder.write("a.tar", TarBuilder().file("1.txt", "one").file("1.x", "").end().text());
  folder.write("b.tar", TarBuilder().file("2.txt", "bad").file("3.txt", "bad").end().text());
  Recorder recorder;
  const LintReport report = lint(folder.path(), recorder.options());
  CHECK(recorder.seen() == std::vector<std::string>{"txt=bad", "txt=bad", "txt=one", "x="});
  REQUIRE(report.problems.size() == 2);
  CHECK(report.problems[1].shard == "b.tar");
  CHECK(report.problems[1].byte_offset == 3 * 512);
  CHECK(report.problems[1].key == "3");
  CHECK(report.problems[1].message == "part 'txt' is bad");
}

TEST_CASE("a part that lint itself finds broken is reported once", "[io][lint]") {
  const TempDir folder;
  folder.write("a.tar", TarBuilder().file("1.json", "{bad").file("1.txt", "t").end().text());
  Recorder recorder;
  const LintReport report = lint(folder.path(), recorder.options());
  CHECK(recorder.seen() == std::vector<std::string>{"txt=t"});
  CHECK(report.problems.size() == 1);
}

TEST_CASE("each line of a JSONL file is passed to the check as part json", "[io][lint]") {
  const TempDir folder;
  folder.write("a.jsonl", "{\"a\": 1}\n\n{\"a\": \"bad\"}\n");
  Recorder recorder;
  const LintReport report = lint(folder.file("a.jsonl"), recorder.options());
  CHECK(recorder.seen() == std::vector<std::string>{R"(json={"a": "bad"})", R"(json={"a": 1})"});
  REQUIRE(report.problems.size() == 1);
  CHECK(report.problems[0].byte_offset == 10);
  CHECK(report.problems[0].message == "line 3 is bad");
}

TEST_CASE("an error of the check is a problem of its shard", "[io][lint]") {
  const TempDir folder;
  folder.write("a.tar", TarBuilder().file("1.txt", "one").end().text());
  const LintReport report =
      lint(folder.path(),
           {.check_part = [](std::string_view, const ReadPart&) -> std::optional<std::string> {
             throw energon::Error(energon::ErrorCode::kIo, "the disk is gone");
           }});
  REQUIRE(report.problems.size() == 1);
  CHECK(report.problems[0].message == "the disk is gone");
}
