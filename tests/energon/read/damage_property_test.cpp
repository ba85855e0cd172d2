// Random damage of tars, indices and prepare's files: delivered data is correct, and no sample is
// missing without an error or a warning.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "energon/order/rng.h"
#include "energon/read/webdataset.h"
#include "io/error.h"
#include "io/file.h"
#include "io/prepare/prepare.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"

using namespace energon;           // NOLINT: a test
using namespace energon::testing;  // NOLINT: a test

namespace fs = std::filesystem;

namespace {

constexpr int kShards = 3;
constexpr int kSamples = 6;  // of a shard
constexpr std::size_t kBlock = 512;

enum class Kind {
  kChecksums,   // prepared with checksums
  kRecorded,    // prepared without
  kUnrecorded,  // as prepared by Energon: indices cannot be verified
  kPlain,       // not prepared; indexed at an earlier opening
};

std::string to_text(Kind kind) {
  switch (kind) {
    case Kind::kChecksums:
      return "with checksums";
    case Kind::kRecorded:
      return "recorded";
    case Kind::kUnrecorded:
      return "unrecorded";
    case Kind::kPlain:
      return "plain";
  }
  return "";
}

std::string key_of(int shard, int sample) { return fmt::format("s{}/{:03}", shard, sample); }

// All shards have the same layout, so that their indices are alike and their tars can be swapped.
std::string make_tar(int shard) {
  TarBuilder tar;
  for (int i = 0; i < kSamples; ++i) {
    for (const char* part : {"cls", "jpg", "txt"}) {
      const std::string text = fmt::format("{} of {}", part, key_of(shard, i));
      tar.file(fmt::format("{}.{}", key_of(shard, i), part),
               text + std::string(part[0] == 'j' ? 300 + 400 * i : 0, 'j'));
    }
  }
  return tar.end().text();
}

std::string describe_fields(const Sample& sample) {
  std::string text;
  for (const auto& [name, value] : sample.fields) {
    text += fmt::format("{}={};", name, std::get<SharedBytes>(value.base()).text());
  }
  return text;
}

// A folder, its original files, and the samples read from it.
class Folder {
 public:
  explicit Folder(Kind kind) : kind_(kind) {
    for (int shard = 0; shard < kShards; ++shard) {
      folder_.write(fmt::format("{}.tar", shard), make_tar(shard));
    }
    if (kind == Kind::kPlain) {
      open_split(folder_.path());
    } else {
      struct Silent final : ProgressSink {
        void on_progress(const PrepareProgress& /*progress*/) override {}
      } silent;
      prepare(folder_.path(),
              {.checksums = kind == Kind::kChecksums ? Checksums::kWrite : Checksums::kNone},
              silent);
    }
    if (kind == Kind::kUnrecorded) {
      fs::remove(folder_.file(".nv-meta/shard_record.bin"));
    }
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      if (entry.is_regular_file()) {
        const std::string name = entry.path().lexically_relative(folder_.path()).string();
        files_[name] = {read_file(entry.path().string()), entry.last_write_time()};
      }
    }
    const auto set = std::make_shared<const Webdataset>(open_split(folder_.path()));
    WebdatasetReader reader(set);
    for (std::int64_t i = 0; i < set->sample_count(); ++i) {
      const Sample sample = read(reader, i);
      expected_[std::string(sample.keys.at(0))] = describe_fields(sample);
    }
    REQUIRE(expected_.size() == static_cast<std::size_t>(kShards * kSamples));
  }

  Kind kind() const { return kind_; }
  const std::string& content(const std::string& name) const { return files_.at(name).content; }
  bool has(const std::string& name) const { return files_.contains(name); }

  // Bit rot and tools that keep times do not change the time, but writers do.
  void put(const std::string& name, const std::string& content, bool keeps_time) {
    folder_.write(name, content);
    fs::last_write_time(folder_.file(name),
                        files_.at(name).time + std::chrono::seconds(keeps_time ? 0 : 100));
    changed_.push_back(name);
  }

  void restore() {
    for (const std::string& name : changed_) {
      put_back(name);
      // A plain tar that was written later may have another index.
      if (kind_ == Kind::kPlain && name.ends_with(".tar")) {
        put_back(name + ".idx");
      }
    }
    changed_.clear();
  }

  // A problem with the delivered samples, or "".
  std::string judge(Mt19937& draw) const {
    std::map<std::string, int> delivered;
    bool is_told = false;
    try {
      const auto set = std::make_shared<const Webdataset>(open_split(folder_.path()));
      is_told = !set->shards().warnings.empty();
      WebdatasetReader reader(set);
      std::vector<std::int64_t> order;
      for (std::int64_t i = 0; i < set->sample_count(); ++i) {
        order.insert(order.begin() + static_cast<std::ptrdiff_t>(draw() % (order.size() + 1)), i);
      }
      for (const std::int64_t i : order) {
        try {
          const Sample sample = read(reader, i);
          const auto found = expected_.find(std::string(sample.keys.at(0)));
          if (found == expected_.end() || found->second != describe_fields(sample)) {
            return fmt::format("sample '{}' was delivered as {}", sample.keys.at(0),
                               printable(describe_fields(sample)));
          }
          ++delivered[std::string(sample.keys.at(0))];
        } catch (const Error&) {
          is_told = true;
        }
      }
    } catch (const Error&) {
      return "";  // nothing is delivered
    }
    for (const auto& [key, count] : delivered) {
      if (count != 1) {
        return fmt::format("sample '{}' came {} times", key, count);
      }
    }
    return is_told || delivered.size() == expected_.size()
               ? ""
               : fmt::format("{} of {} samples and no word", delivered.size(), expected_.size());
  }

 private:
  struct File {
    std::string content;
    fs::file_time_type time;
  };

  static Sample read(WebdatasetReader& reader, std::int64_t index) {
    HeapBufferPool memory;
    std::vector<Sample> samples;
    reader.read({&index, 1}, memory, samples);
    return std::move(samples.at(0));
  }

  void put_back(const std::string& name) {
    folder_.write(name, files_.at(name).content);
    fs::last_write_time(folder_.file(name), files_.at(name).time);
  }

  const Kind kind_;
  TempDir folder_;
  std::map<std::string, File> files_;
  std::vector<std::string> changed_;
  std::map<std::string, std::string> expected_;
};

std::string flip(std::string bytes, std::size_t bit) {
  bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
  return bytes;
}

// Offsets of the header blocks of make_tar(), and of the end after the last member.
std::vector<std::size_t> header_offsets(const std::string& tar) {
  std::vector<std::size_t> offsets;
  std::size_t offset = 0;
  while (tar[offset] != '\0') {
    offsets.push_back(offset);
    const std::size_t size = std::stoul(tar.substr(offset + 124, 11), nullptr, 8);
    offset += kBlock + (size + kBlock - 1) / kBlock * kBlock;
  }
  offsets.push_back(offset);
  return offsets;
}

// Damages one or two files and describes the damage.
std::string damage(Folder& folder, Mt19937& draw) {
  const auto below = [&](std::size_t limit) { return draw() % limit; };
  const int shard = static_cast<int>(below(kShards));
  const std::string tar_name = fmt::format("{}.tar", shard);
  const std::string index_name = tar_name + ".idx";
  const std::string& tar = folder.content(tar_name);
  const bool keeps_time = below(2) == 0;
  const std::vector<std::size_t> headers = header_offsets(tar);
  switch (below(8)) {
    case 0: {  // truncated anywhere, at a block, or at a member
      const std::size_t size = std::vector{below(tar.size()), below(tar.size() / kBlock) * kBlock,
                                           headers[below(headers.size())]}[below(3)];
      folder.put(tar_name, tar.substr(0, size), keeps_time);
      return fmt::format("{} cut to {} bytes, time kept: {}", tar_name, size, keeps_time);
    }
    case 1: {  // zeroed from a header on
      const std::size_t begin = headers[below(headers.size() - 1)];
      const std::size_t blocks = 1 + below((tar.size() - begin) / kBlock);
      std::string zeroed = tar;
      std::fill_n(zeroed.begin() + static_cast<std::ptrdiff_t>(begin), blocks * kBlock, '\0');
      folder.put(tar_name, zeroed, keeps_time);
      return fmt::format("{} blocks zeroed at {} of {}, time kept: {}", blocks, begin, tar_name,
                         keeps_time);
    }
    case 2: {
      const std::size_t bit = 8 * headers[below(headers.size() - 1)] + below(8 * kBlock);
      folder.put(tar_name, flip(tar, bit), keeps_time);
      return fmt::format("bit {} of {} flipped, time kept: {}", bit, tar_name, keeps_time);
    }
    case 3:
    case 4: {
      const std::size_t bit = below(8 * folder.content(index_name).size());
      folder.put(index_name, flip(folder.content(index_name), bit), true);
      return fmt::format("bit {} of {} flipped", bit, index_name);
    }
    case 5: {  // two shards are swapped
      const std::string other = fmt::format("{}.tar", (shard + 1) % kShards);
      const std::string suffix = below(2) == 0 ? "" : ".idx";
      const std::string a = folder.content(tar_name + suffix);
      const std::string b = folder.content(other + suffix);
      // With the recorded size and time, it passes for the prepared shard.
      const bool keeps = keeps_time && !suffix.empty();
      folder.put(tar_name + suffix, b, keeps);
      folder.put(other + suffix, a, keeps);
      return fmt::format("{} and {} swapped", tar_name + suffix, other + suffix);
    }
    case 6: {  // anything in one of our files
      std::vector<std::string> names;
      for (const std::string& name :
           {std::string(".nv-meta/shard_record.bin"), std::string(".nv-meta/.info.json"),
            fmt::format("{}.tar.xxh3", shard), index_name}) {
        if (folder.has(name)) {
          names.push_back(name);
        }
      }
      const std::string& name = names[below(names.size())];
      const std::size_t bit = below(8 * folder.content(name).size());
      folder.put(name, flip(folder.content(name), bit), true);
      return fmt::format("bit {} of {} flipped", bit, name);
    }
    default: {  // data too, if checksums can detect it
      const std::size_t bit = folder.kind() == Kind::kChecksums
                                  ? below(8 * tar.size())
                                  : 8 * headers[below(headers.size() - 1)] + below(8 * kBlock);
      folder.put(tar_name, flip(tar, bit), keeps_time);
      return fmt::format("bit {} of {} flipped, time kept: {}", bit, tar_name, keeps_time);
    }
  }
}

}  // namespace

TEST_CASE("none of 800 damaged datasets delivers a wrong sample or silently loses one",
          "[energon][webdataset]") {
  for (const Kind kind : {Kind::kChecksums, Kind::kRecorded, Kind::kUnrecorded, Kind::kPlain}) {
    Folder folder(kind);
    Mt19937 draw(20 + static_cast<std::uint32_t>(kind));
    CHECK(folder.judge(draw).empty());
    for (int i = 0; i < 200; ++i) {
      const std::string what = damage(folder, draw);
      INFO(to_text(kind) << ", damage " << i << ": " << what);
      CHECK(folder.judge(draw).empty());
      folder.restore();
    }
    CHECK(folder.judge(draw).empty());
  }
}
