// energon prepare: makes a dataset of a folder of shards, indexes a JSONL file, or writes the join
// indices of a metadataset.

#include "io/prepare/prepare.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/command.h"
#include "cli/commands/prepare_media.h"
#include "cli/commands/sample_types.h"
#include "cli/data_summary.h"
#include "cli/flags.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "io/dataset/dataset_kind.h"
#include "io/error.h"
#include "io/prepare/prepare_join.h"

namespace energon::cli {
namespace {

// --- JSONL files and metadatasets ---

void print_jsonl(const std::string& path) {
  output().write("Preparing jsonl dataset…\n");
  output().flush();
  const StopOnInterrupt interrupt;
  const JsonlReport report = prepare_jsonl(path, interrupt.token());
  for (const std::string& warning : report.warnings) {
    print_warning(fmt::format("{}: {}", printable(path), warning));
  }
  output().print("Done. Found {} samples.\n", report.samples);
}

void print_join(const JoinReport& join) {
  if (join.rows == join.primary_samples) {
    output().print("Joined all {} samples\n", join.rows);
  } else {
    output().print("Joined {}/{} samples, skipped {} samples due to join\n", join.rows,
                   join.primary_samples, join.primary_samples - join.rows);
  }
  for (const std::int64_t missing : join.missing) {
    if (missing > 0) {
      output().print("Non-matching samples left empty, by dataset: {}\n",
                     fmt::join(join.missing, ", "));
      break;
    }
  }
}

void print_metadataset(const std::string& path) {
  output().write("Preparing metadataset…\n");
  output().flush();
  const StopOnInterrupt interrupt;
  const MetadatasetReport report = prepare_metadataset(path, interrupt.token());
  for (const JoinReport& join : report.joins) {
    print_join(join);
  }
  for (const std::string& file : report.removed) {
    output().print("Removed the unused index {}\n", file);
  }
  output().write(report.joins.empty() ? "Done. It has no joins, so it needs no index.\n"
                                      : "Done\n");
}

/// Prepares `path` if it is a JSONL file or a metadataset and returns the exit code. Returns
/// nullopt for other data. `shard_flags` are the given options that apply to shards only. Throws
/// UsageError if there are any, Error as prepare_jsonl() and prepare_metadataset().
std::optional<int> prepare_other_kind(const std::string& path,
                                      const std::vector<std::string>& shard_flags) {
  std::error_code ignored;
  const bool is_jsonl = path.ends_with(".jsonl");
  if (!std::filesystem::is_regular_file(path, ignored) || (!is_jsonl && !is_metadataset(path))) {
    return std::nullopt;
  }
  if (!shard_flags.empty()) {
    throw UsageError{
        fmt::format("{} {} for folders of shards, not for a {}", fmt::join(shard_flags, ", "),
                    shard_flags.size() == 1 ? "is" : "are", to_string(detect_dataset_kind(path)))};
  }
  if (is_jsonl) {
    print_jsonl(path);
  } else {
    print_metadataset(path);
  }
  return kExitOk;
}

// --- Folders of shards ---

constexpr std::size_t kShownPartNames = 10;

struct PrepareFlags {
  std::string path;
  std::string split_ratio;
  std::vector<std::string> split_parts;
  std::vector<std::string> exclude;
  std::optional<int> num_workers;
  bool has_checksums = false;
  bool has_strict_tars = false;
  bool is_non_interactive = false;
  bool is_overwriting = false;
  bool is_updating = false;
  bool is_progress_shown = true;
  std::optional<std::string> cache_dir;
  SampleTypeFlags samples;
  MediaFlags media;
};

// "8,1,1" or "0.8, 0.1, 0.1": train, val and test.
std::vector<SplitRatio> parse_ratio(std::string_view text) {
  std::vector<SplitRatio> ratios;
  for (const char* const name : {"train", "val", "test"}) {
    while (text.starts_with(' ')) {
      text.remove_prefix(1);
    }
    SplitRatio ratio{.part = name};
    const auto [stop, error] =
        std::from_chars(text.data(), text.data() + text.size(), ratio.weight);
    if (error != std::errc()) {
      ratios.clear();
      break;
    }
    text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
    while (text.starts_with(' ')) {
      text.remove_prefix(1);
    }
    const bool is_last = ratios.size() == 2;
    if (is_last ? !text.empty() : !text.starts_with(',')) {
      ratios.clear();
      break;
    }
    text.remove_prefix(is_last ? 0 : 1);
    ratios.push_back(ratio);
  }
  double sum = 0;
  for (const SplitRatio& ratio : ratios) {
    sum += ratio.weight >= 0 ? ratio.weight : std::numeric_limits<double>::quiet_NaN();
  }
  if (!std::isfinite(sum) || sum <= 0) {
    throw UsageError{
        "--split-ratio: expected three non-negative numbers for train, val and test, such as "
        "8,1,1"};
  }
  return ratios;
}

std::vector<SplitPattern> parse_patterns(const std::vector<std::string>& texts) {
  std::vector<SplitPattern> patterns;
  for (const std::string& text : texts) {
    const std::size_t colon = text.find(':');
    if (colon == 0 || colon == std::string::npos || colon + 1 == text.size()) {
      throw UsageError{fmt::format(
          "--split-parts: expected NAME:REGEX, such as train:train-.*, found '{}'", text)};
    }
    patterns.push_back({.part = text.substr(0, colon), .regex = text.substr(colon + 1)});
  }
  return patterns;
}

bool is_prepared(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path + "/.nv-meta/.info.json", ignored) ||
         std::filesystem::exists(path + "/.nv-meta/.info.yaml", ignored);
}

PrepareOptions choose_options(const PrepareFlags& flags) {
  PrepareOptions options{.exclude_regexes = flags.exclude,
                         .strictness = strictness(flags.has_strict_tars),
                         .checksums = flags.has_checksums ? Checksums::kWrite : Checksums::kNone,
                         .cache_dir = flags.cache_dir,
                         .threads = flags.num_workers};
  if (!flags.split_ratio.empty()) {
    options.split_ratios = parse_ratio(flags.split_ratio);
  }
  options.split_patterns = parse_patterns(flags.split_parts);
  const bool is_interactive =
      !flags.is_non_interactive && (flags.samples.is_asking || ::isatty(STDIN_FILENO) == 1);
  if (flags.is_updating) {
    options.existing = Existing::kUpdate;
  } else if (flags.is_overwriting) {
    options.existing = Existing::kOverwrite;
  } else if (is_interactive && is_prepared(flags.path)) {
    const std::string answer = ask("The dataset is already prepared. Prepare it again? [y/N] ");
    const bool is_yes = answer == "y" || answer == "Y" || answer == "yes";
    options.existing = is_yes ? Existing::kOverwrite : Existing::kRefuse;
  }
  if (options.split_ratios.empty() && options.split_patterns.empty()) {
    if (!is_interactive) {
      throw UsageError{
          "specify how to split the shards: --split-ratio 8,1,1 or --split-parts NAME:REGEX"};
    }
    options.split_ratios = parse_ratio(ask("Ratio of train, val and test, such as 8,1,1: "));
  }
  options.samples =
      flags.samples.is_asking
          ? ask_for_samples(first_samples(flags.path, {.exclude_regexes = flags.exclude,
                                                       .cache_dir = flags.cache_dir}),
                            flags.samples)
          : samples_of_flags(flags.samples);
  return options;
}

class ProgressBar final : public ProgressSink {
 public:
  explicit ProgressBar(ProgressLine::Mode mode) : line_("Indexing shards", "shards", mode) {}

  void on_progress(const PrepareProgress& progress) override {
    if (!is_total_shown_) {
      output().print("Found {} in total.\n", plural(progress.shards_total, "tar file"));
      output().flush();
      is_total_shown_ = true;
    }
    const double seconds = std::max(line_.elapsed_seconds(), 1e-3);
    line_.update(progress.shards_done, progress.shards_total,
                 fmt::format("{} samples/s, {}/s",
                             with_separators(static_cast<std::int64_t>(
                                 static_cast<double>(progress.samples) / seconds)),
                             human_bytes(static_cast<std::uint64_t>(
                                 static_cast<double>(progress.bytes) / seconds))));
  }

 private:
  ProgressLine line_;
  bool is_total_shown_ = false;
};

void print_report(const PrepareReport& report, const std::string& path) {
  print_warnings(report.warnings);
  std::string names;
  for (std::size_t i = 0; i < report.part_names.size() && i < kShownPartNames; ++i) {
    names += (i == 0 ? "" : ", ") + printable(report.part_names[i]);
  }
  if (report.part_names.size() > kShownPartNames) {
    names += fmt::format(" and {} more", report.part_names.size() - kShownPartNames);
  }
  output().print("Found the following part types in the dataset: {}\n", names);
  output().print("Prepared {} with {} in {} ({}).\n", plural(report.samples, "sample"),
                 plural(report.parts, "part"), plural(report.shards, "shard"),
                 human_bytes(report.bytes));
  if (report.kept_shards > 0) {
    output().print("Kept the index of {}, unchanged since the earlier prepare.\n",
                   plural(report.kept_shards, "shard"));
  }
  const std::string meta = path + "/.nv-meta";
  if (const auto info = read_dataset_info(meta)) {
    output().print("Split:\n{}", describe_parts(summarize_parts(*info, report.split, meta), *info));
  }
  output().write("Done\n");
}

std::vector<std::string> given_shard_flags(const PrepareFlags& flags) {
  std::vector<std::string> given;
  const auto add = [&](const char* name, bool is_given) {
    if (is_given) {
      given.emplace_back(name);
    }
  };
  add("--split-ratio", !flags.split_ratio.empty());
  add("--split-parts", !flags.split_parts.empty());
  add("--exclude", !flags.exclude.empty());
  add("--num-workers", flags.num_workers.has_value());
  add("--checksums", flags.has_checksums);
  add("--strict-tars", flags.has_strict_tars);
  add("--force-overwrite", flags.is_overwriting);
  add("--update", flags.is_updating);
  add("--cache-dir", flags.cache_dir.has_value());
  const std::vector<std::string> more = given_sample_type_flags(flags.samples);
  given.insert(given.end(), more.begin(), more.end());
  const std::vector<std::string> media = given_media_flags(flags.media);
  given.insert(given.end(), media.begin(), media.end());
  return given;
}

int run_prepare(const PrepareFlags& flags) {
  std::error_code ignored;
  if (!std::filesystem::exists(flags.path, ignored)) {
    throw Error(ErrorCode::kNotFound, "no such file or folder", {.path = flags.path});
  }
  if (const auto exit_code = prepare_other_kind(flags.path, given_shard_flags(flags))) {
    return *exit_code;
  }
  const std::optional<MediaFilter> media = media_filter_of(flags.media);
  PrepareOptions options = choose_options(flags);
  const StopOnInterrupt interrupt;
  options.stop = interrupt.token();
  const auto mode = ProgressLine::mode(flags.is_progress_shown);
  PrepareReport report;
  {
    ProgressBar progress(mode);
    report = prepare(flags.path, options, progress);
  }
  if (report.lacks_media && !media) {
    report.warnings.push_back(
        fmt::format("the scanned shards have no media metadata, unlike the earlier prepare; to "
                    "store it, run energon prepare-media {}",
                    printable(flags.path)));
  }
  print_report(report, flags.path);
  if (!media) {
    return kExitOk;
  }
  return store_media_metadata(flags.path, *media,
                              {.num_workers = flags.num_workers,
                               .cache_dir = flags.cache_dir,
                               .keeps_existing = flags.is_updating,
                               .progress = mode},
                              options.stop);
}

}  // namespace

void add_prepare(CLI::App& app, Run& run) {
  CLI::App* const command =
      app.add_subcommand("prepare",
                         "Index a folder of shards and split it into train, val and test; index a "
                         "JSONL file; or write the join indices of a metadataset");
  const auto flags = std::make_shared<PrepareFlags>();
  command
      ->add_option(
          "PATH", flags->path,
          "Folder of .tar, .tgz, .tar.gz or .tar.zst files, a .jsonl file, or a metadataset .yaml")
      ->required();
  auto* const ratio = command->add_option("--split-ratio", flags->split_ratio,
                                          "Ratio of shards in train, val and test, such as 8,1,1");
  command
      ->add_option("--split-parts", flags->split_parts,
                   "Shards of one part, as NAME:REGEX; may be given several times")
      ->allow_extra_args(false)
      ->excludes(ratio);
  command
      ->add_option("--exclude", flags->exclude,
                   "Leave out shards whose name matches this regex anywhere")
      ->allow_extra_args(false);
  add_threads(*command, flags->num_workers);
  command->add_flag("--checksums", flags->has_checksums,
                    "Store a digest of every sample; reads all data once");
  add_strict_tars(*command, flags->has_strict_tars);
  add_sample_type_flags(*command, flags->samples);
  add_media_flags(*command, flags->media);
  command->add_flag("--non-interactive", flags->is_non_interactive, "Never prompt")
      ->excludes("--interactive");
  auto* const overwrite = command->add_flag(
      "--force-overwrite", flags->is_overwriting,
      "Prepare an already prepared dataset again, even if a tar is shorter than in its index");
  command
      ->add_flag("--update", flags->is_updating,
                 "Prepare again, but scan only shards that were added since; if another shard "
                 "changed, scan all")
      ->excludes(overwrite);
  add_progress(*command, flags->is_progress_shown);
  add_cache_dir(*command, flags->cache_dir, ShardUse::kScan);
  on_run(*command, flags, run, run_prepare);
}

}  // namespace energon::cli
