// energon lint: reads everything, reports every problem with shard and byte.

#include "io/lint/lint.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "cli/commands/command.h"
#include "cli/job/at_least.h"
#include "cli/job/interrupt.h"
#include "cli/job/part_check.h"
#include "cli/job/path_option.h"
#include "cli/job/strict_tars.h"
#include "cli/show/output.h"
#include "cli/show/progress_line.h"
#include "io/error.h"

namespace energon::cli {
namespace {

struct LintFlags {
  std::string path;
  std::optional<int> num_workers;
  std::optional<std::string> cache_dir;
  bool has_strict_tars = false;
  bool is_decoding = false;
  bool is_progress_shown = true;
};

// "dataset: shard-003.tar: byte 1024: sample 'a': message"
std::string describe(const LintProblem& problem) {
  std::string text;
  for (const std::string& name : {problem.dataset, problem.shard}) {
    text += name.empty() ? "" : printable(name) + ": ";
  }
  if (problem.byte_offset) {
    text += fmt::format("byte {}: ", *problem.byte_offset);
  }
  if (problem.key) {
    text += fmt::format("sample '{}': ", printable(*problem.key));
  }
  return text + problem.message;
}

int print_report(const LintReport& report, const std::string& decoded) {
  for (const std::string& warning : report.warnings) {
    print_warning(warning);
  }
  for (const LintProblem& problem : report.problems) {
    output().print("{}\n", describe(problem));
  }
  output().print("{} in {}{} scanned, {} compared with checksums{}: {}\n",
                 plural(report.samples, "sample"), plural(report.shards, "shard"),
                 report.datasets == 1 ? "" : " of " + plural(report.datasets, "dataset"),
                 with_separators(report.samples_checksummed), decoded,
                 report.ok()
                     ? "no problems"
                     : plural(static_cast<std::int64_t>(report.problems.size()), "problem"));
  return report.ok() ? kExitOk : kExitFailure;
}

int run_lint(const LintFlags& flags) {
  const StopOnInterrupt interrupt;
  LintOptions options{.cache_dir = flags.cache_dir,
                      .threads = flags.num_workers,
                      .strictness = strictness(flags.has_strict_tars),
                      .stop = interrupt.token()};
  PartCheck check;
  if (flags.is_decoding) {
    options.check_part = [&check](std::string_view part, const ReadPart& read) {
      return check.check(part, read);
    };
  }
  LintReport report;
  {
    std::optional<ProgressLine> line;
    std::string dataset;
    options.progress = [&](const LintProgress& state) {
      if (!line || state.dataset != dataset) {
        dataset = state.dataset;
        line.emplace(
            dataset.empty() ? "Reading" : "Reading " + printable(dataset), "shards",
            flags.is_progress_shown ? ProgressLine::Mode::kShow : ProgressLine::Mode::kHide);
      }
      line->update(state.shards_done, state.shards_total);
    };
    report = lint(flags.path, options);
  }
  return print_report(
      report, flags.is_decoding ? fmt::format(", {} decoded", plural(check.count(), "part")) : "");
}

}  // namespace

void add_lint(CLI::App& app, Run& run) {
  CLI::App* const command = app.add_subcommand(
      "lint",
      "Read a whole dataset and report everything that is wrong; exit code 1 if anything is");
  const auto flags = std::make_shared<LintFlags>();
  add_path(*command, flags->path, PathCount::kSeveral);
  command
      ->add_option("--num-workers", flags->num_workers,
                   "Threads; default: one per core, at most 16")
      ->check(at_least(1));
  command->add_option("--cache-dir", flags->cache_dir, "Where compressed shards are expanded to");
  add_strict_tars(*command, flags->has_strict_tars);
  command->add_flag("--decode", flags->is_decoding,
                    "Decode every part, to the last pixel, frame and sample");
  command->add_flag("--progress,!--no-progress", flags->is_progress_shown,
                    "Show a progress bar [on]");
  command->callback([flags, &run] { run = [flags] { return run_lint(*flags); }; });
}

}  // namespace energon::cli
