#include "io/recipe/metadataset.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "io/dataset/dataset_kind.h"
#include "io/dataset/yaml_value.h"
#include "io/error.h"
#include "io/file.h"
#include "io/recipe/metadataset_fields.h"

namespace energon {

namespace fs = std::filesystem;

// --- Subsets ---

namespace {

[[noreturn]] void fail(const std::string& problem) {
  throw Error(ErrorCode::kInvalidArgument, problem);
}

template <typename Number>
Number parse_number(std::string_view text, std::string_view whole) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    fail(
        fmt::format("subset bound '{}' is not a sample number, a percentage such as '12.5%', or "
                    "'end'",
                    printable(whole)));
  }
  return value;
}

bool is_percentage(std::string_view text) { return !text.empty() && text.back() == '%'; }

double parse_fraction(std::string_view text) {
  const double percent = parse_number<double>(text.substr(0, text.size() - 1), text);
  if (!(percent >= 0 && percent <= 100)) {
    fail(fmt::format("subset bound '{}' must be between 0% and 100%", printable(text)));
  }
  return percent / 100;
}

std::int64_t parse_position(std::string_view text) {
  const auto position = parse_number<std::int64_t>(text, text);
  if (position < 0) {
    fail(fmt::format("subset bound {} must not be negative", position));
  }
  return position;
}

}  // namespace

Subset parse_subset(std::string_view start, std::string_view end) {
  const bool open_end = end == "end";
  if (!open_end && is_percentage(start) != is_percentage(end)) {
    fail(fmt::format("subset range [{}, {}] mixes a percentage with a sample number",
                     printable(start), printable(end)));
  }
  Subset subset;
  if (is_percentage(start)) {
    subset.low = parse_fraction(start);
    subset.high = open_end ? 1 : parse_fraction(end);
  } else {
    subset.begin = parse_position(start);
    if (!open_end) {
      subset.end = parse_position(end);
    }
  }
  if (subset.low > subset.high || (subset.end && *subset.end < subset.begin)) {
    fail(fmt::format("subset range [{}, {}] ends before it starts", printable(start),
                     printable(end)));
  }
  return subset;
}

Subset compose(const Subset& inner, const Subset& outer) {
  if (outer.is_absolute()) {
    fail("only a leaf dataset can have an absolute subset range; use percentages for metadatasets");
  }
  Subset result = inner;
  result.low = inner.low + outer.low * (inner.high - inner.low);
  result.high = inner.low + outer.high * (inner.high - inner.low);
  return result;
}

SampleRange resolve(const Subset& subset, std::int64_t sample_count) {
  const std::int64_t end = subset.end.value_or(sample_count);
  if (subset.begin > end || end > sample_count) {
    fail(fmt::format("subset range [{}, {}) is not within the {} samples of the dataset",
                     subset.begin, end, sample_count));
  }
  const auto count = static_cast<double>(end - subset.begin);
  return {.begin = subset.begin + static_cast<std::int64_t>(count * subset.low),
          .end = subset.begin + static_cast<std::int64_t>(count * subset.high)};
}

// --- The file ---

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kDefaultDatasetConfig = "dataset.yaml";
constexpr std::string_view kDefaultSplitConfig = "split.yaml";

class Parser {
 public:
  explicit Parser(const std::string& path)
      : path_(fs::absolute(path).lexically_normal().string()),
        folder_(fs::path(path_).parent_path()) {}

  Metadataset parse(const std::string& text) {
    const YamlValue root = YamlValue::parse(text, path_);
    const YamlFields fields(root, {"__module__", "__class__", "splits"});
    Metadataset result{.path = path_, .version = read_version(fields), .splits = {}};
    for (const auto& [name, value] : fields.at("splits").entries()) {
      result.splits.push_back(result.version == 1 ? read_split_v1(name, value)
                                                  : read_split_v2(name, value));
    }
    if (result.splits.empty()) {
      fields.at("splits").fail("must name at least one split, such as train");
    }
    return result;
  }

 private:
  // Without a class, the file has version 1, as in Energon.
  static int read_version(const YamlFields& fields) {
    const auto module = fields.find("__module__");
    if (module && !module->string().starts_with("megatron.energon")) {
      module->fail(
          fmt::format("must be megatron.energon, found '{}'", printable(module->string())));
    }
    const auto name = fields.find("__class__");
    if (!name || name->string() == "Metadataset") {
      return 1;
    }
    if (name->string() != "MetadatasetV2" && name->string() != "Recipe") {
      name->fail(fmt::format("must be Metadataset, MetadatasetV2 or Recipe, found '{}'",
                             printable(name->string())));
    }
    return 2;
  }

  // --- Version 1 ---

  MetadatasetSplit read_split_v1(const std::string& name, const YamlValue& value) {
    const YamlFields fields(value, {"datasets"},
                            "; the file has version 1 unless it sets "
                            "__class__: MetadatasetV2");
    MetadatasetSplit split{.name = name, .mixing = Mixing::kWeighted, .entries = {}};
    for (const YamlValue& item : list_of(fields.at("datasets"))) {
      const YamlFields entry_fields(
          item, {"path", "weight", "split_part", "subflavor", "subflavors", "tags",
                 "shuffle_over_epochs_multiplier", "dataset_config", "split_config"});
      MetadatasetEntry entry = read_path_entry(item, entry_fields);
      entry.factor = read_factor(entry_fields, "weight");
      if (const auto legacy = entry_fields.find("subflavor")) {
        Json merged = {{"__subflavor__", legacy->string()}};
        merged.update(entry.subflavors);
        entry.subflavors = std::move(merged);
      }
      split.entries.push_back(std::move(entry));
    }
    return split;
  }

  // --- Version 2 ---

  MetadatasetSplit read_split_v2(const std::string& name, const YamlValue& value) {
    MetadatasetSplit split{.name = name, .entries = {}};
    const bool is_blend = has_key(value, "blend");
    if (!is_blend && !has_key(value, "blend_epochized")) {
      split.entries.push_back(read_entry_v2(value, ""));
      return split;
    }
    const std::string_view list_key = is_blend ? "blend" : "blend_epochized";
    std::vector<std::string_view> known{list_key, "subset"};
    if (is_blend) {
      known.emplace_back("blend_weight_unit");
    }
    const YamlFields fields(value, known);
    check_weight_unit(fields);
    split.mixing = is_blend ? Mixing::kWeighted : Mixing::kEpochized;
    split.subset = read_subset(fields);
    if (split.subset && split.subset->is_absolute()) {
      fields.at("subset").fail(
          "must be percentages: only a single dataset can have absolute ranges");
    }
    for (const YamlValue& item : list_of(fields.at(list_key))) {
      split.entries.push_back(read_entry_v2(item, is_blend ? "weight" : "repetitions"));
    }
    return split;
  }

  static void check_weight_unit(const YamlFields& fields) {
    const auto unit = fields.find("blend_weight_unit");
    if (unit && unit->string() != "samples") {
      unit->fail(
          fmt::format("must be samples, found '{}'; for shares in other units, see "
                      "BlendBy::kShare of C++ (docs/pipelines.md)",
                      printable(unit->string())));
    }
  }

  // `factor_key` is empty outside a blend.
  MetadatasetEntry read_entry_v2(const YamlValue& value, std::string_view factor_key) {
    const bool is_join = has_key(value, "join");
    std::vector<std::string_view> known =
        is_join ? std::vector<std::string_view>{"join", "joiner"}
                : std::vector<std::string_view>{"path", "dataset_config", "split_config", "aux",
                                                "media_filter"};
    known.insert(known.end(),
                 {"split_part", "subflavors", "tags", "shuffle_over_epochs_multiplier", "subset"});
    if (!factor_key.empty()) {
      known.push_back(factor_key);
    }
    const YamlFields fields(value, known,
                            is_join              ? ""
                            : factor_key.empty() ? "; or blend, blend_epochized, join"
                                                 : "; or join, joiner");
    MetadatasetEntry entry =
        is_join ? read_join_entry(value, fields) : read_path_entry(value, fields);
    entry.factor = factor_key.empty() ? 1 : read_factor(fields, factor_key);
    entry.subset = read_subset(fields);
    return entry;
  }

  MetadatasetEntry read_join_entry(const YamlValue& value, const YamlFields& fields) {
    return with_common_fields(value, fields, read_join(fields));
  }

  MetadatasetJoin read_join(const YamlFields& fields) {
    MetadatasetJoin join{.columns = {}, .joiner = read_joiner(fields.at("joiner"))};
    const YamlValue columns = fields.at("join");
    if (columns.is_map()) {
      for (const auto& [name, value] : columns.entries()) {
        join.columns.push_back(read_column(name, value));
      }
    } else {
      for (const YamlValue& value : columns.list()) {
        join.columns.push_back(read_column("", value));
      }
    }
    if (join.columns.empty()) {
      columns.fail("must name at least one dataset");
    }
    if (join.columns.front().nonmatch != Nonmatch::kError) {
      columns.fail(
          "must not set nonmatch for its first dataset, which determines the joined samples");
    }
    return join;
  }

  JoinColumn read_column(const std::string& name, const YamlValue& value) {
    count_reference(value);
    const YamlFields fields(value, {"path", "split_part", "subflavors", "tags", "dataset_config",
                                    "split_config", "nonmatch"});
    return {.name = name,
            .path = read_path(fields.at("path")),
            .split_part = find_string(fields, "split_part").value_or(""),
            .split_config = find_config(fields, "split_config", kDefaultSplitConfig),
            .dataset_config = find_config(fields, "dataset_config", kDefaultDatasetConfig),
            .subflavors = read_subflavors(fields),
            .nonmatch = read_nonmatch(fields)};
  }

  // --- References ---

  MetadatasetEntry read_path_entry(const YamlValue& value, const YamlFields& fields) {
    return with_common_fields(
        value, fields,
        MetadatasetPath{
            .path = read_path(fields.at("path")),
            .split_config = find_config(fields, "split_config", kDefaultSplitConfig),
            .dataset_config = find_config(fields, "dataset_config", kDefaultDatasetConfig),
            .aux = read_aux(fields),
            .media_filter = read_media_filter(fields)});
  }

  static MetadatasetEntry with_common_fields(
      const YamlValue& value, const YamlFields& fields,
      std::variant<MetadatasetPath, MetadatasetJoin> source) {
    return {.place = value.place(),
            .source = std::move(source),
            .split_part = find_string(fields, "split_part"),
            .subflavors = read_subflavors(fields),
            .shuffle = read_shuffle(fields)};
  }

  std::vector<AuxReference> read_aux(const YamlFields& fields) const {
    constexpr std::string_view kFilesystem = "filesystem://";
    std::vector<AuxReference> result;
    const auto aux = fields.find("aux");
    if (!aux) {
      return result;
    }
    for (const auto& [name, value] : aux->entries()) {
      AuxReference reference{.name = name, .path = {}};
      if (value.is_map()) {
        const YamlFields forms(value, {"path", "fs_path"});
        const auto folder = forms.find("fs_path");
        if (folder && forms.find("path")) {
          value.fail("must have either path or fs_path");
        }
        reference.kind = folder ? AuxReference::Kind::kFolder : AuxReference::Kind::kWebdataset;
        reference.path = read_path(folder ? *folder : forms.at("path"));
      } else if (const std::string text = value.string(); text.starts_with(kFilesystem)) {
        reference.kind = AuxReference::Kind::kFolder;
        reference.path = resolve_path(text.substr(kFilesystem.size()), value);
      } else {
        reference.path = read_path(value);
      }
      if (reference.kind == AuxReference::Kind::kWebdataset && reference.path.ends_with(".jsonl")) {
        reference.kind = AuxReference::Kind::kJsonl;
      }
      result.push_back(std::move(reference));
    }
    return result;
  }

  std::string read_path(const YamlValue& value) const {
    constexpr std::string_view kLocal = "file://";
    const std::string path = value.string();
    return resolve_path(path.starts_with(kLocal) ? path.substr(kLocal.size()) : path, value);
  }

  std::string resolve_path(const std::string& path, const YamlValue& value) const {
    if (path.empty()) {
      value.fail("must not be empty");
    }
    refuse_url(path, fmt::format("{} in {}", value.place(), path_));
    const fs::path full = (folder_ / path).lexically_normal();
    return full.has_filename() ? full.string() : full.parent_path().string();
  }

  std::vector<YamlValue> list_of(const YamlValue& value) {
    std::vector<YamlValue> items = value.list();
    if (items.empty()) {
      value.fail("must name at least one dataset");
    }
    for (const YamlValue& item : items) {
      count_reference(item);
    }
    return items;
  }

  // Aliases can turn small files into huge documents.
  void count_reference(const YamlValue& value) {
    constexpr std::int64_t kMaxReferences = 1'000'000;
    if (++references_ > kMaxReferences) {
      value.fail(fmt::format("is one too many: a metadataset can name at most {} datasets",
                             kMaxReferences));
    }
  }

  static bool has_key(const YamlValue& value, std::string_view key) {
    const YamlValue::Entries entries = value.entries();
    return std::any_of(entries.begin(), entries.end(),
                       [&](const auto& entry) { return entry.first == key; });
  }

  const std::string path_;
  const fs::path folder_;
  std::int64_t references_ = 0;
};

}  // namespace

std::string_view to_string(Nonmatch nonmatch) {
  switch (nonmatch) {
    case Nonmatch::kError:
      return "error";
    case Nonmatch::kSkip:
      return "skip";
    case Nonmatch::kNone:
      return "none";
  }
  return "unknown";
}

const MetadatasetSplit& Metadataset::split(const std::string& name) const {
  std::vector<std::string> known;
  for (const MetadatasetSplit& candidate : splits) {
    if (candidate.name == name) {
      return candidate;
    }
    known.push_back(printable(candidate.name));
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("the metadataset has no split '{}'; known: {}", printable(name),
                          fmt::join(known, ", ")),
              {.path = path});
}

Metadataset parse_metadataset(const std::string& text, const std::string& path) {
  return Parser(path).parse(text);
}

Metadataset read_metadataset(const std::string& path) {
  constexpr std::uint64_t kLimitBytes = std::uint64_t{16} << 20;
  return parse_metadataset(read_file(path, kLimitBytes), path);
}

}  // namespace energon
