#include "cli/preview/preview_page.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "cli/data_summary.h"
#include "cli/interrupt.h"
#include "cli/open_dataset.h"
#include "cli/output.h"
#include "cli/preview/html_card.h"
#include "cli/preview/html_page.h"
#include "cli/preview/html_text.h"
#include "energon/read/jsonl_dataset.h"
#include "energon/read/webdataset.h"
#include "io/error.h"
#include "io/recipe/recipe.h"
#include "wrappers/recipe/open_data.h"

namespace energon::cli {

// --- The first samples of the page: --key and --start ---

namespace {

/// A sample of a leaf.
struct LeafPosition {
  std::size_t leaf = 0;    ///< in PipelineData::leaves
  std::int64_t index = 0;  ///< in the leaf
};

bool is_same(const SourceShard& a, const SourceShard& b) {
  const auto whole = [](const std::string& path) {
    return std::filesystem::absolute(path).lexically_normal();
  };
  return a.shard_name == b.shard_name && whole(a.dataset_path) == whole(b.dataset_path);
}

// The index of `sample` in `dataset`; nullopt if the dataset does not contain it.
std::optional<std::int64_t> index_of(const LeafDataset& dataset, const SampleSource& sample) {
  if (const auto* const lines = dynamic_cast<const JsonlDataset*>(&dataset)) {
    return is_same(*lines->source(), *sample.shard) ? std::optional(sample.index_in_shard)
                                                    : std::nullopt;
  }
  const auto* const tars = dynamic_cast<const Webdataset*>(&dataset);
  if (tars == nullptr) {
    return std::nullopt;
  }
  for (std::size_t shard = 0; shard < tars->shard_counts().size(); ++shard) {
    const auto number = static_cast<std::int64_t>(shard);
    if (is_same(*tars->source(number), *sample.shard)) {
      return tars->first_of_shard(number) + sample.index_in_shard;
    }
  }
  return std::nullopt;
}

bool is_in(const PipelineLeaf& leaf, std::int64_t index) {
  return !leaf.range || (index >= leaf.range->begin && index < leaf.range->end);
}

/// The position in each dataset, counted from 0, if `--start` is a number without leading zeros.
/// Returns nullopt for other values, which are keys.
std::optional<std::int64_t> position_in(const std::string& start) {
  std::int64_t position = 0;
  const auto [end, error] = std::from_chars(start.data(), start.data() + start.size(), position);
  const bool is_number =
      error == std::errc() && end == start.data() + start.size() && position >= 0;
  return is_number && std::to_string(position) == start ? std::optional(position) : std::nullopt;
}

/// The samples with the key `key`, in the order of the leaves of `data`, which was opened from
/// `path`. Throws Error: kNotFound if there is none, kUnsupported if the key is only in joins,
/// which have no index of keys; else as find_samples().
std::vector<LeafPosition> find_positions(const std::string& path, const std::string& key,
                                         const DataOptions& options, const PipelineData& data) {
  const std::vector<FoundSample> found =
      look_up_samples(path, key, {.open = options.open, .split = options.split});
  std::vector<LeafPosition> positions;
  for (std::size_t leaf = 0; leaf < data.leaves.size(); ++leaf) {
    for (const FoundSample& sample : found) {
      const auto index = index_of(*data.leaves[leaf].dataset, source_of(sample.sample, 0));
      if (index && is_in(data.leaves[leaf], *index)) {
        positions.push_back({leaf, *index});
        break;
      }
    }
  }
  if (positions.empty()) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the sample '{}' exists, but only in a join or outside the subsets of "
                            "the metadataset; give --start a number",
                            printable(key)),
                {.path = path});
  }
  return positions;
}

}  // namespace

// --- The page ---

namespace {

constexpr std::uint64_t kPageBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kLargestSample = std::uint64_t{1} << 30;

/// The length of the part of --pack-by in a sample.
struct PartLength {
  std::string key;
  std::int64_t bytes = 0;
  std::int64_t characters = 0;
  bool is_text = false;
};

PartLength length_of(std::string_view key, const Value& value) {
  const auto* const bytes = std::get_if<SharedBytes>(&value.base());
  const std::string_view text = bytes == nullptr ? std::string_view() : bytes->text();
  const auto characters = std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  return {std::string(key), static_cast<std::int64_t>(text.size()), characters,
          looks_like_text(text)};
}

class PageMaker {
 public:
  explicit PageMaker(const PreviewPageOptions& options)
      : options_(options),
        data_options_{
            .split = options.split,
            .open = {.broken_shards = BrokenShards::kSkip, .cache_dir = options.cache_dir},
            .max_sample_bytes = kLargestSample},
        budget_(kPageBytes) {
    if (options.decode) {
      parts_.image_decoder.emplace(SampleDecoderOptions{.image = *options.decode});
    }
  }

  PreviewPage make() {
    page_.title = options_.path;
    if (open()) {
      show();
    }
    describe_page();
    return {to_html(page_), samples_, failures_};
  }

 private:
  // Returns false, with a note on the page, if the data is too damaged to be opened.
  bool open() {
    try {
      data_ = open_pipeline_data(options_.path, data_options_);
      recipe_ = load_recipe(options_.path, options_.split);
      page_.warnings = data_.warnings;
      return true;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kCorruptData) {
        throw;
      }
      ++failures_;
      page_.columns.push_back(
          {.title = "unreadable", .cards = {card_of_failure({}, error.what())}});
      return false;
    }
  }

  void show() {
    if (options_.key) {
      for (const LeafPosition& at :
           find_positions(options_.path, *options_.key, data_options_, data_)) {
        add_column(at.leaf, at.index, 1);
      }
    } else {
      add_columns();
    }
    add_broken();
  }

  void add_columns() {
    std::vector<std::int64_t> begins;
    for (const PipelineLeaf& leaf : data_.leaves) {
      begins.push_back(range_of(leaf).begin);
    }
    if (options_.start) {
      if (const auto position = position_in(*options_.start)) {
        std::ranges::for_each(begins, [&](std::int64_t& begin) { begin += *position; });
      } else {
        for (const LeafPosition& at :
             find_positions(options_.path, *options_.start, data_options_, data_)) {
          begins[at.leaf] = at.index;
        }
      }
    }
    const auto shown = std::min(static_cast<std::int64_t>(begins.size()), options_.limit);
    for (std::int64_t i = 0; i < shown; ++i) {
      const std::int64_t count = options_.limit / shown + (i < options_.limit % shown ? 1 : 0);
      add_column(static_cast<std::size_t>(i), begins[static_cast<std::size_t>(i)], count);
    }
    if (shown < static_cast<std::int64_t>(begins.size())) {
      page_.warnings.push_back(
          fmt::format("{} more are not shown: raise --limit",
                      plural(static_cast<std::int64_t>(begins.size()) - shown, "dataset")));
    }
  }

  void add_column(std::size_t number, std::int64_t begin, std::int64_t count) {
    const PipelineLeaf& leaf = data_.leaves[number];
    const SampleRange range = range_of(leaf);
    PageColumn& column = page_.columns.emplace_back();
    column.title = name_of(recipe_.leaves.at(number));
    const std::unique_ptr<LeafReader> reader = leaf.dataset->open_reader();
    std::int64_t shown = 0;
    for (std::int64_t i = begin; i < range.end && shown < count; ++i) {
      check_interrupt();
      if (!leaf.dataset->is_excluded(i)) {
        column.cards.push_back(card_at(*reader, number, i));
        ++shown;
      }
    }
    describe_column(column, leaf, shown);
  }

  std::string card_at(LeafReader& reader, std::size_t leaf, std::int64_t index) {
    ++samples_;
    std::vector<Sample> read;
    try {
      reader.read({&index, 1}, heap_memory(), read);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kCancelled) {
        throw;
      }
      ++failures_;
      return card_of_failure(described(reader, index), error.what());
    }
    Sample& sample = read.at(0);
    sample.restore_key =
        RestoreKey::leaf(Stage::kWebdataset, {static_cast<std::int64_t>(leaf), index});
    if (const Value* const part = sample.find(options_.pack_by)) {
      lengths_.push_back(length_of(sample.keys.at(0), *part));
    }
    SampleCard card = card_of(sample, parts_, budget_);
    failures_ += card.is_failed ? 1 : 0;
    return std::move(card.html);
  }

  static FailedSample described(LeafReader& reader, std::int64_t index) {
    try {
      return reader.describe(index);
    } catch (const Error&) {  // the shard is gone
      return {};
    }
  }

  void describe_column(PageColumn& column, const PipelineLeaf& leaf, std::int64_t shown) const {
    const SampleRange range = range_of(leaf);
    column.facts =
        fmt::format("{} of {}", with_separators(shown), plural(range.end - range.begin, "sample"));
    if (recipe_.mixing == Mixing::kWeighted) {
      column.share = leaf.weight;
      column.facts += fmt::format(", weight {:.4g} of 1", leaf.weight);
    } else if (recipe_.mixing == Mixing::kEpochized) {
      column.facts += fmt::format(", {:.4g} times an epoch", leaf.repetitions);
    }
    if (leaf.subflavors != "{}") {
      column.facts += ", " + leaf.subflavors;
    }
  }

  // Shards that cannot be opened.
  void add_broken() {
    for (const FailureReport& report : data_.broken) {
      ++failures_;
      page_.columns.back().cards.push_back(card_of_failure(
          report.samples.empty() ? FailedSample() : report.samples.front(), report.cause));
    }
  }

  void describe_page() {
    page_.facts.push_back(
        fmt::format("{} of {}; {}", plural(samples_, "sample"),
                    plural(static_cast<std::int64_t>(data_.leaves.size()), "dataset"),
                    failures_ == 0 ? "no failures" : plural(failures_, "failure")));
    if (budget_.refused() > 0) {
      page_.warnings.push_back(
          fmt::format("the page is full at {}: {} left out; lower --limit", human_bytes(kPageBytes),
                      budget_.refused() == 1 ? "1 piece is"
                                             : with_separators(budget_.refused()) + " pieces are"));
    }
    if (!options_.pack_by.empty()) {
      add_packs();
    }
  }

  // By characters if all parts are text, otherwise by bytes.
  void add_packs() {
    if (lengths_.empty()) {
      page_.warnings.push_back(
          fmt::format("no sample has the part '{}' of --pack-by", printable(options_.pack_by)));
      return;
    }
    const bool are_texts = std::ranges::all_of(lengths_, &PartLength::is_text);
    std::vector<PackedLength> samples;
    for (const PartLength& length : lengths_) {
      samples.push_back({length.key, are_texts ? length.characters : length.bytes});
    }
    page_.packs =
        packs_html(samples, options_.pack_length,
                   fmt::format("{} of {}", are_texts ? "characters" : "bytes", options_.pack_by));
  }

  const PreviewPageOptions& options_;
  const DataOptions data_options_;
  HtmlPartOptions parts_;
  PipelineData data_;
  Recipe recipe_;

  HtmlPage page_;
  PageBudget budget_;
  std::vector<PartLength> lengths_;
  std::int64_t samples_ = 0;
  std::int64_t failures_ = 0;
};

}  // namespace

PreviewPage preview_page(const PreviewPageOptions& options) { return PageMaker(options).make(); }

}  // namespace energon::cli
