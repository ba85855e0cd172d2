// energon lint: reads everything, reports every problem with shard and byte.

#include "io/lint/lint.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/decoded_file.h"
#include "cli/flags.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "energon/sample/buffer_allocator.h"
#include "io/bytes.h"
#include "io/error.h"
#include "media/av/av_decoder.h"
#include "media/data/documents.h"
#include "media/decode/sample_decoder.h"

namespace energon::cli {
namespace {

// --- Decoding parts ---

/// Checks that parts can be decoded, for --decode. Thread-safe.
class PartCheck {
 public:
  PartCheck();

  /// Reads and decodes the part if SampleDecoder decodes parts with its name: images to the last
  /// pixel, sound and video to the end. Returns "cannot be decoded: …" on failure, nullopt
  /// otherwise. Throws what `read` throws.
  std::optional<std::string> check(std::string_view part, const ReadPart& read);

  /// Number of parts that were decoded or failed.
  std::int64_t count() const { return count_; }

 private:
  void decode(std::string_view part, const SharedBytes& content);

  const SampleDecoder decoder_;
  HeapBufferPool memory_;
  std::atomic<std::int64_t> count_ = 0;
};

constexpr std::int64_t kFramesAtOnce = 256;
constexpr FrameSize kTinyFrame = {.width = 16,
                                  .height = 16};  // saves time; every frame is decoded anyway

// Decodes all frames and samples, a few frames at a time so that long videos need little memory.
void decode_to_the_end(const SharedBytes& file, BufferAllocator& memory) {
  AvDecoder decoder(file);
  const std::int64_t frames = decoder.has_video() ? decoder.video_frame_count() : 0;
  for (std::int64_t first = 0; first < frames; first += kFramesAtOnce) {
    const std::int64_t last = std::min(first + kFramesAtOnce, frames) - 1;
    const ClipRange range = {static_cast<double>(first), static_cast<double>(last)};
    decoder.video_clips({&range, 1}, VideoUnit::kFrames, kTinyFrame, memory);
  }
  if (decoder.has_audio()) {
    decoder.audio_sample_count();
  }
}

PartCheck::PartCheck() : decoder_({.image = "rgb8", .av = AvMode::kTensors}) {}

std::optional<std::string> PartCheck::check(std::string_view part, const ReadPart& read) {
  if (!content_kind_of_name(part) && !name_inside_gzip(part)) {
    return std::nullopt;
  }
  const SharedBytes content = read();
  ++count_;
  try {
    decode(part, content);
    return std::nullopt;
  } catch (const std::exception& error) {
    return "cannot be decoded: " + reason_of_failure(error);
  }
}

void PartCheck::decode(std::string_view part, const SharedBytes& content) {
  if (const auto inside = name_inside_gzip(part)) {
    decode(*inside, expand_gzip(content.view, {}, memory_));
  } else if (content_kind_of_name(part) == ContentKind::kAv) {
    decode_to_the_end(content, memory_);
  } else {
    decoder_.decode_part(part, content, memory_);
  }
}

// --- The command ---

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
  print_warnings(report.warnings);
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
        line.emplace(dataset.empty() ? "Reading" : "Reading " + printable(dataset), "shards",
                     ProgressLine::mode(flags.is_progress_shown));
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
      "lint", "Read a whole dataset and report all problems; exit code 1 if there are any");
  const auto flags = std::make_shared<LintFlags>();
  add_path(*command, flags->path, PathCount::kSeveral);
  add_threads(*command, flags->num_workers);
  add_cache_dir(*command, flags->cache_dir, ShardUse::kScan);
  add_strict_tars(*command, flags->has_strict_tars);
  command->add_flag("--decode", flags->is_decoding,
                    "Decode every part completely: all pixels, frames and audio samples");
  add_progress(*command, flags->is_progress_shown);
  on_run(*command, flags, run, run_lint);
}

}  // namespace energon::cli
