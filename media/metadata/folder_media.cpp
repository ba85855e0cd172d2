#include "media/metadata/folder_media.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/dataset/shard_list.h"
#include "io/index/media_table.h"
#include "io/prepare/media_update.h"
#include "media/metadata/media_collector.h"
#include "media/metadata/part_media.h"

namespace energon {
namespace {

// Of a large folder, many files are one job, so that the index is not opened for each of them; of a
// small one, few, so that all threads have some.
std::size_t files_of_job(std::size_t files) {
  constexpr std::size_t kMost = 256;
  constexpr std::size_t kLeastJobs = 128;
  return std::clamp(files / kLeastJobs, std::size_t{1}, kMost);
}

std::string_view extension_of(std::string_view name) {
  const std::string_view last = name.substr(name.rfind('/') + 1);  // npos: all of it
  const std::size_t dot = last.rfind('.');
  return dot == std::string_view::npos || dot == 0 ? std::string_view() : last.substr(dot + 1);
}

class FolderMediaRun {
 public:
  FolderMediaRun(const std::string& path, const MediaFilter& filter,
                 const MediaMetadataOptions& options)
      : path_(path),
        filter_(filter),
        options_(options),
        update_(path),
        names_(list_files(path)),
        files_of_job_(files_of_job(names_.size())),
        collector_(path, options, {.files_total = static_cast<std::int64_t>(names_.size())},
                   [this](const std::string& name, const MediaMetadata& metadata) {
                     update_.add(name, metadata);
                   }) {}

  MediaMetadataReport run() {
    const std::size_t jobs = (names_.size() + files_of_job_ - 1) / files_of_job_;
    MediaMetadataReport report = collector_.collect(
        static_cast<std::int64_t>(jobs), [this](std::int64_t job, MediaShare& share) {
          read_files(static_cast<std::size_t>(job) * files_of_job_, share);
        });
    if (report.media() > 0) {
      update_.add_filter(to_string(filter_.strategy),
                         fmt::format("{}", fmt::join(filter_.patterns, ",")));
      update_.commit();
    }
    return report;
  }

 private:
  // The files of one job, from `begin`. In any thread.
  void read_files(std::size_t begin, MediaShare& share) {
    const std::size_t end = std::min(begin + files_of_job_, names_.size());
    std::optional<MediaIndex> index;
    if (options_.keep_existing && update_.index_path()) {
      index.emplace(*update_.index_path());
    }
    MediaReader reader(filter_, options_);
    for (std::size_t i = begin; i < end && collector_.goes_on(); ++i) {
      const std::string& name = names_[i];
      ++share.counts.files;
      share.add_part_name(extension_of(name));
      if (index && may_be_media(filter_, name) && index->find(name)) {
        ++share.counts.kept;
      } else {
        collector_.take(name, "", reader.read_file(name, path_ + "/" + name), share);
      }
    }
    share.counts.bytes = reader.bytes_read();
    collector_.add_done_files(static_cast<std::int64_t>(end - begin));
  }

  const std::string& path_;
  const MediaFilter& filter_;
  const MediaMetadataOptions& options_;
  FolderMediaUpdate update_;  // add() from one thread at a time
  const std::vector<std::string> names_;
  const std::size_t files_of_job_;
  MediaCollector collector_;
};

}  // namespace

MediaMetadataReport add_media_of_folder(const std::string& path, const MediaFilter& filter,
                                        const MediaMetadataOptions& options) {
  return FolderMediaRun(path, filter, options).run();
}

}  // namespace energon
