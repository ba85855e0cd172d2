#include "io/recipe/dataset_yaml.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "io/dataset/prepare_commit.h"
#include "io/dataset/yaml_value.h"
#include "io/error.h"
#include "io/file.h"
#include "io/recipe/metadataset_fields.h"

namespace energon {
namespace {

// Keys that are applied.
constexpr std::array<std::string_view, 6> kApplied = {"subflavors",
                                                      "split_config",
                                                      "part_filter",
                                                      "shuffle_over_epochs",
                                                      "max_samples_per_sequence",
                                                      "parallel_shard_iters"};

// Keys that define how a typed sample is made from parts.
constexpr std::array<std::string_view, 13> kOfSamples = {
    "info_config",          "sample_type",        "field_map",
    "sample_loader",        "subflavor",          "decoder",
    "auto_decode",          "image_decode",       "av_decode",
    "guess_content",        "video_decode_audio", "handler",
    "ignore_decoder_errors"};

// Keys that apply to typed samples. The pipeline's decoder replaces the others.
constexpr std::array<std::string_view, 4> kOfTypes = {"sample_type", "field_map", "sample_loader",
                                                      "__class__"};

// Modules whose classes this library has.
constexpr std::array<std::string_view, 2> kOwnModules = {"megatron.energon", "energon_cpp"};

bool contains(const auto& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_own_module(std::string_view name) {
  return std::any_of(kOwnModules.begin(), kOwnModules.end(), [&](std::string_view own) {
    return name.starts_with(own) && (name.size() == own.size() || name[own.size()] == '.');
  });
}

// The class that makes the samples of a dataset.
struct DatasetClass {
  std::string module = {};
  std::string name = {};

  bool is_standard() const {
    return name.empty() || name.find("StandardWebdataset") != std::string::npos;
  }
  bool is_crude() const { return name.find("Crude") != std::string::npos; }
  // A class without a module may be written by hand.
  bool is_foreign() const {
    return module.empty() ? !is_standard() && !is_crude() && !sample_type_of_class(name)
                          : !name.empty() && !is_own_module(module);
  }
};

// Stores the settings of typed samples. Invalid ones are an error only if typed samples are
// requested.
class SettingsReader {
 public:
  explicit SettingsReader(SampleSettings& settings) : settings_(settings) {}

  void read(std::string_view key, const YamlValue& value) {
    try {
      if (key == "sample_type") {
        read_sample_type(value);
      } else if (key == "field_map") {
        read_field_map(value);
      } else if (key == "sample_loader") {
        settings_.sample_loader = value.string();
      }
    } catch (const Error& error) {
      settings_.problem = settings_.problem.value_or(error.message());
    }
  }

  // The class of the dataset implies the type in older files.
  void finish(const DatasetClass& dataset_class) {
    const bool is_foreign_type = settings_.type_name && !settings_.type;
    if (!settings_.type_name && !dataset_class.is_standard()) {
      settings_.type_name = dataset_class.is_foreign()
                                ? full_name(dataset_class.module, dataset_class.name)
                                : dataset_class.name;
      settings_.type =
          dataset_class.is_crude() ? SampleType::kCrude : sample_type_of_class(dataset_class.name);
    }
    settings_.is_foreign = settings_.is_foreign || is_foreign_type || settings_.sample_loader ||
                           dataset_class.is_foreign();
  }

 private:
  void read_sample_type(const YamlValue& value) {
    const YamlFields fields(value, {"__module__", "__class__"});
    const std::string name = fields.at("__class__").string();
    const auto module_name = fields.find("__module__");
    const std::string place = module_name ? module_name->string() : "";
    if (place.empty() || is_own_module(place)) {
      settings_.type_name = name;
      settings_.type = sample_type_of_class(name);
    } else {
      settings_.type_name = full_name(place, name);
    }
  }

  static std::string full_name(const std::string& module, const std::string& name) {
    return module.empty() ? name : fmt::format("{}.{}", module, name);
  }

  void read_field_map(const YamlValue& value) {
    settings_.field_map.emplace();
    for (const auto& [field, expression] : value.entries()) {
      settings_.field_map->emplace_back(field, expression.string());
    }
  }

  SampleSettings& settings_;
};

class Reader {
 public:
  Reader(DatasetYaml& result, DatasetClass dataset_class)
      : result_(result), class_(std::move(dataset_class)) {}

  void read(const std::string& key, const YamlValue& value) {
    if (key == "subflavors") {
      read_subflavors(value);
    } else if (key == "split_config") {
      if (!value.is_null()) {
        result_.split_config = value.string();
      }
    } else if (key == "part_filter") {
      read_part_filter(value);
    } else if (key == "shuffle_over_epochs") {
      read_shuffle(value);
    } else if (key == "max_samples_per_sequence") {
      result_.max_samples_per_sequence = count_or_null(value);
    } else if (key == "parallel_shard_iters") {
      result_.parallel_shard_iters = count_or_null(value);
    } else if (key == "__module__" || key == "__class__") {
      // Read before the other keys.
    } else if (contains(kOfSamples, key)) {
      if (!value.is_null()) {
        not_applied_.push_back(key);
        settings_.read(key, value);
      }
    } else if (class_.is_foreign()) {
      not_applied_.push_back(key);
    } else {
      value.fail(fmt::format(
          "is not a known key; known: {}, __module__, __class__ and, without effect here, {}",
          fmt::join(kApplied, ", "), fmt::join(kOfSamples, ", ")));
    }
  }

  void finish(const std::string& path) {
    // Energon's crude classes also return the parts; for the standard class, sample_type gives the
    // type.
    if (class_.is_foreign() || (!class_.is_standard() && !class_.is_crude())) {
      not_applied_.push_back("__class__");
    }
    // Crude samples are what this library returns anyway.
    if (!not_applied_.empty()) {
      result_.samples.warning =
          fmt::format("{}: not applied: {}; samples contain their parts as stored in the shards",
                      printable(path), fmt::join(not_applied_, ", "));
      result_.warnings.push_back(result_.samples.warning);
    }
    settings_.finish(class_);
    result_.samples.path = path;
    std::erase_if(not_applied_, [](const std::string& key) { return contains(kOfTypes, key); });
    if (!not_applied_.empty()) {
      result_.samples.typed_warning =
          fmt::format("{}: not applied: {}; the pipeline's decoder decides how parts are decoded",
                      printable(path), fmt::join(not_applied_, ", "));
    }
  }

 private:
  void read_subflavors(const YamlValue& value) {
    if (value.is_null()) {
      return;
    }
    if (!value.is_map()) {
      value.fail("must be a mapping");
    }
    result_.subflavors = value.json();
  }

  void read_part_filter(const YamlValue& value) {
    if (value.is_null()) {
      return;
    }
    if (value.is_map()) {
      value.fail("must be a list of parts or name a function");
    }
    result_.samples.has_part_filter = true;
    if (!value.is_list()) {
      // A Python function that selects parts; samples contain all parts instead.
      not_applied_.push_back("part_filter");
      result_.samples.is_foreign = true;
      return;
    }
    std::vector<std::string> parts;
    for (const YamlValue& part : value.list()) {
      parts.push_back(part.string());
    }
    result_.part_filter = std::move(parts);
  }

  void read_shuffle(const YamlValue& value) {
    if (value.is_null()) {
      result_.shuffle_over_epochs = {.mode = ShuffleOverEpochs::Mode::kNone};
      return;
    }
    const std::int64_t epochs = value.integer();
    result_.shuffle_over_epochs = shuffle_over_epochs_of(epochs);
    if (!result_.shuffle_over_epochs) {
      value.fail(fmt::format("must be null, -1 or at least 1, found {}", epochs));
    }
  }

  static std::optional<std::int64_t> count_or_null(const YamlValue& value) {
    if (value.is_null()) {
      return std::nullopt;
    }
    const std::int64_t count = value.integer();
    if (count < 1) {
      value.fail(fmt::format("must be null or at least 1, found {}", count));
    }
    return count;
  }

  DatasetYaml& result_;
  SettingsReader settings_{result_.samples};
  const DatasetClass class_;
  std::vector<std::string> not_applied_;
};

constexpr std::uint64_t kLimitBytes = std::uint64_t{16} << 20;

DatasetClass class_in(const YamlValue::Entries& entries) {
  DatasetClass dataset_class;
  for (const auto& [key, value] : entries) {
    if (key == "__class__") {
      dataset_class.name = value.string();
    } else if (key == "__module__" && !value.is_null() && !value.is_map() && !value.is_list()) {
      dataset_class.module = value.string();
    }
  }
  return dataset_class;
}

DatasetYaml read_file_of_loader(const std::string& path, bool is_named) {
  DatasetYaml result;
  const std::optional<std::string> text = read_if_there(path, kLimitBytes);
  if (!text && is_named) {
    throw Error(ErrorCode::kNotFound, "the dataset_config does not exist", {.path = path});
  }
  if (!text || text == crude_dataset_yaml()) {
    return result;
  }
  const YamlValue::Entries entries = YamlValue::parse(*text, path).entries();
  Reader reader(result, class_in(entries));
  for (const auto& [key, value] : entries) {
    reader.read(key, value);
  }
  reader.finish(path);
  return result;
}

}  // namespace

std::string_view crude_dataset_yaml() {
  return "__module__: megatron.energon\n__class__: CrudeWebdataset\n";
}

DatasetYaml read_dataset_yaml(const std::string& folder, const std::optional<std::string>& name) {
  const std::string path = fmt::format("{}/.nv-meta/{}", folder, name.value_or("dataset.yaml"));
  complete_commit(folder);  // a single file, so the read returns the old or the new version
  return read_file_of_loader(path, name.has_value());
}

BoxedJson read_dataset_yaml_entries(const std::string& path) {
  const std::optional<std::string> text = read_if_there(path, kLimitBytes);
  if (!text) {
    throw Error(ErrorCode::kNotFound, "the file was removed", {.path = path});
  }
  return YamlValue::parse(*text, path).json();
}

// --- Typed samples ---

namespace {

constexpr std::string_view kWaysOut =
    "Python reads it with sample_types= or allow_imports= of get_train_dataset(). Else write a "
    "field_map for a type of this library, or read crude samples and cook them";

[[noreturn]] void refuse_settings(ErrorCode code, const std::string& problem) {
  throw Error(code, problem);
}

std::string known_types() {
  std::vector<std::string_view> names;
  for (const SampleType type : all_sample_types()) {
    names.push_back(class_name(type));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// Rejects contradictory settings and unknown types.
void check_type(const SampleSettings& settings) {
  if (settings.problem) {
    refuse_settings(ErrorCode::kInvalidArgument, *settings.problem);
  }
  if (settings.sample_loader) {
    refuse_settings(ErrorCode::kUnsupported,
                    fmt::format("the sample_loader '{}' is a Python function, which cannot run "
                                "here. {}",
                                printable(*settings.sample_loader), kWaysOut));
  }
  if (!settings.type_name && settings.field_map) {
    refuse_settings(ErrorCode::kInvalidArgument,
                    fmt::format("field_map without a sample_type; add one of {}", known_types()));
  }
  if (settings.type_name && !settings.type) {
    refuse_settings(ErrorCode::kInvalidArgument,
                    fmt::format("unknown sample type '{}'; known: {}. {}",
                                printable(*settings.type_name), known_types(), kWaysOut));
  }
}

// As in Energon, a map excludes other ways to choose parts.
void check_map(const SampleSettings& settings) {
  const bool is_crude = settings.type == SampleType::kCrude;
  if (is_crude == settings.field_map.has_value()) {
    refuse_settings(ErrorCode::kInvalidArgument,
                    fmt::format("{} {} a field_map", class_name(*settings.type),
                                is_crude ? "has no fields and cannot have" : "needs"));
  }
  if (!is_crude && settings.has_part_filter) {
    refuse_settings(ErrorCode::kInvalidArgument,
                    "the field_map determines the needed parts; remove part_filter");
  }
}

TypedSamples checked_samples(const SampleSettings& settings) {
  check_type(settings);
  if (!settings.type) {
    return {};
  }
  check_map(settings);
  TypedSamples samples{.type = *settings.type};
  if (settings.field_map) {
    for (const auto& [field, text] : *settings.field_map) {
      try {
        samples.field_map.fields.push_back(
            {.name = field, .expression = parse_field_expression(text)});
      } catch (const Error& error) {
        refuse_settings(error.code(),
                        fmt::format("field_map.{}: {}", printable(field), error.message()));
      }
    }
  }
  validate(samples);
  return samples;
}

// Whether every version of YAML reads unquoted `text` as a string.
bool is_plain(std::string_view text) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  constexpr std::string_view kMore = "0123456789_.,/[]-";
  constexpr std::array<std::string_view, 9> kWords = {"null", "true", "false", "yes", "no",
                                                      "on",   "off",  "y",     "n"};
  const auto is_letter = [&](char c) { return kLetters.find(c) != std::string_view::npos; };
  if (text.empty() || !is_letter(text.front())) {
    return false;
  }
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return std::find(kWords.begin(), kWords.end(), lower) == kWords.end() &&
         std::all_of(text.begin(), text.end(), [&](char c) {
           return is_letter(c) || kMore.find(c) != std::string_view::npos;
         });
}

std::string quoted_if_needed(const std::string& text) {
  try {
    return is_plain(text) ? text : nlohmann::json(text).dump();  // JSON is YAML
  } catch (const nlohmann::json::type_error&) {
    refuse_settings(ErrorCode::kInvalidArgument,
                    fmt::format("the expression '{}' is not UTF-8, which dataset.yaml requires",
                                printable(text)));
  }
}

}  // namespace

TypedSamples typed_samples_of(const DatasetYaml& yaml) {
  try {
    return checked_samples(yaml.samples);
  } catch (Error& error) {
    error.with({.path = yaml.samples.path});
    throw;
  }
}

std::string dataset_yaml_of(const TypedSamples& samples) {
  validate(samples);
  if (samples.type == SampleType::kCrude) {
    return std::string(crude_dataset_yaml());
  }
  std::string text =
      fmt::format("sample_type:\n  __module__: megatron.energon\n  __class__: {}\nfield_map:\n",
                  class_name(samples.type));
  for (const FieldMap::Field& field : samples.field_map.fields) {
    text += fmt::format("  {}: {}\n", field.name, quoted_if_needed(to_text(field.expression)));
  }
  return text;
}

}  // namespace energon
