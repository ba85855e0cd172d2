#include "energon/loader/failure_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <span>
#include <utility>

#include <fmt/chrono.h>
#include <nlohmann/json.hpp>

#include "energon/state/savable.h"
#include "io/error.h"
#include "io/file.h"
#include "io/hash.h"

namespace energon {
namespace {

constexpr std::size_t kNewestReports = 1000;
constexpr std::size_t kKeptSamples = 100;
constexpr std::size_t kKeptCauseBytes = 4096;
constexpr std::size_t kKeptDetails = 32;  // of the newest reports

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now));
}

std::string line_of(const FailureReport& report) {
  const FailedSample& sample = report.samples.front();
  Config line = {
      {"time", utc_now()}, {"dataset", sample.dataset_path}, {"shard", sample.shard_name}};
  if (!report.is_shard_broken) {
    if (sample.index_in_shard) {
      line["index"] = *sample.index_in_shard;
    }
    if (!sample.key.empty()) {
      line["key"] = sample.key;
    }
    if (sample.bytes.size > 0) {
      line["bytes"] = {sample.bytes.offset, sample.bytes.size};
    }
  }
  line["stage"] = report.stage;
  line["cause"] = report.cause;
  // Names are bytes; JSON is UTF-8. A sample whose key is not UTF-8 is found by its index.
  return line.dump(-1, ' ', false, Config::error_handler_t::replace) + "\n";
}

bool names_one_place(const FailureReport& report) {
  if (report.samples.empty() || report.samples.front().shard_name.empty()) {
    return false;
  }
  const FailedSample& sample = report.samples.front();
  return report.is_shard_broken ||
         (report.samples.size() == 1 && (sample.index_in_shard || !sample.key.empty()));
}

// A hash that identifies a place: only 8 bytes, for runs in which millions of samples fail.
std::uint64_t place_of(const FailureReport& report) {
  const FailedSample& sample = report.samples.front();
  Xxh3Stream local_index;
  local_index.update_field(as_bytes(sample.dataset_path));
  local_index.update_field(as_bytes(sample.shard_name));
  if (!report.is_shard_broken) {
    local_index.update_field(as_bytes(sample.key));
    if (sample.index_in_shard) {
      local_index.update_field(std::as_bytes(std::span(&*sample.index_in_shard, 1)));
    }
  }
  return local_index.digest();
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
}

void QuarantineWriter::append(const FailureReport& report) {
  if (!enabled() || !names_one_place(report)) {
    return;
  }
  const std::uint64_t place = place_of(report);
  if (written_.contains(place)) {
    return;
  }
  std::string line = line_of(report);
  if (!file_.valid()) {
    open();
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
  written_.insert(place);
}

}  // namespace energon
