#include "io/dataset/dataset_info.h"

#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/dataset/prepare_commit.h"
#include "io/dataset/yaml_value.h"
#include "io/error.h"
#include "io/file.h"
#include "io/shared_folder.h"

namespace energon {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kLimitBytes = std::uint64_t{1} << 30;

std::string info_json_path(const std::string& meta_folder) { return meta_folder + "/.info.json"; }

[[noreturn]] void fail(const std::string& problem, const std::string& path) {
  throw Error(ErrorCode::kCorruptData, problem, {.path = path});
}

[[noreturn]] void fail_unknown_key(const std::string& key, const std::string& path) {
  fail(fmt::format("unknown key '{}'; known: energon_version, shard_counts", printable(key)), path);
}

void add_shard(DatasetInfo& info, std::set<std::string>& names, const std::string& name,
               std::int64_t count, const std::string& path) {
  if (count < 0) {
    fail(fmt::format("shard_counts of '{}' is {}, expected a count of at least 0", printable(name),
                     count),
         path);
  }
  if (count > kMostSamplesOfShard) {
    fail(fmt::format("shard_counts of '{}' is {}, expected at most {}", printable(name), count,
                     kMostSamplesOfShard),
         path);
  }
  if (name.empty() || !names.insert(name).second) {
    fail(fmt::format("shard_counts names the shard '{}' twice or without a name", printable(name)),
         path);
  }
  info.shards.push_back({name, count});
}

// Parses events instead of a document: an ordered document compares each new key with all others,
// and silently drops one of two equal keys.
class InfoReader final : public nlohmann::json_sax<Json> {
 public:
  InfoReader(DatasetInfo& info, const std::string& path) : info_(info), path_(path) {}

  bool has_counts() const { return has_counts_; }

  bool null() override { return key_ == "energon_version" && depth_ == 1 ? true : wrong("null"); }
  bool boolean(bool value) override { return wrong(value ? "true" : "false"); }
  bool number_float(number_float_t, const string_t& text) override { return wrong(text); }
  bool binary(binary_t&) override { return wrong("binary"); }

  bool number_integer(number_integer_t value) override {
    if (depth_ != 2) {
      return wrong(std::to_string(value));
    }
    add_shard(info_, names_, key_, value, path_);
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (value > INT64_MAX) {
      return wrong(std::to_string(value));
    }
    return number_integer(static_cast<number_integer_t>(value));
  }

  bool string(string_t& value) override {
    if (depth_ != 1 || key_ != "energon_version") {
      return wrong(fmt::format("'{}'", value));
    }
    info_.energon_version = value;
    return true;
  }

  bool start_object(std::size_t) override {
    if (depth_ == 2 || (depth_ == 1 && key_ != "shard_counts")) {
      return wrong("a mapping");
    }
    ++depth_;
    return true;
  }

  bool end_object() override {
    --depth_;
    return true;
  }

  bool key(string_t& value) override {
    key_ = value;
    if (depth_ == 1) {
      bool& seen = value == "shard_counts" ? has_counts_ : has_version_;
      if (value != "shard_counts" && value != "energon_version") {
        fail_unknown_key(value, path_);
      }
      if (std::exchange(seen, true)) {
        fail(fmt::format("duplicate key '{}'", value), path_);
      }
    }
    return true;
  }

  bool start_array(std::size_t) override { return wrong("a list"); }
  bool end_array() override { return true; }

  bool parse_error(std::size_t, const std::string&, const Json::exception& error) override {
    fail(fmt::format("not valid JSON: {}", printable(error.what())), path_);
  }

 private:
  bool wrong(const std::string& got) const {
    fail(depth_ == 0 ? fmt::format("expected a mapping with shard_counts, found {}", printable(got))
         : depth_ == 1
             ? fmt::format("'{}': expected a {}, found {}", key_,
                           key_ == "shard_counts" ? "mapping of shard names to counts" : "string",
                           printable(got))
             : fmt::format("shard_counts of '{}': expected an integer, found {}", printable(key_),
                           printable(got)),
         path_);
  }

  DatasetInfo& info_;
  const std::string& path_;
  int depth_ = 0;
  std::string key_;
  bool has_counts_ = false;
  bool has_version_ = false;
  std::set<std::string> names_;
};

}  // namespace

std::string_view writer_version() { return "energon-cpp " ENERGON_VERSION; }

bool is_written_by_us(const DatasetInfo& info) {
  return info.energon_version && info.energon_version->starts_with("energon-cpp");
}

DatasetInfo parse_info_json(std::string_view text, const std::string& path) {
  DatasetInfo info;
  InfoReader reader(info, path);
  Json::sax_parse(text, &reader);
  if (!reader.has_counts()) {
    fail("shard_counts is missing", path);
  }
  return info;
}

DatasetInfo parse_info_yaml(const std::string& text, const std::string& path) {
  DatasetInfo info;
  try {
    bool has_counts = false;
    for (const auto& [key, value] : YamlValue::parse(text, path).entries()) {
      if (key == "energon_version") {
        info.energon_version = value.text();
      } else if (key == "shard_counts") {
        has_counts = true;
        std::set<std::string> names;
        for (const auto& [name, count] : value.entries()) {
          add_shard(info, names, name, count.integer(), path);
        }
      } else {
        fail_unknown_key(key, path);
      }
    }
    if (!has_counts) {
      fail("expected a mapping with shard_counts", path);
    }
  } catch (const Error& error) {
    throw Error(ErrorCode::kCorruptData, error.message(), error.context());
  }
  return info;
}

std::optional<DatasetInfo> read_dataset_info(const std::string& meta_folder) {
  complete_commit(folder_of(meta_folder));
  return parse_info(read_info_text(meta_folder), meta_folder);
}

std::optional<std::string> read_info_text(const std::string& meta_folder) {
  const std::string path = info_json_path(meta_folder);
  constexpr int kAttempts = 100;  // a prepare may begin to replace the files after each check
  for (int i = 0; i < kAttempts; ++i) {
    std::optional<std::string> text = read_if_there(path, kLimitBytes);
    if (text != unfinished_note()) {
      return text;
    }
    complete_commit(folder_of(meta_folder));
  }
  fail(
      "a prepare was interrupted while it replaced the files of this dataset, and its "
      ".nv-meta.commit is gone; run: energon prepare --force-overwrite",
      path);
}

std::optional<DatasetInfo> parse_info(const std::optional<std::string>& info_text,
                                      const std::string& meta_folder) {
  if (info_text) {
    return parse_info_json(*info_text, info_json_path(meta_folder));
  }
  const std::string yaml_path = meta_folder + "/.info.yaml";
  const std::optional<std::string> text = read_if_there(yaml_path, kLimitBytes);
  return text ? std::optional(parse_info_yaml(*text, yaml_path)) : std::nullopt;
}

std::string to_info_json(const DatasetInfo& info) {
  // Built by hand around the library's escaping of strings, for the same reason as InfoReader.
  const auto quoted = [](const std::string& text) {
    try {
      return Json(text).dump(-1, ' ', /*ensure_ascii=*/true);
    } catch (const Json::exception&) {
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("the shard name '{}' is not UTF-8; rename the file", printable(text)));
    }
  };
  std::string json = "{\n";
  if (info.energon_version) {
    json += fmt::format("  \"energon_version\": {},\n", quoted(*info.energon_version));
  }
  json += "  \"shard_counts\": {";
  for (std::size_t i = 0; i < info.shards.size(); ++i) {
    json += fmt::format("{}\n    {}: {}", i == 0 ? "" : ",", quoted(info.shards[i].name),
                        info.shards[i].sample_count);
  }
  json += info.shards.empty() ? "}\n}" : "\n  }\n}";
  return json;
}

}  // namespace energon
