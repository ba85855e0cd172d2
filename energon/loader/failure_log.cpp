#include "energon/loader/failure_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "io/dataset/quarantine.h"
#include "io/error.h"
#include "io/file.h"

namespace energon {
namespace {

constexpr std::size_t kNewestReports = 1000;
constexpr std::size_t kKeptSamples = 100;
constexpr std::size_t kKeptCauseBytes = 4096;
constexpr std::size_t kKeptDetails = 32;  // of the newest reports
constexpr std::uint64_t kMostFileBytes = std::uint64_t{4} << 30;

bool names_one_place(const FailureReport& report) {
  if (report.samples.empty() || report.samples.front().shard_name.empty()) {
    return false;
  }
  const FailedSample& sample = report.samples.front();
  return report.is_shard_broken ||
         (report.samples.size() == 1 && (sample.index_in_shard || !sample.key.empty()));
}

QuarantineEntry entry_of(const FailureReport& report) {
  const FailedSample& sample = report.samples.front();
  QuarantineEntry entry{.dataset_path = sample.dataset_path, .shard_name = sample.shard_name};
  if (!report.is_shard_broken) {
    entry.index = sample.index_in_shard;
    entry.key = sample.key.empty() ? std::nullopt : std::optional(sample.key);
  }
  return entry;
}

}  // namespace

void FailureCounts::add(const FailureReport& report) {
  ++size_;
  for (const FailedSample& sample : report.samples) {
    FailureCount& count = counts_[Place(report.stage, sample.dataset_path, sample.shard_name)];
    count.stage = report.stage;
    count.dataset_path = sample.dataset_path;
    count.shard_name = sample.shard_name;
    count.is_shard_broken |= report.is_shard_broken;
    ++count.samples;
  }
  keep(report);
}

void FailureCounts::add(FailureCounts&& later) {
  size_ += later.size_;
  for (auto& [place, count] : later.counts_) {
    const auto [found, is_new] = counts_.try_emplace(place, count);
    if (!is_new) {
      found->second.samples += count.samples;
      found->second.is_shard_broken |= count.is_shard_broken;
    }
  }
  for (FailureReport& report : later.newest_) {
    keep(std::move(report));
  }
  later = {};
}

void FailureCounts::keep(FailureReport report) {
  FailureReport& kept = newest_.emplace_back(std::move(report));
  kept.samples.resize(std::min(kept.samples.size(), kKeptSamples));
  kept.cause.resize(std::min(kept.cause.size(), kKeptCauseBytes));
  if (newest_.size() > kNewestReports) {
    newest_.pop_front();
  }
  if (newest_.size() > kKeptDetails) {
    newest_[newest_.size() - kKeptDetails - 1].detail = {};
  }
}

void FailureCounts::fill(LoaderStatistics& statistics) const {
  for (const auto& [place, count] : counts_) {
    statistics.failures.push_back(count);
  }
  statistics.newest_reports.assign(newest_.begin(), newest_.end());
}

void QuarantineWriter::check() const {
  if (!enabled()) {
    return;
  }
  const std::filesystem::path path = std::filesystem::absolute(path_);
  std::error_code ignored;
  const bool exists = std::filesystem::exists(path, ignored);
  if (std::filesystem::is_fifo(path, ignored) || std::filesystem::is_socket(path, ignored)) {
    throw Error(ErrorCode::kInvalidArgument,
                "the quarantine file is a FIFO or a socket; use a regular file", {.path = path_});
  }
  if (!exists && !std::filesystem::is_directory(path.parent_path(), ignored)) {
    throw Error(ErrorCode::kNotFound, "the folder of the quarantine file does not exist",
                {.path = path_});
  }
  const std::string probed = exists ? path_ : path.parent_path().string();
  if (::access(probed.c_str(), W_OK) != 0 ||
      (exists && std::filesystem::is_directory(path, ignored))) {
    throw Error(ErrorCode::kIo, "the quarantine file cannot be written", {.path = path_});
  }
}

void QuarantineWriter::open() {
  check_path(path_);
  file_.reset(::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644));
  if (!file_.valid()) {
    throw io_error("cannot open the quarantine file", errno, {.path = path_});
  }
  check_can_append(file_.get(), path_);
  is_new_ = true;
}

// Other runs may have met the same samples. Their lines are only compared, so one that cannot be
// parsed does not end this run.
void QuarantineWriter::note_lines() {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path_, ignored)) {
    return;  // a terminal, for example
  }
  const std::string text = read_file(path_, kMostFileBytes);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    try {
      const std::string_view line(text.data() + begin, end - begin);
      for (const QuarantineEntry& entry : parse_quarantine(line, path_).entries) {
        written_.insert(place_digest(entry));
      }
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
    }
    begin = end + 1;
  }
}

void QuarantineWriter::append(const FailureReport& report) {
  if (!enabled() || !names_one_place(report)) {
    return;
  }
  const QuarantineEntry entry = entry_of(report);
  const std::uint64_t place = place_digest(entry);
  if (written_.contains(place)) {
    return;
  }
  std::string line = to_line(
      entry, {.stage = report.stage,
              .cause = report.cause,
              .bytes = report.is_shard_broken ? ByteRange() : report.samples.front().bytes});
  if (!file_.valid()) {
    open();
    note_lines();
    if (written_.contains(place)) {
      return;
    }
  }
  if (is_new_) {
    // A partial last line, left by a crash, must not swallow this one.
    const off_t size = ::lseek(file_.get(), 0, SEEK_END);
    char last = '\n';
    if (size > 0 && ::pread(file_.get(), &last, 1, size - 1) == 1 && last != '\n') {
      line.insert(0, 1, '\n');
    }
  }
  try {
    write_all(file_.get(), as_bytes(line), "cannot write the quarantine file", {.path = path_});
  } catch (const Error&) {
    file_.reset();  // the next call handles the partial line
    throw;
  }
  is_new_ = false;
  written_.insert(place);
}

}  // namespace energon
