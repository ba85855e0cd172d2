// energon prepare-media: stores what the images, sounds and videos of a prepared dataset, or a
// folder of files, are like.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "cli/commands/command.h"
#include "cli/job/at_least.h"
#include "cli/job/interrupt.h"
#include "cli/job/media_flags.h"
#include "io/error.h"

namespace energon::cli {
namespace {

struct PrepareMediaFlags {
  std::string path;
  MediaFlags media;
  MediaRunFlags run;
  bool is_progress_shown = true;
};

int run_prepare_media(PrepareMediaFlags& flags) {
  const std::optional<MediaFilter> filter = media_filter_of(flags.media);
  if (!filter) {
    throw UsageError{
        "which parts are media must be said: --media-metadata-by-extension, "
        "--media-metadata-by-header or --media-metadata-by-glob PATTERNS"};
  }
  std::error_code ignored;
  if (!std::filesystem::is_directory(flags.path, ignored)) {
    throw Error(ErrorCode::kNotFound, "no such folder", {.path = flags.path});
  }
  flags.run.progress =
      flags.is_progress_shown ? ProgressLine::Mode::kShow : ProgressLine::Mode::kHide;
  const StopOnInterrupt interrupt;
  return store_media_metadata(flags.path, *filter, flags.run, interrupt.token());
}

}  // namespace

void add_prepare_media(CLI::App& app, Run& run) {
  CLI::App* const command = app.add_subcommand(
      "prepare-media",
      "Store size, format, duration and so on of the images, sounds and videos of a prepared "
      "dataset, for filters and look-ups; or of a folder of files, for look-ups");
  const auto flags = std::make_shared<PrepareMediaFlags>();
  command
      ->add_option("PATH", flags->path,
                   "Folder of a prepared dataset, or of files that are auxiliary data")
      ->required();
  add_media_flags(*command, flags->media);
  command->add_flag("--update", flags->run.keeps_existing,
                    "Do not read parts or files again that have metadata, by their names");
  command
      ->add_option("--num-workers", flags->run.num_workers,
                   "Threads; default: one per core, at most 16")
      ->check(at_least(1));
  command->add_option("--cache-dir", flags->run.cache_dir,
                      "Where compressed shards are expanded to");
  command->add_flag("--progress,!--no-progress", flags->is_progress_shown,
                    "Show a progress bar [on]");
  command->add_flag("--json", flags->run.is_json, "Report as JSON");
  command->callback([flags, &run] { run = [flags] { return run_prepare_media(*flags); }; });
}

}  // namespace energon::cli
