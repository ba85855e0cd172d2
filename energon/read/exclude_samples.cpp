#include "energon/read/exclude_samples.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "energon/read/find_sample.h"
#include "energon/sample/sample.h"
#include "io/dataset/dataset_info.h"
#include "io/dataset/dataset_kind.h"
#include "io/dataset/quarantine.h"
#include "io/dataset/split_config.h"
#include "io/error.h"
#include "io/file.h"
#include "io/index/sample_index.h"
#include "io/option_text.h"
#include "io/recipe/dataset_yaml.h"
#include "io/recipe/recipe.h"
#include "io/shared_folder.h"
#include "io/tar/shard_scan.h"

namespace energon {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostFileBytes = std::uint64_t{4} << 30;

OpenOptions open_options(const ExcludeSamplesOptions& options) {
  return {.broken_shards = BrokenShards::kSkip, .cache_dir = options.cache_dir};
}

// --- Finding samples and shards ---

ExcludedSample excluded(const Sample& sample) {
  const SampleSource& source = source_of(sample, 0);
  return {.dataset_path = fs::absolute(source.shard->dataset_path).lexically_normal().string(),
          .shard_name = source.shard->shard_name,
          .index = source.index_in_shard,
          .key = std::string(sample.keys.at(0))};
}

/// The names in one dataset or metadataset. Opens it when it first needs to.
class Names {
 public:
  Names(const std::string& path, const ExcludeSamplesOptions& options)
      : path_(path), options_(options), kind_(detect_dataset_kind(path)) {}

  /// Throws Error (kNotFound) if there is none.
  std::vector<ExcludedSample> find(const std::string& name) {
    std::vector<ExcludedSample> found = find_key(name);
    for (std::size_t slash = name.find('/'); found.empty() && slash != std::string::npos;
         slash = name.find('/', slash + 1)) {
      found = find_key(name.substr(slash + 1));
      std::erase_if(found, [&](const ExcludedSample& sample) {
        return sample.shard_name != name.substr(0, slash);
      });
    }
    if (found.empty()) {
      if (const auto shard = shards().find(name); shard != shards().end()) {
        return {{.dataset_path = shard->second, .shard_name = name}};
      }
      fail_not_found(name);
    }
    return found;
  }

 private:
  std::vector<ExcludedSample> find_key(const std::string& key) const {
    std::vector<ExcludedSample> found;
    try {
      for (const FoundSample& sample : find_samples(path_, key,
                                                    {.open = open_options(options_),
                                                    .reads = false,
                                                    .check_cancelled = options_.check_cancelled})) {
        found.push_back(excluded(sample.sample));
      }
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kNotFound) {
        throw;
      }
    }
    return found;
  }

  // The shards of tars by name, with the path of their dataset. A metadataset has none.
  const std::map<std::string, std::string>& shards() {
    if (shards_) {
      return *shards_;
    }
    shards_.emplace();
    if (kind_ == DatasetKind::kPrepared) {
      const std::string folder = fs::canonical(path_).string();
      if (const auto info = read_dataset_info(folder + "/.nv-meta")) {
        for (const ShardCount& shard : info->shards) {
          shards_->emplace(shard.name, folder);
        }
      }
    } else if (kind_ == DatasetKind::kPlainTars) {
      const ShardSet set = open_split(path_, open_options(options_));
      for (const ShardFile& shard : set.shards) {
        shards_->emplace(shard.name, set.dataset_path);
      }
    }
    return *shards_;
  }

  [[noreturn]] void fail_not_found(const std::string& name) {
    std::string text = fmt::format("no sample has the key '{}'", printable(name));
    if (kind_ == DatasetKind::kJsonl) {
      text += "; keys are the numbers of the lines, from 0";
    } else if (kind_ != DatasetKind::kMetadataset) {
      text += ", and no shard has this name";
    }
    std::vector<std::string> all = keys();
    for (const auto& [shard, dataset] : shards()) {
      all.push_back(shard);
    }
    if (const auto near = nearest_name(name, all)) {
      text += fmt::format("; did you mean '{}'?", printable(*near));
    } else if (!all.empty()) {
      text += fmt::format("; the first key is '{}'", printable(all.front()));
    }
    throw Error(ErrorCode::kNotFound, text, {.path = path_});
  }

  // Keys to suggest: the first million.
  std::vector<std::string> keys() const {
    constexpr std::size_t kMost = 1'000'000;
    std::vector<std::string> keys;
    const auto add = [&](std::string_view key) {
      keys.emplace_back(key);
      return keys.size() < kMost;
    };
    if (kind_ == DatasetKind::kPrepared) {
      SampleIndex(path_ + "/.nv-meta/index.sqlite")
          .for_each_sample([&](std::string_view key, const SampleLocation&) { return add(key); });
    } else if (kind_ == DatasetKind::kPlainTars) {
      for (const ShardFile& shard : open_split(path_, open_options(options_)).shards) {
        if (options_.check_cancelled) {
          options_.check_cancelled();
        }
        if (shard.is_broken || keys.size() >= kMost) {
          continue;
        }
        for (const auto& sample : scan_shard(FileSource(shard.tar_path)).samples) {
          add(sample.key);
        }
      }
    }
    return keys;
  }

  const std::string path_;
  const ExcludeSamplesOptions& options_;
  const DatasetKind kind_;
  std::optional<std::map<std::string, std::string>> shards_;
};

QuarantineEntry entry_of(const ExcludedSample& sample) {
  return {.dataset_path = sample.dataset_path,
          .shard_name = sample.shard_name,
          .index = sample.index,
          .key = sample.key};
}

std::vector<ExcludedSample> find_all(const std::string& path, const std::vector<std::string>& names,
                                     const ExcludeSamplesOptions& options) {
  Names all(path, options);
  std::vector<ExcludedSample> found;
  std::set<std::uint64_t> places;
  for (const std::string& name : names) {
    for (ExcludedSample& sample : all.find(name)) {
      if (places.insert(place_digest(entry_of(sample))).second) {
        found.push_back(std::move(sample));
      }
    }
  }
  return found;
}

// --- Locks ---

// Whether `file` is still the one at `path`, and was not replaced.
bool is_file_at(int file, const std::string& path) {
  struct stat opened {};
  struct stat found {};
  return ::fstat(file, &opened) == 0 && ::stat(path.c_str(), &found) == 0 &&
         opened.st_dev == found.st_dev && opened.st_ino == found.st_ino;
}

// Keeps other calls from changing the file until the descriptor is closed, where the file system
// has locks. Not valid if the file cannot be opened, which a later read or write reports. Throws
// Error (kTimeout) if another process keeps the lock.
UniqueFd lock_file(const std::string& path, bool is_created,
                   const std::function<void()>& check_cancelled) {
  constexpr std::chrono::milliseconds kPause{10};
  constexpr std::chrono::seconds kMostWait{30};
  const auto deadline = std::chrono::steady_clock::now() + kMostWait;
  for (;;) {
    UniqueFd file(
        ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | (is_created ? O_CREAT : 0), 0644));
    const Locked locked = file.valid() ? try_lock(file.get()) : Locked::kUnsupported;
    if (locked == Locked::kUnsupported ||
        (locked == Locked::kYes && is_file_at(file.get(), path))) {
      return file;
    }
    if (check_cancelled) {
      check_cancelled();
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      throw Error(ErrorCode::kTimeout,
                  fmt::format("another process has kept the file locked for {} s, and nothing was "
                              "changed: end it, and try again",
                              kMostWait.count()),
                  {.path = path});
    }
    // flock() has no timeout.
    std::this_thread::sleep_for(kPause);
  }
}

// --- Quarantine files ---

bool is_same(const QuarantineEntry& entry, const ExcludedSample& sample) {
  if (entry.shard_name != sample.shard_name || entry.is_shard() != !sample.index) {
    return false;
  }
  return entry.is_shard() || (entry.index ? entry.index == sample.index : entry.key == sample.key);
}

std::string read_if_there(const std::string& path) {
  try {
    return read_file(path, kMostFileBytes);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound) {
      throw;
    }
    return "";
  }
}

void append_lines(const std::string& path, std::string_view text, bool is_line_open) {
  const UniqueFd file(
      ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644));
  if (!file.valid()) {
    throw io_error("cannot open the quarantine file", errno, {.path = path});
  }
  check_can_append(file.get(), path);
  write_all(file.get(), as_bytes((is_line_open ? "\n" : "") + std::string(text)),
            "cannot write the quarantine file", {.path = path});
}

void change_file(const ExcludeSamplesOptions& options, std::vector<ExcludedSample>& samples) {
  check_path(options.output);
  const UniqueFd lock = lock_file(options.output, !options.is_remove, options.check_cancelled);
  const std::string text = read_if_there(options.output);
  const Quarantine quarantine = parse_quarantine(text, options.output);
  std::set<int> lines;  // of the samples
  for (ExcludedSample& sample : samples) {
    DatasetFilter filter(sample.dataset_path);
    bool is_listed = false;
    for (const QuarantineEntry& entry : quarantine.entries) {
      if (is_same(entry, sample) && filter.matches(entry)) {
        lines.insert(entry.line);
        is_listed = true;
      }
    }
    sample.is_changed = is_listed == options.is_remove;
  }
  std::string changed;
  if (!options.is_remove) {
    for (const ExcludedSample& sample : samples) {
      changed += sample.is_changed ? sample.line : "";
    }
    if (!changed.empty()) {
      append_lines(options.output, changed, !text.empty() && !text.ends_with('\n'));
    }
    return;
  }
  int number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    if (!lines.contains(++number)) {
      changed.append(text, begin, end - begin);
    }
    begin = end;
  }
  if (!lines.empty()) {
    write_file_atomically(options.output, as_bytes(changed));
  }
}

// --- Split files ---

std::string split_entry(const ExcludedSample& sample) {
  std::string entry = sample.shard_name + (sample.key ? "/" + *sample.key : "");
  if (entry.find_first_of("{}\\") != std::string::npos) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("'{}' cannot be an entry of a split file, where braces are patterns: "
                            "use a quarantine file",
                            printable(entry)),
                {.path = sample.dataset_path});
  }
  return entry;
}

// The split file of a prepared dataset.
std::string split_file(const std::string& path) {
  if (detect_dataset_kind(path) != DatasetKind::kPrepared) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("only a prepared dataset has a split file, but found {}: use a "
                            "quarantine file",
                            to_string(detect_dataset_kind(path))),
                {.path = path});
  }
  const std::string name =
      read_dataset_yaml(path, std::nullopt).split_config.value_or("split.yaml");
  if (!name.ends_with(".yaml")) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the split file {} is not a .yaml file: change it by hand", name),
                {.path = path});
  }
  return name;
}

void change_split(const std::string& path, const ExcludeSamplesOptions& options,
                  std::vector<ExcludedSample>& samples) {
  const std::string meta = path + "/.nv-meta";
  const std::string name = split_file(path);
  const UniqueFd lock = lock_file(meta + "/" + name, false, options.check_cancelled);
  SplitConfig config = read_split_config(meta, name);
  bool is_changed = false;
  for (ExcludedSample& sample : samples) {
    sample.line = split_entry(sample);
    const auto listed = std::ranges::find(config.exclude, sample.line);
    sample.is_changed = (listed != config.exclude.end()) == options.is_remove;
    if (!sample.is_changed) {
      continue;
    }
    is_changed = true;
    if (options.is_remove) {
      config.exclude.erase(listed);
    } else {
      config.exclude.push_back(sample.line);
    }
  }
  if (is_changed) {
    write_file_atomically(meta + "/" + name, as_bytes(to_split_yaml(config)));
  }
}

}  // namespace

std::vector<ExcludedSample> exclude_samples(const std::string& path,
                                            const std::vector<std::string>& names,
                                            const ExcludeSamplesOptions& options) {
  if (options.is_split && !options.output.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                "the split file and a quarantine file exclude in different ways: choose one");
  }
  if (options.is_remove && !options.is_split && options.output.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                "name the quarantine file from which samples are to be removed");
  }
  std::vector<ExcludedSample> samples = find_all(path, names, options);
  for (ExcludedSample& sample : samples) {
    sample.line = to_line(entry_of(sample), {.stage = "exclude", .cause = options.cause});
  }
  if (options.is_split) {
    change_split(path, options, samples);
  } else if (!options.output.empty()) {
    change_file(options, samples);
  }
  return samples;
}

}  // namespace energon
