#include "cli/open_dataset.h"

#include <unistd.h>

#include "cli/output.h"
#include "cli/progress_line.h"

namespace energon::cli {

ShardSet open_shards(const std::string& path, const std::string& split_part,
                     const std::optional<std::string>& cache_dir) {
  return open_shards(path, OpenOptions{.split_part = split_part, .cache_dir = cache_dir});
}

ShardSet open_shards(const std::string& path, OpenOptions options) {
  const bool is_watched = ::isatty(STDERR_FILENO) == 1;
  ProgressLine progress("Opening", "shards",
                        is_watched ? ProgressLine::Mode::kShow : ProgressLine::Mode::kHide);
  options.progress = [&](const OpenProgress& state) {
    if (progress.is_due()) {  // prepared datasets open too fast to be shown
      progress.update(state.shards_done, state.shards_total);
    }
  };
  ShardSet shards = open_split(path, options);
  for (const std::string& warning : shards.warnings) {
    print_warning(warning);
  }
  return shards;
}

}  // namespace energon::cli
