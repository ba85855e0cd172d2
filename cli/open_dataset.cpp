#include "cli/open_dataset.h"

#include <unistd.h>

#include "cli/interrupt.h"
#include "cli/output.h"

namespace energon::cli {
namespace {

// Shows a progress bar during its lifetime if standard error is a terminal.
class OpenProgressLine {
 public:
  OpenProgressLine()
      : line_("Opening", "shards", ProgressLine::mode(::isatty(STDERR_FILENO) == 1)) {}

  void watch(OpenOptions& options) {
    options.progress = [this](const OpenProgress& state) {
      if (line_.is_due()) {  // prepared datasets open too fast to be shown
        line_.update(state.shards_done, state.shards_total);
      }
    };
  }

 private:
  ProgressLine line_;
};

void watch_search(FindOptions& options, OpenProgressLine& progress) {
  progress.watch(options.open);
  options.check_cancelled = check_interrupt;
  options.warn = [](const std::string& warning) { print_warning(warning); };
}

}  // namespace

ShardSet open_shards(const std::string& path, OpenOptions options) {
  OpenProgressLine progress;
  progress.watch(options);
  ShardSet shards = open_split(path, options);
  print_warnings(shards.warnings);
  return shards;
}

PipelineData open_pipeline_data(const std::string& path, DataOptions options) {
  OpenProgressLine progress;
  progress.watch(options.open);
  PipelineData data = open_data(path, options);
  print_warnings(data.warnings);
  return data;
}

SampleRange range_of(const PipelineLeaf& leaf) {
  return leaf.range.value_or(SampleRange{.begin = 0, .end = leaf.dataset->sample_count()});
}

FoundSample look_up_sample(const std::string& path, const std::string& key, FindOptions options) {
  OpenProgressLine progress;
  watch_search(options, progress);
  return find_sample(path, key, options);
}

std::vector<FoundSample> look_up_samples(const std::string& path, const std::string& key,
                                         FindOptions options) {
  OpenProgressLine progress;
  watch_search(options, progress);
  return find_samples(path, key, options);
}

}  // namespace energon::cli
