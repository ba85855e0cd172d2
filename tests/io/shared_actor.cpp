// One of several processes that share folders, for tests: waits until the other end of descriptor 3
// is closed, does one thing and checks the result. The exit code is 0 if the result is correct, 3
// if another process is busy, and otherwise means a wrong result.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/dataset/dataset_folder.h"
#include "io/dataset/dataset_info.h"
#include "io/error.h"
#include "io/file.h"
#include "io/index/index_cache.h"
#include "io/index/jsonl_index.h"
#include "io/index/sample_index.h"
#include "io/index/tar_index.h"
#include "io/lint/lint.h"
#include "io/prepare/media_update.h"
#include "io/prepare/prepare.h"
#include "io/prepare/prepare_join.h"
#include "io/recipe/join_index.h"
#include "io/recipe/recipe.h"
#include "io/store/file_cache.h"
#include "io/store/file_store.h"

namespace {

using energon::read_file;

constexpr int kRefused = 3;
constexpr int kWrong = 4;

class Silent final : public energon::ProgressSink {
 public:
  void on_progress(const energon::PrepareProgress& /*progress*/) override {}
};

int expect(bool is_right) { return is_right ? 0 : kWrong; }

int expand(const std::string& shard, const std::string& cache, const std::string& expected) {
  return expect(read_file(energon::ensure_expanded(shard, cache)) == read_file(expected));
}

int index(const std::string& tar, const std::string& cache, const std::string& samples) {
  const std::string path = energon::ensure_indexed(tar, tar, cache);
  const auto loaded = energon::TarIndex::load(path, std::filesystem::file_size(tar));
  return expect(std::to_string(loaded.sample_count()) == samples);
}

int index_jsonl(const std::string& file, const std::string& cache, const std::string& samples) {
  const std::string path = energon::ensure_jsonl_indexed(file, cache);
  const auto loaded = energon::JsonlIndex::load(path, std::filesystem::file_size(file));
  return expect(std::to_string(loaded.sample_count()) == samples);
}

// All shards with checksums, or those without "b" in their names and without checksums.
int prepare(const std::string& folder, const std::string& what) {
  Silent sink;
  const bool is_all = what == "all";
  energon::prepare(
      folder,
      {.exclude_regexes = is_all ? std::vector<std::string>{} : std::vector<std::string>{"b"},
       .existing = energon::Existing::kOverwrite,
       .checksums = is_all ? energon::Checksums::kWrite : energon::Checksums::kNone,
       .threads = 2},
      sink);
  return 0;
}

// Replaces the row of one part.
int media(const std::string& folder, const std::string& name) {
  energon::MediaUpdate update(folder);
  update.add(name, {.width = 1000});
  update.commit();
  return 0;
}

// Replaces the row of one file.
int folder_media(const std::string& folder, const std::string& name) {
  energon::FolderMediaUpdate update(folder);
  update.add(name, {.width = 1000});
  update.commit();
  return 0;
}

// Expects one set or the other each time.
int open(const std::string& folder, const std::string& rounds) {
  for (int i = std::stoi(rounds); i > 0; --i) {
    const energon::ShardSet set = energon::open_split(folder);
    const bool is_all = std::any_of(set.shards.begin(), set.shards.end(), [](const auto& shard) {
      return shard.name.find('b') != std::string::npos;
    });
    for (const energon::ShardFile& shard : set.shards) {
      if (shard.checksum_path.empty() == is_all) {
        std::fprintf(stderr, "the checksums of %s belong to another set\n", shard.name.c_str());
        return kWrong;
      }
    }
  }
  return 0;
}

int join(const std::string& metadataset) {
  const auto report = energon::prepare_metadataset(metadataset);
  for (const energon::JoinReport& join : report.joins) {
    if (!std::filesystem::exists(join.index_path)) {
      return kWrong;
    }
  }
  return expect(!report.joins.empty());
}

int store(const std::string& folder, const std::string& name, const std::string& text) {
  energon::WebdatasetFileStore store(folder);
  return expect(store.get(name).bytes.text() == text);
}

// The shards of a join's first dataset have the numbers that .info.json gives them.
int locate(const std::string& metadataset) {
  const auto join = energon::load_recipe(metadataset, "train").leaves.at(0);
  const energon::JoinSource source = energon::locate_join(join).sources.at(0);
  const auto info = energon::read_dataset_info(source.dataset_path + "/.nv-meta");
  for (std::size_t i = 0; i < source.shards.size(); ++i) {
    if (info->shards.at(static_cast<std::size_t>(source.tar_file_ids[i])).name !=
        source.shards[i]) {
      return kWrong;
    }
  }
  return 0;
}

int cache(const std::string& parent, const std::string& files) {
  energon::FileCache cache({.parent_folder = parent, .threads = 2});
  const energon::StoreFactory store = [files] {
    return std::make_unique<energon::FolderFileStore>(files);
  };
  std::vector<std::pair<std::string, std::shared_ptr<energon::LazyFile>>> lazy;
  for (const auto& entry : std::filesystem::directory_iterator(files)) {
    lazy.emplace_back(entry.path().string(),
                      cache.get_lazy("files", store, entry.path().filename().string()));
  }
  for (const auto& [path, file] : lazy) {
    if (file->get().bytes.text() != read_file(path)) {
      return kWrong;
    }
  }
  return 0;
}

int run(const std::vector<std::string>& words) {
  const std::string& verb = words.at(1);
  if (verb == "expand") {
    return expand(words.at(2), words.at(3), words.at(4));
  }
  if (verb == "index") {
    return index(words.at(2), words.at(3), words.at(4));
  }
  if (verb == "jsonl") {
    return index_jsonl(words.at(2), words.at(3), words.at(4));
  }
  if (verb == "prepare") {
    return prepare(words.at(2), words.at(3));
  }
  if (verb == "media") {
    return media(words.at(2), words.at(3));
  }
  if (verb == "folder_media") {
    return folder_media(words.at(2), words.at(3));
  }
  if (verb == "open") {
    return open(words.at(2), words.at(3));
  }
  if (verb == "join") {
    return join(words.at(2));
  }
  if (verb == "store") {
    return store(words.at(2), words.at(3), words.at(4));
  }
  if (verb == "locate") {
    return locate(words.at(2));
  }
  if (verb == "lint") {
    return expect(energon::lint(words.at(2)).ok());
  }
  return cache(words.at(2), words.at(3));
}

}  // namespace

int main(int count, char** words) {
  char byte = 0;
  while (::read(3, &byte, 1) > 0) {
  }
  try {
    return run({words, words + count});
  } catch (const energon::Error& error) {
    std::fprintf(stderr, "shared_actor %s: %s\n", words[1], error.what());
    return std::string_view(error.what()).find("another process is preparing") !=
                   std::string_view::npos
               ? kRefused
               : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "shared_actor %s: %s\n", words[1], error.what());
    return 1;
  }
}
