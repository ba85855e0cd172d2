// What prepare shares with prepare-media: the options that say which media to store metadata of,
// and the run itself.

#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/output.h"
#include "media/metadata/add_media_metadata.h"

namespace energon::cli {

struct MediaFlags {
  std::string patterns = {};
  bool is_by_header = false;
  bool is_by_extension = false;
};

void add_media_flags(CLI::App& command, MediaFlags& flags);

/// The names of those that are given.
std::vector<std::string> given_media_flags(const MediaFlags& flags);

/// Nothing if none is given. Throws UsageError if there are several.
std::optional<MediaFilter> media_filter_of(const MediaFlags& flags);

/// How a run is made and shown.
struct MediaRunFlags {
  std::optional<int> num_workers = std::nullopt;
  std::optional<std::string> cache_dir = std::nullopt;
  bool keeps_existing = false;
  bool is_json = false;
  ProgressLine::Mode progress = ProgressLine::Mode::kShow;
};

/// Stores the metadata and prints the report; returns the exit code: of failure if there are no
/// media. Throws Error as add_media_metadata().
int store_media_metadata(const std::string& path, const MediaFilter& filter,
                         const MediaRunFlags& flags, const std::stop_token& stop);

}  // namespace energon::cli
