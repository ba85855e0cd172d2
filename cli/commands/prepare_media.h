// Shared by prepare and prepare-media: the options that select media, and the run that stores their
// metadata.

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

/// The names of the given options.
std::vector<std::string> given_media_flags(const MediaFlags& flags);

/// Returns nullopt if no option is given. Throws UsageError if several are.
std::optional<MediaFilter> media_filter_of(const MediaFlags& flags);

/// The options of a run.
struct MediaRunFlags {
  std::optional<int> num_workers = std::nullopt;
  std::optional<std::string> cache_dir = std::nullopt;
  bool keeps_existing = false;
  bool is_json = false;
  ProgressLine::Mode progress = ProgressLine::Mode::kShow;
};

/// Stores the metadata and prints the report; returns the exit code, kExitFailure if there are no
/// media. Throws Error as add_media_metadata().
int store_media_metadata(const std::string& path, const MediaFilter& filter,
                         const MediaRunFlags& flags, const std::stop_token& stop);

}  // namespace energon::cli
