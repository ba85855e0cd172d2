#include <sys/stat.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "energon/loader/failure_log.h"
#include "io/error.h"
#include "tests/support/error_of.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/temp_dir.h"

using energon::Error;
using energon::ErrorCode;
using energon::FailureReport;
using energon::QuarantineWriter;
using energon::testing::error_of;
using energon::testing::FileSizeLimit;
using energon::testing::TempDir;

namespace {

FailureReport report_of(const std::string& key) {
  return {.stage = "encode",
          .cause = "broken",
          .samples = {{.key = key, .dataset_path = "/data", .shard_name = "0.tar"}}};
}

std::string content_of(const TempDir& folder) {
  std::ifstream file(folder.file("q.jsonl"));
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("a quarantine file that cannot be written is refused before anything fails",
          "[loader][quarantine]") {
  const TempDir folder;
  const std::string fifo = folder.file("fifo");
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(error_of([&] { QuarantineWriter(fifo).check(); }, ErrorCode::kInvalidArgument) ==
        "the quarantine file is a FIFO or a socket; use a regular file [path: " + fifo + "]");
  const std::string lost = folder.file("missing/q.jsonl");
  CHECK(error_of([&] { QuarantineWriter(lost).check(); }, ErrorCode::kNotFound) ==
        "the folder of the quarantine file does not exist [path: " + lost + "]");
  CHECK(error_of([&] { QuarantineWriter(folder.path()).check(); }, ErrorCode::kIo) ==
        "the quarantine file cannot be written [path: " + folder.path() + "]");
  CHECK(error_of([&] { QuarantineWriter(folder.file("q.jsonl")).check(); }, ErrorCode::kIo) ==
        "no error");
}

TEST_CASE("a line that could not be written is written later, completely and once",
          "[loader][quarantine]") {
  const TempDir folder;
  QuarantineWriter writer(folder.file("q.jsonl"));
  writer.append(report_of("first"));
  const std::size_t size = content_of(folder).size();
  REQUIRE(size > 0);
  {
    const auto before = ::signal(SIGXFSZ, SIG_IGN);
    const FileSizeLimit limit(size + 10);  // the next line is truncated
    CHECK_THROWS_AS(writer.append(report_of("second")), Error);
    ::signal(SIGXFSZ, before);
  }
  writer.append(report_of("second"));
  writer.append(report_of("second"));
  const std::string text = content_of(folder);
  REQUIRE(text.ends_with('\n'));
  const std::size_t begin = text.rfind('\n', text.size() - 2) + 1;
  const auto line = nlohmann::json::parse(text.substr(begin), nullptr, false);
  REQUIRE(line.is_object());  // the truncated text is on its own line
  CHECK(line.at("key") == "second");
  CHECK(text.find("\"second\"") > begin);
}

TEST_CASE("what a quarantine file lists is not written again after a restart",
          "[loader][quarantine]") {
  const TempDir folder;
  QuarantineWriter(folder.file("q.jsonl")).append(report_of("first"));
  std::ofstream(folder.file("q.jsonl"), std::ios::app) << "not a line\n";
  const std::string before = content_of(folder);
  QuarantineWriter again(folder.file("q.jsonl"));
  again.append(report_of("first"));
  CHECK(content_of(folder) == before);
  again.append(report_of("second"));
  CHECK(content_of(folder).starts_with(before));
  CHECK(content_of(folder).size() > before.size());
}
