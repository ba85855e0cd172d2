// energon prepare-media: stores metadata of the images, sounds and videos in a prepared dataset or
// a folder of files.

#include "cli/commands/prepare_media.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/interrupt.h"
#include "io/error.h"
#include "media/metadata/add_media_metadata.h"
#include "media/metadata/media_filter.h"

namespace energon::cli {

// --- Options, and the run ---

namespace {

std::string describe_filter(const MediaFilter& filter) {
  switch (filter.strategy) {
    case MediaStrategy::kExtension:
      return "has an image, sound or video extension";
    case MediaStrategy::kHeader:
      return "starts like an image, sound or video file";
    case MediaStrategy::kGlob:
      return fmt::format("matches {}",
                         printable(fmt::format("{}", fmt::join(filter.patterns, ","))));
  }
  return "";
}

// Whether the report is for a folder of files. A prepared dataset has shards.
bool is_of_files(const MediaMetadataReport& report) { return report.shards == 0; }

std::string describe_no_media(const MediaMetadataReport& report, const MediaFilter& filter) {
  const std::string names = printable(fmt::format("{}", fmt::join(report.part_names, ", ")));
  if (!is_of_files(report)) {
    return fmt::format("no part {}: the parts are {}; nothing was stored", describe_filter(filter),
                       names);
  }
  return report.files == 0
             ? "there are no files in the folder; nothing was stored"
             : fmt::format("no file {}: {} with the extensions '{}'; nothing was stored",
                           describe_filter(filter), plural(report.files, "file"), names);
}

void print_media_json(const MediaMetadataReport& report) {
  nlohmann::ordered_json json = {{"shards", report.shards},
                                 {"parts", report.parts},
                                 {"files", report.files},
                                 {"images", report.images},
                                 {"av", report.av},
                                 {"kept", report.kept},
                                 {"unreadable", report.unreadable},
                                 {"bytes", report.bytes},
                                 {"not_read", nlohmann::ordered_json::array()}};
  for (const UnreadableMedia& part : report.unreadable_named) {
    json["not_read"].push_back({{"shard", printable(part.shard)},
                                {"name", printable(part.name)},
                                {"cause", printable(part.cause)}});
  }
  output().print("{}\n", indented_json(json));
}

void print_unreadable(const MediaMetadataReport& report) {
  for (const UnreadableMedia& part : report.unreadable_named) {
    const std::string shard = part.shard.empty() ? "" : printable(part.shard) + ": ";
    print_warning(
        fmt::format("{}no metadata for '{}': {}", shard, printable(part.name), part.cause));
  }
  const auto named = static_cast<std::int64_t>(report.unreadable_named.size());
  if (report.unreadable > named) {
    print_warning(fmt::format("no metadata for {} more", report.unreadable - named));
  }
}

void print_media_report(const MediaMetadataReport& report) {
  const std::string_view noun = is_of_files(report) ? "file" : "part";
  print_unreadable(report);
  output().print("Stored media metadata of {}: {}, {} of sound or video ({} read).\n",
                 plural(report.images + report.av, noun), plural(report.images, "image"),
                 with_separators(report.av), human_bytes(report.bytes));
  if (report.kept > 0) {
    output().print("{} had metadata before.\n", plural(report.kept, fmt::format("more {}", noun)));
  }
  output().write("Done\n");
}

// Counts shards or files, whichever the run has.
class MediaProgressLine {
 public:
  explicit MediaProgressLine(ProgressLine::Mode mode) : mode_(mode) {}

  void update(const MediaMetadataProgress& state) {
    const bool is_of_files = state.shards_total == 0;
    if (!line_) {
      line_.emplace("Reading media", is_of_files ? "files" : "shards", mode_);
    }
    const std::int64_t done = is_of_files ? state.files_done : state.shards_done;
    const std::int64_t total = is_of_files ? state.files_total : state.shards_total;
    if (line_->is_due() || done == total) {
      line_->update(done, total, fmt::format("{} media", with_separators(state.media)));
    }
  }

 private:
  const ProgressLine::Mode mode_;
  std::optional<ProgressLine> line_;
};

}  // namespace

void add_media_flags(CLI::App& command, MediaFlags& flags) {
  command.add_flag(
      "--media-metadata-by-extension", flags.is_by_extension,
      "Store metadata (size, format, duration, …) of parts with image, sound and video extensions");
  command.add_flag("--media-metadata-by-header", flags.is_by_header,
                   "The same for parts that start like such files, whatever their names");
  command.add_option(
      "--media-metadata-by-glob", flags.patterns,
      "The same for parts whose names match one of these patterns, such as '*.jpg,*.mp4'");
}

std::vector<std::string> given_media_flags(const MediaFlags& flags) {
  std::vector<std::string> given;
  if (flags.is_by_extension) {
    given.emplace_back("--media-metadata-by-extension");
  }
  if (flags.is_by_header) {
    given.emplace_back("--media-metadata-by-header");
  }
  if (!flags.patterns.empty()) {
    given.emplace_back("--media-metadata-by-glob");
  }
  return given;
}

std::optional<MediaFilter> media_filter_of(const MediaFlags& flags) {
  const std::vector<std::string> given = given_media_flags(flags);
  if (given.size() > 1) {
    throw UsageError{fmt::format("{} exclude each other: give one", fmt::join(given, " and "))};
  }
  if (given.empty()) {
    return std::nullopt;
  }
  MediaFilter filter{.strategy =
                         flags.is_by_header ? MediaStrategy::kHeader : MediaStrategy::kExtension};
  if (!flags.patterns.empty()) {
    filter = glob_filter(flags.patterns);
  }
  try {
    validate(filter);
  } catch (const Error& error) {
    throw UsageError{fmt::format("--media-metadata-by-glob: {}", error.message())};
  }
  return filter;
}

int store_media_metadata(const std::string& path, const MediaFilter& filter,
                         const MediaRunFlags& flags, const std::stop_token& stop) {
  MediaMetadataReport report;
  {
    MediaProgressLine line(flags.progress);
    report = add_media_metadata(
        path, filter,
        {.keep_existing = flags.keeps_existing,
         .threads = flags.num_workers,
         .cache_dir = flags.cache_dir,
         .stop = stop,
         .progress = [&line](const MediaMetadataProgress& state) { line.update(state); }});
  }
  if (flags.is_json) {
    print_media_json(report);
  }
  if (report.media() == 0) {
    output().flush();
    print_error(describe_no_media(report, filter));
    return kExitFailure;
  }
  if (!flags.is_json) {
    print_media_report(report);
  }
  return kExitOk;
}

// --- The command ---

namespace {

struct PrepareMediaFlags {
  std::string path;
  MediaFlags media;
  MediaRunFlags run;
  bool is_progress_shown = true;
};

int run_prepare_media(const PrepareMediaFlags& flags) {
  const std::optional<MediaFilter> filter = media_filter_of(flags.media);
  if (!filter) {
    throw UsageError{
        "specify which parts are media: --media-metadata-by-extension, --media-metadata-by-header "
        "or --media-metadata-by-glob PATTERNS"};
  }
  std::error_code ignored;
  if (!std::filesystem::is_directory(flags.path, ignored)) {
    throw Error(ErrorCode::kNotFound, "no such folder", {.path = flags.path});
  }
  MediaRunFlags run = flags.run;
  run.progress = ProgressLine::mode(flags.is_progress_shown);
  const StopOnInterrupt interrupt;
  return store_media_metadata(flags.path, *filter, run, interrupt.token());
}

}  // namespace

void add_prepare_media(CLI::App& app, Run& run) {
  CLI::App* const command = app.add_subcommand(
      "prepare-media",
      "Store metadata (size, format, duration, …) of the images, sounds and videos in a prepared "
      "dataset, for filters and lookups, or in a folder of files, for lookups");
  const auto flags = std::make_shared<PrepareMediaFlags>();
  command->add_option("PATH", flags->path, "Prepared dataset, or folder of auxiliary files")
      ->required();
  add_media_flags(*command, flags->media);
  command->add_flag("--update", flags->run.keeps_existing,
                    "Skip parts or files whose names already have metadata");
  add_threads(*command, flags->run.num_workers);
  add_cache_dir(*command, flags->run.cache_dir, ShardUse::kScan);
  add_progress(*command, flags->is_progress_shown);
  command->add_flag("--json", flags->run.is_json, "Print the report as JSON");
  on_run(*command, flags, run, run_prepare_media);
}

}  // namespace energon::cli
