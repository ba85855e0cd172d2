#include "io/lint/lint_jsonl.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/error.h"
#include "io/file.h"
#include "io/index/jsonl_index.h"
#include "io/shared_folder.h"

namespace energon {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
constexpr std::string_view kWhiteSpace = " \t\r\n\v\f";

// Without the library's name and the line, which is always the first.
std::string reason_of(const Json::exception& error) {
  std::string_view text = error.what();
  for (const std::string_view mark : {"] ", "column "}) {
    const std::size_t begin = text.find(mark);
    text.remove_prefix(begin == std::string_view::npos ? 0 : begin + mark.size());
  }
  const std::size_t digits = text.find_first_not_of("0123456789");
  if (digits != std::string_view::npos && digits > 0 && text.substr(digits).starts_with(": ")) {
    text.remove_prefix(digits + 2);
  }
  return printable(text);
}

class JsonlLinter {
 public:
  JsonlLinter(const std::string& path, const LintOptions& options)
      : options_(options), file_(path), shard_(std::filesystem::path(path).filename().string()) {}

  LintReport run() {
    std::string block;
    for (std::uint64_t offset = 0; offset < file_.size(); offset += block.size()) {
      if (options_.stop.stop_requested()) {
        throw Error(ErrorCode::kCancelled, "lint was stopped", {.path = file_.path()});
      }
      block.resize(std::min<std::uint64_t>(kBlockBytes, file_.size() - offset));
      file_.read_at(offset, std::as_writable_bytes(std::span(block)));
      feed(block);
    }
    if (!line_.empty()) {
      end_line();  // the last line has no end of line
    }
    if (entries_.empty()) {
      add("no samples: the file is empty or has only blank lines");
    } else if (!has_no_object_) {
      check_index();
    }
    report_.shards = 1;
    if (options_.progress) {
      options_.progress({.shards_done = 1, .shards_total = 1});
    }
    return std::move(report_);
  }

 private:
  void add(std::string message, std::optional<std::uint64_t> byte = std::nullopt) {
    report_.problems.push_back(
        {.shard = shard_, .byte_offset = byte, .message = std::move(message)});
  }

  void feed(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::size_t newline = bytes.find('\n');
      const std::size_t size = newline == std::string_view::npos ? bytes.size() : newline + 1;
      line_ += bytes.substr(0, size);
      bytes.remove_prefix(size);
      if (newline != std::string_view::npos) {
        end_line();
      }
    }
  }

  void end_line() {
    ++number_;
    const std::uint64_t begin = std::exchange(line_begin_, line_begin_ + line_.size());
    const std::size_t first = line_.find_first_not_of(kWhiteSpace);
    if (first != std::string::npos) {
      // The first sample has the blank lines before it, too.
      entries_.push_back(entries_.empty() ? 0 : begin);
      check(std::string_view(line_).substr(first, line_.find_last_not_of(kWhiteSpace) + 1 - first),
            begin + first);
    }
    line_.clear();
  }

  void check(std::string_view text, std::uint64_t begin) {
    if (text.front() != '{' || text.back() != '}') {
      has_no_object_ = true;
      const bool is_first = text.front() != '{';
      add(fmt::format("line {} is not a JSON object: it {} with '{}'", number_,
                      is_first ? "begins" : "ends",
                      printable(text.substr(is_first ? 0 : text.size() - 1, 1))),
          begin);
      return;
    }
    try {
      [[maybe_unused]] const Json value = Json::parse(text);
      ++report_.samples;
      check_content(text, begin);
    } catch (const Json::parse_error& error) {
      // Counted from 1.
      add(fmt::format("line {} is not valid JSON: {}", number_, reason_of(error)),
          begin + (error.byte > 0 ? error.byte - 1 : 0));
    } catch (const Json::exception& error) {
      add(fmt::format("line {} cannot be read: {}", number_, reason_of(error)), begin);
    }
  }

  // A line is one part, "json".
  void check_content(std::string_view text, std::uint64_t begin) {
    if (!options_.check_part) {
      return;
    }
    if (const auto what = options_.check_part("json", [text] {
          return SharedBytes{as_bytes(text), nullptr};
        })) {
      add(fmt::format("line {} {}", number_, *what), begin);
    }
  }

  void check_index() {
    const std::string path = jsonl_index_path(file_.path());
    if (!path_exists(path)) {
      return;
    }
    try {
      if (const auto proof = jsonl_proof_of_shrinking(path, file_.size())) {
        add(
            fmt::format("{}; if that was on purpose, remove '{}' or run energon prepare on the "
                        "file",
                        *proof, printable(path)));
        return;
      }
      if (!has_time_of(path, file_.identity())) {
        report_.warnings.push_back(
            fmt::format("{} has another modification time than the file; the index is built anew "
                        "where it is used",
                        printable(path)));
        return;
      }
      const JsonlIndex index = JsonlIndex::load(path, file_.size());
      entries_.push_back(file_.size());
      const auto [actual, stored] = std::mismatch(entries_.begin(), entries_.end(),
                                                  index.entries().begin(), index.entries().end());
      if (actual != entries_.end() || stored != index.entries().end()) {
        const auto sample = actual - entries_.begin();
        add(fmt::format("the index beside it has other places from sample {} on; run energon "
                        "prepare on the file",
                        sample),
            actual == entries_.end() ? std::nullopt : std::optional(*actual));
      }
    } catch (const Error& error) {
      add(error.what());
    }
  }

  const LintOptions& options_;
  const FileSource file_;
  const std::string shard_;
  LintReport report_;

  std::int64_t number_ = 0;  // of the last line that ended
  std::uint64_t line_begin_ = 0;
  std::string line_;                    // so far
  std::vector<std::uint64_t> entries_;  // of the index, but for its end
  bool has_no_object_ = false;          // then no index can be built
};

}  // namespace

LintReport lint_jsonl(const std::string& path, const LintOptions& options) {
  return JsonlLinter(path, options).run();
}

}  // namespace energon
