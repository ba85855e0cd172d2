// energon preview: shows the first samples of each dataset of a split as text, or samples with
// images, sounds and videos as an HTML page.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/data_summary.h"
#include "cli/flags.h"
#include "cli/interrupt.h"
#include "cli/open_dataset.h"
#include "cli/output.h"
#include "cli/preview/html_text.h"
#include "cli/preview/preview_page.h"
#include "energon/sample/buffer_allocator.h"
#include "io/bytes.h"
#include "io/dataset/dataset_kind.h"
#include "io/error.h"
#include "io/file.h"
#include "io/lint/media_header.h"
#include "io/recipe/recipe.h"

namespace energon::cli {
namespace {

// --- Parts as text ---

constexpr std::size_t kShownBytes = 400;
constexpr std::size_t kShownLines = 20;
constexpr std::size_t kLongestJson = 1 << 16;

std::string_view extension(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

// Shortened to fit on a screen, with control characters and invalid bytes escaped.
std::string shown_text(std::string_view text) {
  const std::string_view beginning = whole_characters(text, kShownBytes);
  const std::vector<std::string_view> lines = split_lines(beginning);
  std::string shown;
  for (std::size_t i = 0; i < lines.size() && i < kShownLines; ++i) {
    shown += (lines.size() > 1 ? "\n      " : " ") + printable(lines[i]);
  }
  return shown + (beginning.size() < text.size() || lines.size() > kShownLines ? " …" : "");
}

std::string describe_media(const MediaHeader& header) {
  const std::string channels = header.channels > 0 ? ", " + plural(header.channels, "channel") : "";
  if (header.width == 0) {
    return fmt::format("{}, {} Hz{}, {:.2f} s", header.format, header.sample_rate, channels,
                       header.seconds);
  }
  return fmt::format("{}, {} x {}{}", header.format, header.width, header.height, channels);
}

std::string describe_content(std::string_view name, ByteView bytes) {
  if (const auto header = read_media_header(bytes)) {
    return describe_media(*header);
  }
  const std::string_view text = as_text(bytes);
  if (extension(name) == "json" && text.size() <= kLongestJson) {
    const auto json = nlohmann::ordered_json::parse(text, nullptr, false);
    if (!json.is_discarded()) {
      return "json" + shown_text(indented_json(json));
    }
    return "not valid JSON:" + shown_text(text);
  }
  if (looks_like_text(whole_characters(text, kShownBytes / 2))) {
    return "text" + shown_text(text.substr(0, kShownBytes * 2));
  }
  return "binary";
}

/// Size and kind, then the start of text, numbers and JSON, or the content of a media header. Lines
/// after the first are indented. Safe for a terminal.
std::string preview_part(std::string_view name, ByteView bytes) {
  return fmt::format("  {}: {}, {}", printable(name),
                     plural(static_cast<std::int64_t>(bytes.size()), "byte"),
                     bytes.empty() ? "empty" : describe_content(name, bytes));
}

// --- The command ---

struct PreviewFlags {
  PreviewPageOptions page;  // PATH, --split and --cache-dir; the rest for --html
  std::int64_t count = 3;
  std::string html;
};

void print_sample(const Sample& sample) {
  std::string sources;  // several if the sample is joined
  for (const SampleSource& source : sample.sources) {
    sources += fmt::format("{}{}, sample {}", sources.empty() ? "" : "; ",
                           printable(source.shard->shard_name), source.index_in_shard);
  }
  output().print("{}  ({})\n", printable(sample.keys.at(0)), sources);
  for (const auto& [name, value] : sample.fields) {
    output().print("{}\n", preview_part(name, std::get<SharedBytes>(value.base()).view));
  }
}

void print_samples(const PipelineLeaf& leaf, std::int64_t count) {
  const std::unique_ptr<LeafReader> reader = leaf.dataset->open_reader();
  const SampleRange range = range_of(leaf);
  HeapBufferPool memory;
  for (std::int64_t i = range.begin; i < range.end && count > 0; ++i) {
    if (interrupt_signal() != 0) {
      return;
    }
    if (leaf.dataset->is_excluded(i)) {
      continue;
    }
    std::vector<Sample> samples;
    reader->read({&i, 1}, memory, samples);
    print_sample(samples.at(0));
    --count;
  }
}

int write_page(const PreviewFlags& flags) {
  check_writable(flags.html, "--html");
  const PreviewPage page = preview_page(flags.page);
  write_file_atomically(flags.html, as_bytes(page.html));
  output().print("{}: {}, {}, {}\n", printable(flags.html), plural(page.samples, "sample"),
                 human_bytes(page.html.size()),
                 page.failures == 0 ? "no failures" : plural(page.failures, "failure"));
  return page.samples == 0 && page.failures > 0 ? kExitFailure : kExitOk;
}

int print_text(const PreviewFlags& flags) {
  const std::string& path = flags.page.path;
  const PipelineData data = open_pipeline_data(
      path, {.split = flags.page.split, .open = {.cache_dir = flags.page.cache_dir}});
  const Recipe recipe = load_recipe(path, flags.page.split);
  for (std::size_t i = 0; i < data.leaves.size() && interrupt_signal() == 0; ++i) {
    if (is_metadataset(path)) {
      output().print("{}== {}\n", i == 0 ? "" : "\n", name_of(recipe.leaves.at(i)));
    }
    print_samples(data.leaves[i], flags.count);
  }
  return interrupt_signal() != 0 ? kExitSignal + interrupt_signal() : kExitOk;
}

void add_page_options(CLI::App& command, PreviewFlags& flags) {
  PreviewPageOptions& page = flags.page;
  CLI::Option* const html =
      command.add_option("--html", flags.html,
                         "Write an HTML page with images, sounds and videos to this file instead");
  const auto add = [&](const std::string& name, auto& value, const std::string& text) {
    return command.add_option(name, value, text + " (--html)")->needs(html);
  };
  add("--key", page.key, "Show only the samples with this key");
  add("--start", page.start,
      "Start at the sample with this key, or at this position (from 0) in each dataset");
  add("--limit", page.limit, "Maximum number of samples on the page, for all datasets together")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{10000}));
  add("--decode", page.decode,
      "Also decode images in this mode, such as torchrgb, and describe the tensors");
  add("--pack-by", page.pack_by,
      "Show how packs would be filled, by characters or bytes of this part");
  add("--pack-length", page.pack_length, "Maximum length of a pack")->check(at_least(1));
  command.get_option("--pack-by")->needs(command.get_option("--pack-length"));
  command.get_option("--pack-length")->needs(command.get_option("--pack-by"));
  command.get_option("--key")->excludes(command.get_option("--start"));
  command.get_option("--count")->excludes(html);
}

}  // namespace

void add_preview(CLI::App& app, Run& run) {
  CLI::App* const command =
      app.add_subcommand("preview", "Show the first samples as text, or samples as an HTML page");
  const auto flags = std::make_shared<PreviewFlags>();
  PreviewPageOptions& page = flags->page;
  add_path(*command, page.path, PathCount::kSeveral);
  command
      ->add_option("--split-part,--split-parts,--split", page.split,
                   "Part of a prepared dataset, or split of a metadataset")
      ->capture_default_str();
  command
      ->add_option("--count", flags->count,
                   "Number of samples to show as text; for a metadataset, of each dataset")
      ->capture_default_str()
      ->check(at_least(1));
  add_cache_dir(*command, page.cache_dir, ShardUse::kRead);
  add_page_options(*command, *flags);
  command->callback([flags, &run] {
    run = [flags] { return flags->html.empty() ? print_text(*flags) : write_page(*flags); };
  });
}

}  // namespace energon::cli
